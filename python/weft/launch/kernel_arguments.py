"""A kernel's arguments: which arrays and numbers it takes, and the parameters that are made of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.compiler.contract import Launch, MemrefArgument, PointerArgument, ScalarArgument
from weft.compiler.map_parameters import MapParameter
from weft.dialects.schedule import ceil_div
from weft.errors import WeftError, shown
from weft.isa import tensor_map
from weft.isa.launch_limits import size_complaint
from weft.launch import arrays, runtime
from weft.launch.arrays import ArrayView

# MLIR scalar types as `struct` formats and as NumPy types.
_SCALARS = {
    "i1": ("?", np.bool_),
    "i8": ("b", np.int8),
    "i16": ("h", np.int16),
    "i32": ("i", np.int32),
    "i64": ("q", np.int64),
    "index": ("q", np.int64),
    "f16": ("e", np.float16),
    "f32": ("f", np.float32),
    "f64": ("d", np.float64),
}
# What TMA calls elements of MLIR's types.
_MAP_TYPES = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "i32": "INT32"}


def aligned_to(view: ArrayView) -> int:
    """A number of bytes at whose multiples all rows begin: any that is a multiple of more is fine too.

    Arrays of the CPU are copied to where they are aligned.
    """
    size = arrays.numpy_dtype(view.dtype).itemsize
    starts = [s * size for n, s in zip(view.shape[:-1], view.strides, strict=False) if n > 1]
    return math.gcd(*starts, 0 if view.device == "cpu" else view.address)


def map_of(view: ArrayView, want: MapParameter, address: int) -> tensor_map.TensorMap:
    """The map of a matrix for a kernel's parameter."""
    *outer, columns = view.shape
    size = arrays.numpy_dtype(view.dtype).itemsize
    unit = tensor_map.ROW_BYTES
    strides = [
        # The stride of a single row is never used, but must be a legal one.
        stride * size if count > 1 else ceil_div(columns * size, unit) * unit
        for count, stride in zip(outer, view.strides, strict=False)
    ]
    return tensor_map.TensorMap(
        address,
        _MAP_TYPES.get(view.dtype, f"UINT{8 * size}"),
        view.shape[::-1],
        tuple(strides[::-1]),
        (1,) * len(view.shape),
        box=(*want.box[::-1], *[1] * (len(view.shape) - 2)),
        swizzle=want.swizzle,
        l2_promotion=want.l2_promotion,
    )


def packed(view: ArrayView) -> Any:
    """A CPU array's elements as far apart as they are, since the kernel may count on its strides."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
    flat = np.zeros(span, arrays.numpy_dtype(view.dtype))
    within(flat, view)[...] = view.numpy()
    return flat


def within(flat: Any, view: ArrayView) -> Any:
    """The elements of `view` in a flat array that spans them."""
    return arrays.strided(flat, view.shape, view.strides)


def misfit(found: ArrayView, want: MemrefArgument | PointerArgument) -> str | None:
    """Why an array can't be passed for a memref or pointer argument."""
    if want.writes and found.readonly:
        return "is written by the kernel, but the array is read-only"
    if isinstance(want, PointerArgument):
        if found.strides != arrays.contiguous_strides(found.shape):
            return f"expects a contiguous array, whose address is passed, got strides {found.strides}"
        return None
    if found.dtype != want.dtype:
        return f"expects elements of {want.dtype}, got {found.dtype}"
    if len(found.shape) != len(want.shape) or any(
        w is not None and w != f for w, f in zip(want.shape, found.shape, strict=True)
    ):
        shape = "x".join("?" if s is None else str(s) for s in want.shape)
        return f"expects an array of shape {shape}, got {'x'.join(map(str, found.shape))}"
    for size in found.shape:
        if complaint := size_complaint(size):
            return f"{complaint}, in an array of shape {found.shape}"
    if min(found.strides, default=0) < 0:
        return f"expects strides that aren't negative, got {found.strides}"
    if want.contiguous and found.strides != arrays.contiguous_strides(found.shape):
        return (
            f"expects a contiguous array (or a kernel for memref<…, strided<…>>), got strides {found.strides}"
        )
    for dimension, (want_stride, stride) in enumerate(zip(want.strides, found.strides, strict=True)):
        if want_stride is not None and found.shape[dimension] > 1 and stride != want_stride:
            return f"expects stride {want_stride} in dimension {dimension}, got strides {found.strides}"
    if want.writes and arrays.overlaps_itself(found):
        return f"is written by the kernel, but elements share memory, with strides {found.strides}"
    return None


def number_for(value: Any, want: ScalarArgument, what: str) -> Any:
    if want.dtype not in _SCALARS:
        raise WeftError(f"{what}: numbers of type {want.dtype} can't be passed")
    if not isinstance(value, (int, float, np.number, np.bool_)):
        raise WeftError(f"{what}: expects a number of type {want.dtype}, got {type(value).__name__}")
    kind: Any = _SCALARS[want.dtype][1]
    if issubclass(kind, np.floating):
        if np.iscomplexobj(value) or (isinstance(value, int) and abs(value) >= 2**1024):
            raise WeftError(f"{what}: expects a number of type {want.dtype}, got {shown(value)}")
        return float(value)
    least, most = (0, 1) if kind is np.bool_ else (np.iinfo(kind).min, np.iinfo(kind).max)
    if isinstance(value, (float, np.inexact)) or not least <= value <= most:
        raise WeftError(f"{what}: expects a whole number in {least}..{most}, got {shown(value)}")
    return int(value)


def parameters_of(
    launch: Launch,
    views: Sequence[Any],
    address: Callable[[ArrayView], Any],
    number: Callable[[str, Any], Any],
) -> list[Any]:
    """The kernel's parameters: each memref as MLIR's descriptor (two pointers, an offset, sizes, strides)."""
    flat: list[Any] = []
    for want, view in zip(launch.arguments, views, strict=True):
        if isinstance(want, ScalarArgument):
            flat.append(number(want.dtype, view))
        elif isinstance(want, PointerArgument):
            flat.append(address(view) if isinstance(view, ArrayView) else number("index", view))
        else:
            pointer = address(view)
            flat += [pointer, pointer]
            flat += [number("index", n) for n in (0, *view.shape, *view.strides)]
    return flat


@dataclass(frozen=True)
class Space:
    """Memory that a launch gives: a contiguous memref."""

    shape: tuple[int, ...]
    element_bytes: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.element_bytes

    @property
    def layout(self) -> tuple[int, ...]:
        """What follows the pointers in the memref's descriptor: offset, sizes and strides."""
        return (0, *self.shape, *arrays.contiguous_strides(self.shape))


def gpu_number(dtype: str, value: Any) -> runtime.Argument:
    return _SCALARS[dtype][0], value


def emulator_number(dtype: str, value: Any) -> Any:
    with np.errstate(over="ignore"):
        return _SCALARS[dtype][1](value)
