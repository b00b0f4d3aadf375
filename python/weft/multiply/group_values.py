"""The values of `groups`, `row_ends` and `k_ends`, checked where they are in CPU memory."""

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.dialects.product_types import GROUP_ROWS
from weft.errors import WeftError


def check_groups(groups: npt.NDArray[np.int32], rows: int, matrices: int | None) -> None:
    """Raises WeftError for illegal values of `groups` in CPU memory. With `matrices` of None they are numbers
    of rows, up to `rows`; otherwise numbers of matrices, one for each row.
    """
    if matrices is None:
        wrong = np.flatnonzero((groups < 0) | (groups > rows))
        what = f"numbers of rows in 0..{rows}"
    else:
        wrong = np.flatnonzero(groups >= matrices)
        what = f"numbers of matrices below {matrices}"
    if len(wrong):
        at = int(wrong[0])
        raise WeftError(f"weft.matmul: groups must be {what}, got {groups[at]} at index {at}")
    if matrices is None:
        return
    first = groups[np.arange(len(groups)) // GROUP_ROWS * GROUP_ROWS]
    wrong = np.flatnonzero((groups != first) & (groups >= 0))
    if len(wrong):
        at = int(wrong[0])
        begin = at // GROUP_ROWS * GROUP_ROWS
        raise WeftError(
            f"weft.matmul: groups must have one number for the {GROUP_ROWS} rows from {begin} on, got "
            f"{groups[begin]} and, at index {at}, {groups[at]}"
        )


def check_ends(name: str, ends: npt.NDArray[np.int32], size: int) -> None:
    """Raises WeftError for illegal values of `row_ends` or `k_ends`, of groups of `size` rows or columns."""
    what = "rows of a" if name == "row_ends" else "K"
    wrong = np.flatnonzero((ends < 0) | (ends > size))
    if len(wrong):
        at = int(wrong[0])
        raise WeftError(f"weft.matmul: {name} must be in 0..{size} ({what}), got {ends[at]} at index {at}")
    before = 0
    for at, end in enumerate(ends.tolist()):
        begin = -(-before // GROUP_ROWS) * GROUP_ROWS
        if end != before and end < begin:
            where = f"where its group begins ({before} rounded up to a multiple of {GROUP_ROWS})"
            least = f"at least {begin} at index {at}, {where}, or {before} for an empty group"
            raise WeftError(f"weft.matmul: {name} must be {least}, got {end}")
        before = end


def check_padding(name: str, matrix: npt.NDArray[Any], ends: npt.NDArray[np.int32]) -> None:
    """Raises WeftError for a matrix with K first that isn't 0 between the end of a group and the multiple of
    128 up to which a kernel reads it.
    """
    for end in ends.tolist():
        padding = slice(end, -(-end // GROUP_ROWS) * GROUP_ROWS)
        wrong = np.flatnonzero((matrix[padding] != 0).any(axis=1))
        if len(wrong):
            raise WeftError(
                f"weft.matmul: {name} must be 0 from the end of a group to the next multiple of {GROUP_ROWS} "
                f"along K, {padding.start}..{padding.stop - 1}, got another value at {end + int(wrong[0])}"
            )


def check_between(matrix: npt.NDArray[Any], ends: npt.NDArray[np.int32]) -> None:
    """Raises WeftError for rows between two groups that aren't 0: they may belong to the next group, as with
    the `offs` of `torch.nn.functional.grouped_mm`, but its rows begin at a multiple of 128.
    """
    for end, following in itertools.pairwise(ends.tolist()):
        begin = -(-end // GROUP_ROWS) * GROUP_ROWS
        wrong = np.flatnonzero((matrix[end:begin] != 0).any(axis=1))
        if following > end and len(wrong):
            what = f"rows {end}..{begin - 1} of a must be 0, since the next group begins at {begin}"
            raise WeftError(
                f"weft.matmul: {what}, a multiple of {GROUP_ROWS}, got another value in row "
                f"{end + int(wrong[0])}: pad each group with zeros, which torch's offs don't do"
            )
