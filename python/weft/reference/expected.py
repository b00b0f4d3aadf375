"""A matrix product in float64, and a bound on the error of a tensor core's result."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.dialects.activations import ACTIVATIONS, UNIT, Doubles
from weft.dialects.product_types import PROMOTED
from weft.errors import WeftError
from weft.isa import accumulation, wgmma
from weft.isa import block_scales as scalings
from weft.isa.tcgen05.descriptors import KINDS
from weft.reference import block_scales

Array = npt.NDArray[Any]

_DOUBLE = 2.0**-53  # half an ulp of f64, relative
_LEAST = 2.0**-126  # the least normal number; smaller numbers have its absolute error
_TF32 = 2.0**-10 + 2.0**-22  # relative error of a product of f32 factors that are rounded to tf32


@dataclass(frozen=True)
class _Steps:
    """How tensor cores add: the smallest and largest number of products that a step adds to the accumulator,
    and the largest error of a term, relative to the sum of all magnitudes.
    """

    fewest: int
    most: int
    cut: float

    def lost(self, depth: int) -> float:
        """The largest error of a sum of `depth` products, relative to the sum of all magnitudes."""
        return -(-depth // self.fewest) * (self.most + 1 + 2) * self.cut


_WIDE = _Steps(8, 16, UNIT)
_WGMMA_FP8 = wgmma.MmaAsync("m64n8k32", "e4m3", "e4m3", "f32")
_FP8 = _Steps(16, 32, 2.0 ** -accumulation.of("wgmma", _WGMMA_FP8, "sm_90a").fraction)


Epilogue = Callable[[Array, Array], tuple[Array, Array]]
"""A function of values and bounds on their errors."""


@dataclass(frozen=True)
class Comparison:
    """The largest `error`, the `bound` of that element, and the largest `ratio` of an error to its bound."""

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
    """The result in float64, and for each element the largest error of a correct result."""

    values: Doubles
    bound: Doubles

    def compare(self, got: Array) -> Comparison:
        """Compares a result with the expected one."""
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
    alpha: npt.ArrayLike = 1.0,
    beta: float = 0.0,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    promote: bool = False,
    accumulate: str | None = None,
    bit_op: str | None = None,
    scale_a: Array | None = None,
    scale_b: Array | None = None,
    dtype: npt.DTypeLike = np.float32,
    epilogue: Epilogue | None = None,
) -> Expected:
    """`residual + activation(alpha * a @ b + beta * c + bias)`, for a result of type `dtype`.

    With `transpose_a`, a is K x M; with `transpose_b`, b is N x K. Scales are those of `tile.matmul`: of f32,
    K/128 x M for a and N/128 x K/128 (of columns K/128 x N) for b; or block scales of ml_dtypes'
    float8_e8m0fnu or float8_e4m3fn in the 128x4 layout (`block_scales.tiled_scales`). Integer results are
    exact, modulo 2**32. With `bit_op` "xor.popc", elements are bits, of which those that differ count.
    `alpha` is a number or an array of one. `epilogue` takes alpha * a @ b + beta * c in float64 (int32 for
    integers) and a bound on its error, and returns those of the result before it is rounded.

    The bound of each element, with S = |a| @ |b| (scaled) and u = 2**-24: a step of a tensor core adds at
    most 17 terms, aligned to the largest one and truncated to at least 24 fraction bits. Each term loses less
    than u times the sum T of all magnitudes, and rounding to f32 loses less than 2 u T. T is at most S in any
    order, and there are at most ceil(K / 8) steps. So the bound is the sum of

        |alpha| * ceil(K / 8) * (17 + 2) * u * S    for the product,
        4 * u * (|alpha| * S + |beta * c|)          for three f32 roundings in the epilogue,
        u * (|alpha| * S + |beta * c| + |bias|)     for one more with a bias,
        half an ulp of `dtype`                      for the last rounding.

    For fp8, a step adds at most 33 terms with v = 2**-13 instead of u, and there are at most ceil(K / 16)
    steps. Promoted products, and those with scales, have such an error for each block of 128, with the
    block's S. Scaling a block, adding it in f32, and adding the sums of K slices cost one rounding for each
    block and slice:

        ceil(128 / 16) * (33 + 2) * v * S           for the products of all blocks,
        (2 * ceil(K / 128) + 1) * u * S             for as many f32 roundings.

    With `accumulate` "f16", each step also rounds its sum to f16. Volta adds 4 products of f16 in a step, and
    fp8 has 16 in each at least:

        ceil(K / 4) * 2**-11 * S                    for f16 (fp8: ceil(K / 16)), with S at least 2**-14.

    Block scales are exact factors. Their steps add 32 or 64 products, aligned to 25 fraction bits or more, so
    the bound has ceil(K / 32) steps of 33 terms, or half as many of 65.

    f32 is rounded to the nearest tf32: a product of two normal numbers has a relative error of at most
    2**-10 + 2**-22. A sum below the least normal number has no larger error than that number.

    With f64, both the result and this product have K + 5 roundings of 2**-53, in any order, each relative to
    |alpha| * S + |beta * c| + |bias| + |residual|.

    An activation multiplies the error by at most its slope, and adds its own (`weft.dialects.activations`). A
    residual adds one rounding. fp8 results are clamped to fp8's range.
    """
    left, right = a.T if transpose_a else a, b.T if transpose_b else b
    if np.issubdtype(dtype, np.integer):
        x, y = left.astype(np.float64), right.astype(np.float64)
        products: Doubles = x @ y
        if bit_op == "xor.popc":
            products = x.sum(1, keepdims=True) + y.sum(0) - 2 * products
        result = _integers(products.astype(np.int64), c if beta else None, bias, activation, residual)
        return (
            result if epilogue is None else Expected(*epilogue(result.values.astype(np.int32), result.bound))
        )
    if left.dtype == np.float64:
        terms_added = [None if c is None else beta * c, bias, residual]
        expected = _doubles(left, right, float(np.asarray(alpha).item()), terms_added, activation)
        return expected if epilogue is None else Expected(*epilogue(expected.values, expected.bound))
    scales = None if scale_a is None or scale_b is None else (scale_a, scale_b)
    if scales is not None and block_scales.scale_type(scales[0]) is not None:
        exact, magnitude, sum_error = _block_scaled(left, right, scales)
    else:
        exact, magnitude, sum_error = _sums(left, right, promote or scales is not None, scales)
        if accumulate == "f16":
            steps = -(-left.shape[1] // (16 if left.dtype.itemsize == 1 else 4))
            sum_error += steps * 2.0**-11 * np.where(magnitude > 0, np.maximum(magnitude, 2.0**-14), 0.0)
    alpha, beta = np.asarray(alpha, np.float32).item(), float(np.float32(beta))
    values, terms = alpha * exact, abs(alpha) * (magnitude + sum_error)
    if c is not None and beta != 0.0:
        scaled = beta * c.astype(np.float64)
        values, terms = values + scaled, terms + np.abs(scaled)
    roundings = 4
    if bias is not None:
        values, terms, roundings = values + bias, terms + np.abs(bias.astype(np.float64)), 5
    error = abs(alpha) * sum_error + roundings * UNIT * _normal(terms)
    if activation is not None:
        values, error = ACTIVATIONS[activation].of(values, error)
    if epilogue is not None:
        values, error = epilogue(values, error)
    if residual is not None:
        values = values + residual.astype(np.float64)
        error = error + UNIT * _normal(np.abs(values) + error)
    kind = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    half_ulp = np.maximum(float(kind.eps) / 2 * (np.abs(values) + error), float(kind.smallest_subnormal) / 2)
    bound = error + half_ulp
    if np.dtype(dtype).itemsize == 1:
        bound = np.where(np.abs(values) - error >= float(kind.max), 0.0, bound)
        values = np.clip(values, float(kind.min), float(kind.max))
    return Expected(values, bound)


def _sums(
    left: Array, right: Array, promoted: bool, scales: tuple[Array, Array] | None
) -> tuple[Doubles, Doubles, Doubles]:
    """The sums of products, the sums of their magnitudes, and the error of the former."""
    x, y = left.astype(np.float64), right.astype(np.float64)
    depth = x.shape[1]
    if scales is not None:
        x *= np.repeat(scales[0].T, PROMOTED, 1)[:, :depth]
        of_columns = y.shape[1] > 1 and scales[1].shape == (-(-depth // PROMOTED), y.shape[1])
        each = scales[1] if of_columns else np.repeat(scales[1].T, PROMOTED, 1)
        y *= np.repeat(each, PROMOTED, 0)[:depth, : y.shape[1]]
    exact, magnitude = x @ y, np.abs(x) @ np.abs(y)
    steps = _FP8 if left.dtype.itemsize == 1 else _WIDE
    error = steps.lost(min(depth, PROMOTED) if promoted else depth) * _normal(magnitude)
    if left.dtype == np.float32:
        error += _TF32 * magnitude
    if promoted:
        error += (2 * -(-depth // PROMOTED) + 1) * UNIT * _normal(magnitude + error)
    return exact, magnitude, error


def _block_scaled(left: Array, right: Array, scales: tuple[Array, Array]) -> tuple[Doubles, Doubles, Doubles]:
    """As `_sums`, for elements with block scales."""
    a, b = (block_scales.element_type(x) or str(x.dtype) for x in (left, right))
    scale = block_scales.scale_type(scales[0]) or ""
    if (scaling := scalings.scaling_of(a, b, scale)) is None:
        raise WeftError(f"elements and scales must be of one kind, got {a} and {b} with scales of {scale}")
    groups = -(-left.shape[1] // scaling.group)
    x, y = (
        block_scales.dequantized(each, block_scales.plain_scales(tiled, len(each), groups), scaling.group)
        for each, tiled in zip((left, right.T), scales, strict=True)
    )
    exact, magnitude = x @ y.T, np.abs(x) @ np.abs(y.T)
    depth = KINDS[scaling.kind].k
    return exact, magnitude, _Steps(depth, depth, UNIT).lost(left.shape[1]) * _normal(magnitude)


def _normal(magnitude: Doubles) -> Doubles:
    """A magnitude to which an error is relative: at least the least normal number, except for zero."""
    return np.asarray(np.where(magnitude > 0, np.maximum(magnitude, _LEAST), 0.0))


def _doubles(
    left: Array, right: Array, alpha: float, added: list[Array | None], activation: str | None
) -> Expected:
    """The product of f64, with C (scaled), a bias and a residual. The only activation is relu."""
    c, bias, residual = (np.zeros(()) if each is None else each for each in added)
    values = alpha * (left @ right) + c + bias
    values = (np.maximum(values, 0) if activation is not None else values) + residual
    terms = abs(alpha) * (np.abs(left) @ np.abs(right)) + np.abs(c) + np.abs(bias) + np.abs(residual)
    return Expected(values, 2 * (left.shape[1] + 5) * _DOUBLE * terms)


def _integers(
    total: npt.NDArray[np.int64],
    c: Array | None,
    bias: Array | None,
    activation: str | None,
    residual: Array | None,
) -> Expected:
    """The result of integer sums, which wrap as i32. The only activation is relu."""
    for term in (c, bias):
        total = total if term is None else total + term
    result = total.astype(np.int32)
    if activation is not None:
        result = np.maximum(result, 0)
    if residual is not None:
        result = (result.astype(np.int64) + residual).astype(np.int32)
    return Expected(result.astype(np.float64), np.zeros(result.shape))


def ends(sizes: npt.ArrayLike, unit: int = 1) -> npt.NDArray[np.int32]:
    """Where groups of these sizes end, as `row_ends` and `k_ends` have them. Each group begins at the end of
    the one before, rounded up to a multiple of `unit`: 128 with block scales, and along K where sums are
    promoted or scaled, or elements have less than 8 bits.
    """
    end = 0
    found = []
    for size in np.asarray(sizes).tolist():
        end = -(-end // unit) * unit + size
        found.append(end)
    return np.array(found, np.int32)


def spans(ends: npt.NDArray[Any], unit: int = 1) -> list[slice]:
    """The rows, or the part of K, of each group with these `ends`, as `weft.matmul` takes them."""
    begins = [0, *(-(-end // unit) * unit for end in ends.tolist())]
    return [slice(begin, max(begin, end)) for begin, end in zip(begins, ends.tolist(), strict=False)]
