"""Groups of rows, or of parts of K, that are given by their ends."""

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.dialects.product_types import GROUP_ROWS


def ends(sizes: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Where groups of these sizes end, as `row_ends` and `k_ends` have them: each group begins at the end of
    the one before, rounded up to a multiple of 128.
    """
    end, found = 0, []
    for size in np.asarray(sizes).tolist():
        end = _begin(end) + size
        found.append(end)
    return np.array(found, np.int32)


def spans(ends: npt.NDArray[Any]) -> list[slice]:
    """The rows, or the part of K, of each group with these `ends`, as `weft.matmul` takes them."""
    begins = [0, *map(_begin, ends.tolist())]
    return [slice(begin, max(begin, end)) for begin, end in zip(begins, ends.tolist(), strict=False)]


def _begin(before: int) -> int:
    """Where a group begins that follows one with this end."""
    return -(-before // GROUP_ROWS) * GROUP_ROWS
