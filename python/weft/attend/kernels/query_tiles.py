"""The tiles of queries that the forward kernels compute, and the blocks of keys that each of them needs."""

from dataclasses import dataclass
from typing import Any

import weft.language as w
from weft.attend.kernels.masks import Window, blocks_of_keys
from weft.attend.kernels.sequences import sequence_at, sequence_of


@dataclass(frozen=True)
class QueryTiles:
    """Tiles of `size` queries, which see keys in blocks of `block`. The other fields are the arguments and
    meta-parameters of `forward`.
    """

    size: int
    block: int
    window: Window
    q: Any
    k: Any
    starts_q: Any
    starts_k: Any
    lengths: Any
    packed: bool
    limited: bool
    paired: bool
    paged: bool = False
    grouped: bool = False
    splits: int = 1

    def halves(self, x):
        """The numbers of the tiles of a pair; of a single tile, if they don't form pairs."""
        last = w.ceil_div(self.q.rows, self.size) - 1
        return w.range(w.where(last - x == x, 1, 2)) if self.paired else (0,)

    def at(self, x, half, batch):
        """A tile's sequence, its first query, the key at its position, its blocks, and the index of its
        output.
        """
        index = batch
        if self.splits > 1:
            split, batch = batch % self.splits, batch // self.splits
        if self.packed:
            batch, x = sequence_at(x, self.starts_q, self.size, rest=True)
        elif self.paired:
            x = w.where(half == 0, w.ceil_div(self.q.rows, self.size) - 1 - x, x)
        kept = {"packed": self.packed, "limited": self.limited, "paged": self.paged}
        rows = sequence_of(
            batch, self.q, self.k, self.starts_q, self.starts_k, self.lengths, **kept, rest=True
        )
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
        return rows, first, position, blocks, 0 if self.packed and self.splits == 1 else index
