"""Masks of attention: which keys a query sees, and the blocks of keys that a tile of queries needs."""

import functools
import operator
from dataclasses import dataclass

import weft.language as w


@dataclass(frozen=True)
class Window:
    """The keys that a query sees, relative to its own position: `left` before it and `right` after it, values
    of the GPU; None for all.
    """

    left: w.i32
    right: w.i32


@dataclass
class Blocks:
    """Blocks of keys, from `begin` on and before `end`. All queries of the tile see all keys of those from
    `whole` on and before `ragged`.
    """

    begin: w.i32
    end: w.i32
    whole: w.i32
    ragged: w.i32


def blocks_of_keys(window, first, rows, shift, keys, size):
    """The blocks of `size` keys that `rows` queries from `first` on see: at least one block."""
    see, see_all = keys, keys
    if window.right is not None:
        see = w.minimum(keys, w.maximum(first + rows + (shift + window.right), 0))
        see_all = w.minimum(keys, w.maximum(first + 1 + (shift + window.right), 0))
    end = w.maximum(w.ceil_div(see, size), 1)
    begin = whole = 0
    if window.left is not None:
        begin = w.minimum(w.maximum(first + (shift - window.left), 0) // size, end - 1)
        last = w.maximum(first + (rows - 1) + (shift - window.left), 0)
        whole = w.minimum(w.ceil_div(last, size), end)
    return Blocks(begin, end, whole, see_all // size)


def always(block):
    """All blocks have masks."""
    return True


def never(block):
    """No block has masks."""
    return False


def spans(window, blocks, count, *, apart):
    """The loops over all `count` blocks of keys but the last, which comes first: a function that returns
    whether a block has masks, and the numbers of the blocks, counted from the last one. With `apart`, blocks
    with masks have loops of their own.
    """
    ragged, whole = 1, count
    if window.right is not None:
        ragged = w.minimum(w.maximum(blocks.end - blocks.ragged, 1), count)
    if window.left is not None:
        whole = w.maximum(w.minimum(blocks.end - blocks.whole, count), ragged)
    if apart:
        first = [(always, 1, ragged)] if window.right is not None else []
        last = [(always, whole, count)] if window.left is not None else []
        return [*first, (never, ragged, whole), *last]

    def masks(block):
        if window.left is None:
            return block < ragged
        return block >= whole if window.right is None else (block < ragged) | (block >= whole)

    return [(never if window.left is None and window.right is None else masks, 1, count)]


def blocks_of_queries(window, first, rows, shift, queries, size):
    """The blocks of `size` queries that see one of `rows` keys from `first` on: there may be none. Those from
    `whole` on and before `ragged` see all of these keys, and all are queries.
    """
    begin = whole = 0
    end, ragged = w.ceil_div(queries, size), queries // size
    if window.right is not None:
        begin = w.maximum(first - (shift + window.right), 0) // size
        whole = w.ceil_div(w.maximum(first + (rows - 1) - (shift + window.right), 0), size)
    if window.left is not None:
        see = w.maximum(first + rows - (shift - window.left), 0)
        end = w.minimum(end, w.ceil_div(see, size))
        ragged = w.minimum(ragged, w.maximum(first + 1 - (shift - window.left), 0) // size)
    return Blocks(begin, end, whole, ragged)


def visible(window, column, position, keys):
    """Where a tile of products is seen: `column` are its keys' numbers, and `position` the keys at its
    queries' positions. `keys` is None where all of them exist.
    """
    seen = []
    if window.right is not None:  # one comparison in place of two
        last = position + window.right
        seen.append(column <= (last if keys is None else w.minimum(last, keys - 1)))
    elif keys is not None:
        seen.append(column < keys)
    if window.left is not None:
        seen.append(column >= position - window.left)
    return functools.reduce(operator.and_, seen)


def masked(s, window, position, block, size, keys):
    """The scores of this block of `size` keys, -inf where a query at `position` doesn't see a key."""
    return w.where(visible(window, w.column(s) + block * size, position, keys), s, -w.inf)


def finite(peak):
    """The largest score of each row; 0 for rows that see nothing."""
    return w.where(peak == -w.inf, 0.0, peak)
