"""Which queries and keys a tile of attention has, and what they see of each other."""

from dataclasses import dataclass

import weft.language as w

SUMS_STEP = 64
"""Rows of tiles of sums for gradients: packed sequences begin at multiples of it, as TMA needs."""


@dataclass
class Sequence:
    """A sequence: its number, its index in a batch, and its first row and its rows of queries and keys."""

    number: w.i32
    batch: w.i32
    first_query: w.i32
    queries: w.i32
    first_key: w.i32
    keys: w.i32
    first_sum: w.i32 = 0  # in the sums for gradients
    first_block: w.i32 = 0

    @property
    def shift(self) -> w.i32:
        """The key at the position of query 0: the last query is at the position of the last key."""
        return self.keys - self.queries


@dataclass(frozen=True)
class Sequences:
    """The sequences of a batch. `packed` ones follow each other in memory, from `starts_q` and `starts_k` on.
    With `limited`, only the first `lengths` keys exist; `paged` keys aren't in one piece.
    """

    q: w.Array
    k: w.Array
    starts_q: w.Array
    starts_k: w.Array
    lengths: w.Array
    packed: bool = False
    limited: bool = False
    paged: bool = False

    def at(self, number, *, rest=False):
        """The sequence with this number. With `rest`, what is after all sequences is one without keys."""
        if self.packed:
            starts, starts_k, paged = self.starts_q, self.starts_k, self.paged
            first, first_key = starts[number].loaded(), 0 if paged else starts_k[number].loaded()
            count = starts.rows - 1
            after = w.minimum(number + 1, count) if rest else number + 1
            keys = 0 if paged else starts_k[after] - first_key
            of_sums = (first // SUMS_STEP + number) * SUMS_STEP
            end = w.where(number < count, starts[after], self.q.rows) if rest else starts[after]
            found = Sequence(number, 0, first, end - first, first_key, keys, of_sums)
            if rest:
                found.number = w.minimum(number, count - 1)
        else:
            found = Sequence(number, number, 0, self.q.rows, 0, self.k.rows)
        if self.limited:
            length = self.lengths[found.number].loaded()
            if not self.paged:
                length = w.minimum(length, found.keys)
            found.keys = w.where(number < count, length, 0) if self.packed and rest else length
        return found


@w.inline
def sequence_at(slot, starts, rows, *, rest=False):
    """The packed sequence that has a slot, and the tile's number in it. A sequence has a slot for each tile
    of `rows` rows, and may have one more, which is then empty. With `rest`, what is after all sequences is
    one more.
    """
    low, high = w.i32(0), w.i32(0) + (starts.rows if rest else starts.rows - 1)
    while high - low > 1:
        middle = (low + high) // 2
        before = starts[middle] // rows + middle <= slot
        low, high = w.where(before, middle, low), w.where(before, high, middle)
    return low, slot - (starts[low] // rows + low)


@w.inline
def rows_at(slot, starts, rows, end, *, packed):
    """The first of the `rows` rows of a slot, and the end of their sequence: `end` if it is the only one."""
    first = slot * rows
    if packed:
        number, x = sequence_at(slot, starts, rows)
        first, end = starts[number] + x * rows, starts[number + 1].loaded()
    return first, end


def slots(starts, total, rows):
    """The number of slots of packed sequences, for a grid."""
    return w.ceil_div(total, rows) + starts.size(0) - 1


@w.inline
def clear_values(values, first, size, warpgroup=0):
    """Sets the rows from `first` on to zeros in the next block of `size` values, which don't exist: a share
    of 0 of a NaN is a NaN. All warpgroups wait until the first one has done so.
    """
    if first < size:
        block = values.ready()
        if warpgroup == 0:
            w.clear_rows(block.v, w.maximum(first, 0))
        w.barrier()
