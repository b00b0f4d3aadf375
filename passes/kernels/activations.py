"""The activations of `tile.matmul` on vectors of f32 (relu: of i32 too), without CUDA's device library.

`weft.reference` has the error bound of each.
"""

from collections.abc import Callable
from math import e, log2, pi, sqrt
from typing import Any

from weft.mlir import arith, ir, nvvm, vector
from weft.passes.builders import emit


def apply(name: str, lane: Any) -> Any:
    """The activation of every element of a vector."""
    return _ACTIVATIONS[name](lane)


def _relu(x: Any) -> Any:
    """max(x, 0), and NaN of NaN."""
    zero = emit.constant(x.type, 0.0)
    return (
        arith.maxsi(x, zero) if isinstance(x.type.element_type, ir.IntegerType) else arith.maximumf(x, zero)
    )


def _silu(x: Any) -> Any:
    """x / (1 + exp(-x))."""
    return _over_one_and_power(x, arith.mulf(x, emit.constant(x.type, -log2(e))))


def _gelu_tanh(x: Any) -> Any:
    """x * (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)), where u = sqrt(2 / pi) * (x + 0.044715 x^3)."""
    scale = -2 * log2(e) * sqrt(2 / pi)
    inner = _horner(arith.mulf(x, x), (scale, 0.044715 * scale))
    return _over_one_and_power(x, arith.mulf(x, inner))


def _over_one_and_power(x: Any, exponent: Any) -> Any:
    """x / (1 + 2**exponent)."""
    below = arith.addf(emit.constant(x.type, 1.0), _each(_power, exponent))
    return arith.mulf(x, _each(nvvm.rcp_approx_ftz_f, below))


# Phi(-a) = exp(-a^2 / 2) * (C1 t + C2 t^2 + ...) with t = 1 / (1 + _TAIL_SCALE a), for a from 0 on:
# a * Phi(-a) comes within 4e-9 of the exact one (a minimax fit in float64, weights after Lawson).
_TAIL_SCALE = 0.28
_TAIL = (
    0.11710897833108902,
    0.06379159539937973,
    0.27818194031715393,
    -0.24851739406585693,
    0.3969896137714386,
    -0.10755478590726852,
)
_FAR = 14.0  # beyond it a * Phi(-a) is 0 in f32


def _gelu(x: Any) -> Any:
    """x * Phi(x) = max(x, 0) - a * Phi(-a) with a = |x|, cut off where that is 0 so that infinity works."""
    kind = x.type
    a = arith.minimumf(_magnitude(x), emit.constant(kind, _FAR))
    below = _horner(a, (1.0, _TAIL_SCALE))
    t = _each(nvvm.rcp_approx_ftz_f, below)
    tail = arith.mulf(t, _horner(t, _TAIL))
    exponent = arith.mulf(arith.mulf(a, a), emit.constant(kind, -log2(e) / 2))
    tail = arith.mulf(tail, _each(_power, exponent))
    return arith.subf(_relu(x), arith.mulf(a, tail))


def _magnitude(x: Any) -> Any:
    bits = ir.VectorType.get(x.type.shape, emit.i32())
    return arith.bitcast(x.type, arith.andi(arith.bitcast(bits, x), emit.constant(bits, 0x7FFFFFFF)))


def _horner(x: Any, coefficients: tuple[float, ...]) -> Any:
    """The polynomial with these coefficients, the constant one first."""
    flags = arith.FastMathFlags.contract
    total = emit.constant(x.type, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        product = arith.mulf(total, x, fastmath=flags)
        total = arith.addf(product, emit.constant(x.type, coefficient), fastmath=flags)
    return total


def _power(x: Any) -> Any:
    return nvvm.ex2(x, ftz=True)


def _each(function: Callable[[Any], Any], lane: Any) -> Any:
    """The vector of a scalar function of every element."""
    return vector.from_elements(lane.type, [function(element) for element in emit.elements(lane)])


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
}
