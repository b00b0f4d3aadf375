"""The schedules of kernels that multiply with `mma.sync` what lanes load straight into registers: for
products of few rows, whose time is that of reading B.
"""

from dataclasses import dataclass
from typing import ClassVar

from weft.dialects.element_types import FP8_TYPES, PTX_INPUTS
from weft.dialects.product_types import BYTES, Types
from weft.dialects.schedule.family import AnySchedule
from weft.dialects.schedule.mma_sync import STEP_BYTES, form
from weft.dialects.schedule.work import Kernel
from weft.isa import mma
from weft.isa.chips import LANES, ChipSet, register_share
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.launch_limits import MOST_THREADS
from weft.target import Target

ROWS, COLUMNS = 16, 8
"""Rows of A and columns of B that one instruction multiplies."""
CHUNK_BYTES = 16
"""Bytes of a row that a lane loads at once."""
LINE_BYTES = 2 * STEP_BYTES
"""Bytes of a row that four lanes load at once, enough for two instructions."""
_MOST_ROWS = 64
_MOST_LINES = 4
_OTHER_REGISTERS = 40  # of a thread in addition to its sums and operands, as ptxas counts
_MOST_REGISTERS = 255
_PAD = 8  # sums between rows in shared memory, so that lanes store to different banks


@dataclass(frozen=True)
class DirectSchedule(AnySchedule):
    """A schedule for `mma.sync` without stages in shared memory: `schedule = {block = array<i64: 16, 32, 64>,
    readers = array<i64: 1, 8>}`.

    A CTA computes one tile of `block` (M, N, K) with `readers` warps along N and along K. With R warps along
    K, a warp multiplies every R-th K block of its columns. While its lanes multiply one K block, they load
    the next one of B, 16 bytes of a row at a time. The warps along K add their sums through shared memory.
    """

    block: tuple[int, int, int]
    readers: tuple[int, int]

    counts: ClassVar[dict[str, int]] = {"block": 3, "readers": 2}
    instruction: ClassVar[str] = "mma.sync from registers"
    family: ClassVar[str] = "mma"
    key: ClassVar[str] = "readers"
    takes_any_rows: ClassVar[bool] = True
    takes_any_result: ClassVar[bool] = True
    stages: ClassVar[int] = 2
    group: ClassVar[int] = 1

    @property
    def threads(self) -> int:
        return LANES * self.readers[0] * self.readers[1]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of the product that one warp multiplies."""
        return self.block[0], self.block[1] // self.readers[0]

    @property
    def sums_stride(self) -> int:
        """The distance of two rows of sums in shared memory, in sums."""
        return self.block[1] + _PAD

    def shared_bytes(self, types: Types) -> int:
        """Shared memory of the sums of the warps along K; none if there is one."""
        if self.readers[1] == 1:
            return 0
        return self.readers[1] * self.block[0] * self.sums_stride * BYTES[types.sums]

    def lines(self, types: Types) -> int:
        """Instructions' pairs along K in a block."""
        return self.block[2] * types.input_bits // (8 * LINE_BYTES)

    def stage_bytes(self, types: Types) -> int:
        return 0  # there are none

    def kernel(self, types: Types, chip: str | None = None) -> Kernel:
        """What the kernel does: all its warps multiply one K block at a time, of which each has a slice."""
        across, along = self.readers
        depth = along * self.block[2]
        return self._kernel(types, k_block=depth, persistent=False, warps=(1, across * along))

    def k_step(self, types: Types, chip: str) -> tuple[object, ...]:
        """That of instructions, which multiply elements of a line in another order than that of K."""
        return form(types).mnk[2], LINE_BYTES

    @property
    def k_division(self) -> tuple[str, ...]:
        along = self.readers[1]
        return () if along == 1 else (f"readers {self.readers[0]} x {along}", f"block K {self.block[2]}")

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        if not (_multiplies(types) and _has_plain_sums(types)):
            return frozenset()
        row = mma.SYNC.table.get(form(types))
        chips: ChipSet = row.chips if row else frozenset()
        return chips & FP8_ROUNDING if types.d in FP8_TYPES else chips

    @classmethod
    def layout_complaint(cls, types: Types) -> str | None:
        """Why lanes can't load A and B as they are stored."""
        if not any(types.transposed):
            return None
        name, legal = ("A", "transpose_a = false") if types.transposed[0] else ("B", "transpose_b = true")
        return f"{name} must be K-major ({legal}), as lanes load it, got an MN-major one"

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        m, n, _ = self.block
        if not _multiplies(types):
            legal = "floats of 8 to 32 bits or integers of 8"
            return f"{self.instruction} must multiply {legal}, got {types.a} and {types.b}"
        if not _has_plain_sums(types):
            return f"a schedule of {self.instruction} must be without promotion, scales and groups"
        if verdict := mma.SYNC.judge(form(types), target.chip.name if target else None):
            return f"mma.sync {verdict}"
        if wrong := (
            self.output_complaint(types, target) or self.least_complaint() or self.layout_complaint(types)
        ):
            return wrong
        if self.threads > MOST_THREADS:
            most = MOST_THREADS // LANES
            return f"readers must be at most {most} in all, got {self.readers[0]} x {self.readers[1]}"
        if m % ROWS or m > _MOST_ROWS:
            legal = ", ".join(map(str, range(ROWS, _MOST_ROWS + 1, ROWS)))
            return f"block M must be one of {legal}, got {m}"
        if n % (self.readers[0] * COLUMNS):
            along = f"{n} and {self.readers[0]} along N"
            return f"readers must divide block N in multiples of {COLUMNS}, got {along}"
        return (
            self._k_complaint(types)
            or self._register_complaint(types)
            or self.shared_complaint(types, target)
        )

    def _k_complaint(self, types: Types) -> str | None:
        """Why block K isn't a number of lines."""
        depths = [8 * LINE_BYTES * n // types.input_bits for n in range(1, _MOST_LINES + 1)]
        if (k := self.block[2]) in depths:
            return None
        legal = ", ".join(map(str, depths))
        return f"block K must be one of {legal} (multiples of {LINE_BYTES} bytes), got {k}"

    def _register_complaint(self, types: Types) -> str | None:
        """Why a thread would need more registers than it has."""
        rows, columns = self.warp_tile
        loaded = (rows + self.stages * columns) // COLUMNS * self.lines(types) * CHUNK_BYTES // 4
        needed = rows * columns // LANES + loaded + _OTHER_REGISTERS
        most = min(register_share(self.threads), _MOST_REGISTERS)
        if needed <= most:
            return None
        return (
            f"a thread must need at most {most} registers with {self.threads} threads, got {needed}: "
            "take a smaller block, or fewer readers"
        )

    def __str__(self) -> str:
        m, n, k = self.block
        return f"block {m}x{n}x{k}, readers {self.readers[0]}x{self.readers[1]}"


def _multiplies(types: Types) -> bool:
    """Whether an instruction multiplies A and B as they are in memory, in whole bytes."""
    if types.has_packed_inputs or not {types.a, types.b} <= set(PTX_INPUTS) or types.d not in BYTES:
        return False
    return types.input_bits in (8, 16, 32)


def _has_plain_sums(types: Types) -> bool:
    """Whether sums stay in the tensor cores, and all rows have the same B."""
    return not (types.promoted or types.scaled or types.scale or types.grouped or types.k_groups)
