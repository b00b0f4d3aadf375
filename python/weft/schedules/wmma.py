"""Which schedule for `wmma.mma` a product gets: one of three, by its size."""

from dataclasses import replace

from weft.dialects.product_types import Types
from weft.dialects.schedule import WmmaSchedule

WIDE = WmmaSchedule((128, 128, 32), (2, 4), 2)
SMALL = WmmaSchedule((64, 64, 32), (2, 2), 2)
"""For products that are known to be smaller than the other tile."""
FLAT = WmmaSchedule((16, 128, 64), (1, 4), 2)
"""For products of few rows."""


def choose(m: int | None, n: int | None, types: Types) -> WmmaSchedule:
    """The schedule for a product of M rows and N columns, as far as they are known."""
    if m and m <= FLAT.block[0]:
        return _fitted(FLAT, types)
    return _fitted(SMALL if m and n and (m < 128 or n < 128) else WIDE, types)


def _fitted(schedule: WmmaSchedule, types: Types) -> WmmaSchedule:
    """A schedule for 16-bit types with K blocks of as many bytes."""
    m, n, k = schedule.block
    return replace(schedule, block=(m, n, 2 * k // types.input_bytes))
