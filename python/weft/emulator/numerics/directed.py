"""float64 arithmetic with directed rounding, on exact fractions, one element at a time."""

from collections.abc import Callable
from fractions import Fraction
from math import inf, isfinite, isinf, isqrt, nextafter

import numpy as np

from weft.emulator.numerics.floats import each_exactly
from weft.emulator.reading.types import Array

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
