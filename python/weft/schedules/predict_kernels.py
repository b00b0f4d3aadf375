"""A kernel as the model of its time sees it, whichever family of schedules, or other library, it's from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from weft.dialects.product_types import BITS, Types
from weft.dialects.schedule import (
    AnySchedule,
    DirectSchedule,
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    tcgen05_scales,
)
from weft.errors import WeftError
from weft.schedules.predict_gpus import KINDS, Kind


@dataclass(frozen=True)
class Kernel:
    """A kernel whose CTAs, or pairs of them, compute one tile after the other.

    `tile`: rows and columns of D that a CTA, or a pair, computes at a time. `k_block`: elements along K of a
    stage. `parts`: products side by side that compute a tile. `accumulators`: tiles whose sums are kept; with
    two, the epilogue overlaps with the next tile's products; if these share columns, except for the `shared`
    columns that a warpgroup reads first. `epilogues`: warpgroups that finish a tile.
    `early`: the epilogue reads all sums before it stores any. `persistent`: False with a CTA for each tile.
    `resident`: CTAs of a multiprocessor. `warps`: along rows and columns of a tile, with mma.sync. `group`:
    rows of tiles that are computed together. `k_96`: the share of K that instructions with a K of 96
    multiply. `promoted`: the epilogue adds the sums of each K block.
    """

    tile: tuple[int, int]
    k_block: int
    stages: int
    cta_group: int = 1
    parts: int = 1
    accumulators: int = 1
    shared: int = 0
    epilogues: int = 1
    early: bool = False
    persistent: bool = True
    resident: int = 1
    warps: tuple[int, int] = (0, 0)
    cluster: tuple[int, int] = (1, 1)
    splits: int = 1
    group: int = 8
    swap: bool = False
    k_96: float = 0.0
    promoted: bool = False

    @property
    def part(self) -> tuple[int, int]:
        """M and N of one instruction of tcgen05."""
        return self.tile[0] // self.parts, self.tile[1]

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.cta_group * self.cluster[0] * self.cluster[1]

    def swapped(self, m: int, n: int) -> tuple[int, int]:
        """What the rows and the columns of tiles cover."""
        return (n, m) if self.swap else (m, n)

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Tiles down and across that cover a product, in whole clusters."""
        down, across = self.swapped(m, n)
        height, width = self.tile[0] * self.cluster[0], self.tile[1] * self.cluster[1]
        return -(-down // height) * self.cluster[0], -(-across // width) * self.cluster[1]


def kind_of(types: Types) -> Kind:
    """The kind of elements that such products multiply. Raises WeftError for one without a model."""
    if (scaling := types.block_scaling) is not None:
        widths = BITS[types.a], BITS[types.b]
        if scaling.packed:
            return KINDS["nvfp4" if scaling.group == 16 else "mxfp4"]
        return replace(KINDS["mxfp8" if max(widths) == 8 else "mxfp6"], bits=sum(widths) / 2)
    if types.scale or not {types.a, types.b} <= set(_KINDS):
        scaled = f" with scales of {types.scale}" if types.scale else ""
        legal = ", ".join(_KINDS)
        raise WeftError(f"types must be of a kind with a model, {legal}, got {types.a} and {types.b}{scaled}")
    kind = KINDS[_KINDS[types.a]]
    return replace(kind, bits=(BITS[types.a] + BITS[types.b]) / 2)


_KINDS = {
    "f32": "tf32",
    "bf16": "bf16",
    "f16": "f16",
    "f8E4M3FN": "fp8",
    "f8E5M2": "fp8",
    "f6E2M3FN": "fp8",
    "f6E3M2FN": "fp8",
    "f4E2M1FN": "fp8",
    "i8": "s8",
    "ui8": "s8",
}
"""Without block scales, elements of 4 and 6 bits take as long as those of 8."""


def _of(schedule: AnySchedule, **others: Any) -> Kernel:
    """A kernel with the tiles and stages of a schedule, and other fields."""
    (*tile, depth), stages, group = schedule.block, schedule.stages, schedule.group
    shared: dict[str, Any] = {"tile": tuple(tile), "k_block": depth, "stages": stages, "group": group}
    return Kernel(**shared | others)


def _of_tensor_memory(schedule: TensorMemorySchedule, types: Types, chip: str | None) -> Kernel:
    of_mma = schedule.mma_m, schedule.block[1], schedule.block[2], schedule.cta_group
    return _of(
        schedule,
        cta_group=schedule.cta_group,
        parts=schedule.parts,
        accumulators=schedule.accumulators,
        # Columns in the slices that must be read before the next tile's products.
        shared=schedule.shared_columns(types) and schedule.kept_slices(types) * schedule.slice_columns(types),
        epilogues=schedule.epilogues,
        cluster=schedule.cluster,
        splits=schedule.global_splits,
        swap=schedule.swap,
        k_96=tcgen05_scales.long_share(types, *of_mma, chip),
        promoted=types.promoted,
    )


def _of_direct(schedule: DirectSchedule, types: Types, _: str | None) -> Kernel:
    across, along = schedule.readers
    return _of(schedule, k_block=along * schedule.block[2], persistent=False, warps=(1, across * along))


DESCRIPTIONS: dict[type[AnySchedule], Callable[[Any, Types, str | None], Kernel]] = {
    TensorMemorySchedule: _of_tensor_memory,
    TmaMmaSchedule: lambda s, types, _: _of(s, warps=s.consumers, promoted=types.promoted),
    Schedule: lambda s, types, _: _of(s, persistent=False, warps=s.warps, promoted=types.promoted),
    DirectSchedule: _of_direct,
}
"""How a schedule of each family is described. That of wgmma has a fitted model of its own."""


def kernel_of(schedule: AnySchedule, types: Types, chip: str | None = None) -> Kernel:
    """The description of a schedule, on `chip` where that matters. Raises WeftError for a family that has
    none.
    """
    if (describe := DESCRIPTIONS.get(type(schedule))) is None:
        legal = ", ".join(family.__name__ for family in DESCRIPTIONS)
        raise WeftError(f"schedule must be of a family with a model, {legal}, got {type(schedule).__name__}")
    return describe(schedule, types, chip)
