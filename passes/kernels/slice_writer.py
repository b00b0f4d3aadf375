"""The part of a `tcgen05` kernel that finishes slices of sums and stores them to D: from registers, or
through shared memory by TMA.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES, TensorMemorySchedule
from weft.dialects.schedule.tcgen05 import STAGING_SLOTS
from weft.dialects.tile import BufferType, MatmulOp
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.cluster import await_reads, await_stores
from weft.passes.kernels.epilogue import Finisher
from weft.passes.kernels.epilogue_function import shared
from weft.passes.kernels.fragments import transposed
from weft.passes.kernels.matrices import panels, run_bytes
from weft.passes.kernels.tensor_sums import Slice, SliceOrigin, TensorSums
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import fill, store_boxes

_RUN = 16
"""Elements of a lane that follow each other in a row of D, as far as a thread can access them at once."""


FragmentParts = Iterable[tuple[ir.Value, int]]
"""The fragments of a slice, each with its first column in the slice; made on demand."""


class WarpgroupTile:
    """A tile at a warpgroup of the epilogue: `row` and `column` are those at which it begins in this CTA."""

    def __init__(
        self, sums: TensorSums, tiles: Tiles[TensorMemorySchedule], at: Tile, warpgroup: ir.Value
    ) -> None:
        schedule = sums.schedule
        m, n, _ = schedule.block
        self.sums, self.at, self.warpgroup = sums, at, warpgroup
        self.row = emit.add(at.first_row(m), emit.mul(tiles.half, schedule.cta_rows))
        self.column = at.first_column(n)

    def origin(self, of: Slice) -> SliceOrigin:
        """Where a slice is."""
        return self.sums.origin(self.row, self.column, of)


class SliceWriter:
    """Stores slices of the sums of a tile to D, from registers."""

    def __init__(self, op: MatmulOp, schedule: TensorMemorySchedule) -> None:
        self.op, self.schedule = op, schedule

    def write(self, parts: FragmentParts, of: Slice, own_tile: WarpgroupTile, staging: ir.Value | int) -> Any:
        """Finishes the sums of a slice, which comes in parts, and stores them. `staging` is the number of the
        slot of staging memory; returns the one of the next slice.
        """
        at = own_tile.origin(of)
        index = own_tile.at.member
        known = shared(self.op, index)  # read while the sums come
        finisher = Finisher(self.op, index, run_of(self.schedule), known)
        for sums, inside in parts:
            start = at.own_row, emit.add(at.own_column, inside)
            row, column = (emit.value(each) for each in self.schedule.swapped(*start))
            if self.schedule.swap:
                sums = tile.from_lane(tile.to_lane(sums), transposed(sums.type))
            finisher.store(sums, row, column)
        return staging

    def complete(self, own_tile: WarpgroupTile) -> None:
        """Ends a tile."""
        return

    def finish(self) -> None:
        """Waits, after the last tile, for stores that the kernel must not outlive."""
        return


class StagedSlices(SliceWriter):
    """Stores through shared memory: a warpgroup fills one slot while TMA stores the others."""

    def __init__(self, op: MatmulOp, schedule: TensorMemorySchedule) -> None:
        """Builds the slots and the tensor map at the insertion point."""
        self.op, self.schedule = op, schedule
        rows, columns = schedule.slice_rows, schedule.slice_columns(op.types)
        slots = schedule.epilogues * STAGING_SLOTS
        bytes_ = op.types.output_bytes
        if columns * bytes_ % min(SWIZZLES):
            layout = f"S[({slots},{rows},{columns}):({rows * columns},{columns},1)]"
        else:
            layout = panels(rows, columns, bytes_, slots)
        self.buffer = tile.alloc(BufferType.of((slots, rows, columns), op.d.type.element_type, layout))
        whole = tile.stage_type(self.buffer.type)
        self._stored = tile.slice_type(whole, (rows // self._boxes, columns))
        self.map = tile.tensor_map(op.d, self._stored, any_rows=True)

    @property
    def _boxes(self) -> int:
        """The parts of a slot that are stored at different columns."""
        return 2 if self.schedule.halves else 1

    def write(self, parts: FragmentParts, of: Slice, own_tile: WarpgroupTile, staging: ir.Value | int) -> Any:
        at = own_tile.origin(of)
        index = own_tile.at.member
        warpgroup = own_tile.warpgroup
        slot = tile.stage(self.buffer, emit.value(emit.add(emit.mul(warpgroup, STAGING_SLOTS), staging)))
        run = run_of(self.schedule)
        # stmatrix stores 16-bit elements of 64 rows.
        by_matrices = run < _RUN and self.op.types.output_bytes == 2
        fill(
            *(slot, self._finished(parts, at, index), partial(await_stores, STAGING_SLOTS - 1, warpgroup)),
            warpgroup,
            lambda kind: 0 if by_matrices else run_bytes(self.op.d, run, kind),
        )
        row, column = emit.value(at.row), emit.value(at.column)
        rows, columns = self._stored.shape
        columns += (self._boxes - 1) * self.schedule.part_columns
        ends = emit.add(row, rows), emit.add(column, columns)
        store_boxes(self.op, partial(self._parts, slot, column), ends, self.map, row, index, groups=True)
        return emit.rem(emit.add(staging, 1), STAGING_SLOTS)

    def _finished(
        self, parts: FragmentParts, at: SliceOrigin, index: ir.Value | None
    ) -> Iterator[tuple[ir.Value, int, int]]:
        """The fragments of D from the sums of a slice, each with its row and column in the slice."""
        row = emit.value(at.own_row)
        known = shared(self.op, index)  # read while the sums come
        finisher = Finisher(self.op, index, run_of(self.schedule), known)
        for sums, inside in parts:
            column = emit.value(emit.add(at.own_column, inside))
            pieces = finisher.fragments(sums, row, column)
            yield from ((done, down, emit.add(inside, across)) for done, down, across in pieces)

    def _parts(self, slot: ir.Value, column: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
        """The parts of a slot, each with its first column of D."""
        if self._boxes == 1:
            return [(slot, column)]
        rows, columns = self._stored.shape
        return [
            (
                tile.slice_(slot, emit.value(box * rows), emit.value(0), (rows, columns)),
                emit.value(emit.add(column, box * self.schedule.part_columns)),
            )
            for box in range(self._boxes)
        ]

    def finish(self) -> None:
        await_reads()


def run_of(schedule: TensorMemorySchedule) -> int:
    """How many sums of a lane follow each other in a row of D, at least."""
    if schedule.swap:
        return 1
    return _RUN if schedule.slice_rows == 128 else 2
