"""Reduction of stream-K: adds up the K slices of the tiles that CTAs share, through global memory.

The CTA with a tile's first slice adds the others to it. The others write theirs and continue. The first waits
for them for a while with its own sums in registers; if it gives up, it writes its own too, and the last CTA
to finish adds all slices, in the same order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.dialects import tile
from weft.dialects.launch_contract import CTA_WORKSPACE
from weft.dialects.schedule import OTHER_REGISTERS, WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.isa.chips import register_share
from weft.mlir import arith, ir, scf, vector
from weft.passes.builders import emit
from weft.passes.kernels.fragments import add
from weft.passes.kernels.global_sums import Slots, ThreadSums
from weft.passes.kernels.reduction import Reduction
from weft.passes.kernels.stream_order import StreamOrder
from weft.passes.kernels.tile_order import Slices, Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.workspace_sums import VECTOR
from weft.passes.kernels.writer import DirectWriter, Writer

_AT_ONCE = 8, 32  # sums that a thread loads of a slice: at least, and at most


def columns_at_once(schedule: WarpgroupSchedule, held: ThreadSums) -> int:
    """The columns of vectors that are added up at once: two slices of them must fit in registers beside all
    sums of the first slice.
    """
    registers = schedule.registers[1] or register_share(schedule.threads)
    free = (registers - OTHER_REGISTERS - VECTOR * schedule.vectors) // 2
    return held.widest(held.across, min(max(free, _AT_ONCE[0]), _AT_ONCE[1]))


class StreamSums(Slots):
    """The sums of the tiles that CTAs share."""

    attribute = CTA_WORKSPACE

    def __init__(self, op: MatmulOp, element: ir.Type) -> None:
        """Raises WeftError for an `op` whose kernel has no such memory."""
        schedule = op.schedule
        assert isinstance(schedule, WarpgroupSchedule)
        super().__init__(op, element, ThreadSums.of_warpgroups(schedule, op.types))
        self.at_once = columns_at_once(schedule, self.held)
        self._pieces = self.across // self.at_once

    def put(self, lane: ir.Value, slices: Slices, number: ir.Value) -> ir.Value:
        """Writes a thread's sums of a slice, unless it is the first slice and all others arrive in time.
        Returns whether they did, an i1.
        """

        def others_are_there() -> list[ir.Value]:
            index, count = emit.value(self.counter(slices.tile, number)), emit.value(slices.count)
            return [tile.await_others(self.counters, index, count)]

        first, i1 = emit.equal(slices.number, 0), emit.i1()
        (kept,) = emit.either(first, [i1], others_are_there, lambda: [emit.constant(i1, 0)])
        with emit.when(emit.negate(kept)):
            self.write(lane, emit.add(slices.slot, slices.number), number)
        return kept

    @contextmanager
    def pieces(self, slices: Slices, number: ir.Value) -> Iterator[ir.Value]:
        """In the block, ops are built for each piece of a tile, for the warp that adds up: the first slice's,
        or the last to finish. Yields the piece's number.
        """
        with emit.when(emit.equal(self.claimed(slices, number, shares=1), 1)):
            loop = scf.ForOp(emit.value(0), emit.value(self._pieces), emit.value(1))
            with ir.InsertionPoint(loop.body):
                yield loop.induction_variable
                scf.yield_([])

    def total(
        self, lane: ir.Value, kept: ir.Value, slices: Slices, piece: ir.Value, number: ir.Value
    ) -> ir.Value:
        """A thread's sums of a piece, added slice by slice; the first slice's are in `lane` where `kept`.
        Each slice is loaded while the one before is added.
        """
        own = self._own(lane, piece)
        (begun,) = emit.either(
            kept, [own.type], lambda: [own], lambda: [self._slice(slices, 0, piece, number)]
        )

        def next_slice(each: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            loaded = self._slice(slices, each, piece, number)
            return [add(*carried), loaded]

        carried = [begun, self._slice(slices, 1, piece, number)]
        return add(*emit.loop(2, slices.count, 1, carried, next_slice))

    def _own(self, lane: ir.Value, piece: ir.Value) -> Any:
        """A piece of a thread's sums in registers. These have no index, and separate code for each piece
        would take longer to fetch than to run.
        """
        elements, chosen = emit.elements(lane), None
        for number in range(self._pieces):
            vectors = self.vectors(number * self.at_once)
            run = [each for v in vectors for each in elements[VECTOR * v : VECTOR * (v + 1)]]
            each = vector.from_elements(ir.VectorType.get([len(run)], self.element), run)
            chosen = each if chosen is None else arith.select(emit.equal(piece, number), each, chosen)
        return chosen

    def _slice(self, slices: Slices, slice_: ir.Value | int, piece: ir.Value, number: ir.Value) -> ir.Value:
        return self.read(emit.add(slices.slot, slice_), number, emit.mul(piece, self.at_once))


class StreamReduction(Reduction):
    """Writes whole tiles, and adds up the slices of the others."""

    def __init__(
        self, op: MatmulOp, sums: StreamSums, tiles: Tiles[WarpgroupSchedule], writer: Writer
    ) -> None:
        self.sums, self.tiles, self.schedule = sums, tiles, tiles.schedule
        self.writer, self.direct = writer, DirectWriter(op, tiles.schedule)

    def collect(self, sums: ir.Value, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value) -> None:
        assert at.k_span is not None
        begin, end = at.k_span
        lane = tile.to_lane(sums)
        branch = scf.IfOp(emit.less(emit.sub(end, begin), self.tiles.k_blocks), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            self._add_up(lane, at, row, column, warpgroup)
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            self.writer.write(sums, row, column, at.member, warpgroup)
            scf.yield_([])

    def _add_up(self, lane: ir.Value, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value) -> None:
        assert isinstance(self.tiles.order, StreamOrder)
        slices = self.tiles.order.slices(at.number)
        kept = self.sums.put(lane, slices, warpgroup)
        with self.sums.pieces(slices, warpgroup) as piece:
            total = self.sums.total(lane, kept, slices, piece, warpgroup)
            fragment, column_offset = self.sums.fragment(total, piece)
            self.direct.write(fragment, row, emit.add(column, column_offset), at.member, warpgroup)

    def finish_consumers(self, warpgroup: ir.Value) -> None:
        self.writer.finish()
