"""Reduction through global memory: CTAs, or clusters, multiply a K slice of a tile each and add up their
sums.

Each writes the sums of its slice, in vectors that the same thread of every CTA reads again. Once all are
there, each adds up a share of the tile's columns, in the order of the slices.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.dialects import tile
from weft.dialects.launch_contract import WORKSPACE
from weft.dialects.op import refuse
from weft.dialects.product_types import Types
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.dialects.tile_limits import COUNTER_STRIDE
from weft.isa.chips import WARPGROUP, WARPS
from weft.mlir import arith, ir, memref, scf, vector
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.accumulator import sums_type
from weft.passes.kernels.fragments import add
from weft.passes.kernels.reduction import Reduction
from weft.passes.kernels.tile_order import Slices, Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.workspace_sums import VECTOR, workspace_types
from weft.passes.kernels.writer import DirectWriter


@dataclass(frozen=True)
class ThreadSums:
    """How the threads of `warpgroups` hold the sums of a tile: `vectors` of four each, `across` of which are
    side by side in a row. Each of these belongs to `unit` columns of the tile. `fragment` returns the type of
    a warpgroup's sums of so many columns.
    """

    warpgroups: int
    vectors: int
    across: int
    unit: int
    fragment: Callable[[int], Any]

    @staticmethod
    def of_warpgroups(schedule: WarpgroupSchedule, types: Types) -> "ThreadSums":
        """Those in the accumulators of `wgmma`."""
        across = schedule.block[1] // 8
        return ThreadSums(
            schedule.warpgroups, schedule.vectors, across, 8, partial(sums_type, schedule, types)
        )

    def widest(self, columns: int, most: int) -> int:
        """The largest divisor of `columns` vectors side by side that have at most `most` sums of a thread, at
        least 1.
        """
        each = VECTOR * self.vectors // self.across
        return max(w for w in range(1, columns + 1) if columns % w == 0 and (w * each <= most or w == 1))


class Slots:
    """The memory that a launch provides for sums: a slot for each slice of a tile, and counters."""

    attribute = WORKSPACE
    at_once: int  # vectors side by side that are added up at once

    def __init__(self, op: MatmulOp, element: ir.Type, held: ThreadSums) -> None:
        """Raises WeftError for an `op` whose kernel has no such memory."""
        self.held, self.across = held, held.across
        kernel = op.operation.parent.opview
        arguments, wanted = kernel.body.blocks[0].arguments, workspace_types(element)
        if not self.attribute.on(kernel) or [a.type for a in arguments][-2:] != wanted:
            kinds = " and ".join(map(str, wanted))
            raise refuse(
                op, f"expects a kernel with '{self.attribute.name}' whose last arguments are {kinds}"
            )
        self.sums, self.counters = list(arguments)[-2:]
        self.element = element

    def write(self, lane: ir.Value, slot: ir.Value, number: ir.Value, first: int = 0) -> None:
        """Writes a thread's sums to a slot: those of a tile, or those from vector `first` on."""
        numbers = emit.elements(lane)
        kind = self.sums.type.element_type
        row = emit.as_index(emit.add(self._row(slot, number), first))
        thread = emit.as_index(emit.rem(emit.thread(), WARPGROUP))
        for index in range(len(numbers) // VECTOR):
            run = list(numbers[VECTOR * index : VECTOR * (index + 1)])
            memref.store(vector.from_elements(kind, run), self.sums, [_further(row, index), thread])

    def read(self, slot: ir.Value, number: ir.Value, column: ir.Value) -> ir.Value:
        """A thread's sums of a slot from the column of vectors `column` on: a vector."""
        thread = emit.as_index(emit.rem(emit.thread(), WARPGROUP))
        first, numbers = emit.as_index(emit.add(self._row(slot, number), column)), list[Any]()
        for index in self.vectors(0):
            numbers += emit.elements(memref.load(self.sums, [_further(first, index), thread]))
        return vector.from_elements(ir.VectorType.get([len(numbers)], self.element), numbers)

    def fragment(self, total: ir.Value, piece: ir.Value) -> tuple[ir.Value, ir.Value]:
        """A thread's sums of a piece as a fragment, and the piece's first column in the tile."""
        columns = self.held.unit * self.at_once
        return tile.from_lane(total, self.held.fragment(columns)), emit.mul(piece, columns)

    def vectors(self, column: int) -> list[int]:
        """The indices of a thread's vectors of sums in the columns of vectors from `column` on."""
        return [
            down + column + across
            for down in range(0, self.held.vectors, self.across)
            for across in range(self.at_once)
        ]

    def counter(self, block: ir.Value | int, number: ir.Value) -> ir.Value:
        """The counter of this warp of a warpgroup, for a tile."""
        warpgroup = emit.add(emit.mul(block, self.held.warpgroups), number)
        return emit.mul(emit.add(emit.mul(warpgroup, WARPS), thread_ids.warp()), COUNTER_STRIDE)

    def claimed(self, slices: Slices, number: ir.Value, shares: int) -> ir.Value:
        """Signals that this warp's slice is written; returns the mask of the tile's shares that it must add
        up.
        """
        index = self.counter(slices.tile, number)
        party, parties = emit.value(slices.number), emit.value(slices.count)
        return tile.claim(self.counters, emit.value(index), party, parties, shares=shares)

    def _row(self, slot: ir.Value, number: ir.Value) -> ir.Value:
        """The first row of a warpgroup's sums in a slot."""
        return emit.mul(emit.add(emit.mul(slot, self.held.warpgroups), number), self.held.vectors)


class GlobalSums(Slots):
    """The sums of all slices of a tile."""

    def __init__(self, op: MatmulOp, element: ir.Type, held: ThreadSums, dealt: tuple[int, int]) -> None:
        """`dealt` has the columns of vectors in a piece, and the number of CTAs that add up pieces. Raises
        WeftError for an `op` whose kernel has no such memory.
        """
        super().__init__(op, element, held)
        self.at_once, self._shares = dealt

    @contextmanager
    def shares(self, slices: Slices, number: ir.Value) -> Iterator[ir.Value]:
        """Waits for the other slices. In the block, ops are built for each piece that this warp adds up; the
        pieces of a share are as far apart as there are shares. Yields the piece's number.
        """
        claimed = self.claimed(slices, number, self._shares)
        loop = scf.ForOp(emit.value(0), emit.value(self._shares), emit.value(1))
        with ir.InsertionPoint(loop.body):
            share = loop.induction_variable
            mine = emit.bit_and(arith.shrui(claimed, share), 1)
            with emit.when(emit.equal(mine, 1)):
                dealt = scf.ForOp(share, emit.value(self.across // self.at_once), emit.value(self._shares))
                with ir.InsertionPoint(dealt.body):
                    yield dealt.induction_variable
                    scf.yield_([])
            scf.yield_([])

    def total(self, slices: Slices, piece: ir.Value, number: ir.Value) -> ir.Value:
        """A thread's sums of a piece, added slice by slice, so that the result does not depend on the order
        in which CTAs finish.
        """
        column = emit.mul(piece, self.at_once)
        total, *rest = (
            self.read(emit.add(slices.slot, each), number, column) for each in range(slices.count)
        )
        for other in rest:
            total = add(total, other)
        return total


class GlobalReduction(Reduction):
    """Adds up the sums of all K slices of a tile, each warp a share of its columns."""

    def __init__(self, op: MatmulOp, sums: GlobalSums, tiles: Tiles[WarpgroupSchedule]) -> None:
        self.sums, self.tiles, self.schedule = sums, tiles, tiles.schedule
        self.writer = DirectWriter(op, tiles.schedule)

    def collect(self, sums: ir.Value, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value) -> None:
        block = emit.add(emit.mul(at.number, self.schedule.ctas), self.tiles.rank)
        count = self.schedule.global_splits
        slices = Slices(block, at.slice, count, emit.mul(block, count))
        self.sums.write(tile.to_lane(sums), emit.add(slices.slot, slices.number), warpgroup)
        with self.sums.shares(slices, warpgroup) as piece:
            total = self.sums.total(slices, piece, warpgroup)
            fragment, column_offset = self.sums.fragment(total, piece)
            self.writer.write(fragment, row, emit.add(column, column_offset), at.member, warpgroup)


def _further(index: ir.Value, distance: int) -> ir.Value:
    return arith.addi(index, arith.constant(ir.IndexType.get(), distance))
