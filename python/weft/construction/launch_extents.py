"""Checks of the block, the grid and the cluster of a launch that a caller passes."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from weft.errors import WeftError, shown
from weft.isa import launch_limits


def block(value: object) -> list[int]:
    """The threads of a CTA in x, y and z. Raises WeftError for a block that no launch can have."""
    return _extents("block", value, launch_limits.block_complaint)


def grid(value: object) -> list[int]:
    """The CTAs of a launch in x, y and z. Raises WeftError for a grid that no launch can have."""
    return _extents("grid", value, launch_limits.grid_complaint)


def cluster(value: object, ctas: Sequence[int] | None) -> list[int]:
    """The CTAs of a cluster in x, y and z, of a grid of `ctas` if that is given. Raises WeftError for a
    cluster that no launch can have.
    """
    return _extents("cluster", value, lambda extents: launch_limits.cluster_complaint(extents, ctas))


def _extents(name: str, value: object, complaint: Callable[[Sequence[int]], str | None]) -> list[int]:
    integers = [integer(each) for each in listed(name, value, "integers")]
    extents = [each for each in integers if each is not None]
    if len(extents) != len(integers):
        raise WeftError(f"{name} must be three integers (x, y, z), got {shown(value)}")
    if wrong := complaint(extents):
        raise WeftError(wrong)
    return extents


def listed(name: str, value: object, entries: str) -> list[Any]:
    """The elements of a sequence. Raises WeftError for anything else."""
    try:
        return list(value)  # type: ignore[call-overload]
    except TypeError:
        raise WeftError(f"{name} must be a sequence of {entries}, got {shown(value)}") from None


def integer(value: object) -> int | None:
    """An integer; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
