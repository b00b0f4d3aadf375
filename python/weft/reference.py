"""A matrix product in float64, and how far a tensor core's result may be from it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.dialects.schedule import PROMOTED
from weft.isa import accumulation, wgmma

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

_U = 2.0**-24  # half an ulp of f32, relative
_LEAST = 2.0**-126  # the least normal number: what is smaller is cut off and rounded as this is
_TF32 = 2.0**-9 + 2.0**-20  # what a product loses, relative, of f32 factors without their last 13 bits


@dataclass(frozen=True)
class _Steps:
    """How tensor cores add up: the fewest and the most products that a step adds to the accumulator, and what
    a term loses at most, relative to the sum of all magnitudes.
    """

    fewest: int
    most: int
    cut: float

    def lost(self, depth: int) -> float:
        """What a sum of so many products loses at most, relative to the sum of all magnitudes."""
        return -(-depth // self.fewest) * (self.most + 1 + 2) * self.cut


_WIDE = _Steps(8, 16, _U)
_WGMMA_FP8 = wgmma.MmaAsync("m64n8k32", "e4m3", "e4m3", "f32")
_FP8 = _Steps(16, 32, 2.0 ** -accumulation.of("wgmma", _WGMMA_FP8, "sm_90a").fraction)


@dataclass(frozen=True)
class Activation:
    """A function in float64, and how far its f32 form may be from it.

    `slope` is its steepest one, rounded up by enough to cover what is of second order; `own(x, y)` is the
    error of the form at x, where the function is y. With u = 2**-24, of which `ex2.approx.ftz` is taken to be
    within 4 relative (2 ulp) and `rcp.approx.ftz` within 2 (1 ulp):

    - x / (1 + 2**t): t has an error of a few u relative (two roundings for silu, five for gelu_tanh), so 2**t
      one of that times its natural logarithm w, and 4 u. The sum passes on 2**t / (1 + 2**t) of it and adds
      u, the reciprocal 2 u, the product u. Where 2**t is beyond 2**126 the result is 0, less than 2**-119
      from the exact one.
    - max(x, 0) - a * Phi(-a): the polynomial of the second term comes within 4e-9; its argument is within
      5 u, of which it makes up to 10 times as much, its own roundings are less than 12 of up to 2.5 times its
      value, the power's argument is within 1.5 u a**2, and the power and three products add 7 u.
    """

    function: Callable[[Doubles], Doubles]
    slope: float
    own: Callable[[Doubles, Doubles], Doubles]

    def of(self, x: Doubles, error: Doubles) -> tuple[Doubles, Doubles]:
        """The function's values, and how far they may be off where x may be by `error`."""
        y = self.function(x)
        return y, self.slope * error + self.own(x, y)


def _gated(w: Doubles) -> Doubles:
    """1 / (1 + exp(-w)), without overflow."""
    small = np.exp(-np.abs(w))
    return np.asarray(np.where(w >= 0, 1.0, small) / (1.0 + small))


def _gated_error(roundings: int, w: Doubles, y: Doubles) -> Doubles:
    part = _gated(-w)
    return ((roundings * np.abs(w) + 4) * part + 4) * _U * np.abs(y) + 2.0**-119


def _tanh_argument(x: Doubles) -> Doubles:
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def _normal_below(x: Doubles) -> Doubles:
    """Phi(x), accurate where it is small."""
    values = [0.5 * math.erfc(-each / math.sqrt(2)) for each in x.ravel()]
    return np.array(values).reshape(x.shape)


def _gelu_error(x: Doubles, y: Doubles) -> Doubles:
    a = np.abs(x)
    return _U * np.abs(y) + (5 * 10 + 12 * 2.5 + 1.5 * a**2 + 7) * _U * a * _normal_below(-a) + 4e-9


ACTIVATIONS = {
    "relu": Activation(lambda x: np.maximum(x, 0), 1.0, lambda x, y: np.zeros_like(y)),
    "gelu": Activation(lambda x: x * _normal_below(x), 1.14, _gelu_error),
    "gelu_tanh": Activation(
        lambda x: x * _gated(_tanh_argument(x)), 1.14, lambda x, y: _gated_error(5, _tanh_argument(x), y)
    ),
    "silu": Activation(lambda x: x * _gated(x), 1.11, lambda x, y: _gated_error(2, x, y)),
}


@dataclass(frozen=True)
class Comparison:
    """The largest `error`, the `bound` at that place, and the largest `ratio` of an error to its bound."""

    error: float
    bound: float
    ratio: float
    finite: bool

    @property
    def passed(self) -> bool:
        """Whether every element is finite and within its bound."""
        return self.finite and self.ratio <= 1.0


@dataclass(frozen=True)
class Expected:
    """The result up to float64's rounding, and for each element how far a right one may be from it."""

    values: Doubles
    bound: Doubles

    def compare(self, got: Array) -> Comparison:
        """Holds a result against it."""
        result = got.astype(np.float64)
        finite = bool(np.isfinite(result).all())
        error = np.where(np.isfinite(result), np.abs(result - self.values), np.inf)
        worst = np.unravel_index(int(error.argmax()), error.shape)
        # A bound of 0 (all terms are 0) admits only the exact value.
        ratio = np.divide(error, self.bound, out=np.where(error > 0, np.inf, 0.0), where=self.bound > 0)
        return Comparison(float(error[worst]), float(self.bound[worst]), float(ratio.max()), finite)


def product(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    promote: bool = False,
    scale_a: Array | None = None,
    scale_b: Array | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> Expected:
    """`residual + activation(alpha * a @ b + beta * c + bias)` of matrices (a as K x M with `transpose_a`, b
    as N x K with `transpose_b`), for a result of type `dtype`. Of integers it is exact, modulo 2**32. Scales
    multiply as `tile.matmul` has them: K/128 x M of a, N/128 x K/128 of b.

    The bound, element-wise, with S = |a| @ |b| (scaled) and u = 2**-24. A step of a tensor core adds at most
    17 terms, aligned to the largest and cut off after at least 24 fraction bits: each loses less than u times
    the sum T of all magnitudes, and rounding to f32 less than 2 u T. T is at most S, whatever the order, and
    there are at most ceil(K / 8) steps. So the bound is the sum of

        |alpha| * ceil(K / 8) * (17 + 2) * u * S    for the product,
        4 * u * (|alpha| * S + |beta * c|)          for three f32 roundings in the epilogue,
        u * (|alpha| * S + |beta * c| + |bias|)     for one more with a bias,
        half an ulp of `dtype`                      for the last rounding.

    Of fp8 a step adds at most 33 terms with v = 2**-13 for u, and there are at most ceil(K / 16). Promoted
    (with scales too), that holds of a block of 128, and of all blocks, each with its own S, together; scaling
    one and adding it up in f32, and adding up such sums of parts of K, costs a rounding per block and part:

        ceil(128 / 16) * (33 + 2) * v * S           for the products of all blocks,
        (2 * ceil(K / 128) + 1) * u * S             for as many f32 roundings.

    Of f32 tensor cores leave out the last 13 bits: a product of two normal numbers loses at most
    2**-9 + 2**-20 of itself. A sum that is smaller than the least normal number loses no more than that does.

    An activation multiplies what it gets of that by at most its steepest slope, and is itself as far from
    the exact function as `Activation` says; a residual adds a rounding. Results of fp8 stay in its range.
    """
    left, right = a.T if transpose_a else a, b.T if transpose_b else b
    if np.issubdtype(dtype, np.integer):
        return _integers(left, right, c if beta else None, bias, activation, residual)
    scales = None if scale_a is None or scale_b is None else (scale_a, scale_b)
    exact, magnitude, sum_error = _sums(left, right, promote or scales is not None, scales)
    alpha, beta = float(np.float32(alpha)), float(np.float32(beta))
    values, terms = alpha * exact, abs(alpha) * (magnitude + sum_error)
    if c is not None and beta != 0.0:
        scaled = beta * c.astype(np.float64)
        values, terms = values + scaled, terms + np.abs(scaled)
    roundings = 4
    if bias is not None:
        values, terms, roundings = values + bias, terms + np.abs(bias.astype(np.float64)), 5
    error = abs(alpha) * sum_error + roundings * _U * _normal(terms)
    if activation is not None:
        values, error = ACTIVATIONS[activation].of(values, error)
    if residual is not None:
        values = values + residual.astype(np.float64)
        error = error + _U * _normal(np.abs(values) + error)
    return _rounded(values, error, dtype)


def _sums(
    left: Array, right: Array, promoted: bool, scales: tuple[Array, Array] | None
) -> tuple[Doubles, Doubles, Doubles]:
    """The sums of products, those of their magnitudes, and how far the first may be off."""
    x, y = left.astype(np.float64), right.astype(np.float64)
    depth = x.shape[1]
    if scales is not None:
        x *= np.repeat(scales[0].T, PROMOTED, 1)[:, :depth]
        y *= np.repeat(np.repeat(scales[1].T, PROMOTED, 0), PROMOTED, 1)[:depth, : y.shape[1]]
    exact, magnitude = x @ y, np.abs(x) @ np.abs(y)
    steps = _FP8 if left.dtype.itemsize == 1 else _WIDE
    error = steps.lost(min(depth, PROMOTED) if promoted else depth) * _normal(magnitude)
    if left.dtype == np.float32:
        error += _TF32 * magnitude
    if promoted:
        error += (2 * -(-depth // PROMOTED) + 1) * _U * _normal(magnitude + error)
    return exact, magnitude, error


def _normal(magnitude: Doubles) -> Doubles:
    """A magnitude to which an error is relative: at least that of a normal number, but for zero."""
    return np.asarray(np.where(magnitude > 0, np.maximum(magnitude, _LEAST), 0.0))


def _rounded(values: Doubles, error: Doubles, dtype: npt.DTypeLike) -> Expected:
    """What may become of values when they are rounded to a type."""
    kind = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    half_ulp = np.maximum(float(kind.eps) / 2 * (np.abs(values) + error), float(kind.smallest_subnormal) / 2)
    bound = error + half_ulp
    if np.dtype(dtype).itemsize == 1:
        bound = np.where(np.abs(values) - error >= float(kind.max), 0.0, bound)
        values = np.clip(values, float(kind.min), float(kind.max))
    return Expected(values, bound)


def _integers(
    left: Array,
    right: Array,
    c: Array | None,
    bias: Array | None,
    activation: str | None,
    residual: Array | None,
) -> Expected:
    """The same of integers, which wrap around as i32; the activation is relu."""
    total = (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    for term in (c, bias):
        total = total if term is None else total + term
    total = total.astype(np.int32)
    if activation is not None:
        total = np.maximum(total, 0)
    if residual is not None:
        total = (total.astype(np.int64) + residual).astype(np.int32)
    return Expected(total.astype(np.float64), np.zeros(total.shape))
