"""Which schedule for `mma.sync` a product gets: one of three, by the chip's shared memory and by its size."""

from weft.dialects.schedule import Schedule, Types
from weft.target import Target

# The first that fits the chip's shared memory is taken. The last fits every chip.
SCHEDULES = (
    Schedule((128, 256, 64), (2, 4), 3),
    Schedule((128, 128, 32), (2, 2), 4),
)
SMALL = Schedule((64, 64, 64), (2, 2), 3)
"""For products that are known to be smaller than the other tiles."""


def choose(m: int | None, n: int | None, types: Types, chip: str) -> Schedule:
    """The schedule for a product of M rows and N columns, as far as they are known."""
    if m and n and (m < 128 or n < 128):
        return SMALL
    return next(s for s in SCHEDULES if s.complaint(types, Target.of(chip)) is None)
