"""What a launch can't exceed on any chip, and what is wrong with a block, a grid or a size that does."""

import math
from collections.abc import Sequence

MOST_THREADS = 1024  # of a CTA
BLOCK_LIMITS = (1024, 1024, 64)
GRID_LIMITS = (2**31 - 1, 65535, 65535)
MOST_SIZE = 2**31 - 1  # of an array along one dimension: kernels and tensor maps count in 32 bits


def block_complaint(block: Sequence[int]) -> str | None:
    """What is wrong with the threads of a CTA on x, y and z."""
    if found := _extents_complaint("block", block, BLOCK_LIMITS):
        return found
    if (threads := math.prod(block)) > MOST_THREADS:
        return f"block must have at most {MOST_THREADS} threads, got {threads}: {_listed(block)}"
    return None


def grid_complaint(grid: Sequence[int]) -> str | None:
    """What is wrong with the CTAs of a launch on x, y and z."""
    return _extents_complaint("grid", grid, GRID_LIMITS)


def size_complaint(size: int) -> str | None:
    """What is wrong with the size of an array along one dimension."""
    return None if 1 <= size <= MOST_SIZE else f"sizes must be in 1..{MOST_SIZE}, got {size}"


def _extents_complaint(what: str, extents: Sequence[int], limits: Sequence[int]) -> str | None:
    if len(extents) != len(limits):
        return f"{what} must be three integers (x, y, z), got {len(extents)}: {_listed(extents)}"
    for axis, extent, most in zip("xyz", extents, limits, strict=True):
        if not 1 <= extent <= most:
            return f"{what} must be in 1..{most} on {axis}, got {extent}: {_listed(extents)}"
    return None


def _listed(extents: Sequence[int]) -> str:
    return f"({', '.join(map(str, extents))})"
