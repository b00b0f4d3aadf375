"""Random programs compute on the GPU what they do in the emulator, in NumPy and in Python."""

import driver
import numpy as np
import pytest
from gpu_marks import GPU

import weft.language as w

pytestmark = GPU
KINDS = {
    "random_tiles": 200,
    "random_statements": 200,
    "random_expressions": 200,
    "random_products": 200,
}


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs_agree(kind):
    report = driver.run(kind, seconds=200, first=1000, count=KINDS[kind])
    assert not report.failures, report


@w.kernel
def three_negated(x: w.In["3 n", w.i32], least: w.Out["n", w.i32], most: w.Out["n", w.i32]):
    i = w.thread()
    least[i] = w.minimum(w.minimum(-x[0, i], -x[1, i]), -x[2, i])
    most[i] = w.maximum(w.maximum(-x[0, i], -x[1, i]), -x[2, i])


def test_extrema_of_three_negated_numbers():
    """ptxas 12.9 and 13.0 lose the second negation."""
    x = np.random.default_rng(0).integers(-9, 9, (3, 128), np.int32)
    least, most = np.zeros((2, 128), np.int32)
    three_negated(x, least, most, on="gpu")
    assert np.array_equal(least, -x.max(0)) and np.array_equal(most, -x.min(0))


@w.kernel(threads=64)
def of_short(x: w.In["n", w.i16], sizes: w.Out["n", w.i64], negated: w.Out["n", w.i64]):
    i = w.thread()
    sizes[i] = abs(x[i]).to(w.i64)
    negated[i] = (-x[i]).to(w.i64)


def test_the_least_i16_has_no_absolute_value():
    """ptxas 12.9 and 13.0 leave out a sign extension."""
    x = np.array([-32768, -1, 7, 5] * 16, np.int16)
    sizes, negated = np.zeros((2, 64), np.int64)
    of_short(x, sizes, negated, on="gpu")
    assert np.array_equal(sizes, np.abs(x)) and np.array_equal(negated, -x)


@w.kernel(threads=64)
def parts(
    x: w.In["n", w.f32],
    low: w.Out["n", w.u8],
    half: w.Out["n", w.u16],
    z: w.In["n", w.i32],
    sign: w.Out["n", w.i32],
):
    i = w.thread()
    twice = (x[i] + x[i]).bitcast(w.u32)
    low[i] = twice.to(w.u8)
    half[i] = twice.to(w.u16)
    sign[i] = w.where(abs(z[i]) < 0, 1, 0)


def test_parts_of_floats_and_the_least_integer():
    """ptxas 12.9 and 13.0 convert what is stored, and take absolute values for positive."""
    x, z = np.linspace(-300, 300, 64, dtype=np.float32), np.array([-(2**31), -1, 0, 5] * 16, np.int32)
    low, half, sign = np.zeros(64, np.uint8), np.zeros(64, np.uint16), np.zeros(64, np.int32)
    parts(x, low, half, z, sign, on="gpu")
    bits = (x + x).view(np.uint32)
    assert np.array_equal(low, bits.astype(np.uint8)) and np.array_equal(half, bits.astype(np.uint16))
    assert np.array_equal(sign, z == -(2**31))
