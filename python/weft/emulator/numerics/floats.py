"""Floating-point formats on arrays: decoding to float64, rounding in every mode, fused multiply-add, NaN.

Values are rounded once. A result that is not exact in float64 is first rounded to odd there (the last bit is
set if bits were lost); rounding it to a narrower format then gives the same as rounding the exact result.

The formats of fewer than 16 bits: their values, and rounding to nearest, up or stochastically.

A format's name gives its fields: e4m3 has four exponent and three fraction bits after the sign. ue8m0 is a
power of two and has no sign; s2f6 is an integer of eight bits in units of 1/64.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.emulator.reading.syntax import Array

Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]

_KINDS = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}
SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
_FIELDS = {"f16": (5, 10), "bf16": (8, 7)} | {name: (int(name[1]), int(name[3])) for name in SMALL}
# NaN if the format has one, otherwise the largest number.
_NAN = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x7}


def width(name: str) -> int:
    """The bits from one element to the next: six-bit elements take a byte each."""
    return 4 if name == "e2m1" else 8


@cache
def values(name: str) -> npt.NDArray[np.float32]:
    """The value of each code of a format."""
    codes = np.arange(256, dtype=np.uint8)
    if name == "s2f6":
        return codes.view(np.int8).astype(np.float32) / np.float32(64)
    count = 256 if name == "ue8m0" else 2 << sum(_FIELDS[name])
    return codes[:count].view(_KINDS[name]).astype(np.float32)


@cache
def _ascending(name: str) -> Doubles:
    """The finite values that are not negative, in the order of their codes."""
    positive = values(name)[: len(values(name)) // 2]
    return positive[np.isfinite(positive)].astype(np.float64)


def decode_small(bits: Array, name: str) -> npt.NDArray[np.float32]:
    """The values of codes; bits above a six-bit or four-bit code are ignored."""
    table = values(name)
    decoded: npt.NDArray[np.float32] = table[bits.astype(np.intp) & (len(table) - 1)]
    return decoded


def encode_small(value: Array, name: str, relu: bool, noise: Array | None = None) -> Bytes:
    """The codes of `value`, saturated, rounded to nearest even, or stochastically by 16 bits of `noise`."""
    wide = value.astype(np.float64)
    finite = _ascending(name)
    size = np.minimum(np.abs(wide), finite[-1])
    code = np.searchsorted(finite, _rounded(np.where(np.isnan(wide), 0.0, size), name, noise, 16))
    code = np.minimum(code, len(finite) - 1).astype(np.uint8)
    negative = np.signbit(wide)
    sign = np.uint8(len(values(name)) // 2)
    code = np.where(negative, np.uint8(0) if relu else code | sign, code)
    return np.where(np.isnan(wide), np.uint8(_NAN[name]), code)


def _rounded(size: Doubles, name: str, noise: Array | None, noise_bits: int) -> Doubles:
    """Numbers that are not negative, as multiples of the format's step at their magnitude."""
    exponent_bits, fraction_bits = _FIELDS[name]
    least = 2 - (1 << (exponent_bits - 1))
    _, exponent = np.frexp(size)
    step = np.ldexp(1.0, np.maximum(exponent - 1, least) - fraction_bits)
    count = size / step
    if noise is None:
        whole = np.rint(count)
    else:
        whole = np.floor(count + np.ldexp(noise.astype(np.float64), -noise_bits))
    rounded: Doubles = whole * step
    return rounded


def stochastic(value: Array, name: str, noise: Array, noise_bits: int) -> Doubles:
    """float32 values rounded to f16 or bf16 with random bits, as float64; overflow gives infinity."""
    wide = value.astype(np.float64)
    usual = np.isfinite(wide)
    size = _rounded(np.abs(np.where(usual, wide, 0.0)), name, noise, noise_bits)
    most = 65504.0 if name == "f16" else float(np.finfo(np.float32).max)
    size = np.where(size > most, np.inf, size)
    return np.where(usual, np.copysign(size, wide), wide)


def encode_ue8m0(value: Array, up: bool, finite: bool) -> Bytes:
    """float32 values as powers of two, rounded toward zero or up; the sign is dropped, and NaN is 0xff."""
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32)
    exponent = (bits >> np.uint32(23) & np.uint32(255)).astype(np.uint16)
    fraction = bits & np.uint32(0x7FFFFF)
    if up:
        # For subnormals, half of the least normal number is code 0, too.
        least = np.where(exponent == 0, np.uint32(0x400000), np.uint32(0))
        exponent = exponent + ((fraction > least) & (exponent < 255))
    if finite:
        unordered = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        exponent = np.where((exponent == 255) & ~unordered, 254, exponent)
    return exponent.astype(np.uint8)


def encode_s2f6(value: Array, relu: bool) -> Bytes:
    """Numbers rounded to s2f6, saturated; NaN is the largest."""
    most = np.where(np.isnan(value), 127.0, np.rint(value.astype(np.float64) * 64.0))
    return np.clip(most, 0 if relu else -128, 127).astype(np.int8).view(np.uint8)


F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)

NAN_BITS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "tf32": 0x7FFFE000}
WIDE = (*NAN_BITS, "f64")
"""The formats of 16 bits and more."""
_EXPONENT = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000}
_QUIET = np.uint64(1 << 51)
_SIGN = {"f16": 0x8000, "bf16": 0x8000, "f32": 0x80000000}


def numbers(bits: Array, name: str) -> Array:
    """Bits as NumPy numbers: bf16 as float32, the others in their own format."""
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[name])


def decode(bits: Array, name: str) -> Doubles:
    """The exact values of bits in format `name`."""
    if name == "f64":
        return bits.view(np.float64)
    if name == "tf32":
        bits = bits & np.uint32(0xFFFFE000)
        name = "f32"
    return numbers(bits, name).astype(np.float64)


def encode(value: Doubles, name: str, mode: str = "rn") -> Array:
    """The bits of `value` rounded to format `name`; `value` is exact or rounded to odd.

    `mode` is rn (to nearest even), rna (to nearest, ties away from zero), rz, rm (down) or rp (up).
    """
    if name == "f64":
        return value.view(np.uint64)
    if name == "bf16":
        bits = _shorten(_to_f32(value, "odd"), 16, mode).astype(np.uint16)
    elif name == "tf32":
        bits = (_shorten(_to_f32(value, "odd"), 13, mode) << np.uint32(13)).astype(np.uint32)
    elif name == "f16":
        bits = _directed(value, value.astype(np.float16), mode).view(np.uint16)
    else:
        bits = _to_f32(value, mode).view(np.uint32)
    unordered = np.isnan(value)
    if unordered.any():
        return np.where(unordered, bits.dtype.type(NAN_BITS[name]), bits)
    return bits


def _to_f32(value: Doubles, mode: str) -> Array:
    nearest = value.astype(np.float32)
    if mode == "odd":
        cut = _directed(value, nearest, "rz").view(np.uint32)
        lost = cut.view(np.float32) != value
        odd: Array = cut | lost
        return odd.view(np.float32)
    return _directed(value, nearest, mode)


def _directed(value: Doubles, nearest: Array, mode: str) -> Array:
    """`nearest`, which is `value` rounded to nearest, or its neighbor if `mode` requires it."""
    if mode == "rn":
        return nearest
    infinity = nearest.dtype.type(np.inf)
    back = nearest.astype(np.float64)
    down, up = np.nextafter(nearest, -infinity), np.nextafter(nearest, infinity)
    if mode == "rz":
        return np.where(np.abs(back) > np.abs(value), np.where(value > 0, down, up), nearest)
    if mode == "rm":
        return np.where(back > value, down, nearest)
    return np.where(back < value, up, nearest)


def _shorten(value: Array, drop: int, mode: str) -> Array:
    """The upper bits of a float32, rounded; `value` was rounded to odd, so its last bit shows lost bits."""
    bits = value.view(np.uint32)
    last = np.uint32(drop)
    rest = np.uint32((1 << drop) - 1)
    if mode == "rn":
        bits = bits + np.uint32((1 << (drop - 1)) - 1) + (bits >> last & np.uint32(1))
    elif mode == "rna":
        bits = bits + np.uint32(1 << (drop - 1))
    elif mode == "rm":
        bits = np.where(bits >> np.uint32(31), bits + rest, bits)
    elif mode == "rp":
        bits = np.where(bits >> np.uint32(31), bits, bits + rest)
    return bits >> last


def canonical(value: Array, name: str) -> Array:
    """The bits of computed values, with the NaN of NVIDIA's units, except f64's (see `operand_nan`)."""
    bits = value.view(f"u{value.dtype.itemsize}")
    if name == "f64":
        return bits
    # The sum is NaN if any element is, and cheaper than a test of each.
    if np.isnan(np.add.reduce(value, axis=None)).any():
        return np.where(np.isnan(value), bits.dtype.type(NAN_BITS[name]), bits)
    return bits


def operand_nan(value: Doubles, operands: Sequence[Doubles]) -> Doubles:
    """Computed f64 values whose NaN is the quiet one of the last operand that is NaN: that of a product's
    second factor, before the addend's and the first factor's. A new NaN is as NumPy has it.
    """
    if not np.isnan(np.add.reduce(value, axis=None)).any():
        return value
    first, *others = operands
    if len(others) > 1:
        others = [others[1], others[0]]
    bits = value.view(np.uint64)
    for operand in (first, *others):
        nan = operand.view(np.uint64) | _QUIET
        bits = np.where(np.isnan(value) & np.isnan(operand), nan, bits)
    return bits.view(np.float64)


def flush(bits: Array, name: str) -> Array:
    """Replaces subnormal numbers by zeros of their sign."""
    kind = bits.dtype.type
    return np.where((bits & kind(_EXPONENT[name])) == 0, bits & kind(_SIGN[name]), bits)


def saturate(value: Array) -> Array:
    """Values clamped to [0, 1]; NaN becomes 0."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    clamped: Array = np.where(value > zero, np.minimum(value, one), zero)
    return clamped


def sum_odd(a: Doubles, b: Doubles) -> Doubles:
    """`a + b` rounded to odd."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    lost = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
    if not lost.any():
        return total
    toward = np.where((error > 0) == (total > 0), np.int64(1), np.int64(-1))
    return np.where(lost, bits + toward, bits).view(np.float64)


def fma_f64(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """The float64 fused multiply-add, rounded to nearest."""
    if isinstance(a, Fused):
        fused: Doubles = a.fused(b, c)
        return fused
    product = a * b
    high_a, low_a = _split(a)
    high_b, low_b = _split(b)
    low = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    upper, rest = _two_sum(c, low)
    total, error = _two_sum(product, upper)
    value = total + sum_odd(rest, error)
    # Splitting is exact only well inside the exponent range.
    size = np.abs(product)
    unsafe = ~(
        (size < 1e290) & (size > 1e-270) & (np.maximum(np.abs(a), np.abs(b)) < 1e290) & (np.abs(c) < 1e290)
    )
    unsafe |= (np.abs(value) < 1e-270) & (value != 0)
    unsafe &= ~((product == 0) & ((a == 0) | (b == 0)))
    plain, factors = product + c, np.isfinite(a) & np.isfinite(b)
    finite = factors & np.isfinite(c)
    # An infinite sum doesn't depend on how the product would overflow.
    value = np.where(finite, value, np.where(factors, c, plain))
    value = np.where((a == 0) | (b == 0), plain, value)
    unsafe &= finite
    for at in np.flatnonzero(unsafe):
        value.flat[at] = _fma_exact(float(a.flat[at]), float(b.flat[at]), float(c.flat[at]))
    return value


def _split(value: Doubles) -> tuple[Doubles, Doubles]:
    scaled = value * 134217729.0
    high = scaled - (scaled - value)
    return high, value - high


def _two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _fma_exact(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c)) if c == 0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


class Fused:
    """Numbers that have a fused multiply-add of their own."""

    __slots__ = ()

    def fused(self, b: Any, c: Any) -> Any:
        """`self * b + c`, rounded once."""
        raise NotImplementedError


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """The float32 fused multiply-add, rounded to nearest, on float32 arrays."""
    if isinstance(a, Fused):
        fused: Array = a.fused(b, c)
        return fused
    product = a.astype(np.float64) * b
    total = product + c
    near = np.abs(total)
    # Rounding twice is wrong only at midpoints between two float32, or for subnormals.
    middle = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    if (middle | (near < 1.5e-38)).any():
        total = sum_odd(product, c.astype(np.float64))
    return total.astype(np.float32)


def each_exactly(function: Callable[..., object], *values: Array) -> Array:
    """`function` on Python numbers, element by element, for operations that NumPy can't do exactly."""
    results: Array = np.frompyfunc(function, len(values), 1)(*values)
    return results
