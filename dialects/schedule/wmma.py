"""The schedules of kernels that multiply with `wmma.mma`: those of `mma.sync`, with padded rows in shared
memory, because the layouts of `wmma.load` have no swizzles.
"""

from dataclasses import dataclass
from typing import ClassVar

from weft.dialects.element_types import FP8_TYPES, PTX_INPUTS
from weft.dialects.product_types import BYTES, Types
from weft.dialects.schedule.family import AnySchedule
from weft.dialects.tile_limits import MOST_REGISTERS
from weft.isa import async_copy, wmma
from weft.isa.chips import LANES, ChipSet
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.launch_limits import MOST_THREADS
from weft.target import Target

ATOM = 16
"""Rows and columns of one instruction's product."""
PADDING = 16
"""Bytes between rows in shared memory, so that the rows of a fragment are in different banks."""
_STEP = {"tf32": 8}  # elements along K of one instruction: 16 of other types
_K_BYTES = (64, 128)


def form(types: Types) -> wmma.Mma:
    """The instruction that multiplies A and B as they are stored, legal or not."""
    a, b = (PTX_INPUTS.get(name, name) for name in (types.a, types.b))
    mn_major_a, mn_major_b = types.transposed
    layouts = "col" if mn_major_a else "row", "row" if mn_major_b else "col"
    return wmma.Mma(f"m{ATOM}n{ATOM}k{_STEP.get(a, ATOM)}", a, b, types.ptx_sums, types.ptx_sums, *layouts)


@dataclass(frozen=True)
class WmmaSchedule(AnySchedule):
    """A schedule for `wmma.mma`: `schedule = {block = array<i64: 128, 128, 32>, warp_grid = array<i64: 2, 4>,
    stages = 2, group = 8}`.

    A CTA computes one tile of `block` (M, N, K) with `warp_grid` warps along M and along N, and copies K
    blocks into a ring of `stages`: by `cp.async`, or on chips without it through registers. Tiles are
    computed in groups of `group` rows of tiles, which share data in the L2 cache.
    """

    block: tuple[int, int, int]
    warp_grid: tuple[int, int]
    stages: int
    group: int = 8

    counts: ClassVar[dict[str, int]] = {"block": 3, "warp_grid": 2}
    instruction: ClassVar[str] = "wmma.mma"
    family: ClassVar[str] = "wmma"
    key: ClassVar[str] = "warp_grid"
    takes_any_rows: ClassVar[bool] = True

    @property
    def warps(self) -> tuple[int, int]:
        """Warps along M and along N."""
        return self.warp_grid

    @property
    def threads(self) -> int:
        return LANES * self.warp_grid[0] * self.warp_grid[1]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of the product that one warp computes."""
        return self.block[0] // self.warp_grid[0], self.block[1] // self.warp_grid[1]

    def stage_bytes(self, types: Types) -> int:
        """Shared memory of the tiles of A and B in one stage, with the padding of their rows."""
        m, n, k = self.block
        rows = [k if mn_major else extent for extent, mn_major in zip((m, n), types.transposed, strict=True)]
        return super().stage_bytes(types) + sum(rows) * PADDING

    def shared_bytes(self, types: Types) -> int:
        """Shared memory of all stages, which the epilogue's sums use later."""
        columns = self.warp_tile[1] * BYTES[types.instruction_sums] + PADDING
        return max(self.stages * self.stage_bytes(types), self.threads // LANES * ATOM * columns)

    def k_step(self, types: Types, chip: str) -> tuple[object, ...]:
        return (_STEP.get(PTX_INPUTS[types.a], ATOM),)

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        if types.promoted or types.scale or not _takes(types):
            return frozenset()
        row = wmma.MMA.table.get(form(types))
        chips: ChipSet = row.chips if row else frozenset()
        return chips & FP8_ROUNDING if types.d in FP8_TYPES else chips

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        if not _takes(types):
            return f"wmma.mma must multiply elements of 8 to 32 bits, got {types.a} and {types.b}"
        chip = target.chip.name if target else None
        if verdict := wmma.MMA.judge(form(types), chip):
            return f"wmma.mma {verdict}"
        if wrong := self.output_complaint(types, target):
            return wrong
        if types.promoted or types.scale:
            what = f"scales of {types.scale}" if types.scale else "promoted sums"
            return f"{what} need a schedule of mma.sync or wgmma, got one of wmma.mma"
        wrong = self.least_complaint() or self.count_complaint() or self._tile_complaint()
        if wrong := wrong or self.group_complaint(types):
            return wrong
        k = self.block[2]
        if k * types.input_bytes not in _K_BYTES:
            legal = " or ".join(str(bytes_ // types.input_bytes) for bytes_ in _K_BYTES)
            return f"block K must be {legal} (rows of 64 or 128 bytes in shared memory), got {k}"
        for name, extent, mn_major in zip("MN", self.block, types.transposed, strict=False):
            vectors = extent * types.input_bytes // async_copy.copy_of(16).bytes
            if mn_major and (vectors > LANES or vectors & (vectors - 1)):
                return f"block {name} must be a power of two of up to 512 bytes where MN-major, got {extent}"
        return self.shared_complaint(types, target)

    def _tile_complaint(self) -> str | None:
        """Why the warps can't divide the tile."""
        (m, n, _), (down, across) = self.block, self.warp_grid
        if self.threads > MOST_THREADS:
            return f"warp_grid must have at most {MOST_THREADS // LANES} warps, got {down} x {across}"
        if m % (down * ATOM) or n % (across * ATOM):
            unit = f"multiples of {ATOM}"
            return f"warp_grid must divide block M {m} and block N {n} in {unit}, got {down} x {across}"
        rows, columns = self.warp_tile
        if columns & (columns - 1):
            return f"the columns of a warp, block N / warp_grid, must be a power of two, got {columns}"
        if rows * columns > MOST_REGISTERS * LANES:
            most = f"{MOST_REGISTERS * LANES} sums, {MOST_REGISTERS} for each lane"
            return f"a warp must hold at most {most}, got {rows} x {columns}"
        return None

    def __str__(self) -> str:
        m, n, k = self.block
        warps = f"{self.warp_grid[0]}x{self.warp_grid[1]}"
        return f"block {m}x{n}x{k}, wmma warps {warps}, {self.stages} stages, group {self.group}"


def _takes(types: Types) -> bool:
    """Whether elements of A and B have whole bytes in global memory, and types of instructions."""
    return {types.a, types.b} <= set(PTX_INPUTS) & set(BYTES) and types.a != "f64" and types.d in BYTES
