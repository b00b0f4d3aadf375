"""In how many parts a tile of D is staged in shared memory."""

from typing import Any

STAGING_PARTS = (1, 2, 3, 4, 5, 6)
"""In how many parts a tile of D may be staged."""


def staging_parts(whole: Any, room: Any, columns: Any, unit: Any) -> Any:
    """In how many parts `whole` bytes of D are staged in `room` bytes, one after the other: as few as fit,
    each a multiple of `unit` of the tile's columns; 1 if none fits. Of numbers, or of arrays of them.
    """
    count: Any = 1
    for parts in reversed(STAGING_PARTS):
        fits = (whole <= parts * room) & ((parts == 1) | (columns % (parts * unit) == 0))
        count = count + fits * (parts - count)
    return count
