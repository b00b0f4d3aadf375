"""The part of a kernel with consumer warps that multiplies a tile with `mma.sync`, and its scales."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.product_types import Types
from weft.dialects.schedule import TmaMmaSchedule
from weft.dialects.schedule.tma_mma import UNIT_SCALE
from weft.dialects.tile import FragmentType, MatmulOp
from weft.dialects.tile_gemm import CONTAINER
from weft.isa.block_scales import GROUPS, LANES, ROWS
from weft.isa.family import Registers
from weft.isa.tensor_map import MOST_BOX
from weft.mlir import ir
from weft.passes.builders import emit, matrix_moves
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.fragments import load_atoms, of_atoms, sorted_sums, transposed, widened, zeros
from weft.passes.kernels.matrices import alternating
from weft.passes.kernels.scale_factors import LaneScales, add_block
from weft.passes.kernels.scale_tiles import ScaleTiles
from weft.passes.kernels.staged_operand import StagedOperand
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import each_k_block
from weft.target import Target


class TiledScales:
    """The scales of A and B: every stage has the tiles of scales of its rows and columns."""

    def __init__(self, op: MatmulOp, schedule: TmaMmaSchedule) -> None:
        """Builds the buffers and the tensor maps at the insertion point."""
        self._extents, matrices = schedule.block[:2], [op.role(name) for name in ("scale_a", "scale_b")]
        self.sides = [
            ScaleTiles.of(matrix, schedule.stages, *schedule.scale_tiles(op.types, extent), MOST_BOX)
            for matrix, extent in zip(matrices, self._extents, strict=True)
        ]
        self.element = matrices[0].type.element_type

    def copy(self, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value) -> None:
        """Starts to copy the scales of a tile for a K block into a stage."""
        starts = at.first_row(self._extents[0]), at.first_column(self._extents[1])
        for side, start in zip(self.sides, starts, strict=True):
            side.copy(at.member, start, block, stage, barrier)


def fragment_types(rows: int, columns: int, groups: int, element: ir.Type) -> tuple[ir.Type, ir.Type]:
    """The types of a warp's scales of so many rows of A and columns of B, of `groups` of K: a lane has 4
    scales of a row or column in a register, of one in each 32 rows.
    """
    words, of_groups = groups // GROUPS, f"{groups // GROUPS},{GROUPS}"
    a = f"S[({rows // LANES},2,2,8,{of_groups}):({words * GROUPS},2@laneid,1@laneid,4@laneid,{GROUPS},1)]"
    b = f"S[({of_groups},{columns // LANES},4,8):({GROUPS},1,{words * GROUPS},1@laneid,4@laneid)]"
    return FragmentType.of((rows, groups), element, a), FragmentType.of((groups, columns), element, b)


class UnitScales:
    """Scales of 1 for the products of a warp: chips may multiply block-scaled fp8 faster than plain fp8."""

    def __init__(self, schedule: TmaMmaSchedule) -> None:
        """Builds the scales at the insertion point."""
        rows, columns = schedule.warp_tile
        kinds = fragment_types(rows, columns, GROUPS, ir.Type.parse(UNIT_SCALE))
        self._scales = tuple(tile.from_lane(emit.constant(kind.lane_type, 1.0), kind) for kind in kinds)

    def load(self, at: Tile, stage: ir.Value) -> list[ir.Value]:
        """The scales of all steps of a tile's stage, as the loop over K blocks carries them."""
        return []

    def of_step(self, step: int, loaded: list[ir.Value]) -> tuple[Sequence[ir.Value], int]:
        """The scales of A and B, and the number of the first group of them that a step uses."""
        return self._scales, 0


class LoadedScales:
    """The scales that a stage brings, for a warp whose part of a tile begins at row and column `first`."""

    def __init__(
        self, staged: TiledScales, schedule: TmaMmaSchedule, types: Types, first: tuple[ir.Value, ir.Value]
    ) -> None:
        self._staged, self._block, self._first = staged, schedule.block, first
        scaling, form = types.block_scaling, schedule.form(types)
        assert scaling is not None
        self._groups_of_step = form.mnk[2] // scaling.group
        groups = schedule.block[2] // scaling.group
        self._kinds = fragment_types(*schedule.warp_tile, groups, staged.element)

    def load(self, at: Tile, stage: ir.Value) -> list[ir.Value]:
        views = [side.rows for side in self._staged.sides]
        sides = zip(views, (at.row, at.column), self._block, self._first, self._kinds, strict=False)
        loaded = []
        for side, (view, number, extent, first, kind) in zip("ab", sides, strict=True):
            # Several tiles may have their scales in one tile of scales.
            start = emit.add(emit.rem(emit.mul(number, extent), max(extent, ROWS)), first)
            held = kind if side == "a" else transposed(kind)
            part = tile.stage(view, stage)
            scales = tile.load(part, emit.value(start), emit.value(0), held, vector_bytes=GROUPS)
            loaded.append(scales if side == "a" else tile.from_lane(tile.to_lane(scales), kind))
        return loaded

    def of_step(self, step: int, loaded: list[ir.Value]) -> tuple[Sequence[ir.Value], int]:
        return loaded, step * self._groups_of_step


WarpScales = UnitScales | LoadedScales
_Fragments = tuple[ir.Value, ir.Value]


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
        if operand.k_major or not bytes_ or matrix_moves.transposes_bytes(target):
            return cls(operand, operand.buffer, False)
        return cls(operand, tile.alloc(alternating(operand.buffer.type), over=operand.buffer), True)

    def load(
        self, stage: ir.Value, at: tuple[ir.Value, int], atom: Registers, shape: tuple[int, int]
    ) -> ir.Value:
        """A warp's part of a stage, from a row or column and a depth on."""
        operand = self.operand
        element = ir.Type.parse(CONTAINER) if operand.expands else operand.matrix.type.element_type
        kind, buffer = of_atoms(atom, shape, element), tile.stage(self.buffer, stage)
        return load_atoms(buffer, *at, kind, atom, operand.k_major)


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
        self.kind = of_atoms(d, self.schedule.warp_tile, ir.Type.parse(types.instruction_sums))
        self.steps = self.schedule.block[2] // self.form.mnk[2]

    def multiply(self, at: Tile, position: list[ir.Value]) -> list[ir.Value]:
        """Multiplies all K blocks of a warp's part of a tile. Returns the sums and the ring's next
        position. The loop carries the sums, the position, the first step's operands, and scales.
        """
        ring = self.feed.ring

        def next_block(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            factors = self._factors(at, number)
            block, last = self._all_but_last(carried)
            position = tile.advance(ring, *carried[1:3])
            loaded = self._enter(at, number, *position)
            return [self._last(carried, block, last), *position, *loaded, *factors]

        assert at.k_span is not None
        factors = self._factors(at, at.k_span[0])
        carried = [self._first(), *position, *self._enter(at, at.k_span[0], *position), *factors]
        carried = each_k_block(at, carried, next_block)
        sums = self._finished(self._last(carried, *self._all_but_last(carried)))
        return [sums, *tile.advance(ring, *carried[1:3])]

    def _all_but_last(self, carried: list[ir.Value]) -> tuple[ir.Value, _Fragments]:
        """Multiplies all steps of a stage but the last, and releases it. Returns what they are added to, and
        the last step's operands.
        """
        sums, stage, _, a, b, *scales = carried
        multiplied = self._steps(self._begin(sums), (a, b), stage, scales)
        self.feed.release(stage)
        return multiplied

    def _last(self, carried: list[ir.Value], block: ir.Value, operands: _Fragments) -> ir.Value:
        """Multiplies the last step; returns the sums."""
        sums, _, _, _, _, *scales = carried
        return self._end(sums, self._gemm(operands, block, self.steps - 1, scales), scales)

    def _factors(self, at: Tile, number: ir.Value | int) -> list[ir.Value]:
        """Scales of a tile's K block that lanes read while the one before is multiplied."""
        return []

    def _first(self) -> ir.Value:
        """The sums before the first K block."""
        return zeros(self.kind)

    def _begin(self, sums: ir.Value) -> ir.Value:
        """The value to which the products of a K block are added."""
        return sums

    def _end(self, sums: ir.Value, block: ir.Value, scales: list[ir.Value]) -> ir.Value:
        """The sums after a K block."""
        return block

    def _finished(self, sums: ir.Value) -> ir.Value:
        """The sums after the last one, as the epilogue has them."""
        return self._sorted(widened(sums))

    def _enter(self, at: Tile, number: ir.Value | int, stage: ir.Value, phase: ir.Value) -> list[ir.Value]:
        """Awaits K block `number` in a stage, and loads the first step's operands and the scales."""
        tile.await_(self.feed.ring, stage, phase)
        self.feed.prepare(at, number, stage, phase)
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
        named: dict[str, Any] = {name: str(o.matrix.type.element_type) for name, o in elements if o.expands}
        return tile.gemm_scaled(*operands, sums, *of_step, first_group=first, **named)

    def _load(self, stage: ir.Value, step: int) -> _Fragments:
        """A warp's operands of one step."""
        (rows, columns), depth = self.schedule.warp_tile, self.form.mnk[2]
        return (
            self.left.load(stage, (self.first[0], step * depth), self.a, (rows, depth)),
            self.right.load(stage, (self.first[1], step * depth), self.b, (depth, columns)),
        )


class PromotedWarpAccumulator(WarpAccumulator):
    """A warp's sums of a tile in f32, beside those of one K block. The float32 scales of a K block are read
    while the one before is multiplied.
    """

    def __init__(self, op: MatmulOp, *parts: Any) -> None:
        """`parts` are those of `WarpAccumulator`."""
        super().__init__(*parts)
        self._op = op
        self._lane: LaneScales | None = None

    def multiply(self, at: Tile, position: list[ir.Value]) -> list[ir.Value]:
        self._lane = self._lane_scales(at) if self._op.types.scaled else None
        return super().multiply(at, position)

    def _lane_scales(self, at: Tile) -> LaneScales:
        """The scales of a lane's sums of a tile."""
        (m, n, _), kind = self.schedule.block, self._first().type
        row, column = at.first_row(m), at.first_column(n)
        start = emit.add(row, self.first[0]), emit.add(column, self.first[1])
        return LaneScales(self._op, self.schedule, kind, at.member, *start)

    def _factors(self, at: Tile, number: ir.Value | int) -> list[ir.Value]:
        return self._lane.load(at.k_block(number)) if self._lane else []

    def _first(self) -> ir.Value:
        return self._sorted(zeros(self.kind))

    def _begin(self, sums: ir.Value) -> ir.Value:
        return zeros(self.kind)

    def _end(self, sums: ir.Value, block: ir.Value, scales: list[ir.Value]) -> ir.Value:
        products, factors = tile.to_lane(self._sorted(block)), None
        if self._lane is not None:
            factors = self._lane.factors(scales)
        return tile.from_lane(add_block(tile.to_lane(sums), products, factors), sums.type)

    def _finished(self, sums: ir.Value) -> ir.Value:
        return sums
