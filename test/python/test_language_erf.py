"""The error function in `weft.language`."""

import math

import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel
def erf(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], one: w.Out["two", w.f32]):
    with w.role():
        w.store(w.erf(w.load(x[0, 0], (64, 128))), y[0, 0])
        if w.thread() == 0:
            one[0] = w.erf(x[3, 5] + 0.0)
            one[1] = w.erf(0.5)


@pytest.mark.slow
def test_the_error_function_is_close_everywhere():
    special = [0.0, -0.0, 1e-30, -1e-3, 1.0, -1.0, np.nextafter(np.float32(1), np.float32(0)), 1e20]
    special += [np.inf, -np.inf]
    x = np.linspace(-6, 6, 64 * 128, dtype=np.float32)
    x[: len(special)] = special
    x = x.reshape(64, 128)
    y, one = np.zeros_like(x), np.zeros(2, np.float32)
    assert not erf.emulate(x, y, one).findings
    exact = np.vectorize(math.erf)(x.astype(float))
    assert np.allclose(y, exact, rtol=3e-7, atol=0)
    assert np.array_equal(np.signbit(y), np.signbit(x))
    assert np.allclose(one, [math.erf(x[3, 5]), math.erf(0.5)], rtol=3e-7)


def test_nan_stays_and_other_types_are_refused():
    x = np.full((64, 128), np.nan, np.float32)
    y, one = np.zeros_like(x), np.zeros(2, np.float32)
    erf.emulate(x, y, one)
    assert np.isnan(y).all()

    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.f16]):
        y[0] = w.erf(y[0])

    with pytest.raises(
        weft.WeftError, match=r"w\.erf expects values of w\.f32, .*: convert with \.to\(w\.f32\)"
    ):
        kernel.compile()
