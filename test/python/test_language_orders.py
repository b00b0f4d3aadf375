"""Orders in which a persistent kernel visits its tiles."""

import numpy as np
import pytest

import weft
import weft.language as w


def with_order(order, persistent=1):
    """A kernel that writes the CTA of each tile, and counts its visits."""

    @w.kernel(
        grid=lambda z: (z.size("c"), z.size("b"), z.size("a")),
        persistent=None if persistent is None else lambda: persistent,
        threads=32,
    )
    def visits(z: w.Out["a b c", w.i32], mine: w.Out["a b c", w.i32]):
        for x, y, batch in w.tiles(order=order):
            if w.thread() == 0:
                z[batch, y, x] = z[batch, y, x] + 1
                mine[batch, y, x] = w.cta()

    return visits


def last_first(number, counts):
    """The last tile of each row first."""
    tiles, rows, _ = counts
    row = number // tiles
    return tiles - 1 - number % tiles, row % rows, row // rows


def test_tiles_in_another_order():
    z, mine = np.zeros((2, 2, 3, 7), np.int32)
    with_order(last_first).emulate(z, mine)
    assert np.all(z == 1)
    assert np.array_equal(mine[..., ::-1].ravel(), np.arange(42) % (mine.max() + 1))


@pytest.mark.parametrize(
    "order, persistent, message",
    [
        (lambda number, counts: number, 1, r"order must return 3 coordinates, a tuple, got"),
        (3, 1, "order must be a function of a number and of the grid's numbers, got 3"),
        (last_first, None, "order is for persistent kernels: write @w.kernel.grid=…, persistent=1."),
    ],
)
def test_wrong_orders(order, persistent, message):
    with pytest.raises(weft.WeftError, match=message):
        with_order(order, persistent).compile()
