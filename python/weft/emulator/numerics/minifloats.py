"""The formats of fewer than 16 bits: their values, and rounding to nearest, up or stochastically.

A format's name gives its fields: e4m3 has four exponent and three fraction bits after the sign. ue8m0 is a
power of two and has no sign; s2f6 is an integer of eight bits in units of 1/64.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from weft.emulator.reading.types import Array

Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]

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
    if name == "ue8m0":
        powers = np.ldexp(np.float32(1), np.arange(256) - 127).astype(np.float32)
        powers[255] = np.nan
        return powers
    if name == "s2f6":
        return np.arange(256).astype(np.int8).astype(np.float32) / np.float32(64)
    exponent_bits, fraction_bits = _FIELDS[name]
    codes = np.arange(1 << (1 + exponent_bits + fraction_bits))
    exponent = codes >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = codes & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    lead = np.where(exponent > 0, 1 << fraction_bits, 0)
    size = np.ldexp((lead + fraction).astype(np.float32), np.maximum(exponent, 1) - bias - fraction_bits)
    size[(exponent == 15) & (fraction == 7)] = np.nan  # e4m3's; no other format has such a code
    if name == "e5m2":
        size[exponent == 31] = np.where(fraction[exponent == 31] == 0, np.inf, np.nan)
    negative = codes >> (exponent_bits + fraction_bits) & 1
    signed: npt.NDArray[np.float32] = np.where(negative, -size, size).astype(np.float32)
    return signed


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
    """The codes of `value`, saturated. Rounds to nearest even, or with `noise` (16 random bits)
    stochastically.
    """
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


def encode_ue8m0(bits: Array, up: bool, finite: bool) -> Bytes:
    """float32 bits as powers of two, rounded toward zero or up; the sign is dropped, and NaN is 0xff."""
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
