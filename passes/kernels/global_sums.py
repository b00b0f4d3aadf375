"""How CTAs add up what each has multiplied of K, through global memory.

Each writes the sums of its part, in vectors that a thread reads again as it has written them. Once all are
there, each adds up a share of the block's columns, in the order of the parts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.dialects.tile_claims import COUNTER_STRIDE
from weft.isa.chips import WARPGROUP, WARPS
from weft.mlir import arith, ir, memref, scf, vector
from weft.passes.builders import emit, places
from weft.passes.kernels.cluster_sums import VECTOR
from weft.passes.kernels.product import add
from weft.passes.kernels.tile_order import Parts

# The attributes of kernels that have such memory, for each tile that the grid counts or for each CTA.
WORKSPACE = "weft.workspace"
CTA_WORKSPACE = "weft.cta_workspace"
_AT_ONCE = 64  # sums that a thread loads before it adds


def workspace_types(element: Any) -> list[Any]:
    """The types of the arguments that such a kernel has after its own: vectors of sums, one for each thread
    of a warpgroup in a row, and counters.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    sums = ir.MemRefType.get([dynamic, WARPGROUP], ir.VectorType.get([VECTOR], element))
    return [sums, ir.MemRefType.get([dynamic], emit.i32())]


class Slots:
    """The memory that a launch gives for sums: a slot for each part of a tile, and counters."""

    attribute = WORKSPACE
    together: int  # columns of fragments, 8 of a block's, that are added up at once

    def __init__(self, op: MatmulOp, element: Any) -> None:
        """Raises WeftError for an `op` whose kernel has no such memory."""
        schedule = op.schedule
        assert isinstance(schedule, WarpgroupSchedule)
        self.schedule = schedule
        kernel = op.operation.parent.opview
        arguments, wanted = kernel.body.blocks[0].arguments, workspace_types(element)
        if self.attribute not in kernel.operation.attributes or [a.type for a in arguments][-2:] != wanted:
            kinds = " and ".join(map(str, wanted))
            raise refuse(op, f"expects a kernel with '{self.attribute}' whose last arguments are {kinds}")
        self.sums, self.counters = list(arguments)[-2:]
        self.element = element
        self.across = self.schedule.block[1] // 8

    def write(self, lane: Any, slot: Any, number: Any) -> None:
        """Writes what a warpgroup's thread has of a block's sums to a slot."""
        numbers = emit.elements(lane)
        kind = self.sums.type.element_type
        row = emit.as_index(self._row(slot, number))
        thread = emit.as_index(emit.rem(emit.thread(), WARPGROUP))
        for place in range(self.schedule.vectors):
            run = list(numbers[VECTOR * place : VECTOR * (place + 1)])
            memref.store(vector.from_elements(kind, run), self.sums, [_further(row, place), thread])

    def read(self, slot: Any, number: Any, column: Any) -> Any:
        """What a thread has of a slot's columns of fragments from `column` on: a vector."""
        thread = emit.as_index(emit.rem(emit.thread(), WARPGROUP))
        first, numbers = emit.as_index(emit.add(self._row(slot, number), column)), list[Any]()
        for place in self.places(0):
            numbers += emit.elements(memref.load(self.sums, [_further(first, place), thread]))
        return vector.from_elements(ir.VectorType.get([len(numbers)], self.element), numbers)

    def places(self, column: int) -> list[int]:
        """The vectors of sums, among a thread's, that lie in columns of fragments from `column` on."""
        return [
            down + column + beside
            for down in range(0, self.schedule.vectors, self.across)
            for beside in range(self.together)
        ]

    def counter(self, block: Any, number: Any) -> Any:
        """The counter of this warp of a warpgroup, for a block."""
        warpgroup = emit.add(emit.mul(block, self.schedule.warpgroups), number)
        return emit.mul(emit.add(emit.mul(warpgroup, WARPS), places.warp()), COUNTER_STRIDE)

    def claimed(self, parts: Parts, number: Any, shares: int) -> Any:
        """Says that this warp's part is written: the mask of the shares of the tile that are then its own."""
        index = self.counter(parts.tile, number)
        party, parties = emit.value(parts.number), emit.value(parts.count)
        return tile.claim(self.counters, emit.value(index), party, parties, shares=shares)

    def _row(self, slot: Any, number: Any) -> Any:
        """The first row of a warpgroup's sums in a slot."""
        return emit.mul(emit.add(emit.mul(slot, self.schedule.warpgroups), number), self.schedule.vectors)


class GlobalSums(Slots):
    """The sums that all parts of a block's K have."""

    def __init__(self, op: MatmulOp, element: Any) -> None:
        super().__init__(op, element)
        # Of a share's columns, those that are added up at once: with those of all parts they must fit in
        # registers.
        share = self.across // self.schedule.shares
        self.together = widest(self.schedule, share, _AT_ONCE // self.schedule.global_splits)
        self.pieces = share // self.together

    @contextmanager
    def shares(self, parts: Parts, number: Any) -> Iterator[Any]:
        """Waits for the other parts; in the block, ops are built for each piece of a share that is then this
        warp's to add up. Yields its number among the block's pieces.
        """
        claimed = self.claimed(parts, number, self.schedule.shares)
        loop = scf.ForOp(emit.value(0), emit.value(self.schedule.shares), emit.value(1))
        with ir.InsertionPoint(loop.body):
            share = loop.induction_variable
            mine = emit.bit_and(arith.shrui(claimed, share), 1)
            with emit.when(emit.equal(mine, 1)):
                pieces = scf.ForOp(emit.value(0), emit.value(self.pieces), emit.value(1))
                with ir.InsertionPoint(pieces.body):
                    yield emit.add(emit.mul(share, self.pieces), pieces.induction_variable)
                    scf.yield_([])
            scf.yield_([])

    def total(self, parts: Parts, piece: Any, number: Any) -> Any:
        """What a thread has of the sums of a piece: part after part, so that bits don't depend on who was
        first.
        """
        column = emit.mul(piece, self.together)
        total, *rest = (self.read(emit.add(parts.slot, part), number, column) for part in range(parts.count))
        for other in rest:
            total = add(total, other)
        return total


def widest(schedule: WarpgroupSchedule, columns: int, most: int) -> int:
    """Of so many columns of fragments, the most that divide them and have at most `most` sums of a thread; at
    least one.
    """
    each = VECTOR * schedule.vectors // (schedule.block[1] // 8)
    return max(w for w in range(1, columns + 1) if columns % w == 0 and (w * each <= most or w == 1))


def _further(index: Any, distance: int) -> Any:
    return arith.addi(index, arith.constant(ir.IndexType.get(), distance))
