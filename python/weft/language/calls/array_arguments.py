"""The arrays of a call as a kernel can take them: those of bool, empty ones, and those of the CPU with any
strides.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.language.calls.grids import ArraySizes, numbers_of
from weft.language.calls.signatures import ArrayArgument, Signature
from weft.language.values.dtypes import DType, i8, u8
from weft.launch import arrays, overlaps
from weft.launch.arrays import ArrayView


def in_bytes(value: object, kind: object) -> object:
    """An array of bool as one of bytes in the same memory, of u8 if the argument's annotation says so,
    otherwise of i8. Anything else as it is.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None or arrays.type_name(dtype) != "i1":
        return value
    torch = sys.modules.get("torch")
    unsigned = isinstance(kind, ArrayArgument) and kind.dtype == u8
    if torch is not None and isinstance(value, torch.Tensor):
        return value.view(torch.uint8 if unsigned else torch.int8)
    view = value if isinstance(value, ArrayView) else arrays.view(value)
    return replace(view, dtype=(u8 if unsigned else i8).name)


@contextmanager
def contiguous(signature: Signature, values: Sequence[object]) -> Iterator[list[object]]:
    """Gives copies of those CPU arrays whose rows are strided or run backwards, and at the end copies what
    the kernel wrote to them back.
    """
    copies: dict[object, object] = {}
    result, written = list(values), list[tuple[Any, object]]()
    pairs = zip(signature.arguments.items(), values, strict=True)
    kind: Any
    for number, ((name, kind), value) in enumerate(pairs):
        view = _view(signature, name, value)
        if view is None or not _is_strided(view):
            continue
        if kind.writes and (view.readonly or overlaps.overlaps_itself(view)):
            continue  # the kernel refuses it
        key = view.address, view.shape, view.strides
        original = view.numpy()
        if key not in copies:
            copies[key] = np.ascontiguousarray(original)
        result[number] = copies[key]
        if kind.writes:
            written.append((original, result[number]))
    try:
        yield result
    finally:
        for original, copy in written:
            original[...] = copy


def has_no_tile(
    signature: Signature, values: Sequence[object], meta: Mapping[str, object], grid: object
) -> bool:
    """Whether arrays without elements leave the kernel nothing to compute: its grid has no CTA. Raises
    WeftError where it has some, as kernels can't get such arrays.
    """
    pairs = zip(signature.arguments, values, strict=True)
    views = {name: view for name, value in pairs if (view := _view(signature, name, value)) is not None}
    empty = next((name for name, view in views.items() if 0 in view.shape), None)
    if empty is None:
        return False
    sizes_of, named = dict[str, tuple[int, str]](), dict[str, object]()
    for name, view in views.items():
        kind: Any = signature.arguments[name]
        named[name] = ArraySizes(name, kind.sizes, view.shape)
        signature.add_sizes(name, view.shape, sizes_of)
    sizes = {size: extent for size, (extent, _) in sizes_of.items()}
    if 0 in numbers_of(grid, {**named, **signature.meta, **sizes, **meta}):
        return True
    raise WeftError(
        f"kernel {signature.name}: '{empty}' has no elements (shape {views[empty].shape}), which is possible "
        "only where the grid has no CTA either: don't call the kernel"
    )


def _view(signature: Signature, name: str, value: object) -> ArrayView | None:
    """An argument as a view; None for a number, and for a type in place of an array."""
    kind = signature.arguments[name]
    if not isinstance(kind, ArrayArgument) or value is None or isinstance(value, (DType, str)):
        return None
    view = signature.view(name, value)
    return view if len(view.shape) == kind.rank else None


def _is_strided(view: ArrayView) -> bool:
    """Whether a kernel can't take a CPU array as it is."""
    if view.device != "cpu" or view.packed or not math.prod(view.shape):
        return False
    backwards = any(stride < 0 and size > 1 for stride, size in zip(view.strides, view.shape, strict=True))
    return backwards or (view.shape[-1] > 1 and view.strides[-1] != 1)
