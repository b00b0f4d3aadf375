"""The sums of K blocks that leave tensor memory one by one, and are added in the registers of the epilogue.

Each block's products have an accumulator of their own. With block scales they are multiplied by those of the
block first.
"""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import TensorMemorySchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, ir, vector
from weft.passes.builders import emit
from weft.passes.kernels import scale_factors
from weft.passes.kernels.tensor_sums import Slice, SliceOrigin, TensorSums
from weft.passes.kernels.tile_order import Tile

_AT_ONCE = 16  # columns that a warpgroup reads at a time, beside the sums that it holds


class Promotion:
    """Adds up a tile's K blocks for a warpgroup of the epilogue."""

    def __init__(self, op: MatmulOp, full: ir.Value, sums: TensorSums) -> None:
        self.full, self.sums, self.schedule = full, sums, sums.schedule
        self.columns = min(self.schedule.slice_columns(op.types), _AT_ONCE)
        self.count = self.schedule.epilogue_columns // self.columns
        scaled = op.types.scaled
        self.scales = _Scales(op, self.schedule, sums.fragment(self.columns)) if scaled else None

    def totals(
        self, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value, position: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The sums of the tile that begins at (`row`, `column`) in this CTA, a vector of a lane's for each of
        `columns` columns; and the next position of the ring of accumulators.
        """
        slices = [self.sums.slice(warpgroup, number, self.columns) for number in range(self.count)]
        origins = [self.sums.origin(row, column, of) for of in slices]
        zeros = emit.constant(self.sums.fragment(self.columns).lane_type, 0.0)

        def block(number: Any, carried: list[Any]) -> list[Any]:
            *totals, slot, phase = carried
            # Read before the products are awaited, which hides the loads.
            factors = self.scales.of_block(at, number, origins) if self.scales else [None] * self.count
            tile.await_(self.full, slot, phase)
            totals = [self._add(*each, slot) for each in zip(totals, slices, factors, strict=True)]
            tile.release(self.full, slot)
            return [*totals, *tile.advance(self.full, slot, phase)]

        assert at.k_span is not None
        *totals, slot, phase = emit.loop(*at.k_span, 1, [zeros] * self.count + position, block)
        return totals, [slot, phase]

    def _add(self, total: Any, of: Slice, factors: Any, slot: ir.Value) -> Any:
        """A slice's sums plus those of a K block."""
        lane = tile.to_lane(self.sums.load(slot, of, self.columns))
        return arith.addf(total, lane) if factors is None else vector.fma(lane, factors, total)


@dataclass(frozen=True)
class _Scales:
    """The block scales of A and B, which lanes read from global memory for the products that they hold."""

    op: MatmulOp
    schedule: TensorMemorySchedule
    kind: ir.Type  # the fragment of a slice

    def of_block(self, at: Tile, number: Any, origins: list[SliceOrigin]) -> list[Any]:
        """The factors of a lane's sums of the tile's K block `number`, for each slice."""
        block, scales = at.k_block(number), scale_factors.matrices(self.op, at.member)
        return [
            scale_factors.of_lane(
                self.op, self.schedule, self.kind, scales, block, origin.own_row, origin.own_column
            )
            for origin in origins
        ]
