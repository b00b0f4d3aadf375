"""The tiles of queries that the forward kernels compute, and the blocks of keys that each of them needs."""

from dataclasses import dataclass

import weft.language as w
from weft.attend.kernels.masks import Window, blocks_of_keys
from weft.attend.kernels.sequences import Sequences, sequence_at


@dataclass(frozen=True)
class QueryTiles:
    """Tiles of `size` queries, which see keys in blocks of `block`. The other fields are meta-parameters of
    `forward`.
    """

    size: int
    block: int
    window: Window
    sequences: Sequences
    paired: bool = False
    grouped: bool = False
    splits: int = 1

    def halves(self, x):
        """The numbers of the tiles of a pair; of a single tile, if they don't form pairs."""
        last = w.ceil_div(self.sequences.q.rows, self.size) - 1
        return w.range(w.where(last - x == x, 1, 2)) if self.paired else (0,)

    def at(self, x, half, batch):
        """A tile's sequence, its first query, the key at its position, its blocks, and the index of its
        output.
        """
        index = batch
        if self.splits > 1:
            split, batch = batch % self.splits, batch // self.splits
        packed = self.sequences.packed
        if packed:
            batch, x = sequence_at(x, self.sequences.starts_q, self.size, rest=True)
        elif self.paired:
            x = w.where(half == 0, w.ceil_div(self.sequences.q.rows, self.size) - 1 - x, x)
        rows = self.sequences.at(batch, rest=True)
        first = x * self.size
        position = rows.keys - 1 if self.grouped else first + rows.shift
        queries = 1 if self.grouped else self.size
        blocks = blocks_of_keys(self.window, position, queries, 0, rows.keys, self.block)
        if self.splits > 1:
            part = w.ceil_div(blocks.end - blocks.begin, self.splits)
            begin = blocks.begin + split * part
            end = w.minimum(blocks.end, begin + part)
            rows.keys = w.where(begin < end, w.minimum(rows.keys, end * self.block), 0)  # 0: an empty part
            blocks.begin, blocks.end = w.where(begin < end, begin, 0), w.where(begin < end, end, 1)
        return rows, first, position, blocks, 0 if packed and self.splits == 1 else index
