"""The order of the tiles of causal attention."""

import numpy as np
import pytest

import weft.language as w
from weft.attend import tiles
from weft.attend.kernels.order import by_length, longest_first


@w.kernel(grid=lambda z: (z.size("c"), z.size("b"), z.size("a")), persistent=1, threads=32)
def visits(z: w.Out["a b c", w.i32], mine: w.Out["a b c", w.i32]):
    """Counts the visits of each tile, and writes its CTA."""
    for x, y, batch in w.tiles(order=by_length):
        if w.thread() == 0:
            z[batch, y, x] = z[batch, y, x] + 1
            mine[batch, y, x] = w.cta()


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 7), (5, 7, 12), (1, 2, 40)])
def test_tiles_by_length_are_complete_and_fair(shape):
    z, mine = np.zeros((2, *shape), np.int32)
    visits.emulate(z, mine)
    assert np.all(z == 1)
    lengths = np.broadcast_to(np.arange(shape[2]) + 1, shape)
    work = np.bincount(mine.ravel(), lengths.ravel())
    assert work.max() <= lengths.sum() / (mine.max() + 1) + shape[2]


@w.kernel(grid=lambda z: (z.size("c"), z.size("b"), z.size("a")), threads=32)
def numbered(z: w.Out["a b c", w.i32]):
    """Writes the number of the CTA of each tile."""
    counts = [w.ctas(axis) for axis in range(3)]
    x, head, batch = longest_first(counts, 256)
    if w.thread() == 0:
        z[batch, head, x] = w.cta(0) + counts[0] * (w.cta(1) + counts[1] * w.cta(2))


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 3, 100), (1, 2, 300)])
def test_the_longest_tiles_of_a_section_come_first(shape):
    numbers = np.full(shape, -1, np.int32)
    numbered.emulate(numbers)
    heads, size = shape[0] * shape[1], max(256 // shape[2], 1)
    sections = [range(first, min(first + size, heads)) for first in range(0, heads, size)]
    wanted = [(head, x) for section in sections for x in range(shape[2]) for head in section]
    found = [divmod(int(at), shape[2]) for at in np.argsort(numbers.ravel())]
    assert found == wanted and np.array_equal(np.sort(numbers.ravel()), np.arange(numbers.size))


def test_short_sequences_of_wide_heads_take_smaller_blocks():
    chosen = {n: tiles.forward(256, 256, n, causal=True, window=False)["N"] for n in (1024, 4096)}
    assert chosen == {1024: 64, 4096: 80}


def test_long_sequences_take_tiles_of_keys_in_sections():
    by_size = {d: tiles.adding(d, d, window=True, capped=False) for d in (64, 128)}
    taken = {d: [tiles.section(n, by_size[d]) for n in (1024, 4096, 16384)] for d in by_size}
    assert taken == {64: [0, 128, 512], 128: [0, 256, 256]}


def test_long_sequences_take_tiles_by_length():
    by_size = {d: tiles.forward(d, d, 4096, causal=True, window=False) for d in (64, 128, 256)}
    assert tiles.causal_order(by_size[64], 4096, 4096) == {"by_length": True, "paired": False}
    assert tiles.causal_order(by_size[128], 16384, 16384) == {"by_length": True, "paired": False}
    for d, queries, keys in ((64, 4000, 4096), (64, 4096, 40_000), (128, 4096, 4096), (256, 16384, 16384)):
        assert tiles.causal_order(by_size[d], queries, keys) == {"by_length": False, "paired": True}
