"""Views of the arrays of a call of `weft.matmul`, as products read them.

Of vectors, a is one row, b is one column, and what has the result's shape lacks these axes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.dialects.operand_roles import ADDED_TYPES
from weft.errors import WeftError, about
from weft.isa.launch_limits import size_complaint
from weft.launch import arrays, libraries
from weft.launch.arrays import ArrayView
from weft.launch.libraries import Library

COPY = "copy it (x.contiguous() in PyTorch, ascontiguousarray(x) in NumPy and CuPy)"


def refuse(message: str) -> WeftError:
    """The error of a call with a mistake."""
    return WeftError(f"weft.matmul: {message}")


def read(name: str, array: object) -> tuple[Library, ArrayView]:
    """The library and the view of an array. Raises WeftError for one that can't be read, or whose library
    would record what is done with it, and for sizes of 2**31 and negative strides.
    """
    library, view = libraries.of(array), _view(name, array)  # no gradient is why a sparse tensor is refused
    if library.wants_gradients(array):
        advice = f"call it under torch.no_grad(), or pass {name}.detach()"
        raise refuse(f"{name} must not require gradients, which weft.matmul doesn't compute: {advice}")
    if complaint := next(filter(None, map(size_complaint, filter(None, view.shape))), None):
        raise refuse(f"{name}: {complaint}, in an array of {shape_text(view)}")
    if not all(view.shape):  # NumPy's strides are 0 then
        return library, replace(view, strides=arrays.contiguous_strides(view.shape))
    # NumPy has negative strides even for a single row, where they have no meaning.
    strides = tuple(0 if size == 1 else s for size, s in zip(view.shape, view.strides, strict=True))
    if min(strides, default=0) < 0:
        hint = "" if name == "out" else f": {COPY}"
        raise refuse(f"strides of {name} must not be negative, got {view.strides}{hint}")
    return library, view if min(view.strides, default=0) >= 0 else replace(view, strides=strides)


def check_before_gradients(named: Mapping[str, object]) -> None:
    """Raises WeftError for an array that can't be read, if another one requires gradients. That one is
    refused only because of the first.
    """
    wanted = {name: libraries.of(array).wants_gradients(array) for name, array in named.items()}
    if any(wanted.values()):
        for name, array in named.items():
            if not wanted[name]:
                _view(name, array)


def _view(name: str, array: object) -> ArrayView:
    with about(f"weft.matmul: {name}"):
        return arrays.view(array)


def transposed(view: ArrayView) -> ArrayView:
    """The transposed matrix, or matrices of a batch."""
    shape, strides = ((*each[:-2], each[-1], each[-2]) for each in (view.shape, view.strides))
    return replace(view, shape=shape, strides=strides)


def without_copies(view: ArrayView) -> ArrayView:
    """The matrices without the outermost dimensions that have one of them, or repeat them: a kernel uses
    these for every product.
    """
    shape, strides = view.shape, view.strides
    while len(shape) > 2 and (shape[0] == 1 or (shape[0] and not strides[0])):
        shape, strides = shape[1:], strides[1:]
    return replace(view, shape=shape, strides=strides)


def along_axes(name: str, view: ArrayView) -> tuple[str, ArrayView]:
    """The dimensions "MN", "M", "N" or "" of the result along which elements of an array differ, and its view
    without others, where it has all dimensions of the result. Raises WeftError for elements that aren't
    contiguous, and for vectors and single numbers of a type that only matrices may have.
    """
    view = without_copies(view)
    kept = [n for n in range(len(view.shape)) if n < len(view.shape) - 2 or view.strides[n]]
    axes = "".join(axis for axis, stride in zip("MN", view.strides[-2:], strict=True) if stride)
    if axes != "MN" and view.dtype not in ADDED_TYPES:
        legal = f"elements of {', '.join(ADDED_TYPES)} unless it is a matrix"
        raise refuse(f"{name} must have {legal}, got {view.dtype}: convert it")
    shape, strides = (tuple(each[n] for n in kept) for each in (view.shape, view.strides))
    if strides and strides[-1] != 1:
        raise refuse(f"{name} must have contiguous elements, got strides {strides}: {COPY}")
    return axes, replace(view, shape=shape or (1,), strides=strides or (1,))


def shape_text(view: ArrayView) -> str:
    return " x ".join(map(str, view.shape)) or "a single number"


def is_vector(name: str, shape: Sequence[int], transpose: bool, caller: str = "weft.matmul") -> bool:
    """Whether a or b is a vector. Raises WeftError for numbers, and for vectors that are to be transposed."""
    if not len(shape):
        raise WeftError(
            f"{caller}: {name} must have at least one dimension, got a single number: use alpha for it"
        )
    if len(shape) == 1 and transpose:
        got = f"{name} of {shape[0]} elements"
        raise WeftError(f"{caller}: transpose_{name} must be False for a vector, got {got}")
    return len(shape) == 1


def as_matrices(
    operands: dict[str, Any], transposes: Sequence[bool], caller: str = "weft.matmul"
) -> tuple[int, ...]:
    """Makes matrices of a and b, arrays of PyTorch or JAX, where they are vectors, and of those that have the
    result's shape. Returns the axes that the result doesn't have. Raises WeftError as `is_vector`.
    """
    axes = []
    for name, axis, transpose in zip("ab", (-2, -1), transposes, strict=True):
        if is_vector(name, operands[name].shape, transpose, caller):
            axes.append(axis)
            operands[name] = _with_axis(operands[name], axis)
    for name in ("c", "residual", "out"):
        for axis in reversed(axes):  # that of b first, since the other is counted from it
            if (given := operands.get(name)) is not None and (axis == -1 or given.ndim):
                operands[name] = _with_axis(given, axis)
    return tuple(axes)


def _with_axis(array: Any, axis: int) -> Any:
    return array[..., None] if axis == -1 else array[..., None, :]
