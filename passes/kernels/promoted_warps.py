"""Products of fp8 with `mma.sync` and TMA whose sums leave the accumulators of the tensor cores after every K
block, and are added in f32, each multiplied by float32 scales first where the operands have such.
"""

from typing import Any

from weft.dialects import tile
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, ir, vector
from weft.passes.builders import emit
from weft.passes.kernels import scale_factors
from weft.passes.kernels.scale_factors import LaneScales
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import each_k_block
from weft.passes.kernels.warp_accumulator import WarpAccumulator


class PromotedWarpAccumulator(WarpAccumulator):
    """A warp's sums of a tile in f32, beside those of one K block. The float32 scales of a K block are read
    while the one before is multiplied.
    """

    def __init__(self, op: MatmulOp, *parts: Any) -> None:
        """`parts` are those of `WarpAccumulator`."""
        super().__init__(*parts)
        self._op = op

    def multiply(self, at: Tile, position: list[Any]) -> list[Any]:
        lane = self._lane_scales(at) if self._op.types.scaled else None

        def factors_of(number: Any) -> list[Any]:
            return lane.load(at.k_block(number)) if lane else []

        def add(sums: ir.Value, block: Any, factors: list[Any]) -> Any:
            total, products = tile.to_lane(sums), tile.to_lane(self._sorted(block))
            added = (
                vector.fma(products, lane.factors(factors), total) if lane else arith.addf(total, products)
            )
            return tile.from_lane(added, sums.type)

        def next_block(number: Any, carried: list[Any]) -> list[Any]:
            sums, stage, phase, a, b, *factors = carried
            following = factors_of(number)
            block, last = self._steps(self._zero(), (a, b), stage, [])
            self.feed.release(stage)
            stage, phase = tile.advance(self.feed.ring, stage, phase)
            loaded = self._enter(at, stage, phase)
            block = self._gemm(last, block, self.steps - 1, [])
            return [add(sums, block, factors), stage, phase, *loaded, *following]

        assert at.k_span is not None
        stage, phase = position
        factors = factors_of(at.k_span[0])
        carried = [self._sorted(self._zero()), stage, phase, *self._enter(at, stage, phase), *factors]
        sums, stage, phase, a, b, *factors = each_k_block(at, carried, next_block)
        block, last = self._steps(self._zero(), (a, b), stage, [])
        self.feed.release(stage)
        block = self._gemm(last, block, self.steps - 1, [])
        return [add(sums, block, factors), *tile.advance(self.feed.ring, stage, phase)]

    def _lane_scales(self, at: Tile) -> LaneScales:
        """The scales of a lane's sums of a tile."""
        (m, n, _), kind = self.schedule.block, self._sorted(self._zero()).type
        row, column = (
            emit.add(emit.mul(at.row, m), self.first[0]),
            emit.add(emit.mul(at.column, n), self.first[1]),
        )
        scales = scale_factors.matrices(self._op, at.member)
        return LaneScales(self._op, self.schedule, kind, scales, row, column)
