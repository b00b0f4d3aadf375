"""Shifts by numbers of the GPU are defined for all numbers, and those by numbers of Python are checked."""

import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(threads=32)
def shifted(x: w.In["n"], bits: w.In["n"], y: w.Out["m n"]):
    i = w.thread()
    if i < x.rows:
        y[0, i] = x[i] << bits[i]
        y[1, i] = x[i] >> bits[i]
        y[2, i] = 1 << bits[i]
        y[3, i] = -7 >> bits[i]


def exact(x, bits, width, left):
    """The shift of an integer of Python; a negative number of bits counts as many."""
    bits = bits if bits >= 0 else 2 * width
    number = x << bits if left else x >> bits
    return (number + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_a_shift_by_the_width_or_more_leaves_nothing(width):
    bits = [-1, 0, 1, width - 1, width, width + 1, 100, -100]
    x = [-5, -5, -5, 77, 77, -77, -77, 1]
    kind = f"int{width}"
    y = np.zeros((4, 8), kind)
    shifted.emulate(np.array(x, kind), np.array(bits, kind), y)
    rows = ((x, True), (x, False), ([1] * 8, True), ([-7] * 8, False))
    assert y.tolist() == [
        [exact(a, b, width, left) for a, b in zip(row, bits, strict=True)] for row, left in rows
    ]


def test_elements_of_tiles_are_shifted_so_too():
    @w.kernel()
    def kernel(x: w.In["m n", w.i32], y: w.Out["m n", w.i32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            w.store((1 << t) + (t >> w.row(t)), y[0, 0])

    x = np.random.default_rng(0).integers(-3, 40, (64, 8)).astype(np.int32)
    y = np.zeros_like(x)
    kernel.emulate(x, y)
    powers = np.where((x >= 0) & (x < 32), 1 << (x.astype(np.int64) & 63), 0).astype(np.int32)
    assert np.array_equal(y, powers + (x >> np.minimum(np.arange(64)[:, None], 31)))


def test_bits_that_python_knows_cost_no_check():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i32], y: w.Out["n", w.i32]):
        y[w.thread()] = x[w.thread()] >> 3

    ptx = kernel.compile().ptx
    assert "shr.s32" in ptx and "min.u32" not in ptx


@pytest.mark.parametrize("number", [32, -1])
@pytest.mark.parametrize("tiles", [False, True])
def test_too_many_bits_are_refused(number, tiles):
    @w.kernel()
    def kernel(x: w.In["m n", w.i32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8)) if tiles else x[0, 0]
            t << number

    with pytest.raises(weft.WeftError, match=rf"can be shifted by 0 to 31 bits, got {number}$"):
        kernel.compile()
