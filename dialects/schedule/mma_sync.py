"""The schedules of kernels that multiply with `mma.sync`: one CTA for each tile, all warps alike."""

from dataclasses import dataclass
from typing import ClassVar

from weft.dialects.element_types import FP8_TYPES, PTX_INPUTS, PTX_OPERANDS, PTX_PACKED
from weft.dialects.product_types import BYTES, GROUP_ROWS, PROMOTED, Types
from weft.dialects.schedule.family import SWIZZLES, AnySchedule
from weft.dialects.schedule.work import Kernel
from weft.dialects.tile_limits import MOST_REGISTERS
from weft.isa import async_copy, mma
from weft.isa.chips import LANES, ChipSet
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.launch_limits import MOST_THREADS
from weft.target import Target

COPY = async_copy.copy_of(16)
"""The instruction that fills the stages."""


STEP_BYTES = 32
"""Bytes of a row of A, or of a column of B, that one instruction multiplies."""
_ROWS, _COLUMNS = 16, 8
_MOST_PROMOTED = 32
"""Promoted sums of a lane, at most: it has as many of the K block."""
_K_BYTES = (64, 128)
"""Bytes of block K: those of a row of a K-major tile in shared memory."""


def form(types: Types, chip: str | None = None) -> mma.Sync:
    """The instruction that multiplies A and B as they are on a chip, or on the latest ones: the largest that
    the chip has, otherwise the one that most chips have, legal or not.
    """
    forms = _forms(types)
    legal = [each for each in forms if each in mma.SYNC.table]
    if chip is None or not legal:
        return forms[0]
    able = (each for each in legal if chip in mma.SYNC.table[each].chips)
    return next(able, max(legal, key=lambda each: len(mma.SYNC.table[each].chips)))


def _forms(types: Types) -> list[mma.Sync]:
    """The instructions for A and B, the largest first, whether PTX has them or not."""
    a, b = (PTX_OPERANDS.get(name, name) for name in (types.a, types.b))
    sums = types.ptx_sums
    shapes = [(_ROWS, STEP_BYTES), (_ROWS, STEP_BYTES // 2), (_ROWS // 2, STEP_BYTES // 2)]
    if types.a == "f64":  # sm_90 alone has larger ones than m8n8k4; ptxas splits them for later chips
        shapes = [(_ROWS, 4 * STEP_BYTES), (_ROWS // 2, STEP_BYTES)]
    return [
        mma.Sync(f"m{m}n{_COLUMNS}k{8 * k // types.input_bits}", a, b, sums, sums, bit_op=types.bit_op)
        for m, k in shapes
    ]


@dataclass(frozen=True)
class Schedule(AnySchedule):
    """A schedule for `mma.sync`: `schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>,
    stages = 3, group = 8}`.

    A CTA computes one tile of `block` (M, N, K) with `warps` along M and along N, and copies K blocks into a
    ring of `stages`: by `cp.async`, or on chips without it through registers. Tiles are computed in groups
    of `group` rows of tiles, which share data in the L2 cache.
    """

    block: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    group: int = 8

    counts: ClassVar[dict[str, int]] = {"block": 3, "warps": 2}
    instruction: ClassVar[str] = "mma.sync"
    family: ClassVar[str] = "mma"
    key: ClassVar[str] = "warps"
    takes_any_rows: ClassVar[bool] = True

    @property
    def threads(self) -> int:
        return LANES * self.warps[0] * self.warps[1]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of the product that one warp computes."""
        return self.block[0] // self.warps[0], self.block[1] // self.warps[1]

    def shared_bytes(self, types: Types) -> int:
        return self.stages * self.stage_bytes(types)

    def kernel(self, types: Types, chip: str | None = None) -> Kernel:
        """What the kernel does: a CTA for each tile."""
        return self._kernel(types, persistent=False, warps=self.warps)

    def k_step(self, types: Types, chip: str) -> tuple[object, ...]:
        return (form(types, chip).mnk[2],)

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        # With groups along K, a K block must be within one.
        shallow = types.k_groups and GROUP_ROWS * types.input_bits < 8 * min(_K_BYTES)
        if types.scale or not _takes(types) or shallow:
            return frozenset()
        rows = (mma.SYNC.table[each] for each in _forms(types) if each in mma.SYNC.table)
        chips: ChipSet = frozenset().union(*(row.chips for row in rows))
        return chips & FP8_ROUNDING if types.d in FP8_TYPES else chips

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        m, n, k = self.block
        if not _takes(types):
            legal = "floats of 8 to 64 bits or integers of 1, 4 or 8"
            return f"{self.instruction} must multiply {legal}, got {types.a} and {types.b}"
        chip = target.chip.name if target else None
        if verdict := mma.SYNC.judge(form(types, chip), chip):
            return f"mma.sync {verdict}"
        if complaint := self.output_complaint(types, target):
            return complaint
        if types.scale:
            return f"scales of {types.scale} need a schedule of mma.sync with TMA, got one of mma.sync"
        if complaint := self.least_complaint() or self.count_complaint():
            return complaint
        if self.threads > MOST_THREADS:
            most = MOST_THREADS // LANES
            return f"warps must be at most {most} in all, got {self.warps[0]} x {self.warps[1]}"
        if m % (self.warps[0] * _ROWS) or n % (self.warps[1] * 2 * _COLUMNS):
            return (
                f"warps must divide block M {m} in multiples of {_ROWS} and block N {n} in multiples of "
                f"{2 * _COLUMNS}, got {self.warps[0]} x {self.warps[1]}"
            )
        rows, columns = self.warp_tile
        if rows * columns > MOST_REGISTERS * LANES:
            return (
                f"a warp must hold at most {MOST_REGISTERS * LANES} sums, {MOST_REGISTERS} for each lane, "
                f"got {rows} x {columns}"
            )
        if complaint := self._promotion_complaint(types) or self.group_complaint(types):
            return complaint
        if k * types.input_bits not in [8 * bytes_ for bytes_ in _K_BYTES]:
            legal = " or ".join(str(8 * bytes_ // types.input_bits) for bytes_ in _K_BYTES)
            return f"block K must be {legal} (rows of 64 or 128 bytes in shared memory), got {k}"
        used = form(types, chip) if chip else min(_forms(types), key=lambda each: each.mnk[2])
        if k % (step := used.mnk[2]):
            return f"block K must be a multiple of {step}, the K of {used.shape}, got {k}"
        for name, extent, mn_major in zip("MN", self.block, types.transposed, strict=False):
            unit = min(SWIZZLES) // max(types.input_bits // 8, 1)  # packed integers have a byte of each row
            if mn_major and extent % unit:
                return f"block {name} must be a multiple of {unit} for an MN-major operand, got {extent}"
        return self.shared_complaint(types, target)

    def _promotion_complaint(self, types: Types) -> str | None:
        """Why sums can't be promoted, or scaled."""
        if not types.promoted:
            return None
        if wrong := self.promoted_complaint(types):
            return wrong
        rows, columns = self.warp_tile
        if rows * columns > _MOST_PROMOTED * LANES:
            most = _MOST_PROMOTED * LANES
            return f"a warp must hold at most {most} promoted sums, got {rows} x {columns}"
        if types.scaled and not types.scale_columns and PROMOTED % columns:
            return f"columns of a warp must divide {PROMOTED}, which share a scale, got {columns}"
        return None

    def __str__(self) -> str:
        m, n, k = self.block
        warps = f"{self.warps[0]}x{self.warps[1]}"
        return f"block {m}x{n}x{k}, warps {warps}, {self.stages} stages, group {self.group}"


def _takes(types: Types) -> bool:
    """Whether elements of A and B have types that an instruction has: floats must have whole bytes."""
    legal = set(PTX_INPUTS) & set(BYTES) | set(PTX_PACKED)
    return {types.a, types.b} <= legal and types.d in BYTES
