"""Limits of a launch that hold on every chip, and the messages for blocks, grids and sizes beyond them."""

import math
from collections.abc import Sequence

MOST_THREADS = 1024  # of a CTA
BLOCK_LIMITS = (1024, 1024, 64)
PORTABLE_CLUSTER = 8  # CTAs, on every chip with clusters
MOST_CLUSTER = 16  # CTAs, where a kernel allows more and the chip has them
GRID_LIMITS = (2**31 - 1, 65535, 65535)
MOST_SIZE = 2**31 - 1  # of an array along one dimension: kernels and tensor maps count in 32 bits


def block_complaint(block: Sequence[int]) -> str | None:
    """Why no launch can have a CTA of these extents on x, y and z; None where one can."""
    if complaint := _extents_complaint("block", block, BLOCK_LIMITS):
        return complaint
    if (threads := math.prod(block)) > MOST_THREADS:
        return f"block must have at most {MOST_THREADS} threads, got {threads}: {_listed(block)}"
    return None


def grid_complaint(grid: Sequence[int]) -> str | None:
    """Why no launch can have a grid of these extents on x, y and z; None where one can."""
    return _extents_complaint("grid", grid, GRID_LIMITS)


def cluster_complaint(cluster: Sequence[int], grid: Sequence[int] | None = None) -> str | None:
    """Why no launch can have clusters of these extents on x, y and z, in this grid if it is given; None where
    one can.
    """
    if complaint := _extents_complaint("cluster", cluster, (MOST_CLUSTER,) * 3):
        return complaint
    if (ctas := math.prod(cluster)) > MOST_CLUSTER:
        return f"cluster must have at most {MOST_CLUSTER} CTAs, got {ctas}: {_listed(cluster)}"
    if grid is not None and any(count % extent for count, extent in zip(grid, cluster, strict=True)):
        return f"cluster must divide the grid {_listed(grid)}, got {_listed(cluster)}"
    return None


def size_complaint(size: int) -> str | None:
    """Why no kernel takes an array of that size along one dimension; None where one does."""
    return None if 1 <= size <= MOST_SIZE else f"sizes must be in 1..{MOST_SIZE}, got {_text(size)}"


def _extents_complaint(what: str, extents: Sequence[int], limits: Sequence[int]) -> str | None:
    if len(extents) != len(limits):
        return f"{what} must be three integers (x, y, z), got {len(extents)}: {_listed(extents)}"
    for axis, extent, most in zip("xyz", extents, limits, strict=True):
        if not 1 <= extent <= most:
            return f"{what} must be in 1..{most} on {axis}, got {_text(extent)}: {_listed(extents)}"
    return None


def _listed(extents: Sequence[int]) -> str:
    return f"({', '.join(map(_text, extents))})"


def _text(number: int) -> str:
    """The number; Python refuses to print those of thousands of digits."""
    return str(number) if number.bit_length() <= 64 else f"a number of {number.bit_length()} bits"
