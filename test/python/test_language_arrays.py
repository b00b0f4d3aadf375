"""Kernels of `weft.language` take arrays of NumPy with any strides, and none without a grid."""

import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(grid=lambda x, *, N: w.ceil_div(x.rows, N), threads=32)
def double(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, N=4):
    for row in w.range(w.cta() * N, w.minimum(w.cta() * N + N, x.rows)):
        for column in w.range(w.thread(), x.columns, 32):
            y[row, column] = 2.0 * x[row, column]


def numbers(*shape):
    return np.random.default_rng(0).random(shape).astype(np.float32)


@pytest.mark.parametrize(
    "part",
    [
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: a[::2, ::3],
        lambda a: a[::-2],
        lambda a: np.broadcast_to(a[0], a.shape),
        lambda a: np.broadcast_to(a[:, :1], a.shape),
    ],
)
def test_arrays_have_any_strides(part):
    x = part(numbers(12, 12))
    y = np.zeros_like(x)
    assert not double.emulate(x, y).findings
    assert np.array_equal(y, 2 * x)
    double(x, y, on="emulator", N=2)
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize("part", [np.s_[::-1], np.s_[:, ::2], np.s_[::2, ::-3]])
def test_results_have_any_strides(part):
    whole = np.full((12, 12), -1, np.float32)
    expected = whole.copy()
    x = numbers(12, 12)[part].copy()
    expected[part] = 2 * x
    double(x, whole[part], on="emulator")
    assert np.array_equal(whole, expected)


def test_an_array_that_is_read_and_written_is_copied_once():
    x = numbers(8, 8)
    expected = np.where(np.arange(8) % 2, x, 2 * x)
    double(x[:, ::2], x[:, ::2], on="emulator")
    assert np.array_equal(x, expected)


def test_elements_that_share_memory_arent_written():
    y = np.broadcast_to(numbers(8)[:, None], (8, 8))
    with pytest.raises(weft.WeftError, match=r"argument 'y': .*(read-only|share memory)"):
        double(numbers(8, 8), y, on="emulator")


def test_an_empty_grid_computes_nothing():
    x = numbers(0, 8)
    assert double.emulate(x, x.copy()).instructions == 0
    double(x, x.copy())
    double(x, x.copy(), N=2)


def test_empty_arrays_with_a_grid_are_refused():
    x = numbers(8, 0)
    with pytest.raises(weft.WeftError, match=r"'x' has no elements .*don't call the kernel"):
        double(x, x.copy())
    with pytest.raises(weft.WeftError, match="don't fit together"):
        double(numbers(0, 8), numbers(0, 9))
