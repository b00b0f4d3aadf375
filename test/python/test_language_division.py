"""Quotients and remainders of integers in `weft.language`, beside those of Python, also by 0."""

import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(threads=64)
def divide(x: w.In["n"], by: w.In["n"], both: w.Out["2 n"], chosen: w.Out["n"], within: w.Out["n"]):
    i = w.thread()
    both[0, i], both[1, i] = x[i] // by[i], x[i] % by[i]
    chosen[i] = w.where(by[i] != 0, x[i] // by[i], 7)
    within[i] = 7
    if by[i] != 0:
        within[i] = x[i] // by[i]


@w.kernel
def divide_tiles(x: w.In["m n"], by: w.In["m n"], both: w.Out["2 m n"], chosen: w.Out["m n"]):
    with w.role():
        t, u = w.load(x[0, 0], (64, 8)), w.load(by[0, 0], (64, 8))
        w.store(t // u, both[0, 0, 0])
        w.store(t % u, both[1, 0, 0])
        w.store(w.where(u != 0, t // u, 7), chosen[0, 0])


def numbers(kind):
    """64 pairs of a number and a divisor, among them 0 and both ends of the range."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    edges = np.array([low, high, 0, 1, 2, 3, high // 2, -1 if low else high - 1], kind)
    return np.repeat(edges, 8), np.tile(edges, 8)


def expected(x, by, other):
    """Quotients of Python in the type of `x`, or `other`, and remainders, or 0."""
    bits = 8 * x.itemsize
    pairs = list(zip(x.tolist(), by.tolist(), strict=True))
    results = [(a // b, a % b) if b else (other, 0) for a, b in pairs]
    return np.array([[n % 2**bits for n in pair] for pair in results], f"u{x.itemsize}").T.astype(x.dtype)


KINDS = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8")


@pytest.mark.each_value(4)
@pytest.mark.parametrize("kind", KINDS)
def test_a_test_of_the_divisor_selects_the_quotient(kind):
    x, by = numbers(kind)
    both, chosen, within = np.ones((2, 64), kind), np.zeros(64, kind), np.zeros(64, kind)
    assert not divide.emulate(x, by, both, chosen, within, arch="sm_80").findings
    assert np.array_equal(both, expected(x, by, 0))
    assert np.array_equal(chosen, expected(x, by, 7)[0])
    assert np.array_equal(within, chosen)


@pytest.mark.parametrize("kind", ("u1", "i4"))
def test_tiles_are_divided_in_the_same_way(kind):
    x, by = (np.tile(each[:, None], 8) for each in numbers(kind))
    both, chosen = np.ones((2, 64, 8), kind), np.zeros((64, 8), kind)
    assert not divide_tiles.emulate(x, by, both, chosen, arch="sm_90a").findings
    assert np.array_equal(both[:, :, 0], expected(x[:, 0], by[:, 0], 0))
    assert np.array_equal(chosen[:, 7], expected(x[:, 0], by[:, 0], 7)[0])


@pytest.mark.parametrize("operation", (lambda a, b: a // b, lambda a, b: a % b))
@pytest.mark.parametrize("zero", (lambda: 0, lambda: w.u32(0)), ids=("Python", "GPU"))
def test_a_division_by_a_known_0_is_refused(operation, zero):
    @w.kernel(threads=32)
    def wrong(x: w.Out["32", w.u32]):
        x[w.thread()] = operation(x[w.thread()], zero())

    with pytest.raises(weft.WeftError, match=r"test_language_division\.py:\d+:.*can't be divided by 0"):
        wrong.compile(arch="sm_80")
