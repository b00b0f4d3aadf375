"""The part of a `tcgen05` kernel that takes sums out of tensor memory, for the warpgroups of the epilogue.

With promoted sums, K blocks leave tensor memory one by one, and are added in registers. Each block's products
have an accumulator of their own. With block scales they are multiplied by those of the block first.
"""

from functools import partial
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import TensorMemorySchedule, added_pieces
from weft.dialects.tile import MatmulOp
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.reduction import GlobalSums, ThreadSums
from weft.passes.kernels.scale_factors import LaneScales, add_block
from weft.passes.kernels.slice_writer import FragmentParts, SliceWriter, WarpgroupTile
from weft.passes.kernels.tensor_sums import Slice, SliceOrigin, TensorSums
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles

_READ_AT_ONCE = 16  # columns that a warpgroup reads at a time, beside the sums that it holds


class Promotion:
    """Adds up a tile's K blocks for a warpgroup of the epilogue."""

    def __init__(self, op: MatmulOp, full: ir.Value, sums: TensorSums) -> None:
        self.full, self.sums, self.schedule = full, sums, sums.schedule
        self.columns = min(self.schedule.slice_columns(op.types), _READ_AT_ONCE)
        self.count = self.schedule.epilogue_columns // self.columns
        self.op = op

    def totals(
        self, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value, position: list[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The sums of the tile that begins at (`row`, `column`) in this CTA, a vector of a lane's for each of
        `columns` columns; and the next position of the ring of accumulators.
        """
        slices = [self.sums.slice(warpgroup, number, self.columns) for number in range(self.count)]
        origins = [self.sums.origin(row, column, of) for of in slices]
        zeros = emit.constant(self.sums.fragment(self.columns).lane_type, 0.0)

        def block(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            *totals, slot, phase = carried
            # Read before the products are awaited, which hides the loads.
            factors = self._factors(at, number, origins) if self.op.types.scaled else [None] * self.count
            tile.await_(self.full, slot, phase)
            totals = [
                add_block(total, tile.to_lane(self.sums.load(slot, of, self.columns)), factor)
                for total, of, factor in zip(totals, slices, factors, strict=True)
            ]
            tile.release(self.full, slot)
            return [*totals, *tile.advance(self.full, slot, phase)]

        assert at.k_span is not None
        *totals, slot, phase = emit.loop(*at.k_span, 1, [zeros] * self.count + position, block)
        return totals, [slot, phase]

    def _factors(self, at: Tile, number: ir.Value | int, origins: list[SliceOrigin]) -> list[ir.Value]:
        """The factors of a lane's sums of each slice, for the tile's K block `number`."""
        block, kind = at.k_block(number), self.sums.fragment(self.columns)
        scales = partial(LaneScales, self.op, self.schedule, kind, at.member)
        return [scales(origin.own_row, origin.own_column).of_block(block) for origin in origins]


_READ_COLUMNS = 32  # of tensor memory, whose sums a thread finishes before it reads the next
_AT_ONCE = 32  # sums of K slices that a thread loads before it adds


class AddedSlices(SliceWriter):
    """The same where several CTAs compute a K slice of a tile each: a warp adds up a share of its columns."""

    def __init__(self, op: MatmulOp, tiles: Tiles[TensorMemorySchedule], sums: TensorSums) -> None:
        schedule = sums.schedule
        super().__init__(op, schedule)
        self.tiles = tiles
        held = ThreadSums(
            schedule.epilogues, schedule.vectors, schedule.vectors, schedule.vector_columns, sums.fragment
        )
        dealt = added_pieces(held.across, held.vectors, schedule.global_splits, _AT_ONCE)
        self.slots = GlobalSums(op, ir.Type.parse(op.types.sums), held, dealt)

    def write(self, parts: FragmentParts, of: Slice, own_tile: WarpgroupTile, staging: Any) -> Any:
        slices, unit = self.slots.slices(own_tile.at, self.tiles), self.schedule.vector_columns
        slot = emit.add(slices.slot, slices.number)
        for sums, column in parts:
            first = emit.div(emit.add(of.column, column), unit)
            self.slots.write(tile.to_lane(sums), slot, own_tile.warpgroup, first)
        return staging

    def complete(self, own_tile: WarpgroupTile) -> None:
        def write(fragment: ir.Value, column: ir.Value | int) -> None:
            SliceWriter.write(self, [(fragment, 0)], Slice(0, emit.value(column)), own_tile, 0)

        self.slots.add_up(self.slots.slices(own_tile.at, self.tiles), own_tile.warpgroup, write)


class Epilogue:
    """Takes the sums of tiles slice by slice, for one warpgroup."""

    def __init__(
        self,
        op: MatmulOp,
        tiles: Tiles[TensorMemorySchedule],
        full: ir.Value,
        sums: TensorSums,
        writer: SliceWriter,
    ) -> None:
        schedule = self.schedule = sums.schedule
        self.tiles, self.full, self.sums = tiles, full, sums
        self.columns = schedule.slice_columns(op.types)
        self.count = schedule.epilogue_columns // self.columns
        self.kept = schedule.kept_slices(op.types)
        self.promotion = Promotion(op, full, sums) if op.types.promoted else None
        self._read_columns = self.promotion.columns if self.promotion else min(self.columns, _READ_COLUMNS)
        self.consumer = AddedSlices(op, tiles, sums) if schedule.global_splits > 1 else writer

    def run(self, at: Tile, carried: list[ir.Value], warpgroup: ir.Value) -> list[ir.Value]:
        """Takes the sums of a tile. `carried` are the position of the ring of accumulators and the number of
        the slot of staging memory; returns the next ones.
        """
        *position, staging = carried
        own_tile = WarpgroupTile(self.sums, self.tiles, at, warpgroup)
        position, staging = (self._promoted if self.promotion else self._read)(own_tile, position, staging)
        self.consumer.complete(own_tile)
        return [*position, staging]

    def _read(
        self, own_tile: WarpgroupTile, position: list[ir.Value], staging: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        """Takes slices out of tensor memory, and releases the accumulator after the last that the products
        of the next tiles overwrite.
        """
        stage, phase = position
        tile.await_(self.full, stage, phase)
        slot = self.sums.slot(stage, phase)

        def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            of = self.sums.slice(own_tile.warpgroup, self._in_order(number, slot), self.columns)
            last = emit.equal(number, self.kept - 1)
            parts = self._loaded(stage, slot, of, last)
            return [self.consumer.write(parts, of, own_tile, carried[0])]

        (staging,) = emit.loop(0, self.count, 1, [staging], one)
        return list(tile.advance(self.full, stage, phase)), staging

    def _in_order(self, number: ir.Value, slot: ir.Value) -> ir.Value:
        """The slice that is taken as number `number`: columns that accumulators share come first, which are
        the last ones of the first accumulator.
        """
        if not self.sums.shared:
            return number
        return emit.select(emit.equal(slot, 0), emit.sub(self.count - 1, number), number)

    def _loaded(self, stage: ir.Value, slot: ir.Value, of: Slice, last: ir.Value) -> FragmentParts:
        """The parts of a slice from tensor memory. After the `last` slice (an i1), the stage of the ring of
        accumulators is released.
        """
        for column in range(0, self.columns, self._read_columns):
            part = Slice(of.part, emit.add(of.column, column))
            sums = self.sums.load(slot, part, self._read_columns)
            if column + self._read_columns == self.columns:
                with emit.when(last):
                    tile.release(self.full, stage)
            yield sums, column

    def _promoted(
        self, own_tile: WarpgroupTile, position: list[ir.Value], staging: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        """Takes slices that are in registers, where K blocks are added up."""
        assert self.promotion is not None
        totals, position = self.promotion.totals(
            own_tile.at, own_tile.row, own_tile.column, own_tile.warpgroup, position
        )
        each = self.columns // self._read_columns
        kind = self.sums.fragment(self._read_columns)
        for number in range(self.count):
            lanes = enumerate(totals[number * each : (number + 1) * each])
            of = self.sums.slice(own_tile.warpgroup, number, self.columns)
            parts = ((tile.from_lane(lane, kind), part * self._read_columns) for part, lane in lanes)
            staging = self.consumer.write(parts, of, own_tile, staging)
        return position, staging
