"""Matrix products as tensor cores compute them, on bits: `d = a @ b + c`.

Sums of floats follow the rules of `weft.isa.accumulation`. Integers and single bits are exact. Doubles are a
chain of fused multiply-adds in the order of k.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from weft.emulator.numerics import floats
from weft.emulator.numerics.directed import in_mode
from weft.emulator.numerics.floats import Doubles, encode, fma_f64
from weft.emulator.numerics.minifloats import values
from weft.emulator.reading.types import Array, Bools
from weft.isa.accumulation import Accumulation
from weft.isa.types import ELEMENT_TYPES

Exponents = npt.NDArray[np.int16]

_LEAST_EXPONENT = {
    "f16": -14,
    "bf16": -126,
    "tf32": -126,
    "f32": -126,
    "e5m2": -14,
    "e4m3": -6,
    "e3m2": -2,
    "e2m3": 0,
    "e2m1": 0,
}
# So low that a product with a zero is never the largest; the accumulator keeps the largest at -126 or
# above.
_ZERO_EXPONENT = -4000
# The exponent of infinity and NaN: above every number's, and small enough for scaling.
_NO_NUMBER_EXPONENT = 128
_QUIET = np.uint64(1 << 51)
_NEW_NAN = np.uint64(0xFFF8000000000000)


def decode(bits: Array, name: str) -> Doubles:
    """The exact values of bits in format `name`; in formats below 16 bits, an element is a byte's code."""
    if name in floats.WIDE:
        return floats.decode(bits, name)
    return _codes(name)[bits]


@cache
def _codes(name: str) -> Doubles:
    """The value of every byte; bits above a narrower code are ignored."""
    table = values("e4m3" if name == "ue4m3" else name)
    codes = np.arange(256) & (127 if name == "ue4m3" else len(table) - 1)
    decoded: Doubles = table[codes].astype(np.float64)
    return decoded


def multiply_accumulate(
    a: Array,
    b: Array,
    c: Array,
    types: tuple[str, str, str, str],
    how: Accumulation | None,
    *,
    satfinite: bool = False,
    bit_op: str = "",
    rounding: str = "",
    scales: tuple[Doubles, Doubles] | None = None,
    absent: Bools | None = None,
) -> Array:
    """`d = a @ b + c` on bits: a `[n, m, k]`, b `[n, k, n']`, c and d `[n, m, n']`.

    `types` are those of a, b, c and d. Without a rule the sum is computed in float64 and rounded to d's type
    once. `scales` multiply blocks of k of A's rows and B's columns: `[n, m, blocks]` and `[n, blocks, n']`.
    `absent` are the elements that a sparse A doesn't store; they contribute no product, not even of NaN.
    """
    a_type, b_type, c_type, d_type = types
    if a_type == "b1":
        return _wrapped(_popcounts(a, b, bit_op) + c.view(np.int32), satfinite)
    if ELEMENT_TYPES[a_type].kind in ("int", "uint"):
        product = (_integers(a, a_type) @ _integers(b, b_type)).astype(np.int64)
        return _wrapped(product + c.view(np.int32), satfinite)
    left, right, total = decode(a, a_type), decode(b, b_type), decode(c, c_type)
    if a_type == "f64":
        return _chain(left, right, total, rounding or "rn")
    if how is None:
        if scales is not None:
            left, right = left * spread(scales[0], left, 2), right * spread(scales[1], right, 1)
        return encode(_plain(left, right, absent) + total, d_type)
    if how.order == "halves":
        # The inputs are converted to f16, in which e4m3's subnormal numbers are normal.
        types = ("f16", "f16", c_type, d_type)
    terms = _Terms(left, right, types, scales, how.group, absent)
    if d_type == "f16" and c_type != "f16":
        # The sum is rounded to f32, and then to f16.
        return encode(_accumulated(terms, total, c_type, how, absent), d_type)
    return encode(_accumulated(terms, total, d_type, how, absent), d_type)


def _plain(left: Doubles, right: Doubles, absent: Bools | None) -> Doubles:
    product: Doubles = left @ right
    if absent is None or np.isfinite(right).all():
        return product
    terms = np.where(absent[:, :, :, None], 0.0, left[:, :, :, None] * right[:, None, :, :])
    sums: Doubles = terms.sum(axis=2)
    return sums


def _integers(bits: Array, name: str) -> Doubles:
    element = ELEMENT_TYPES[name]
    if element.kind == "uint":
        return bits.astype(np.float64)
    sign = 1 << (element.bits - 1)
    return ((bits.astype(np.int16) ^ sign) - sign).astype(np.float64)


def _wrapped(total: Array, satfinite: bool) -> Array:
    """Sums as 32 bits: clamped if `satfinite`, otherwise truncated."""
    if satfinite:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return total.astype(np.int64).astype(np.uint64).astype(np.uint32)


def _popcounts(a: Array, b: Array, bit_op: str) -> Array:
    """The number of k at which both bits are set (`and.popc`), or one of them (`xor.popc`)."""
    left, right = a.astype(np.float64), b.astype(np.float64)
    both = left @ right
    if bit_op.startswith("xor"):
        both = left.sum(axis=2)[:, :, None] + right.sum(axis=1)[:, None, :] - 2 * both
    return both.astype(np.int64)


def _chain(left: Doubles, right: Doubles, total: Doubles, mode: str) -> Array:
    """Of several NaN, b's is kept, otherwise the sum's, otherwise a's; a new NaN is negative."""
    fma = fma_f64 if mode == "rn" else in_mode("fma", mode)
    for k in range(left.shape[2]):
        a, b = map(np.ascontiguousarray, np.broadcast_arrays(left[:, :, k, None], right[:, k, None, :]))
        value = fma(a, b, total)
        unordered = np.isnan(value)
        if unordered.any():
            nan = np.full(value.shape, _NEW_NAN)
            for source in (a, total, b):
                nan = np.where(np.isnan(source), source.view(np.uint64) | _QUIET, nan)
            value = np.where(unordered, nan.view(np.float64), value)
        total = value
    return total.view(np.uint64)


def spread(scale: Doubles, like: Doubles, axis: int) -> Doubles:
    """Block scales, repeated for every k."""
    return np.repeat(scale, like.shape[axis] // scale.shape[axis], axis=axis)


class _Terms:
    """The `depth` products of every sum, which are added one by one or in groups of k."""

    def __init__(
        self,
        left: Doubles,
        right: Doubles,
        types: tuple[str, str, str, str],
        scales: tuple[Doubles, Doubles] | None,
        group: int,
        absent: Bools | None,
    ) -> None:
        left_exponent, right_exponent = exponents(left, types[0]), exponents(right, types[1])
        if scales is not None:
            by_row, by_column = spread(scales[0], left, 2), spread(scales[1], right, 1)
            left_exponent = left_exponent + powers(by_row)
            right_exponent = right_exponent + powers(by_column)
            left, right = left * by_row, right * by_column
        self._left = np.ascontiguousarray(left.transpose(2, 0, 1))
        self._right = np.ascontiguousarray(right.transpose(1, 0, 2))
        self._left_exponent = left_exponent.transpose(2, 0, 1)
        self._right_exponent = right_exponent.transpose(1, 0, 2)
        self.depth = self._left.shape[0]
        self.element_bytes = max(1, ELEMENT_TYPES[types[0]].bits // 8)
        self._group = group
        self._absent = None
        if absent is not None and not np.isfinite(right).all():
            self._absent = absent.transpose(2, 0, 1)[:, :, :, None]

    def of(self, part: slice | Array) -> tuple[Doubles, Exponents]:
        """The products of some k, `[terms, n, m, n']`, and the largest exponent in each sum.

        The factors' exponents count, so a product of significands of 2 or more is not normalized first.
        """
        left, right = self._left[part], self._right[part]
        products = left[:, :, :, None] * right[:, :, None, :]
        if self._absent is not None:
            products = np.where(self._absent[part], 0.0, products)
        if self._group:
            products = products.reshape(-1, self._group, *products.shape[1:]).sum(axis=1)
            return products, np.maximum.reduce(powers(products), axis=0)
        wide = self._left_exponent[part][:, :, :, None] + self._right_exponent[part][:, :, None, :]
        return products, np.maximum.reduce(wide, axis=0)


def powers(value: Doubles) -> Exponents:
    """The exponents of float64 values; very low for zero."""
    exponent = ((value.view(np.int64) >> np.int64(52)) & np.int64(0x7FF)).astype(np.int16) - np.int16(1023)
    exponents: Exponents = np.where(value == 0, np.int16(_ZERO_EXPONENT // 2), np.minimum(exponent, 256))
    return exponents.astype(np.int16)


def _accumulated(
    terms: _Terms, total: Doubles, d_type: str, how: Accumulation, absent: Bools | None
) -> Doubles:
    """The sum of all terms and C by the rule, in D's type."""
    if how.order == "halves":
        # A sparse A's pairs represent chunks of four.
        first = np.arange(terms.depth) % 4 < 2 if absent is None else np.arange(terms.depth) % 8 < 4
        half = _sum(terms, first, np.zeros_like(total), d_type, how)
        return nearest(_sum(terms, ~first, half, d_type, how), total, d_type)
    if how.order:
        products, _ = terms.of(slice(None))
        if how.order == "chain":
            value = np.zeros_like(total)
            for product in (*products, total):
                value = nearest(value, product, "f32")
            return value
        for k in range(0, terms.depth, 2):
            total = nearest(total, nearest(products[k], products[k + 1], "f32"), "f32")
        return total
    step = how.step_bytes // terms.element_bytes or terms.depth
    for k in range(0, terms.depth, step):
        total = _sum(terms, slice(k, k + step), total, d_type, how)
    return total


def nearest(a: Doubles, b: Doubles, name: str) -> Doubles:
    """`a + b` rounded to nearest in a format."""
    return decode(encode(floats.sum_odd(a, b), name), name)


def _sum(terms: _Terms, part: slice | Array, total: Doubles, d_type: str, how: Accumulation) -> Doubles:
    """One sum: `total` and the terms of some k, aligned, truncated, added and rounded."""
    products, largest = terms.of(part)
    # For a result of f32, C is converted from f16 to f32; f16's subnormal numbers have the least exponent.
    largest = np.maximum(largest, np.maximum(exponents(total, d_type), np.int16(-126)))
    return _rounded(_aligned_sum(products, total, largest, how.fraction), d_type, how.kept)


def exponents(value: Doubles, name: str) -> Exponents:
    """The exponents of values of a format; a subnormal has that of the least normal number."""
    exponent = ((value.view(np.int64) >> np.int64(52)) & np.int64(0x7FF)).astype(np.int16) - np.int16(1023)
    inside = np.clip(exponent, _LEAST_EXPONENT[name], _NO_NUMBER_EXPONENT)
    return np.where(value == 0, np.int16(_ZERO_EXPONENT), inside)


def _aligned_sum(products: Doubles, c: Doubles, largest: Exponents, fraction: int) -> Doubles:
    """The sum of the products and c, each truncated `fraction` bits below `largest`. Overwrites
    `products`.
    """
    wide = largest.astype(np.int64)
    up = (np.int64(1023 + fraction) - wide << np.int64(52)).view(np.float64)
    down = (np.int64(1023 - fraction) + wide << np.int64(52)).view(np.float64)
    products *= up
    np.trunc(products, out=products)
    total: Doubles = np.add.reduce(products, axis=0)
    total += np.trunc(c * up)
    # It is a sum of integers, which has no negative zero.
    total += 0.0
    total *= down
    return total


def _rounded(total: Doubles, name: str, kept: int) -> Doubles:
    """The sum in the accumulator's format: f32 toward zero, f16 to nearest; overflow gives infinity."""
    if name == "f16":
        # A sum that underflows loses its sign.
        return total.astype(np.float16).astype(np.float64) + 0.0
    # Truncating a float64 rounds to float32 toward zero, except for subnormals, whose last bit is
    # 2**-149.
    bits = total.view(np.uint64) & np.uint64(~((1 << (52 - kept)) - 1) & ((1 << 64) - 1))
    value = bits.view(np.float64)
    size = np.abs(total)
    if not size.max(initial=0.0) < 2.0**128:
        value = np.where(size >= 2.0**128, np.copysign(np.inf, total), value)
        value = np.where(np.isnan(total), np.nan, value)
    small = (size < 2.0**-126) & (size > 0)
    if small.any():
        last = 2.0 ** (126 + kept)
        value = np.where(small, np.trunc(total * last) / last, value)
    return value
