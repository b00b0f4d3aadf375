"""Checks the shapes and coordinates that a layout's methods are given."""

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from weft.errors import WeftError, shown

Shape = Sequence[int]


class LayoutError(WeftError):
    """A layout that can't be read, or an operation whose result no layout expresses."""


PRINTABLE = 10**100  # what a message may show, where it says what is too large


def whole(what: str, values: Any, bound: int = 2**63) -> tuple[int, ...]:
    """A shape or coordinates as plain integers below a bound. Raises LayoutError for what is none."""
    try:
        numbers = tuple(map(operator.index, values))
    except (TypeError, NotImplementedError):  # the second of a memoryview's dimensions
        numbers = (bound,)
    if any(abs(number) >= bound for number in numbers):
        raise LayoutError(f"{what} must be a tuple of whole numbers, got {shown(values)}")
    return numbers


def flatten(coords: Shape, shape: Shape) -> int:
    """The row-major index of `coords` in `shape`."""
    if len(coords) != len(shape) or any(not 0 <= c < n for c, n in zip(coords, shape, strict=True)):
        raise LayoutError(f"coordinates {tuple(coords)} are outside shape {tuple(shape)}")
    return sum(c * prod(shape[dim + 1 :]) for dim, c in enumerate(coords))


def unflatten(flat: int, shape: Shape) -> tuple[int, ...]:
    """The coordinates in `shape` of a row-major index."""
    if not 0 <= flat < prod(shape):
        raise LayoutError(f"index {flat} is outside shape {tuple(shape)}")
    return tuple(flat // prod(shape[dim + 1 :]) % n for dim, n in enumerate(shape))
