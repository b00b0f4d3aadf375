"""The launches of products with 4-bit weights, for plain arrays of NumPy, PyTorch and CuPy."""

import functools
from collections.abc import Mapping
from typing import Any

from weft.errors import WeftError, about
from weft.int4 import tiles
from weft.int4.kernels.few_rows import few_rows
from weft.int4.kernels.many_rows import many_rows
from weft.int4.weights import TYPES, Int4Weights, contiguous
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, libraries, overlaps, runtime
from weft.launch.arrays import Array, ArrayView
from weft.launch.kernel_arguments import is_contiguous

_EMULATED_MULTIPROCESSORS = 132


def run(x: Any, weights: Int4Weights, bias: Any, out: Any = None, stream: Any = None) -> Any:
    """The product of plain arrays."""
    if out is None and _is_ready(x, weights, bias):
        rows = x if x.dim() == 2 else x.view(-1, x.shape[-1])
        y = x.new_empty((rows.shape[0], weights.rows))
        _launch(
            rows, rows.shape[0], _multiprocessors(x.device.type, x.device.index), weights, bias, y, stream
        )
        return y if x.dim() == 2 else y.view(*x.shape[:-1], weights.rows)
    view = _view("x", x)
    _check(view, weights, bias)
    shape = (*view.shape[:-1], weights.rows)
    library = libraries.of(x)
    result = library.empty(x, view, shape, weights.dtype) if out is None else out
    if out is not None:
        others = {"x": x, "bias": bias, "the weights": weights.packed, "their scales": weights.scales}
        _check_out(out, shape, weights.dtype, others | {"their zero points": weights.zeros})
    if 0 not in shape:
        y, cores = result.reshape(-1, weights.rows), _multiprocessors(view.device, view.device_id)
        with libraries.queued_on(stream, x):
            _launch(_readable(x, view), y.shape[0], cores, weights, bias, y, stream)
    return result if out is not None else library.handed_over(result, x)


def _is_ready(x: Any, weights: Int4Weights, bias: Any) -> bool:
    """Whether arrays are PyTorch's and fit as they are, so that a call needs an eighth of the time."""
    if arrays.library(type(x)) != "torch" or x.dtype != weights.scales.dtype or not x.is_contiguous():
        return False
    if not x.dim() or x.shape[-1] != weights.columns or not x.numel() or x.data_ptr() % ROW_BYTES:
        return False
    if bias is not None:
        if arrays.library(type(bias)) != "torch" or isinstance(bias, type):
            return False
        if bias.dtype != x.dtype or bias.shape != (weights.rows,) or not bias.is_contiguous():
            return False
    return bool(x.element_size() == 2 and weights.columns * 2 % ROW_BYTES == 0)


def _launch(
    x: object, m: int, multiprocessors: int, weights: Int4Weights, bias: object, y: object, stream: object
) -> None:
    zeros, asymmetric = weights.zeros, weights.zeros is not None
    few, meta = _tiles(m, weights.rows, weights.columns, weights.group, asymmetric, multiprocessors)
    added = weights.first_scales if bias is None else contiguous(bias)  # which the kernel doesn't read
    kernel: Any = few_rows if few else many_rows
    kernel(
        *(x, weights.packed, weights.scales, zeros if asymmetric else weights.scales, added, y),
        group=weights.group,
        asymmetric=asymmetric,
        biased=bias is not None,
        stream=stream,
        **meta,
    )


@functools.lru_cache(maxsize=4096)
def _tiles(
    m: int, n: int, k: int, group: int, asymmetric: bool, multiprocessors: int
) -> tuple[bool, dict[str, Any]]:
    """Whether the kernel is that of few rows, and its meta-parameters."""
    if m <= tiles.FEW_ROWS:
        return True, tiles.of_few_rows(m, n, k, group, asymmetric, multiprocessors)
    return False, tiles.of_many_rows(m, n, k, group, asymmetric, multiprocessors)


@functools.lru_cache(maxsize=64)
def _multiprocessors(device: str, number: int | None) -> int:
    if device == "cpu":
        return _EMULATED_MULTIPROCESSORS
    return runtime.device(max(number or 0, 0)).multiprocessors


def _view(name: str, array: object) -> ArrayView:
    with about(f"weft.matmul_int4: {name}"):
        return arrays.view(array)


def check_rows(x: ArrayView, weights: Int4Weights) -> None:
    """Raises WeftError for an array whose rows don't have as many elements as those of the weights."""
    if not x.shape or x.shape[-1] != weights.columns:
        raise refuse(
            f"rows of x must have the weights' {weights.columns} elements, got shape {tuple(x.shape)}"
        )


def _check(view: ArrayView, weights: Int4Weights, bias: object) -> None:
    check_rows(view, weights)
    if weights.dtype not in TYPES:
        raise refuse(
            f"scales must have elements of {' or '.join(TYPES)}, got {weights.dtype}: convert the weights, "
            "such as by layer.to(torch.bfloat16)"
        )
    if view.dtype != weights.dtype:
        raise refuse(
            f"x must have elements of {weights.dtype}, as the scales have, got {view.dtype}: convert it"
        )
    if bias is None:
        return
    of_bias = _view("bias", bias)
    if of_bias.shape != (weights.rows,) or of_bias.dtype != weights.dtype:
        raise refuse(
            f"bias must have {weights.rows} elements of {weights.dtype}, got {of_bias.shape} of "
            f"{of_bias.dtype}"
        )


def _check_out(out: object, shape: tuple[int, ...], dtype: str, others: Mapping[str, object]) -> None:
    """Raises WeftError for an array that results can't be written to while others are read."""
    view = _view("out", out)
    if view.shape != shape or view.dtype != dtype:
        raise refuse(f"out must have shape {shape} and elements of {dtype}, got {view.shape} of {view.dtype}")
    if not is_contiguous(view):
        raise refuse(f"out must be contiguous, got strides {view.strides}")
    if view.readonly:
        raise refuse("out must be writable")
    for name, each in others.items():
        if each is not None and 0 not in shape and overlaps.overlap(view, arrays.view(each)):
            raise refuse(f"out must not overlap {name}")


def _readable(x: Array, view: ArrayView) -> Array:
    """x as a matrix whose rows TMA can copy: itself, or a copy where its rows aren't contiguous or don't
    begin at multiples of 16 bytes.
    """
    k = view.shape[-1]
    step = ROW_BYTES * 8 // view.bits
    rows = x.reshape(-1, k)
    made = arrays.view(rows)
    in_place = (made.strides[-1] == 1 or k == 1) and (made.strides[0] % step == 0 or made.shape[0] == 1)
    if in_place and made.address % ROW_BYTES == 0 and k % step == 0:
        return rows
    wide = (made.shape[0], -(-k // step) * step)
    copy = libraries.of(x).empty(x, view, wide, view.dtype)
    copy[:, :k] = rows
    copy[:, k:] = 0
    return copy


def refuse(message: str) -> WeftError:
    """The error for a call."""
    return WeftError(f"weft.matmul_int4: {message}")
