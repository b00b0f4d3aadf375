"""Views of the arrays of a call of `weft.matmul`, as products read them."""

from dataclasses import replace

from weft.errors import WeftError
from weft.isa.launch_limits import size_complaint
from weft.launch import arrays, libraries
from weft.launch.arrays import ArrayView
from weft.launch.libraries import Library

COPY = "copy it (x.contiguous() in PyTorch, ascontiguousarray(x) in NumPy and CuPy)"


def read(name: str, array: object) -> tuple[Library, ArrayView]:
    """The library and the view of an array. Raises WeftError for sizes of 2**31 and negative strides."""
    library, view = libraries.view(name, array)
    if complaint := next(filter(None, map(size_complaint, filter(None, view.shape))), None):
        raise WeftError(f"weft.matmul: {name}: {complaint}, in an array of {shape_text(view)}")
    if not all(view.shape):  # NumPy's strides are 0 then
        return library, replace(view, strides=arrays.contiguous_strides(view.shape))
    # NumPy has negative strides even for a single row, where they have no meaning.
    strides = tuple(0 if size == 1 else s for size, s in zip(view.shape, view.strides, strict=True))
    if min(strides, default=0) < 0:
        hint = "" if name == "out" else f": {COPY}"
        raise WeftError(f"weft.matmul: strides of {name} must not be negative, got {view.strides}{hint}")
    return library, view if min(view.strides, default=0) >= 0 else replace(view, strides=strides)


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


def shape_text(view: ArrayView) -> str:
    return " x ".join(map(str, view.shape)) or "a single number"
