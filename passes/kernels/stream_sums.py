"""How CTAs add up the parts of tiles that they have divided (stream-K), through global memory.

Whoever has a tile's first part adds the others to it. The others write theirs and go on; it waits for them
a while, with its own in registers. If it gives up it writes its own too, and whoever comes last adds all up,
in the same order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import OTHER_REGISTERS, WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.isa.chips import register_share
from weft.mlir import arith, ir, scf, vector
from weft.passes.builders import emit
from weft.passes.kernels.cluster_sums import VECTOR
from weft.passes.kernels.global_sums import CTA_WORKSPACE, Slots, widest
from weft.passes.kernels.product import add
from weft.passes.kernels.tile_order import Parts

_AT_ONCE = 8, 32  # sums that a thread loads of a part: at least, and at most


class StreamSums(Slots):
    """The sums of the tiles that all CTAs divide."""

    attribute = CTA_WORKSPACE

    def __init__(self, op: MatmulOp, element: Any) -> None:
        """Raises WeftError for an `op` whose kernel has no such memory."""
        super().__init__(op, element)
        self.together = _together(self.schedule)
        self._pieces = self.across // self.together

    def put(self, lane: Any, parts: Parts, number: Any) -> Any:
        """Writes what a warpgroup's thread has of a part, but for a first one that finds all others there:
        whether it has, an i1.
        """

        def others_are_there() -> list[Any]:
            index, count = emit.value(self.counter(parts.tile, number)), emit.value(parts.count)
            return [tile.await_others(self.counters, index, count)]

        first, i1 = emit.equal(parts.number, 0), emit.i1()
        (kept,) = emit.either(first, [i1], others_are_there, lambda: [emit.constant(i1, 0)])
        with emit.when(emit.negate(kept)):
            self.write(lane, emit.add(parts.slot, parts.number), number)
        return kept

    @contextmanager
    def pieces(self, parts: Parts, number: Any) -> Iterator[Any]:
        """In the block, ops are built for each piece of a tile, for the warp that adds up: that of the first
        part, or the last to come. Yields the piece's number.
        """
        with emit.when(emit.equal(self.claimed(parts, number, shares=1), 1)):
            loop = scf.ForOp(emit.value(0), emit.value(self._pieces), emit.value(1))
            with ir.InsertionPoint(loop.body):
                yield loop.induction_variable
                scf.yield_([])

    def total(self, lane: Any, kept: Any, parts: Parts, piece: Any, number: Any) -> Any:
        """What a thread has of the sums of a piece: part after part, of which the first is in `lane` where
        that was `kept`. Each part is loaded while the one before is added.
        """
        own = self._own(lane, piece)
        (begun,) = emit.either(kept, [own.type], lambda: [own], lambda: [self._part(parts, 0, piece, number)])

        def further(part: Any, carried: list[Any]) -> list[Any]:
            loaded = self._part(parts, part, piece, number)
            return [add(*carried), loaded]

        carried = [begun, self._part(parts, 1, piece, number)]
        return add(*emit.loop(2, parts.count, 1, carried, further))

    def _own(self, lane: Any, piece: Any) -> Any:
        """A piece of what a thread has. Registers have no index, and code for each piece would be so much
        that it takes longer to fetch than to run.
        """
        elements, found = emit.elements(lane), None
        for number in range(self._pieces):
            places = self.places(number * self.together)
            run = [each for p in places for each in elements[VECTOR * p : VECTOR * (p + 1)]]
            each = vector.from_elements(ir.VectorType.get([len(run)], self.element), run)
            found = each if found is None else arith.select(emit.equal(piece, number), each, found)
        return found

    def _part(self, parts: Parts, part: Any, piece: Any, number: Any) -> Any:
        return self.read(emit.add(parts.slot, part), number, emit.mul(piece, self.together))


def _together(schedule: WarpgroupSchedule) -> int:
    """Columns of fragments that are added up at once: two parts of them must fit in registers beside all sums
    of the first.
    """
    registers = schedule.registers[1] or register_share(schedule.threads)
    free = (registers - OTHER_REGISTERS - VECTOR * schedule.vectors) // 2
    return widest(schedule, schedule.block[1] // 8, min(max(free, _AT_ONCE[0]), _AT_ONCE[1]))
