"""Whether arrays, or elements of one, share memory."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.launcher import Extents

_MOST_TRIED: Any = 10_000  # candidate addresses; beyond, two arrays are assumed to overlap


def overlap(x: ArrayView, y: ArrayView) -> bool:
    """Whether two arrays share bytes. Disjoint columns of one matrix don't."""
    (first_x, end_x), (first_y, end_y) = arrays.span(x), arrays.span(y)
    if end_x <= first_y or end_y <= first_x:
        return False
    x, y = x.in_bytes, y.in_bytes
    try:
        return np.shares_memory(
            np.asarray(arrays.Memory(x)), np.asarray(arrays.Memory(y)), max_work=_MOST_TRIED
        )
    except np.exceptions.TooHardError:
        return True


def extents(views: Mapping[str, ArrayView], in_place: Collection[str]) -> tuple[Extents, str | None]:
    """The extents of the arrays of a launch, which writes "out" and reads the others; and the first of them
    that "out" overlaps. It may be one of those that are read `in_place`, element for element.
    """
    out, may_be_out, overlapped = views["out"], [], None
    for name, view in views.items():
        alike = (view.shape, view.strides, view.dtype) == (out.shape, out.strides, out.dtype)
        may_be_out.append(name == "out" or (name in in_place and alike))
        allowed = name == "out" or (may_be_out[-1] and view.address == out.address)
        if not allowed and overlapped is None and all((*view.shape, *out.shape)) and overlap(out, view):
            overlapped = name
    spans = tuple(arrays.span(view)[1] - view.address if all(view.shape) else 0 for view in views.values())
    return Extents(spans, tuple(may_be_out), list(views).index("out")), overlapped


def overlaps_itself(view: ArrayView) -> bool:
    """Whether two elements of an array may share memory, so that a result depends on the order of writes."""
    view = view.in_bytes
    dimensions = sorted((abs(s), n) for n, s in zip(view.shape, view.strides, strict=True) if n > 1)
    reach = 0  # the largest offset within the dimensions of smaller strides
    for stride, count in dimensions:
        if stride <= reach:
            break
        reach += stride * (count - 1)
    else:
        return False
    if not all(view.shape):
        return False
    # Two elements that share memory differ along some dimension: assume that one has index 0 there.
    array = np.asarray(arrays.Memory(view))
    for axis, count in enumerate(view.shape):
        first, others = (array[(slice(None),) * axis + (part,)] for part in (slice(1), slice(1, None)))
        try:
            if count > 1 and np.shares_memory(first, others, max_work=_MOST_TRIED):
                return True
        except np.exceptions.TooHardError:
            return True
    return False
