"""How a tile of D is staged in shared memory. All is computed from numbers, or from arrays of them."""

from dataclasses import dataclass
from typing import Any

Numbers = Any
"""An integer, or a NumPy array of integers."""
STAGING_PARTS = (1, 2, 3, 4, 5, 6)
"""In how many equal parts a tile of D may be staged."""


@dataclass(frozen=True)
class Staging:
    """A tile of D with `columns` of block N, whose `whole` bytes are staged in `room` bytes: at once, in
    equal parts of a multiple of `unit` columns, or in strips.

    A strip is as wide as a line of L2, except the last one, if the columns aren't a multiple. Some strips
    are staged at a time, each in a slot. `strip` is the bytes of a slot, 0 if the tile can't be staged so;
    `width` is its columns.
    """

    whole: Numbers
    room: Numbers
    columns: Numbers
    unit: Numbers
    strip: Numbers
    width: int

    @property
    def equal_parts(self) -> Numbers:
        """In how many equal parts the tile fits: the fewest, or 1 if it doesn't fit in any."""
        count: Numbers = 1
        for parts in reversed(STAGING_PARTS):
            divides = (parts == 1) | (self.columns % (parts * self.unit) == 0)
            count = count + (self.whole <= parts * self.room) * divides * (parts - count)
        return count

    @property
    def fits_in_equal_parts(self) -> Numbers:
        return self.whole <= self.equal_parts * self.room

    @property
    def strips(self) -> Numbers:
        """The strips of a tile."""
        return -(-self.columns // self.width)

    @property
    def slots(self) -> Numbers:
        """The slots for strips; 0 where the tile is staged at once, with all rows in whole lines, or in equal
        parts. These are as fast as strips with a single slot, each of which waits for the one before.
        """
        some = _least(self.strips, self.room // (self.strip + (self.strip == 0)))
        needed = (some >= 2) | ((some == 1) & (self.whole > self.equal_parts * self.room))
        at_once = self.strips * (self.columns % self.width != 0)
        fits = self.whole <= self.room
        return (self.strip > 0) * (fits * at_once + (1 - fits) * needed * some)

    @property
    def parts(self) -> Numbers:
        """In how many parts the tile is staged, one after the other."""
        slots = self.slots
        rounds = -(-self.strips // (slots + (slots == 0)))
        return (slots > 0) * rounds + (slots == 0) * self.equal_parts

    @property
    def bytes(self) -> Numbers:
        """Shared memory in addition to the stages."""
        slots = self.slots
        return (slots > 0) * _least(slots * self.strip, self.whole) + (slots == 0) * (
            self.whole // self.equal_parts
        )


def _least(one: Numbers, other: Numbers) -> Numbers:
    return one + (other < one) * (other - one)
