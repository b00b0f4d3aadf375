"""The activations of `tile.matmul` on f32 (relu: on i32 too) and their derivatives, on scalars, vectors
and tiles, without CUDA's device library.

`weft.dialects.activations` has the error bound of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import e, log2, pi, sqrt

from weft.mlir import arith, ir, math
from weft.passes.builders import emit
from weft.passes.raising.formulas import Formula, X, called, number, sigmoid


def apply(name: str, lane: ir.Value) -> ir.Value:
    """The activation of a scalar, or of every element of a vector or tile."""
    return KERNELS[name].value(lane)


def derivative(name: str, lane: ir.Value) -> ir.Value:
    """The derivative of an activation at every element of f32."""
    return KERNELS[name].derivative(lane)


def _relu(x: ir.Value) -> ir.Value:
    """max(x, 0), and NaN of NaN."""
    zero = emit.constant(x.type, 0.0)
    return (
        arith.maxsi(x, zero)
        if isinstance(emit.element_of(x.type), ir.IntegerType)
        else arith.maximumf(x, zero)
    )


def _silu(x: ir.Value) -> ir.Value:
    """x / (1 + exp(-x))."""
    return _over_one_and_power(x, arith.mulf(x, emit.constant(x.type, -log2(e))))


def _gelu_tanh(x: ir.Value) -> ir.Value:
    """x * (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)), where u = sqrt(2 / pi) * (x + 0.044715 x^3)."""
    scale = -2 * log2(e) * sqrt(2 / pi)
    inner = _horner(arith.mulf(x, x), (scale, 0.044715 * scale))
    return _over_one_and_power(x, arith.mulf(x, inner))


def _over_one_and_power(x: ir.Value, exponent: ir.Value) -> ir.Value:
    """x / (1 + 2**exponent)."""
    return arith.mulf(x, _one_over_one_and_power(exponent))


def _one_over_one_and_power(exponent: ir.Value) -> ir.Value:
    return reciprocal(arith.addf(emit.constant(exponent.type, 1.0), power(exponent)))


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


def _gelu(x: ir.Value) -> ir.Value:
    """x * Phi(x) = max(x, 0) - a * Phi(-a) with a = |x|, cut off where that is 0 so that infinity works."""
    a = arith.minimumf(_magnitude(x), emit.constant(x.type, _FAR))
    tail = arith.mulf(_tail(a), _gauss(a))
    return arith.subf(_relu(x), arith.mulf(a, tail))


# erf(x) = x * (C0 + C1 x^2 + ...) for x in -1..1, within 2e-7 of it (a fit at Chebyshev's nodes).
_ERF = (
    1.1283791273927477,
    -0.3761234978454077,
    0.11280364408027753,
    -0.026716385096503023,
    0.0049232776650639035,
    -0.0005654105859125872,
)
_SIGN = -(2**31)


def erf(x: ir.Value) -> ir.Value:
    """The error function of every element of f32, within 3e-7 of it."""
    size, bits = _magnitude(x), emit.with_elements(x.type, emit.i32())
    near = arith.mulf(x, _horner(arith.mulf(x, x), _ERF))
    a = arith.minimumf(arith.mulf(size, emit.constant(x.type, sqrt(2))), emit.constant(x.type, _FAR))
    tail = arith.mulf(_tail(a), _gauss(a))  # Phi(-a) = (1 - erf(|x|)) / 2
    far = arith.subf(emit.constant(x.type, 1.0), arith.addf(tail, tail))
    sign = arith.andi(arith.bitcast(bits, x), emit.constant(bits, _SIGN))
    far = arith.bitcast(x.type, arith.ori(arith.bitcast(bits, far), sign))
    return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, size, emit.constant(x.type, 1.0)), near, far)


def _tail(a: ir.Value) -> ir.Value:
    """Phi(-a) / exp(-a^2 / 2)."""
    t = reciprocal(_horner(a, (1.0, _TAIL_SCALE)))
    return arith.mulf(t, _horner(t, _TAIL))


def _gauss(a: ir.Value) -> ir.Value:
    """exp(-a^2 / 2)."""
    return power(arith.mulf(arith.mulf(a, a), emit.constant(a.type, -log2(e) / 2)))


def _step(x: ir.Value) -> ir.Value:
    """1 above 0, otherwise 0."""
    zero = emit.constant(x.type, 0.0)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, x, zero), emit.constant(x.type, 1.0), zero)


def _of_silu(x: ir.Value) -> ir.Value:
    """s (1 + x (1 - s)) with s = 1 / (1 + exp(-x))."""
    s = _one_over_one_and_power(arith.mulf(x, emit.constant(x.type, -log2(e))))
    return _of_quotient(x, s, emit.constant(x.type, 1.0))


def _of_gelu_tanh(x: ir.Value) -> ir.Value:
    """s (1 + x (1 - s) 2u') with s = 1 / (1 + exp(-2 u))."""
    scale, square = 2 * sqrt(2 / pi), arith.mulf(x, x)
    inner = _horner(square, (-log2(e) * scale, -log2(e) * 0.044715 * scale))
    return _of_quotient(
        x, _one_over_one_and_power(arith.mulf(x, inner)), _horner(square, (scale, 3 * 0.044715 * scale))
    )


def _of_quotient(x: ir.Value, s: ir.Value, slope: ir.Value) -> ir.Value:
    """s (1 + x (1 - s) slope)."""
    one = emit.constant(x.type, 1.0)
    rest = arith.mulf(arith.mulf(x, arith.subf(one, s)), slope)
    return arith.mulf(s, arith.addf(one, rest))


def _of_gelu(x: ir.Value) -> ir.Value:
    """Phi(x) + x phi(x)."""
    a = arith.minimumf(_magnitude(x), emit.constant(x.type, _FAR))
    gauss, step = _gauss(a), _step(x)
    tail = arith.mulf(_tail(a), gauss)
    above = arith.cmpf(arith.CmpFPredicate.OGT, step, emit.constant(x.type, 0.0))
    one = emit.constant(x.type, 1.0)
    whole = arith.select(above, arith.subf(one, tail), tail)
    bounded = arith.select(above, a, arith.negf(a))
    density = arith.mulf(gauss, emit.constant(x.type, 1 / sqrt(2 * pi)))
    return arith.addf(whole, arith.mulf(bounded, density))


def _magnitude(x: ir.Value) -> ir.Value:
    bits = emit.with_elements(x.type, emit.i32())
    return arith.bitcast(x.type, arith.andi(arith.bitcast(bits, x), emit.constant(bits, 0x7FFFFFFF)))


def _horner(x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
    """The polynomial with these coefficients, the constant one first."""
    flags = arith.FastMathFlags.contract
    total = emit.constant(x.type, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        product = arith.mulf(total, x, fastmath=flags)
        total = arith.addf(product, emit.constant(x.type, coefficient), fastmath=flags)
    return total


def power(x: ir.Value) -> ir.Value:
    """2 to the power of x (`ex2.approx.ftz`)."""
    return math.exp2(x, fastmath=arith.FastMathFlags.afn)


def reciprocal(x: ir.Value) -> ir.Value:
    """1 / x (`rcp.approx.ftz`)."""
    return arith.divf(emit.constant(x.type, 1.0), x, fastmath=arith.FastMathFlags.afn)


@dataclass(frozen=True)
class Kernel:
    """An activation and its derivative as kernels compute them, and formulas in which programs write it."""

    value: Callable[[ir.Value], ir.Value]
    derivative: Callable[[ir.Value], ir.Value]
    formulas: tuple[Formula, ...]


_HALF, _ONE = number(0.5), number(1.0)
_U = number(sqrt(2 / pi)) * (X + number(0.044715) * X * X * X)
KERNELS = {
    "relu": Kernel(_relu, _step, (called("relu", X),)),
    "gelu": Kernel(
        _gelu,
        _of_gelu,
        (
            _HALF * X * (_ONE + called("erf", number(sqrt(0.5)) * X)),
            _HALF * X * called("erfc", number(-sqrt(0.5)) * X),
        ),
    ),
    "gelu_tanh": Kernel(
        _gelu_tanh, _of_gelu_tanh, (_HALF * X * (_ONE + called("tanh", _U)), X * sigmoid(number(2.0) * _U))
    ),
    "silu": Kernel(_silu, _of_silu, (X * sigmoid(X), _HALF * X * (_ONE + called("tanh", _HALF * X)))),
}
"""By the names of `weft.dialects.activations`."""


def name_of(formula: Formula) -> str | None:
    """The activation that a formula is; None for another function."""
    return next((name for name, kernel in KERNELS.items() if any(map(formula.equals, kernel.formulas))), None)
