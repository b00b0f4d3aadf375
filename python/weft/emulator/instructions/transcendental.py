"""Approximate functions, computed in float64 and rounded: well within the errors that PTX documents."""

from math import factorial, log, sqrt
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.steps import compute
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions.floating import Format, Function, approximate_f64
from weft.emulator.numerics.floats import Doubles
from weft.emulator.reading.types import Array

table = Table()
_EXPONENT_BITS = 52
_BIAS = 1023
_MOST = 1000.0
_TERMS = 14
"""Of the series of 2**x for |x| <= 1/2: the rest is below 2**-60."""
_LOG_TERMS = 12
"""Of the series of log2(x) for x from sqrt(1/2) to sqrt(2): the rest is below 2**-60."""


def _exp2(x: Doubles) -> Doubles:
    """2**x, by the same operations on every host and in compiled code; NumPy's depends on the host."""
    near = np.minimum(np.maximum(x, -_MOST), _MOST)
    whole = np.rint(np.where(np.isnan(x), 0.0, near))
    rest = near - whole
    total: Any = np.float64(log(2) ** _TERMS / factorial(_TERMS))
    for power in range(_TERMS - 1, -1, -1):
        total = total * rest + np.float64(log(2) ** power / factorial(power))
    scale = (whole.astype(np.int64) + np.int64(_BIAS)) << np.int64(_EXPONENT_BITS)
    value: Doubles = total * scale.view(np.float64)
    return value


def _log2(x: Doubles) -> Doubles:
    """The binary logarithm of a number that isn't subnormal in float64, likewise."""
    bits = x.view(np.int64)
    one, least = np.int64(_BIAS << _EXPONENT_BITS), np.int64((1 << _EXPONENT_BITS) - 1)
    fraction = (bits & least | one).view(np.float64)
    upper = fraction > sqrt(2)
    fraction = np.where(upper, fraction * 0.5, fraction)
    exponent = (bits >> np.int64(_EXPONENT_BITS)) - np.int64(_BIAS) + upper.astype(np.int64)
    part = (fraction - 1.0) / (fraction + 1.0)
    square = part * part
    total: Any = np.float64(2 / log(2) / (2 * _LOG_TERMS + 1))
    for term in range(_LOG_TERMS - 1, -1, -1):
        total = total * square + np.float64(2 / log(2) / (2 * term + 1))
    value = exponent.astype(np.float64) + total * part
    value = np.where(x == np.inf, x, np.where(x == 0, -np.inf, value))
    return np.where(x < 0, np.nan, np.where(np.isnan(x), x, value))


_FUNCTIONS: dict[str, Function] = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "ex2": _exp2,
    "lg2": _log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@table.step(*_FUNCTIONS)
def approximate(op: Op) -> Step:
    wide = _FUNCTIONS[op.prefix]
    if {"ftz", "f64"} <= set(op.modifiers):
        return approximate_f64(op, wide)
    fmt = Format(op)
    op.count(2)

    def function(value: Array) -> Array:
        return wide(value.astype(np.float64)).astype(value.dtype)

    return compute(op.destination(0, fmt.type), fmt.lift(function), op.source(1, fmt.type))
