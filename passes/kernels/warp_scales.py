"""The block scales that a warp multiplies with: scales of 1, or those that a stage brings."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import TmaMmaSchedule
from weft.dialects.tile import FragmentType
from weft.isa.block_scales import GROUPS, LANES
from weft.mlir import ir
from weft.passes.builders import emit


def fragment_types(rows: int, columns: int, groups: int, element: Any) -> tuple[Any, Any]:
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
    def load(self, stage: Any) -> list[Any]:
        """The scales of all steps of a stage, as the loop over K blocks carries them."""

    @abstractmethod
    def of_step(self, step: int, loaded: list[Any]) -> tuple[Sequence[Any], int]:
        """The scales of A and B, and the number of the first group of them that a step uses."""


class UnitScales(WarpScales):
    """Scales of 1: chips may multiply block-scaled fp8 faster than plain fp8."""

    def __init__(self, schedule: TmaMmaSchedule) -> None:
        """Builds the scales at the insertion point."""
        rows, columns = schedule.warp_tile
        kinds = fragment_types(rows, columns, GROUPS, ir.Float8E8M0FNUType.get())
        self._scales = tuple(tile.from_lane(emit.constant(kind.lane_type, 1.0), kind) for kind in kinds)

    def load(self, stage: Any) -> list[Any]:
        return []

    def of_step(self, step: int, loaded: list[Any]) -> tuple[Sequence[Any], int]:
        return self._scales, 0
