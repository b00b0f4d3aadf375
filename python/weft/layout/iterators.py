"""The iterators of a layout, and the points that they visit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from weft.errors import shown
from weft.layout.arguments import PRINTABLE, LayoutError, whole

MEMORY = "m"
AXES = ("warpid", "laneid", "TLane", "TCol", "reg", MEMORY)
"""All axes, outermost first. `m`, the default, counts elements, in memory or in a lane's registers."""

Coords = tuple[int, ...]
MOST = 2**31 - 1  # of an extent, a stride or an offset: no memory is larger
_MOST_POINTS = 1 << 24  # in a table: shared memory has fewer elements, and larger tables take minutes
ORIGIN: Coords = (0,) * len(AXES)  # A point is a position with a value for every axis.


@dataclass(frozen=True)
class Iter:
    """One digit of an index, in 0..`extent - 1`, which moves an element by `stride` on `axis`."""

    extent: int
    stride: int
    axis: str = MEMORY

    def __post_init__(self) -> None:
        known_axis(self.axis)
        whole("an iterator", (self.extent, self.stride), PRINTABLE)
        if self.extent < 1 or self.stride < 0:
            raise LayoutError(f"iterator {self} must have a positive extent and a non-negative stride")
        if max(self.extent, self.stride) > MOST:
            raise LayoutError(f"iterator {self} must have an extent and a stride of at most {MOST}")

    def __str__(self) -> str:
        return f"{self.extent}:{on_axis(self.stride, self.axis)}"


def known_axis(axis: str) -> str:
    """The axis. Raises LayoutError for an unknown one."""
    if not (isinstance(axis, str) and axis in AXES):
        got = f"'{axis}'" if isinstance(axis, str) else shown(axis)
        raise LayoutError(f"axis must be one of {', '.join(AXES)}, got {got}")
    return axis


def on_axis(value: int, axis: str) -> str:
    """A stride or offset as layouts print it: `4@laneid`, or `4` on `m`."""
    return str(value) if axis == MEMORY else f"{value}@{axis}"


def notation(iters: Sequence[Iter]) -> str:
    """Iterators as layouts print them: `[(8,4):(4@laneid,1)]`."""
    extents = ",".join(str(it.extent) for it in iters)
    return f"[({extents}):({','.join(on_axis(it.stride, it.axis) for it in iters)})]"


def add(a: Coords, b: Coords) -> Coords:
    """The sum of two points."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def step_along(point: Coords, it: Iter, digit: int) -> Coords:
    """The point that an iterator reaches from `point` at `digit`."""
    i = AXES.index(it.axis)
    return (*point[:i], point[i] + digit * it.stride, *point[i + 1 :])


def check_listed(iters: Sequence[Iter]) -> None:
    """Raises LayoutError for iterators that visit too many points for a table."""
    if (points := prod(it.extent for it in iters)) > _MOST_POINTS:
        raise LayoutError(
            f"layout must have at most {_MOST_POINTS} elements to be listed, got {points}: {notation(iters)}"
        )


def point_table(iters: Iterable[Iter]) -> npt.NDArray[np.int64]:
    """The points that iterators visit, the last iterator fastest: one row for each."""
    iters = tuple(iters)
    check_listed(iters)
    table = np.zeros((1, len(AXES)), np.int64)
    for it in iters:
        steps = np.zeros((it.extent, len(AXES)), np.int64)
        steps[:, AXES.index(it.axis)] = it.stride * np.arange(it.extent)
        table = (table[:, None] + steps).reshape(-1, len(AXES))
    return table


def points_of(iters: Iterable[Iter]) -> list[Coords]:
    """`point_table` as a list of tuples."""
    return [tuple(point) for point in point_table(iters).tolist()]


def fit(points: npt.NDArray[np.int64], what: Callable[[], str]) -> tuple[Iter, ...]:
    """The canonical iterators that visit `points`, the rows of a table, in this order, relative to the first
    one. Raises LayoutError if there are none.

    Taking the longest run as an iterator is safe: the next iterator continues a run only if both merge.
    """
    iters: list[Iter] = []
    while len(points) > 1:
        steps = points[1:] - points[:-1]
        step = steps[0]
        moved = step.nonzero()[0].tolist()
        ends = (steps != step).any(axis=1).nonzero()[0]
        run = int(ends[0]) + 1 if len(ends) else len(points)
        straight = len(moved) == 0 or (len(moved) == 1 and step[moved[0]] > 0)
        if not straight or len(points) % run:
            raise LayoutError(f"{what()}: the positions have no common stride")
        first = points[::run]
        if (points != (first[:, None] + np.arange(run)[:, None] * step).reshape(points.shape)).any():
            raise LayoutError(f"{what()}: the positions have no common stride")
        stride, axis = (int(step[moved[0]]), AXES[moved[0]]) if moved else (0, MEMORY)
        iters.insert(0, Iter(run, stride, axis))
        points = first
    return tuple(iters)


def merge(iters: Iterable[Iter]) -> tuple[Iter, ...]:
    """The same digits with the fewest iterators: none of extent 1, contiguous neighbors merged."""
    merged: list[Iter] = []
    for it in (it for it in iters if it.extent > 1):
        if merged and merged[-1].axis == it.axis and merged[-1].stride == it.stride * it.extent:
            it = replace(it, extent=merged.pop().extent * it.extent)
        merged.append(it)
    return tuple(merged)
