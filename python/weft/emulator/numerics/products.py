"""Matrix products as tensor cores compute them: by code of this host where there is some, otherwise by
`arithmetic`, which defines the bits.
"""

from collections import defaultdict
from functools import cache

import numpy as np

from weft.emulator.numerics import arithmetic, native_sums
from weft.emulator.numerics.arithmetic import exponents
from weft.emulator.numerics.floats import NAN_BITS, Doubles, encode
from weft.emulator.numerics.native_sums import COLUMNS, Rule
from weft.emulator.reading.types import Array, Bools
from weft.isa.accumulation import Accumulation
from weft.isa.types import ELEMENT_TYPES

Scales = tuple[Doubles, Doubles]
Operand = tuple[Doubles, Doubles]
"""Values, and their exponents as float64."""

_WORTH = 1 << 21
"""The multiply-adds by a rule after which it is compiled: NumPy takes as long for them as the compiler."""
_done: defaultdict[Rule, int] = defaultdict(int)
_ORDERS = ("", "halves")
INTEGERS = Rule(0, 0, 0, 0, 0, half=False)
"""Stands for the sums of integers, which have no rule."""


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
    scales: Scales | None = None,
    absent: Bools | None = None,
) -> Array:
    """`d = a @ b + c`, with the arguments and the bits of `arithmetic.multiply_accumulate`."""
    plain = how is None or how.order not in _ORDERS or ELEMENT_TYPES[types[0]].kind != "float"
    if how is not None and not plain and types[0] != "f64" and b.shape[2] % COLUMNS == 0:
        rules = rules_of(how, types, a.shape[2], sparse=absent is not None)
        if is_worth(rules, a.size * b.shape[2]):
            d = _native(a, b, c, types, rules, scales, absent)
            if d is not None:
                return d
    return arithmetic.multiply_accumulate(
        a,
        b,
        c,
        types,
        how,
        satfinite=satfinite,
        bit_op=bit_op,
        rounding=rounding,
        scales=scales,
        absent=absent,
    )


@cache
def rules_of(
    how: Accumulation, types: tuple[str, str, str, str], depth: int, *, sparse: bool
) -> tuple[tuple[Rule, tuple[int, ...]], ...]:
    """The sums that make a product, each with the k that it takes (none: all)."""
    a_type, _, c_type, d_type = types
    total = c_type if d_type == "f16" else d_type
    if how.order == "halves":
        first = np.arange(depth) % 8 < 4 if sparse else np.arange(depth) % 4 < 2
        rule = Rule.of(how, depth // 2, depth // 2, total)
        return tuple((rule, tuple(np.flatnonzero(part).tolist())) for part in (first, ~first))
    step = how.step_bytes // max(1, ELEMENT_TYPES[a_type].bits // 8) or depth
    return ((Rule.of(how, depth, step, total), ()),)


def is_worth(rules: tuple[tuple[Rule, tuple[int, ...]], ...], work: int) -> bool:
    """Whether to compile these sums, of which so many multiply-adds are wanted now."""
    rule = rules[0][0]
    _done[rule] += work
    return _done[rule] > _WORTH


def is_worth_integers(work: int) -> bool:
    """Whether to compile the sums of integers, of which so many multiply-adds are wanted now."""
    _done[INTEGERS] += work
    return _done[INTEGERS] > _WORTH


def _native(
    a: Array,
    b: Array,
    c: Array,
    types: tuple[str, str, str, str],
    rules: tuple[tuple[Rule, tuple[int, ...]], ...],
    scales: Scales | None,
    absent: Bools | None,
) -> Array | None:
    """The product by compiled sums; None if a sparse A meets infinity or NaN, which those don't know."""
    a_type, b_type, c_type, d_type = types
    halves = len(rules) > 1
    left = _operand(a, a_type, "f16" if halves else a_type)
    right = _operand(b, b_type, "f16" if halves else b_type)
    if absent is not None and not np.isfinite(right[0]).all():
        return None
    if scales is not None:
        left, right = _scaled(left, scales[0], 2), _scaled(right, scales[1], 1)
    value = arithmetic.decode(c, c_type)
    half = rules[0][0].half
    total = value if half else value.astype(np.float32)
    if halves:
        sums = np.zeros_like(total)
        for rule, part in rules:
            at = list(part)
            x = left[0][:, :, at], left[1][:, :, at]
            y = right[0][:, at], right[1][:, at]
            sums = native_sums.sums(x, y, sums, rule)
        return encode(arithmetic.nearest(sums.astype(np.float64), value, "f16" if half else "f32"), d_type)
    total = native_sums.sums(left, right, total, rules[0][0])
    return total.view(np.uint32) if not half and d_type == "f32" else encode(total.astype(np.float64), d_type)


def _operand(bits: Array, name: str, like: str) -> Operand:
    """The values of bits in format `name`, with the exponents that they have in format `like`."""
    if ELEMENT_TYPES[name].bits > 16:
        value = arithmetic.decode(bits, name)
        return value, exponents(value, like).astype(np.float64)
    values, powers = table_of(name, like)
    return values.take(bits), powers.take(bits)


@cache
def table_of(name: str, like: str) -> Operand:
    """The value and the exponent of every code."""
    count = 1 << (16 if name in NAN_BITS else 8)
    codes = np.arange(count).astype(np.uint16 if count > 256 else np.uint8)
    value = arithmetic.decode(codes, name)
    return value, exponents(value, like).astype(np.float64)


def _scaled(operand: Operand, scale: Doubles, axis: int) -> Operand:
    spread = arithmetic.spread(scale, operand[0], axis)
    return operand[0] * spread, operand[1] + arithmetic.powers(spread)
