"""The part of a kernel with `mma.sync` and TMA that multiplies a tile: sums in the registers of a warp."""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.product_types import Types
from weft.dialects.schedule import TmaMmaSchedule
from weft.dialects.tile import FragmentType
from weft.dialects.tile_gemm import CONTAINER
from weft.isa.family import Registers
from weft.layout import Layout
from weft.mlir import ir
from weft.passes.builders import byte_moves, emit
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.fragments import sorted_sums, widened
from weft.passes.kernels.matrices import alternating
from weft.passes.kernels.staged_operand import StagedOperand
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import each_k_block
from weft.passes.kernels.warp_scales import WarpScales
from weft.target import Target

_Fragments = tuple[Any, Any]


@dataclass(frozen=True)
class ReadOperand:
    """An operand's stages as fragments read them. Built at the insertion point, outside of the roles."""

    operand: StagedOperand
    buffer: ir.Value
    alternates: bool  # rows of A, or columns of B, between the two halves of 16

    @classmethod
    def of(cls, operand: StagedOperand, target: Target | None) -> "ReadOperand":
        """The view of an operand on a chip."""
        bytes_ = operand.matrix.type.element_type.width == 8
        if operand.k_major or not bytes_ or byte_moves.transposes_bytes(target):
            return cls(operand, operand.buffer, False)
        return cls(operand, tile.alloc(alternating(operand.buffer.type), over=operand.buffer), True)

    def load(
        self, stage: ir.Value, at: tuple[ir.Value, int], atom: Registers, shape: tuple[int, int]
    ) -> ir.Value:
        """A warp's part of a stage, from a row or column and a depth on."""
        operand, layout = self.operand, Layout.parse(atom.layout).tile_to(shape, atom.shape)
        element = ir.Type.parse(CONTAINER) if operand.expands else operand.matrix.type.element_type
        kind = FragmentType.of(shape, element, layout)
        row, column = at if operand.k_major else at[::-1]
        # A is M x K: an MN-major A is transposed in memory. B is K x N: a K-major B is transposed.
        transpose = operand.k_major == (atom.name == "b")
        buffer = tile.stage(self.buffer, stage)
        return tile.load(buffer, emit.value(row), emit.value(column), kind, transpose=transpose)


class WarpAccumulator:
    """A warp's sums of a tile. While a step's operands are multiplied, the next step's are loaded, also from
    the next stage: a stage is released before its last step is multiplied.
    """

    def __init__(
        self,
        feed: Feed[TmaMmaSchedule],
        types: Types,
        operands: tuple[ReadOperand, ReadOperand],
        first: tuple[ir.Value, ir.Value],
        scales: WarpScales | None,
    ) -> None:
        """`first` is where the warp's part of a tile begins."""
        self.left, self.right = operands
        self.feed, self.schedule, self.first, self.scales = feed, feed.schedule, first, scales
        self.form = self.schedule.form(types)
        d, self.a, self.b, *_ = self.form.operands
        shape = self.schedule.warp_tile
        sum_type = ir.Type.parse(types.instruction_sums)
        self.kind = FragmentType.of(shape, sum_type, Layout.parse(d.layout).tile_to(shape, d.shape))
        self.steps = self.schedule.block[2] // self.form.mnk[2]

    def multiply(self, at: Tile, position: list[ir.Value]) -> list[ir.Value]:
        """Multiplies all K blocks of a warp's part of a tile. Returns the sums and the ring's next
        position.
        """
        ring = self.feed.ring

        def next_block(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            sums, stage, phase, a, b, *scales = carried
            sums, last = self._steps(sums, (a, b), stage, scales)
            self.feed.release(stage)
            stage, phase = tile.advance(ring, stage, phase)
            loaded = self._enter(at, stage, phase)
            return [self._gemm(last, sums, self.steps - 1, scales), stage, phase, *loaded]

        stage, phase = position
        carried = [self._zero(), stage, phase, *self._enter(at, stage, phase)]
        sums, stage, phase, a, b, *scales = each_k_block(at, carried, next_block)
        sums, last = self._steps(sums, (a, b), stage, scales)
        self.feed.release(stage)
        sums = self._sorted(widened(self._gemm(last, sums, self.steps - 1, scales)))
        return [sums, *tile.advance(ring, stage, phase)]

    def _enter(self, at: Tile, stage: ir.Value, phase: ir.Value) -> list[ir.Value]:
        """Awaits a stage, and loads the first step's operands and the scales."""
        tile.await_(self.feed.ring, stage, phase)
        scales = self.scales.load(at, stage) if self.scales else []
        return [*self._load(stage, 0), *scales]

    def _sorted(self, sums: ir.Value) -> ir.Value:
        """Sums in the order of D's rows and columns."""
        return sorted_sums(sums, self.left.alternates, self.right.alternates)

    def _steps(
        self, sums: ir.Value, loaded: _Fragments, stage: ir.Value, scales: list[ir.Value]
    ) -> tuple[ir.Value, _Fragments]:
        """Multiplies all steps of a stage but the last. Returns the sums and the last step's operands."""
        for step in range(1, self.steps):
            following = self._load(stage, step)
            sums, loaded = self._gemm(loaded, sums, step - 1, scales), following
        return sums, loaded

    def _gemm(self, operands: _Fragments, sums: ir.Value, step: int, scales: list[ir.Value]) -> ir.Value:
        """Adds the products of a step."""
        if self.scales is None:
            return tile.gemm(*operands, sums, self.kind)
        of_step, first = self.scales.of_step(step, scales)
        elements = zip(("a_element", "b_element"), (self.feed.left, self.feed.right), strict=True)
        named = {name: str(o.matrix.type.element_type) for name, o in elements if o.expands}
        return tile.gemm_scaled(*operands, sums, *of_step, first_group=first, **named)

    def _zero(self) -> ir.Value:
        return tile.from_lane(emit.constant(self.kind.lane_type, 0), self.kind)

    def _load(self, stage: ir.Value, step: int) -> _Fragments:
        """A warp's operands of one step."""
        (rows, columns), depth = self.schedule.warp_tile, self.form.mnk[2]
        return (
            self.left.load(stage, (self.first[0], step * depth), self.a, (rows, depth)),
            self.right.load(stage, (self.first[1], step * depth), self.b, (depth, columns)),
        )
