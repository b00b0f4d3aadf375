"""Checks of the shapes and coordinates that callers pass to a layout's methods."""

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from weft.errors import WeftError, shown

Shape = Sequence[int]


class LayoutError(WeftError):
    """A layout that can't be parsed, or an operation whose result isn't a layout."""


PRINTABLE = 10**100  # the largest number that a message shows


def whole(what: str, values: Any, bound: int = 2**63) -> tuple[int, ...]:
    """A shape or coordinates as Python integers below a bound. Raises LayoutError for anything else; `what`
    names the values in the message.
    """
    try:
        numbers = tuple(map(operator.index, values))
    except (TypeError, NotImplementedError):  # the latter for a memoryview of rank 2
        numbers = (bound,)
    if any(abs(number) >= bound for number in numbers):
        raise LayoutError(f"{what} must be a tuple of integers, got {shown(values)}")
    return numbers


def flatten(coords: Shape, shape: Shape) -> int:
    """The row-major index of `coords` in `shape`. Raises LayoutError outside it."""
    if len(coords) != len(shape) or any(not 0 <= c < n for c, n in zip(coords, shape, strict=True)):
        raise LayoutError(f"coordinates must be within shape {tuple(shape)}, got {tuple(coords)}")
    return sum(c * prod(shape[dim + 1 :]) for dim, c in enumerate(coords))


def unflatten(flat: int, shape: Shape) -> tuple[int, ...]:
    """The coordinates in `shape` of a row-major index. Raises LayoutError outside it."""
    if not 0 <= flat < prod(shape):
        raise LayoutError(f"index must be within shape {tuple(shape)}, got {flat}")
    return tuple(flat // prod(shape[dim + 1 :]) % n for dim, n in enumerate(shape))
