"""Floating-point kernels that nvcc compiled from test/emulator/cuda, for every chip, against NumPy."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from emulator_corpus import everywhere, launch, reals, rng, since

BF16 = ml_dtypes.bfloat16


def each(function, *values):
    return np.array([function(*(float(v) for v in at)) for at in zip(*values, strict=True)])


@everywhere
def test_single_precision_functions(chip):
    x, y = reals(np.float32)
    out = np.zeros((64, 24), np.float32)
    launch("floats", chip, "single", [x, y, out, 64], 2)
    p, a, b = np.abs(x), x.astype(np.float64), y.astype(np.float64)
    want = [
        np.exp(a),
        np.log(np.abs(a)),
        np.sin(a),
        np.cos(a),
        np.tan(a),
        np.abs(a) ** b,
        np.sqrt(p),
        1 / np.sqrt(p),
    ]
    want += [a / b, np.tanh(a), each(math.erf, a), np.arctan2(a, b), np.fmod(a, b), np.cbrt(a), np.exp2(a)]
    want += [
        np.log10(np.abs(a)),
        np.floor(x) + np.rint(y),
        np.maximum(x, y) - np.minimum(x, y),
        np.hypot(a, b),
    ]
    want += [np.expm1(a), np.copysign(x, y), a * 32 + np.copysign(np.floor(np.abs(b) + 0.5), b)]
    want += [each(lambda v: math.lgamma(abs(v) + 1), a), each(math.remainder, a, b)]
    np.testing.assert_allclose(out, np.stack(want, axis=1), rtol=3e-6, atol=2e-6)


@pytest.mark.each_value(1)
@everywhere
def test_fast_functions(chip):
    x, y = reals(np.float32)
    out = np.zeros((64, 8), np.float32)
    launch("floats", chip, "fast", [x, y, out, 64], 2)
    a, b = x.astype(np.float64), y.astype(np.float64)
    want = [
        np.exp(a),
        np.log(np.abs(a)),
        np.sin(a),
        np.cos(a),
        a / b,
        np.abs(a) ** b,
        1 / np.sqrt(np.abs(a)),
        np.clip(a, 0, 1),
    ]
    np.testing.assert_allclose(out, np.stack(want, axis=1), rtol=2e-5, atol=1e-6)


@everywhere
def test_sine_of_large_angles(chip):
    x, _ = reals(np.float32)
    out = np.zeros(64, np.float32)
    launch("floats", chip, "large_angles", [x, out, 64], 2)
    np.testing.assert_allclose(out, np.sin((x * np.float32(1e20)).astype(np.float64)), rtol=1e-5, atol=1e-6)


def directed(value, exact, up):
    """The float32 neighbor of an exact number toward +infinity (up) or -infinity; `value` is near it."""
    near = np.float32(value)
    if up:
        return near if float(near) >= exact else np.nextafter(near, np.float32(np.inf))
    return near if float(near) <= exact else np.nextafter(near, np.float32(-np.inf))


@everywhere
def test_directed_rounding(chip):
    x, y = reals(np.float32)
    out = np.zeros((64, 16), np.float32)
    launch("floats", chip, "rounded", [x, y, out, 64], 2)

    def zero(exact):
        return directed(exact, exact, exact < 0)

    for row, p, q in zip(out, x, y, strict=True):
        a, b = Fraction(float(p)), Fraction(float(q))
        product = float(p) * float(q)
        assert row[0] == zero(a + b)
        assert row[1] == directed(float(a + b), a + b, True)
        assert row[2] == directed(float(a + b), a + b, False)
        assert row[3] == zero(Fraction(product)) and row[4] == directed(product, product, True)
        assert row[5] == directed(float(a / b), a / b, False) and row[6] == directed(
            float(a / b), a / b, True
        )
        assert (
            Fraction(float(row[7])) ** 2
            <= abs(a)
            < Fraction(float(np.nextafter(row[7], np.float32(np.inf)))) ** 2
        )
        assert row[8] == directed(float(a * b + a), a * b + a, False)
        assert row[9] == directed(float(a * b - a), a * b - a, True)
        assert row[10] == zero(1 / a)
        assert row[11].view(np.int32) == math.floor(a)
        assert row[12].view(np.uint32) == max(math.ceil(b), 0)
        assert row[13] == zero(Fraction(int(p.view(np.int32))))
        assert row[14] == directed(float(p) * 1.1, Fraction(float(p) * 1.1), True)
        assert row[15] == directed(float(q.view(np.uint32)), int(q.view(np.uint32)), False)


@everywhere
def test_double_precision_functions(chip):
    x, y = reals(np.float64)
    out = np.zeros((64, 20), np.float64)
    launch("floats", chip, "doubled", [x, y, out, 64], 2)
    a = np.abs(x)
    want = [np.exp(x), np.log(a), np.sin(x), np.cos(x), a**y, np.sqrt(a), 1 / np.sqrt(a), x / y, np.tanh(x)]
    want += [
        each(math.erf, x),
        np.arctan(x),
        np.fmod(x, y),
        1 / x,
        None,
        np.floor(x) + np.rint(y),
        np.cbrt(x),
    ]
    want += [np.maximum(x, y), np.trunc(x * 100), x + y, x * y]
    want[13] = np.array(
        [
            float(Fraction(p) * Fraction(q) - Fraction(p * q))
            for p, q in zip(x.tolist(), y.tolist(), strict=True)
        ]
    )
    np.testing.assert_allclose(out, np.stack(want, axis=1), rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(out[:, 7], x / y)
    np.testing.assert_array_equal(out[:, 13], want[13])
    for got, p, q in zip(out[:, 18:], x.tolist(), y.tolist(), strict=True):
        total, product = Fraction(p) + Fraction(q), Fraction(p) * Fraction(q)
        assert (
            abs(Fraction(float(got[0])))
            <= abs(total)
            < abs(Fraction(float(np.nextafter(got[0], np.copysign(np.inf, got[0])))))
        )
        assert Fraction(float(np.nextafter(got[1], -np.inf))) < product <= Fraction(float(got[1]))


@everywhere
def test_halves(chip):
    x, y = reals(np.float16, 128)
    out = np.zeros((64, 14, 2), np.float16)
    launch("floats", chip, "halves", [x, y, out, 64], 2)
    a, b = x.reshape(64, 2), y.reshape(64, 2)
    w, v = a.astype(np.float64), b.astype(np.float64)
    exact = {0: w + v, 1: w * v, 2: w * v + w, 6: np.maximum(w, v), 7: np.minimum(w, v)}
    exact |= {8: np.clip(w + v, 0, 1), 10: -w, 11: w > v, 12: w[:, ::-1]}
    exact[13] = np.stack([w[:, 0] * 2, v[:, 1]], axis=1)
    near = {3: w / v, 4: np.exp(w), 5: np.sqrt(np.abs(w)), 9: 1 / w}
    for at, want in exact.items():
        np.testing.assert_array_equal(out[:, at], want.astype(np.float16), err_msg=f"number {at}")
    for at, want in near.items():
        np.testing.assert_allclose(out[:, at], want.astype(np.float16), rtol=2e-3, err_msg=f"number {at}")


@pytest.mark.sampled(2)
@since(80)
def test_brains(chip):
    x, y = (v.astype(BF16) for v in reals(np.float32, 128))
    out = np.zeros((64, 8, 2), BF16)
    launch("floats", chip, "brains", [x, y, out, 64], 2)
    w, v = (t.reshape(64, 2).astype(np.float64) for t in (x, y))
    want = [w + v, w * v, w * v + w, np.maximum(w, v), np.minimum(w, v), None, w - v, w <= v]
    want[5] = np.stack([w[:, 0] * 1.5, v[:, 1]], axis=1)
    for at, column in enumerate(want):
        np.testing.assert_array_equal(out[:, at], column.astype(BF16), err_msg=f"number {at}")


@everywhere
def test_softmax(chip):
    x = rng().standard_normal((3, 100)).astype(np.float32)
    out = np.zeros_like(x)
    launch("floats", chip, "softmax", [x, out, 100], 3, 64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.sampled(2)
@since(100)
def test_pairs_of_float32(chip):
    x, y = reals(np.float32, 128)
    out = np.zeros((64, 4, 2), np.float32)
    launch("floats", chip, "pairs", [x, y, out, 64], 2)
    a, b = x.reshape(64, 2), y.reshape(64, 2)
    np.testing.assert_array_equal(out[:, 0], a + b)
    np.testing.assert_array_equal(out[:, 1], a * b)
    fused = a.astype(np.float64) * b
    np.testing.assert_allclose(out[:, 2], fused + a, rtol=1e-7)
    np.testing.assert_allclose(out[:, 3], fused + b, rtol=2e-7)


# Conversions


@everywhere
def test_fp8(chip):
    x = np.concatenate(
        [rng().standard_normal(120) * 10.0 ** rng().integers(-4, 4, 120), [0.0, -0.0, 1e9, -1e9]]
    )
    x = np.resize(x, 128).astype(np.float32)
    out, back = np.zeros((64, 6, 2), np.uint8), np.zeros((64, 2, 2), np.float16)
    launch("convert", chip, "fp8", [x, out, back, 64], 2)
    pairs = x.reshape(64, 2)

    def small(values, kind, most):
        return np.clip(values.astype(np.float64), -most, most).astype(kind)

    e4m3 = small(pairs, ml_dtypes.float8_e4m3fn, 448)
    e5m2 = small(pairs, ml_dtypes.float8_e5m2, 57344)
    with np.errstate(over="ignore"):
        half = small(pairs.astype(np.float16), ml_dtypes.float8_e4m3fn, 448)
    brain = small(pairs.astype(BF16), ml_dtypes.float8_e5m2, 57344)
    for at, want in enumerate((e4m3, e5m2, half, brain)):
        np.testing.assert_array_equal(out[:, at], want.view(np.uint8), err_msg=f"number {at}")
    fraction, exponent = np.frexp(np.abs(pairs))
    power = np.clip(np.where(fraction == 0.5, exponent - 1, exponent) + 127, 0, 254)
    np.testing.assert_array_equal(out[:, 4], np.where(pairs == 0, 0, power))
    np.testing.assert_array_equal(out[:, 5, 0], e4m3.view(np.uint8)[:, 0])
    np.testing.assert_array_equal(back[:, 0], e4m3.astype(np.float16))
    np.testing.assert_array_equal(back[:, 1], e5m2.astype(np.float16))


@everywhere
def test_fp6_and_fp4(chip):
    x = (rng().standard_normal(128) * 4).astype(np.float32)
    out, back = np.zeros((64, 3), np.uint16), np.zeros((64, 3, 2), np.float16)
    launch("convert", chip, "fp6_fp4", [x, out, back, 64], 2)
    pairs = x.reshape(64, 2).astype(np.float64)
    kinds = (
        (ml_dtypes.float6_e2m3fn, 7.5, 8),
        (ml_dtypes.float6_e3m2fn, 28.0, 8),
        (ml_dtypes.float4_e2m1fn, 6.0, 4),
    )
    for at, (kind, most, shift) in enumerate(kinds):
        want = np.clip(pairs, -most, most).astype(kind)
        codes = want.view(np.uint8).astype(np.uint16)
        np.testing.assert_array_equal(out[:, at], codes[:, 0] | codes[:, 1] << shift, err_msg=str(kind))
        np.testing.assert_array_equal(back[:, at], want.astype(np.float16), err_msg=str(kind))
