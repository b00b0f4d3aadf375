"""Matrix products as tensor cores compute them, on bits: `d = a @ b + c`.

Sums of floats follow the rules of `weft.isa.accumulation`. Integers and single bits are exact. Doubles are a
chain of fused multiply-adds in the order of k.

float64 arithmetic with directed rounding, on exact fractions, one element at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf, isfinite, isinf, isqrt, nextafter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.numerics import floats
from weft.emulator.numerics.floats import Doubles, each_exactly, encode, fma_f64, values
from weft.emulator.reading.syntax import Array, Bools
from weft.isa.accumulation import Accumulation
from weft.isa.types import ELEMENT_TYPES

Exact = Callable[..., Fraction]


def in_mode(name: str, mode: str) -> Callable[..., Array]:
    """add, sub, mul, fma, div, rcp or sqrt on float64 arrays, rounded by `mode` (rz, rm or rp)."""
    exact, plain = _OPERATIONS[name]

    def one(*operands: float) -> float:
        nearest = plain(*(np.float64(x) for x in operands))
        if name == "fma" and isfinite(operands[0]) and isfinite(operands[1]) and isinf(operands[2]):
            return operands[2]  # even if the product would overflow
        if not all(isfinite(x) for x in operands) or (name == "sqrt" and np.isnan(nearest)):
            return float(nearest)
        if name in ("div", "rcp") and operands[-1] == 0:
            return float(nearest)
        value = exact(*(Fraction(x) for x in operands))
        if value == 0:
            # A sum that cancels is negative zero only when rounded down.
            cancels = name in ("add", "sub", "fma") and mode == "rm" and not _all_positive(name, operands)
            return -0.0 if cancels else float(nearest)
        if name == "sqrt":
            return _root(value, mode)
        return _round(value, mode)

    return lambda *values: each_exactly(one, *values).astype(np.float64)


def _all_positive(name: str, operands: tuple[float, ...]) -> bool:
    signs = [bool(np.signbit(x)) for x in operands]
    if name == "fma":
        return not (signs[0] ^ signs[1]) and not signs[2]
    return not signs[0] and signs[1] == (name == "sub")


def _round(value: Fraction, mode: str) -> float:
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        nearest = inf if value > 0 else -inf
    above = nearest == inf or (isfinite(nearest) and Fraction(nearest) > value)
    below = nearest == -inf or (isfinite(nearest) and Fraction(nearest) < value)
    down = mode == "rm" or (mode == "rz" and value > 0)
    if above and down:
        return nextafter(nearest, -inf)
    if below and not down:
        return nextafter(nearest, inf)
    return nearest


def _root(value: Fraction, mode: str) -> float:
    """The square root. It is rounded from a multiple of 2**-600 just below it."""
    scale = 1200 + 2 * value.denominator.bit_length()
    scaled = (value.numerator << scale) // value.denominator
    root = isqrt(scaled)
    exact = root * root * value.denominator == value.numerator << scale
    return _round(Fraction(2 * root + (not exact), 2 << (scale // 2)), mode)


_OPERATIONS: dict[str, tuple[Exact, Callable[..., np.float64]]] = {
    "add": (lambda x, y: x + y, lambda x, y: x + y),
    "sub": (lambda x, y: x - y, lambda x, y: x - y),
    "mul": (lambda x, y: x * y, lambda x, y: x * y),
    "fma": (lambda x, y, z: x * y + z, lambda x, y, z: x * y + z),
    "div": (lambda x, y: x / y, lambda x, y: x / y),
    "rcp": (lambda x: 1 / x, lambda x: np.float64(1) / x),
    "sqrt": (lambda x: x, lambda x: np.float64(np.sqrt(x))),
}


Exponents = npt.NDArray[np.int16]
Operand = tuple[Doubles, Exponents]
"""Values, and their exponents."""

_LEAST_EXPONENT = {"f16": -14, "e5m2": -14, "e4m3": -6, "e3m2": -2, "e2m3": 0, "e2m1": 0}
_LEAST_EXPONENT |= dict.fromkeys(("bf16", "tf32", "f32"), -126)
# So low that a product with a zero is never the largest; the accumulator keeps the largest at -126 or
# above.
_ZERO_EXPONENT = -4000
# The exponent of infinity and NaN: above every number's, and small enough for scaling.
_NO_NUMBER_EXPONENT = 128
_MOST_EXPONENT = 256
_QUIET = np.uint64(1 << 51)
_NEW_NAN = np.uint64(0xFFF8000000000000)


class Rule(NamedTuple):
    """`depth` products enter a sum, in steps of `step` that are rounded one by one; with `group`, that many
    products enter as one exact term. `half`: D is f16, otherwise it is f32 and keeps `kept` fraction bits.
    """

    depth: int
    step: int
    group: int
    fraction: int
    kept: int
    half: bool

    @classmethod
    def of(cls, how: Accumulation, depth: int, step: int, d_type: str) -> "Rule":
        return cls(depth, step, how.group, how.fraction, how.kept, d_type == "f16")


def decode(bits: Array, name: str) -> Doubles:
    """The exact values of bits in format `name`; in formats below 16 bits, an element is a byte's code."""
    return floats.decode(bits, name) if name in floats.WIDE else _codes(name)[bits]


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
    add: "Add | None" = None,
) -> Array:
    """`d = a @ b + c` on bits: a `[n, m, k]`, b `[n, k, n']`, c and d `[n, m, n']`.

    `types` are those of a, b, c and d. Without a rule the sum is computed in float64 and rounded to d's type
    once. `scales` multiply blocks of k of A's rows and B's columns: `[n, m, blocks]` and `[n, blocks, n']`.
    `absent` are the elements that a sparse A doesn't store; they contribute no product, not even of NaN.
    `add` computes each sum by the rule, with the bits of `aligned_sum`.
    """
    a_type, b_type, c_type, d_type = types
    if a_type == "b1":
        return _wrapped(_popcounts(a, b, bit_op) + c.view(np.int32), satfinite)
    if ELEMENT_TYPES[a_type].kind in ("int", "uint"):
        product = (_integers(a, a_type) @ _integers(b, b_type)).astype(np.int64)
        return _wrapped(product + c.view(np.int32), satfinite)
    if a_type == "f64":
        return _chain(decode(a, a_type), decode(b, b_type), decode(c, c_type), rounding or "rn")
    by_row = by_column = None
    if scales is not None:
        by_row = np.repeat(scales[0], a.shape[2] // scales[0].shape[2], axis=2)
        by_column = np.repeat(scales[1], b.shape[1] // scales[1].shape[1], axis=1)
    total = decode(c, c_type)
    if how is None:
        left, right = decode(a, a_type), decode(b, b_type)
        left, right = (x if y is None else x * y for x, y in ((left, by_row), (right, by_column)))
        return encode(_plain(left, right, absent) + total, d_type)
    # By halves, the inputs are converted to f16, in which e4m3's subnormal numbers are normal.
    like = ("f16", "f16") if how.order == "halves" else (a_type, b_type)
    rows, columns = _operand(a, a_type, like[0], by_row), _operand(b, b_type, like[1], by_column)
    matters = absent is not None and not np.isfinite(columns[0]).all()
    terms = Terms(rows, columns, how.group, absent if matters else None)
    # For a result of f16 from C of f32, the sum is rounded to f32, and then to f16.
    like_d, sparse = c_type if d_type == "f16" else d_type, absent is not None
    step = how.step_bytes // max(1, ELEMENT_TYPES[like[0]].bits // 8)
    d = _accumulated(terms, total, like_d, how, step, add or aligned_sum, sparse=sparse)
    return encode(d, d_type) if d.dtype == np.float64 or d_type != "f32" else d.view(np.uint32)


def _operand(bits: Array, name: str, like: str, scales: Doubles | None) -> Operand:
    """The values of bits of format `name`, times their scales, with their exponents in format `like`."""
    if ELEMENT_TYPES[name].bits <= 16:
        values, exponents_ = _table(name, like)
        value, exponent = values.take(bits), exponents_.take(bits)
    else:
        value = decode(bits, name)
        exponent = exponents(value, like)
    return (value, exponent) if scales is None else (value * scales, exponent + powers(scales))


@cache
def _table(name: str, like: str) -> Operand:
    codes = np.arange(1 << 16).astype(np.uint16) if name in floats.WIDE else np.arange(256).astype(np.uint8)
    value = decode(codes, name)
    return value, exponents(value, like)


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


@dataclass
class Terms:
    """The products of every sum: those of A `[n, m, k]` and B `[n, k, n']`, added one by one or in groups of
    k. `absent` are the elements that A doesn't store, if that matters.
    """

    left: Operand
    right: Operand
    group: int
    absent: Bools | None = None

    @property
    def depth(self) -> int:
        return self.left[0].shape[2]

    def only(self, part: Bools) -> "Terms":
        """Those of some k."""
        absent = None if self.absent is None else self.absent[:, :, part]
        (left, left_power), (right, right_power) = self.left, self.right
        rows = left[:, :, part], left_power[:, :, part]
        return Terms(rows, (right[:, part], right_power[:, part]), self.group, absent)

    def of(self, part: slice) -> tuple[Doubles, Exponents]:
        """Those of some k, `[terms, n, m, n']`, and the largest exponent in each sum."""
        of_a, of_b = (2, 0, 1), (1, 0, 2)
        (left, left_power), (right, right_power) = self.left, self.right
        rows, row_powers = np.ascontiguousarray(left.transpose(of_a)[part]), left_power.transpose(of_a)[part]
        products = rows[..., None] * right.transpose(of_b)[part][:, :, None]
        powers = np.ascontiguousarray(row_powers)[..., None] + right_power.transpose(of_b)[part][:, :, None]
        if self.absent is not None:
            products = np.where(self.absent.transpose(of_a)[part][..., None], 0.0, products)
        return joined(products, powers, self.group)


Add = Callable[[Terms, Doubles, Rule], Doubles]
"""The sum of terms and C by a rule."""


def joined(products: Doubles, exponents: Exponents, group: int) -> tuple[Doubles, Exponents]:
    """The terms of sums, and the largest exponent in each: products by k, one by one or in groups.

    The factors' exponents count, so a product of significands of 2 or more is not normalized first.
    """
    if not group:
        return products, np.maximum.reduce(exponents, axis=0)
    groups = np.add.reduceat(products, range(0, len(products), group), axis=0)
    return groups, np.maximum.reduce(powers(groups), axis=0)


def powers(value: Doubles) -> Exponents:
    """The exponents of float64 values; very low for zero."""
    powers: Exponents = np.where(
        value == 0, np.int16(_ZERO_EXPONENT // 2), np.minimum(_exponent(value), np.int16(_MOST_EXPONENT))
    )
    return powers


def exponents(value: Doubles, name: str) -> Exponents:
    """The exponents of values of a format; a subnormal has that of the least normal number."""
    inside = np.clip(_exponent(value), _LEAST_EXPONENT[name], _NO_NUMBER_EXPONENT)
    return np.where(value == 0, np.int16(_ZERO_EXPONENT), inside)


def _exponent(value: Doubles) -> Exponents:
    """The exponents in the bits of float64 values."""
    return ((value.view(np.int64) >> np.int64(52)) & np.int64(0x7FF)).astype(np.int16) - np.int16(1023)


def _accumulated(
    terms: Terms, total: Doubles, d_type: str, how: Accumulation, step: int, add: Add, *, sparse: bool
) -> Doubles:
    """The sum of all terms and C by the rule, in D's type."""
    if how.order == "halves":
        # A sparse A's pairs represent chunks of four.
        first = np.arange(terms.depth) % 8 < 4 if sparse else np.arange(terms.depth) % 4 < 2
        rule = Rule.of(how, terms.depth // 2, terms.depth // 2, d_type)
        half = add(terms.only(first), np.zeros_like(total), rule)
        return nearest(add(terms.only(~first), half, rule), total, d_type)
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
    return add(terms, total, Rule.of(how, terms.depth, step or terms.depth, d_type))


def nearest(a: Doubles, b: Doubles, name: str) -> Doubles:
    """`a + b` rounded to nearest in a format."""
    return decode(encode(floats.sum_odd(a.astype(np.float64), b), name), name)


def aligned_sum(terms: Terms, total: Doubles, rule: Rule) -> Doubles:
    """Sums of `total` and terms, aligned, truncated, added and rounded."""
    for k in range(0, rule.depth, rule.step):
        total = rounded_sum(*terms.of(slice(k, k + rule.step)), total, rule)
    return total


def rounded_sum(terms: Doubles, largest: Exponents, total: Doubles, rule: Rule) -> Doubles:
    """The sum of `total` and terms, each truncated some bits below the largest exponent, in D's type.
    Overwrites the terms. `native_sums` makes code for the host of it.
    """
    # For a result of f32, C is converted from f16 to f32; f16's subnormal numbers have the least exponent.
    least = np.maximum(exponents(total, "f16" if rule.half else "f32"), np.int16(-126))
    wide = np.maximum(largest, least).astype(np.int64)
    up = (np.int64(1023 + rule.fraction) - wide << np.int64(52)).view(np.float64)
    down = (np.int64(1023 - rule.fraction) + wide << np.int64(52)).view(np.float64)
    terms *= up
    np.trunc(terms, out=terms)
    # It is a sum of integers, which has no negative zero.
    result: Doubles = np.add.reduce(terms, axis=0)
    result += np.trunc(total * up)
    result += 0.0
    result *= down
    return _to_half(result) if rule.half else _to_single(result, rule.kept)


def _to_half(total: Doubles) -> Doubles:
    """Numbers rounded to f16, to nearest even. A number that underflows loses its sign."""
    size = np.abs(total)
    power = np.maximum(size.view(np.int64) & np.int64(0x7FF << 52), np.int64(1023 - 14 << 52))
    # Adding 1.5 * 2**42 times the power of two rounds to ten bits below it.
    big = (power + np.int64(42 << 52 | 1 << 51)).view(np.float64)
    value = total + big
    value -= big
    value += 0.0
    return _overflow(total, size, value, 65520.0)


def _to_single(total: Doubles, kept: int) -> Doubles:
    """Numbers truncated to `kept` fraction bits, and to multiples of the least subnormal number."""
    size = np.abs(total)
    bits = total.view(np.int64) & np.int64(-1 << 52 - kept)
    value = _overflow(total, size, bits.view(np.float64), 2.0**128)
    small = (size < 2.0**-126) & (size > 0)
    if small.any():
        tiny = np.trunc(total * 2.0 ** (126 + kept)) * 2.0 ** -(126 + kept)
        value = np.where(small, tiny, value)
    return value


def _overflow(total: Doubles, size: Doubles, value: Doubles, bound: float) -> Doubles:
    """`value`; from a size of `bound` on, an infinity with the sign of `total`, or NaN."""
    over = ~(size < bound)
    if over.any():
        value = np.where(over, np.copysign(np.inf, total), value)
        value = np.where(np.isnan(total), total, value)
    return value
