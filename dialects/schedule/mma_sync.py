"""The schedules of kernels that multiply with `mma.sync`: one CTA for each tile, all warps alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from weft.dialects.schedule.family import AnySchedule
from weft.dialects.schedule.product_types import Types
from weft.dialects.tile_types import FP8_TYPES, MOST_REGISTERS
from weft.isa import async_copy, mma
from weft.isa.chips import LANES, ChipSet, describe
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.launch_limits import MOST_THREADS
from weft.target import Target

COPY = async_copy.copy_of(16)
"""The instruction that fills the stages."""


def atom(element: str) -> mma.Sync:
    """The instruction that multiplies inputs of a type."""
    return mma.Sync("m16n8k16", element, element, "f32", "f32")


_ATOM = atom("f16").mnk  # the same for every type


@dataclass(frozen=True)
class Schedule(AnySchedule):
    """A schedule for `mma.sync`: `schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>,
    stages = 3, group = 8}`.

    A CTA computes one tile of `block` (M, N, K) with `warps` along M and along N, and copies K blocks into a
    ring of `stages`. Tiles are computed in groups of `group` rows of tiles, which share data in the L2 cache.
    """

    block: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    group: int = 8

    counts: ClassVar[dict[str, int]] = {"block": 3, "warps": 2}
    instruction: ClassVar[str] = "mma.sync"
    key: ClassVar[str] = "warps"
    takes_any_rows: ClassVar[bool] = True
    inputs: ClassVar[Sequence[str]] = ("f16", "bf16")

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return LANES * self.warps[0] * self.warps[1]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of the product that one warp computes."""
        return self.block[0] // self.warps[0], self.block[1] // self.warps[1]

    def shared_bytes(self, types: Types) -> int:
        """Shared memory of all stages."""
        return self.stages * self.stage_bytes(types)

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        """The chips that have the instructions of every such schedule."""
        plain = not (types.transposed[0] or types.promoted or types.grouped or types.scale)
        row = mma.SYNC.table.get(atom(types.a)) if plain else None
        chips = row.chips & async_copy.CP_ASYNC.table[COPY].chips if row else frozenset()
        return chips & FP8_ROUNDING if types.d in FP8_TYPES else chips

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        """Why the schedule can't be lowered, or can't run on `target`."""
        m, n, k = self.block
        kinds = f"{types.a}, {types.b} and {types.d}"
        if types.a not in self.inputs or types.a != types.b or types.d == "i32":
            return f"mma.sync needs A and B of f16 or both of bf16, and a float D, got {kinds}"
        if types.d in FP8_TYPES and target and target.chip.name not in FP8_ROUNDING:
            return f"D of {types.d} needs {describe(FP8_ROUNDING)}, got {target}"
        if types.transposed[0]:
            return "transpose_a must be false with a schedule of mma.sync"
        if types.grouped:
            return "groups need a schedule of wgmma, got one of mma.sync"
        if complaint := self.least_complaint() or self.count_complaint():
            return complaint
        if self.threads > MOST_THREADS:
            most = MOST_THREADS // LANES
            return f"warps must be at most {most} in all, got {self.warps[0]} x {self.warps[1]}"
        if m % (self.warps[0] * _ATOM[0]) or n % (self.warps[1] * 2 * _ATOM[1]):
            return (
                f"warps must divide block M {m} in multiples of {_ATOM[0]} and block N {n} in multiples of "
                f"{2 * _ATOM[1]}, got {self.warps[0]} x {self.warps[1]}"
            )
        rows, columns = self.warp_tile
        if rows * columns > MOST_REGISTERS * LANES:
            return (
                f"a warp must hold at most {MOST_REGISTERS * LANES} sums, {MOST_REGISTERS} for each lane, "
                f"got {rows} x {columns}"
            )
        if k not in (32, 64):
            return f"block K must be 32 or 64 (rows of 64 or 128 bytes in shared memory), got {k}"
        return self.shared_complaint(types, target)

    def __str__(self) -> str:
        m, n, k = self.block
        warps = f"{self.warps[0]}x{self.warps[1]}"
        return f"block {m}x{n}x{k}, warps {warps}, {self.stages} stages, group {self.group}"
