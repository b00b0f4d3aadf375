"""Whether arrays, or elements of one, share memory."""

from typing import Any

import numpy as np

from weft.launch import arrays
from weft.launch.arrays import ArrayView

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
