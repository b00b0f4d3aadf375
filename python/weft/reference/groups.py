"""Groups of rows, or of parts of K, that are given by their ends."""

from typing import Any

import numpy as np
import numpy.typing as npt


def ends(sizes: npt.ArrayLike, unit: int = 1) -> npt.NDArray[np.int32]:
    """Where groups of these sizes end, as `row_ends` and `k_ends` have them. Each group begins at the end of
    the one before, rounded up to a multiple of `unit`: 128 with block scales, and along K where sums are
    promoted or scaled, or elements have less than 8 bits.
    """
    end, found = 0, []
    for size in np.asarray(sizes).tolist():
        end = -(-end // unit) * unit + size
        found.append(end)
    return np.array(found, np.int32)


def spans(ends: npt.NDArray[Any], unit: int = 1) -> list[slice]:
    """The rows, or the part of K, of each group with these `ends`, as `weft.matmul` takes them."""
    begins = [0, *(-(-end // unit) * unit for end in ends.tolist())]
    return [slice(begin, max(begin, end)) for begin, end in zip(begins, ends.tolist(), strict=False)]
