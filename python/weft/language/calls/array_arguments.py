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

from weft.dialects.element_types import PTX_SCALES
from weft.errors import WeftError, about
from weft.isa import block_scales
from weft.language.calls.grids import ArraySizes, numbers_of
from weft.language.calls.signatures import ArrayArgument, Signature
from weft.language.values.dtypes import DType, i8, u8
from weft.launch import arrays, overlaps
from weft.launch.arrays import ArrayView
from weft.launch.kernel_arguments import is_padded, packed_copy


def as_elements(signature: Signature, values: Sequence[object]) -> list[object]:
    """The arguments, with arrays of bool as bytes in the same memory, of u8 if the annotation says so,
    otherwise of i8; bytes (uint8) as the floats of at most 8 bits that the annotation names; and floats of
    fewer bits packed.
    """
    result, torch = list(values), sys.modules.get("torch")
    for number, (name, kind) in enumerate(signature.arguments.items()):
        value: Any = values[number]
        dtype = getattr(value, "dtype", None)
        given = None if dtype is None else arrays.type_name(dtype)
        if not isinstance(kind, ArrayArgument) or given not in ("i1", u8.name, *arrays.PACKED_BITS):
            continue
        if given != "i1":
            with about(f"kernel {signature.name}: '{name}'"):
                result[number] = _floats(value, given, kind.dtype)
        elif torch is not None and isinstance(value, torch.Tensor):
            result[number] = value.view(torch.uint8 if kind.dtype == u8 else torch.int8)
        else:
            result[number] = replace(arrays.view(value), dtype=(u8 if kind.dtype == u8 else i8).name)
    return _with_scales(signature, result)


def _with_scales(signature: Signature, values: list[object]) -> list[object]:
    """The arguments, with each array of block scales as rows of tiles. Raises WeftError for another number of
    scales than that of the array with the same sizes.
    """
    kinds = {name: kind for name, kind in signature.arguments.items() if isinstance(kind, ArrayArgument)}
    if not any(kind.scaled for kind in kinds.values()):
        return values
    sizes, views = dict[str, tuple[int, str]](), dict[str, ArrayView]()
    for number, name in enumerate(signature.arguments):
        value = values[number]
        if name not in kinds or value is None or isinstance(value, (DType, str)):
            continue
        views[name] = view = signature.view(name, value)
        if not kinds[name].scaled and len(view.shape) == kinds[name].rank:
            signature.add_sizes(name, view.shape, sizes)
    for name, view in views.items():
        if not (scaled := kinds[name].scaled) or view.dtype not in PTX_SCALES:
            continue
        subject = f"kernel {signature.name}: '{name}'"
        if missing := [each for each in scaled if each not in sizes]:
            raise WeftError(
                f"{subject} has scales of an array of {' '.join(scaled)}, got none with {missing[0]}"
            )
        *outer, rows, depth = (sizes[each][0] for each in scaled)
        groups = -(-depth // block_scales.group_of(PTX_SCALES[view.dtype]))
        tiles = arrays.as_scales(subject, view, view.dtype, (*outer, *block_scales.tiles(rows, groups)))
        values[list(signature.arguments).index(name)] = tiles
    return values


def _floats(value: object, name: str, wanted: DType | None) -> object:
    """An array of bytes as one of the wanted floats, and one with a byte for each float of fewer bits as
    packed ones.
    """
    if name == u8.name and (wanted is None or not wanted.is_float or wanted.bits > u8.bits):
        return value
    view = arrays.view(value)
    if wanted is None or name != u8.name:
        return packed_copy(view) if is_padded(view) and view.device == "cpu" else value
    packed = wanted.name in arrays.PACKED_BITS
    return view.unpacked_from(wanted.name) if packed else replace(view, dtype=wanted.name)


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
    """Whether arrays without elements, or numbers, leave the kernel nothing to compute: its grid has no CTA.
    Raises WeftError for arrays without elements where it has some, as kernels can't get such arrays.
    """
    pairs = dict(zip(signature.arguments, values, strict=True))
    views = {
        name: view for name, value in pairs.items() if (view := _view(signature, name, value)) is not None
    }
    empty = next((name for name, view in views.items() if 0 in view.shape), None)
    counted = getattr(getattr(grid, "__code__", None), "co_varnames", ())
    named: dict[str, object] = {
        name: value
        for name, value in pairs.items()
        if name in counted and isinstance(value, (int, np.integer))
    }
    if empty is None and not named:
        return False
    sizes_of = dict[str, tuple[int, str]]()
    for name, view in views.items():
        kind: Any = signature.arguments[name]
        named[name] = ArraySizes(name, kind.sizes, view.shape)
        signature.add_sizes(name, view.shape, sizes_of)
    sizes = {size: extent for size, (extent, _) in sizes_of.items()}
    if 0 in numbers_of(grid, {**named, **signature.meta, **sizes, **meta}):
        return True
    if empty is None:
        return False
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
