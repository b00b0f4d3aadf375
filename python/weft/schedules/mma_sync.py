"""Which schedule for `mma.sync` a product gets: one of three, by the chip's shared memory and by its size."""

from dataclasses import replace

from weft.dialects.schedule import COPY, Schedule, Types
from weft.dialects.tile_types import FP8_TYPES
from weft.isa import async_copy
from weft.target import Target

# The first that fits the chip's shared memory is taken. The last fits every chip. K is that of 16-bit types.
SCHEDULES = (
    Schedule((128, 256, 64), (2, 4), 3),
    Schedule((128, 128, 32), (2, 2), 4),
)
SMALL = Schedule((64, 64, 64), (2, 2), 3)
"""For products that are known to be smaller than the other tiles."""
STAGED = Schedule((128, 128, 32), (2, 4), 2)
"""On chips without `cp.async`, where a K block waits in registers beside the sums."""
DOUBLE = Schedule((64, 64, 64), (2, 2), 4)
"""For f64: each sum takes two registers."""
DOUBLE_LIGHT = Schedule((128, 64, 64), (4, 2), 3)
"""For f64 with an MN-major operand, whose addresses ptxas would spill in the other."""
LIGHT = Schedule((128, 128, 64), (2, 4), 3)
"""Where a thread needs more registers beside its sums: ptxas would spill those of larger tiles of a warp."""


def choose(m: int | None, n: int | None, types: Types, chip: str) -> Schedule:
    """The schedule for a product of M rows and N columns, as far as they are known."""
    if types.a == "f64":
        return _fitted(DOUBLE_LIGHT if any(types.transposed) else DOUBLE, types)
    if m and n and (m < 128 or n < 128):
        return _fitted(SMALL, types)
    if chip not in async_copy.CP_ASYNC.table[COPY].chips:
        return _fitted(STAGED, types)
    # Elements of 32 bits are transposed one by one. On sm_90, ptxas multiplies fp8 as f16.
    if types.a in FP8_TYPES or (types.input_bytes == 4 and any(types.transposed)):
        return _fitted(LIGHT, types)
    fitted = (_fitted(schedule, types) for schedule in SCHEDULES)
    return next(schedule for schedule in fitted if schedule.complaint(types, Target.of(chip)) is None)


def _fitted(schedule: Schedule, types: Types) -> Schedule:
    """A schedule for 16-bit types with K blocks of as many bytes."""
    m, n, k = schedule.block
    return replace(schedule, block=(m, n, 2 * k // types.input_bytes))
