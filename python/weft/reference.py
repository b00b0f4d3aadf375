"""A matrix product in float64, and how far a tensor core's result may be from it."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

_U = 2.0**-24  # half an ulp of f32, relative
_CHUNK = 8  # the fewest products that one step adds up
_TERMS = 17  # the most that one step adds up: 16 products and the accumulator


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
    dtype: npt.DTypeLike = np.float32,
) -> Expected:
    """`alpha * a @ b + beta * c` of matrices (a as K x M with `transpose_a`, b as N x K with `transpose_b`),
    for a result of type `dtype`.

    The bound, element-wise, with S = |a| @ |b| and u = 2**-24. A step of a tensor core adds at most 17 terms,
    aligned to the largest and cut off after at least 24 fraction bits: each loses less than u times the sum T
    of all magnitudes, and rounding to f32 less than 2 u T. T is at most S, whatever the order, and there are
    at most ceil(K / 8) steps. So the bound is the sum of

        |alpha| * ceil(K / 8) * (17 + 2) * u * S    for the product,
        4 * u * (|alpha| * S + |beta * c|)          for three f32 roundings in the epilogue,
        half an ulp of `dtype`                      for the last rounding.
    """
    left, right = a.T if transpose_a else a, b.T if transpose_b else b
    exact, magnitude = _products(left.astype(np.float64), right.astype(np.float64))
    alpha, beta = float(np.float32(alpha)), float(np.float32(beta))
    steps = -(-left.shape[1] // _CHUNK)
    sum_error = steps * (_TERMS + 2) * _U * magnitude
    values, terms = alpha * exact, abs(alpha) * (magnitude + sum_error)
    if c is not None and beta != 0.0:
        scaled = beta * c.astype(np.float64)
        values, terms = values + scaled, terms + np.abs(scaled)
    error = abs(alpha) * sum_error + 4 * _U * terms
    kind = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    half_ulp = np.maximum(float(kind.eps) / 2 * (np.abs(values) + error), float(kind.smallest_subnormal) / 2)
    return Expected(values, error + half_ulp)


def _products(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    exact = a @ b
    return exact, np.abs(a) @ np.abs(b)
