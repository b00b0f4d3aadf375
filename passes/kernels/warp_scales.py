"""The block scales that a warp multiplies with: scales of 1, or those that a stage brings."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from weft.dialects import tile
from weft.dialects.product_types import Types
from weft.dialects.schedule import TmaMmaSchedule
from weft.dialects.schedule.tma_mma import UNIT_SCALE
from weft.dialects.tile import FragmentType
from weft.isa.block_scales import GROUPS, LANES, ROWS
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.fragments import transposed
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiled_scales import TiledScales


def fragment_types(rows: int, columns: int, groups: int, element: ir.Type) -> tuple[ir.Type, ir.Type]:
    """The types of a warp's scales of so many rows of A and columns of B, of `groups` of K: a lane has 4
    scales of a row or column in a register, of one in each 32 rows.
    """
    words, of_groups = groups // GROUPS, f"{groups // GROUPS},{GROUPS}"
    a = f"S[({rows // LANES},2,2,8,{of_groups}):({words * GROUPS},2@laneid,1@laneid,4@laneid,{GROUPS},1)]"
    b = f"S[({of_groups},{columns // LANES},4,8):({GROUPS},1,{words * GROUPS},1@laneid,4@laneid)]"
    return FragmentType.of((rows, groups), element, a), FragmentType.of((groups, columns), element, b)


class WarpScales(ABC):
    """The scales of the products of a warp."""

    @abstractmethod
    def load(self, at: Tile, stage: ir.Value) -> list[Any]:
        """The scales of all steps of a tile's stage, as the loop over K blocks carries them."""

    @abstractmethod
    def of_step(self, step: int, loaded: list[Any]) -> tuple[Sequence[Any], int]:
        """The scales of A and B, and the number of the first group of them that a step uses."""


class UnitScales(WarpScales):
    """Scales of 1: chips may multiply block-scaled fp8 faster than plain fp8."""

    def __init__(self, schedule: TmaMmaSchedule) -> None:
        """Builds the scales at the insertion point."""
        rows, columns = schedule.warp_tile
        kinds = fragment_types(rows, columns, GROUPS, ir.Type.parse(UNIT_SCALE))
        self._scales = tuple(tile.from_lane(emit.constant(kind.lane_type, 1.0), kind) for kind in kinds)

    def load(self, at: Tile, stage: ir.Value) -> list[Any]:
        return []

    def of_step(self, step: int, loaded: list[Any]) -> tuple[Sequence[Any], int]:
        return self._scales, 0


class LoadedScales(WarpScales):
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
        sides = zip(
            self._staged.views, (at.row, at.column), self._block, self._first, self._kinds, strict=False
        )
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
