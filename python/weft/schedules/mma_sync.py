"""Which schedule for `mma.sync` a product gets: by its types, the chip's shared memory, and its size."""

from dataclasses import replace

from weft.dialects.schedule import COPY, GROUP_ROWS, Schedule, Types, ceil_div
from weft.dialects.tile_types import FP8_TYPES
from weft.isa import async_copy
from weft.target import Target

# The first that fits the chip's shared memory is taken. The last fits every chip. K is that of 16-bit types.
SCHEDULES = (
    Schedule((128, 256, 64), (2, 4), 3),
    Schedule((128, 128, 32), (2, 2), 4),
)
SMALL = Schedule((64, 64, 64), (2, 2), 3)
"""For products that are known to have fewer rows or columns than the other tiles, or few of these."""
FEW_ROWS = (Schedule((16, 64, 64), (1, 4), 8), Schedule((16, 32, 64), (1, 2), 8))
"""For products of at most 16 rows, whose time is that of reading B: seven stages of B are in flight, where
SMALL has two. The second has as many CTAs for half the columns.
"""
_FEW_COLUMNS = 6144
"""Columns for which the first has 96 CTAs: fewer than an A100 or an H200 has multiprocessors."""
_FEW = 128
"""Tiles of 128 x 128 that leave many multiprocessors without one: on an H200, 1024 cubed in bf16 takes
27.2 us in tiles of 128 x 256, 16.2 in tiles of 128 x 128, and 13.1 in tiles of 64 x 64.
"""
STAGED = Schedule((128, 128, 32), (2, 4), 2)
"""On chips without `cp.async`, where a K block waits in registers beside the sums, and for integers that are
packed along M or N.
"""
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
    if m and n and m <= FEW_ROWS[0].block[0] and (few_rows := _few_rows(n, types, chip)):
        return few_rows
    if m and n and (m < 128 or n < 128 or _are_few(ceil_div(m, 128) * ceil_div(n, 128) * members, types)):
        return _fitted(SMALL, types)
    if chip not in async_copy.CP_ASYNC.table[COPY].chips:
        return _fitted(STAGED, types)
    # Elements of 32 bits are transposed one by one. On sm_90, ptxas converts fp8 to f16, nibbles to bytes.
    converted = types.a in FP8_TYPES or types.packs_integers
    if converted or (types.input_bits == 32 and any(types.transposed)):
        return _fitted(LIGHT, types)
    # 8-bit integers are 5% faster in the smaller tiles on an H200, from 2048 cubed on.
    first = 1 if types.sums == "i32" else 0
    fitted = (_fitted(schedule, types) for schedule in SCHEDULES[first:])
    return next(schedule for schedule in fitted if schedule.complaint(types, Target.of(chip)) is None)


def _few_rows(n: int, types: Types, chip: str) -> Schedule | None:
    """The schedule for few rows, if the chip copies asynchronously and has the shared memory."""
    schedule = _fitted(FEW_ROWS[n <= _FEW_COLUMNS], types)
    if chip not in async_copy.CP_ASYNC.table[COPY].chips or (types.input_bits <= 8 and any(types.transposed)):
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
