"""The part of a kernel with `mma.sync` and TMA that multiplies a tile: sums in the registers of a warp."""

from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import TmaMmaSchedule, Types
from weft.dialects.tile import FragmentType
from weft.isa.family import Registers
from weft.layout import Layout
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.staged_operand import StagedOperand
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import each_k_block

_Fragments = tuple[Any, Any]


class WarpAccumulator:
    """A warp's sums of a tile. While a step's operands are multiplied, the next step's are loaded, also from
    the next stage: a stage is released before its last step is multiplied.
    """

    def __init__(self, feed: Feed[TmaMmaSchedule], types: Types) -> None:
        self.feed, self.schedule = feed, feed.schedule
        self.form = self.schedule.form(types)
        d, self.a, self.b, _ = self.form.operands
        shape = self.schedule.warp_tile
        sum_type = ir.Type.parse(types.sums)
        self.kind = FragmentType.of(shape, sum_type, Layout.parse(d.layout).tile_to(shape, d.shape))
        self.steps = self.schedule.block[2] // self.form.mnk[2]

    def multiply(self, at: Tile, first: tuple[Any, Any], position: list[Any]) -> list[Any]:
        """Multiplies all K blocks of a warp's part of a tile, which begins at row and column `first`. Returns
        the sums and the ring's next position.
        """
        ring = self.feed.ring

        def enter(stage: Any, phase: Any) -> _Fragments:
            tile.await_(ring, stage, phase)
            return self._load(first, stage, 0)

        def next_block(_: Any, carried: list[Any]) -> list[Any]:
            sums, a, b, stage, phase = carried
            sums, last = self._steps(first, sums, (a, b), stage)
            self.feed.release(stage)
            stage, phase = tile.advance(ring, stage, phase)
            loaded = enter(stage, phase)
            return [self._gemm(*last, sums), *loaded, stage, phase]

        stage, phase = position
        carried = [self._zero(), *enter(stage, phase), stage, phase]
        sums, a, b, stage, phase = each_k_block(at, carried, next_block)
        sums, last = self._steps(first, sums, (a, b), stage)
        self.feed.release(stage)
        return [self._gemm(*last, sums), *tile.advance(ring, stage, phase)]

    def _steps(
        self, first: tuple[Any, Any], sums: Any, loaded: _Fragments, stage: Any
    ) -> tuple[Any, _Fragments]:
        """Multiplies all steps of a stage but the last. Returns the sums and the last step's operands."""
        for step in range(1, self.steps):
            following = self._load(first, stage, step)
            sums, loaded = self._gemm(*loaded, sums), following
        return sums, loaded

    def _gemm(self, a: Any, b: Any, sums: Any) -> Any:
        return tile.gemm(a, b, sums, self.kind)

    def _zero(self) -> Any:
        return tile.from_lane(emit.constant(self.kind.lane_type, 0), self.kind)

    def _load(self, first: tuple[Any, Any], stage: Any, step: int) -> _Fragments:
        """A warp's operands of one step."""
        left, right = self.feed.left, self.feed.right
        (rows, columns), depth = self.schedule.warp_tile, self.form.mnk[2]
        return (
            _fragment(left, stage, (first[0], step * depth), self.a, (rows, depth)),
            _fragment(right, stage, (first[1], step * depth), self.b, (depth, columns)),
        )


def _fragment(
    operand: StagedOperand, stage: Any, at: tuple[Any, int], atom: Registers, shape: tuple[int, int]
) -> Any:
    """A warp's part of an operand's stage, from a row or column and a depth on."""
    layout = Layout.parse(atom.layout).tile_to(shape, atom.shape)
    kind = FragmentType.of(shape, operand.matrix.type.element_type, layout)
    row, column = at if operand.k_major else at[::-1]
    # A is M x K: an MN-major A is transposed in memory. B is K x N: a K-major B is transposed.
    transpose = operand.k_major == (atom.name == "b")
    buffer = tile.stage(operand.buffer, stage)
    return tile.load(buffer, emit.value(row), emit.value(column), kind, transpose=transpose)
