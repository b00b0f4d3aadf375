"""Which schedule for `mma.sync` a product gets: by its types, the chip's shared memory, and its size."""

from dataclasses import replace

from weft.dialects.element_types import FP8_TYPES
from weft.dialects.product_types import GROUP_ROWS, Types, ceil_div
from weft.dialects.schedule import COPY, Schedule
from weft.isa import async_copy
from weft.target import Target

LARGE = Schedule((128, 128, 32), (2, 2), 4)
"""Fits every chip with `cp.async`. K is that of 16-bit types."""
MEDIUM = Schedule((64, 128, 64), (2, 2), 4)
"""For products with few tiles of 128 x 128: on an H200, 1024 cubed in bf16 takes 9.7 us, 13.6 in those."""
SMALL = Schedule((64, 64, 64), (2, 2), 3)
"""The same where a thread needs more registers, and on chips without `cp.async`."""
NARROW = Schedule((64, 32, 64), (2, 1), 5)
"""For products with few tiles of these, too: 64 x 8192 x 8192 in bf16 takes 42 us, 55 in MEDIUM's."""
_MANY_SUMS = 96 * 64 * 128
"""Sums of all tiles from which MEDIUM and SMALL leave few of an H200's 132 multiprocessors idle."""
_FEW_SUMS = _MANY_SUMS // 2
"""The same of NARROW, where elements are converted."""
FEW_ROWS = Schedule((16, 32, 64), (1, 2), 8)
"""For at most 16 rows, whose time is that of reading B: seven stages of B are in flight, not SMALL's two."""
LOW = Schedule((16, 64, 64), (1, 4), 8)
"""For small products of elements that are converted."""
_FEW = 100
"""Tiles of 128 x 128 that leave many multiprocessors without one."""
STAGED = Schedule((128, 128, 32), (2, 4), 2)
"""For chips without `cp.async`, where a K block waits in registers, and integers packed along M or N."""
STAGED_BITS = Schedule((128, 64, 32), (2, 4), 2)
"""For bits that are packed along M or N: ptxas would spill a few registers in the larger tiles."""
DOUBLE = Schedule((64, 64, 64), (2, 2), 4)
"""For f64: each sum takes two registers."""
DOUBLE_LIGHT = Schedule((128, 64, 64), (4, 2), 3)
"""For f64 with an MN-major operand, whose addresses ptxas would spill in the other."""
PROMOTED_SUMS = Schedule((128, 64, 64), (4, 2), 3)
"""For promoted sums: a lane has as many sums of the K block."""
PROMOTED_COLUMNS = Schedule((64, 64, 64), (2, 4), 3)
"""For promoted sums with a factor each. On sm_90, where ptxas multiplies fp8 as f16, it would spill more."""
LIGHT = Schedule((128, 128, 64), (2, 4), 3)
"""Where a thread needs more registers beside its sums: ptxas would spill those of larger tiles of a warp."""


def choose(m: int | None, n: int | None, types: Types, chip: str, *, members: int = 1) -> Schedule:
    """The schedule for `members` products of M rows and N columns, as far as these are known."""
    if types.promoted:
        return _fitted(PROMOTED_COLUMNS if types.scale_columns else PROMOTED_SUMS, types)
    if types.a == "f64":
        return _fitted(DOUBLE_LIGHT if any(types.transposed) else DOUBLE, types)
    if types.repacks:
        return _fitted(STAGED_BITS if types.bit_op else STAGED, types)
    if m and n and m <= FEW_ROWS.block[0] and (few_rows := _few_rows(types, chip)):
        return few_rows
    if m and n and (m < 128 or n < 128 or _are_few(ceil_div(m, 128) * ceil_div(n, 128) * members, types)):
        if not _copies(chip) or (types.input_bits <= 8 and any(types.transposed)):
            return _fitted(SMALL, types)
        medium = _fitted(MEDIUM, types)
        wide = n > SMALL.block[1] and not _needs_registers(types)
        first = medium if wide and medium.complaint(types, Target.of(chip)) is None else _fitted(SMALL, types)
        rows, columns, _ = first.block
        sums = ceil_div(m, rows) * ceil_div(n, columns) * rows * columns * members
        if sums >= _MANY_SUMS:
            return first
        return _fitted(NARROW if sums > _FEW_SUMS or not _needs_registers(types) else LOW, types)
    if not _copies(chip):
        return _fitted(STAGED, types)
    return _fitted(LIGHT if _needs_registers(types) else LARGE, types)


def _needs_registers(types: Types) -> bool:
    """Whether a thread needs more registers beside its sums: elements of 32 bits are transposed one by one,
    and on sm_90, ptxas converts fp8 to f16, and nibbles to bytes.
    """
    converted = types.a in FP8_TYPES or types.packs_integers
    return converted or (types.input_bits == 32 and any(types.transposed))


def _copies(chip: str) -> bool:
    return chip in async_copy.CP_ASYNC.table[COPY].chips


def _few_rows(types: Types, chip: str) -> Schedule | None:
    """The schedule for few rows, if the chip copies asynchronously and has the shared memory."""
    schedule = _fitted(FEW_ROWS, types)
    if not _copies(chip) or (types.input_bits <= 8 and any(types.transposed)):
        return None  # ptxas spills MN-major bytes in small tiles
    return schedule if schedule.complaint(types, Target.of(chip)) is None else None


def _are_few(tiles: int, types: Types) -> bool:
    """Whether a product has too few tiles of 128 x 128. ptxas spills MN-major bytes in smaller tiles."""
    return tiles < _FEW and (types.input_bits > 8 or not any(types.transposed))


def _fitted(schedule: Schedule, types: Types) -> Schedule:
    """A schedule for 16-bit types with K blocks of as many bytes, or within a group along K."""
    m, n, k = schedule.block
    depth = 16 * k // types.input_bits
    return replace(schedule, block=(m, n, min(depth, GROUP_ROWS) if types.k_groups else depth))
