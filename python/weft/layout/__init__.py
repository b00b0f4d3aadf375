"""Tile layouts: functions from the elements of a tile to positions on named axes, as sums of strided
iterators.

    S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + R[(4):(1@warpid)] + O[3@laneid,5] xor 128B

`S` is the shard: the row-major index over the tile splits into digits of these extents, the last fastest, and
each digit moves the element by its stride on its axis. `R` lists shifts at which every element is stored
again, `O` adds a constant, `xor` swizzles the byte address on `m`. On an axis that a layout doesn't name,
every position is 0.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from math import prod
from operator import attrgetter
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from weft.display.svg import Svg
from weft.errors import shown
from weft.layout import drawing
from weft.layout.arguments import LayoutError as LayoutError
from weft.layout.arguments import Shape, flatten, unflatten, whole
from weft.layout.iterators import AXES as AXES
from weft.layout.iterators import MEMORY as MEMORY
from weft.layout.iterators import (
    MOST,
    ORIGIN,
    Coords,
    add,
    check_listed,
    fit,
    known_axis,
    merge,
    notation,
    on_axis,
    point_table,
    points_of,
    step_along,
)
from weft.layout.iterators import Iter as Iter
from weft.layout.swizzle import SWIZZLES as SWIZZLES
from weft.layout.swizzle import Swizzle as Swizzle

Position = dict[str, int]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Layout:
    """A map from the elements of a tile to positions. It has a size; callers pass the tile's shape.

    `offset` is normalized: at most one (axis, value) pair for each axis, in the order of `AXES`, without 0.
    Methods raise LayoutError for shapes and coordinates that don't match.
    """

    shard: tuple[Iter, ...]
    replica: tuple[Iter, ...] = ()
    offset: tuple[tuple[str, int], ...] = ()
    swizzle: Swizzle | None = None

    def __post_init__(self) -> None:
        total = dict.fromkeys(AXES, 0)
        for axis, value in self.offset:
            total[known_axis(axis)] += value
            if value < 0:
                raise LayoutError(f"offset must not be negative, got {on_axis(value, axis)}")
            if total[axis] > MOST:
                raise LayoutError(f"offset must be at most {MOST}, got {on_axis(total[axis], axis)}")
        object.__setattr__(self, "offset", tuple((axis, value) for axis, value in total.items() if value))

    @staticmethod
    def parse(text: str) -> "Layout":
        """The inverse of `str`. LayoutError names the column, counted from 1, and what is expected there."""
        if not isinstance(text, str):
            raise LayoutError(f"layout must be a string, got {shown(text)}")
        return _Reader(text).layout()

    def __str__(self) -> str:
        replica = f" + R{notation(self.replica)}" if self.replica else ""
        offset = (
            f" + O[{','.join(on_axis(value, axis) for axis, value in self.offset)}]" if self.offset else ""
        )
        return (
            f"S{notation(self.shard)}{replica}{offset}{f' xor {self.swizzle.name}' if self.swizzle else ''}"
        )

    @property
    def size(self) -> int:
        """The number of elements of the tile. Replicas don't count."""
        return prod(it.extent for it in self.shard)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that the layout names, in the order of `AXES`."""
        named = {it.axis for it in self.shard + self.replica} | {axis for axis, _ in self.offset}
        return tuple(axis for axis in AXES if axis in named)

    @property
    def has_replica(self) -> bool:
        """Whether every element is stored more than once."""
        return any(it.extent > 1 for it in self.replica)

    def span(self, axis: str) -> int:
        """One more than the largest distance between two positions on `axis`, before the swizzle."""
        known_axis(axis)
        return 1 + sum((it.extent - 1) * it.stride for it in self.shard + self.replica if it.axis == axis)

    def apply(self, index: int | Shape, shape: Shape = (), element_bits: int | None = None) -> Position:
        """The first position of an element: a value for each of `axes`.

        `index` is the row-major index, or coordinates in `shape`; without a shape, a digit for each iterator.
        A swizzle requires `element_bits`.
        """
        return self.positions(index, shape, element_bits)[0]

    def positions(
        self, index: int | Shape, shape: Shape = (), element_bits: int | None = None
    ) -> list[Position]:
        """All positions of an element, one for each replica, the last replica iterator fastest."""
        extents = [it.extent for it in self.shard]
        box = self._checked(shape if len(whole("a shape", shape)) else extents)
        flat = index if isinstance(index, int) else flatten(whole("an index", index), box)
        point = ORIGIN
        for it, digit in zip(self.shard, unflatten(flat, extents), strict=True):
            point = step_along(point, it, digit)
        stored = (dict(zip(AXES, copy, strict=True)) for _, copy in self._stored([point], element_bits))
        return [{axis: position[axis] for axis in self.axes} for position in stored]

    def group(self, shape: Shape) -> tuple[tuple[Iter, ...], ...]:
        """For each dimension of `shape`, the iterators that its coordinate splits into, the last one fastest.

        An iterator that covers several dimensions is split if extents divide; iterators of extent 1 are
        omitted. Raises LayoutError where extents don't divide.
        """
        shape = self._checked(shape)
        rest = [it for it in self.shard if it.extent > 1]
        groups: list[tuple[Iter, ...]] = []
        for dim, extent in reversed(list(enumerate(shape))):
            need, digits = extent, list[Iter]()
            while need > 1:
                it = rest.pop()
                if need % it.extent and it.extent % need:
                    raise LayoutError(
                        f"shape {tuple(shape)}, dimension {dim} of extent {extent}: its last {need} are in "
                        f"iterator {it}, but neither {need} nor {it.extent} divides the other"
                    )
                if it.extent > need:
                    rest.append(Iter(it.extent // need, it.stride * need, it.axis))
                    it = replace(it, extent=need)
                digits.append(it)
                need //= it.extent
            groups.append(tuple(reversed(digits)))
        return tuple(reversed(groups))

    def canonical(self) -> "Layout":
        """The same map with the fewest iterators: none of extent 1, contiguous neighbors merged."""
        return replace(self, shard=merge(self.shard), replica=merge(self.replica))

    def tile(self, outer: "Layout", outer_shape: Shape, inner_shape: Shape) -> "Layout":
        """This layout, of shape `inner_shape`, repeated at the positions of `outer`, of shape `outer_shape`.

        The result's shape is the elementwise product of both. A step of `outer` on an axis is this layout's
        span on that axis, so that tiles don't overlap. `outer` must not have a swizzle; this layout's swizzle
        applies to the whole address. Raises LayoutError for other arguments.
        """
        if not isinstance(outer, Layout):
            raise LayoutError(f"outer must be a Layout, got {shown(outer)}")
        outer_shape, inner_shape = whole("a shape", outer_shape), whole("a shape", inner_shape)
        if len(outer_shape) != len(inner_shape):
            raise LayoutError(
                f"outer_shape and inner_shape must have the same rank, got {outer_shape} and {inner_shape}"
            )
        if outer.swizzle:
            raise LayoutError(f"outer must not have a swizzle, got {outer}")
        scaled = Layout(
            tuple(replace(it, stride=it.stride * self.span(it.axis)) for it in outer.shard),
            tuple(replace(it, stride=it.stride * self.span(it.axis)) for it in outer.replica),
            tuple((axis, value * self.span(axis)) for axis, value in outer.offset),
        )
        dims = zip(scaled.group(outer_shape), self.group(inner_shape), strict=True)
        shard = tuple(it for slow, fast in dims for it in slow + fast)
        return Layout(shard, scaled.replica + self.replica, scaled.offset + self.offset, self.swizzle)

    def tile_to(self, to_shape: Shape, shape: Shape) -> "Layout":
        """This layout, of shape `shape`, repeated to fill `to_shape`. The tiles are in row-major order on
        `m`. Raises LayoutError where the tiles don't divide it.
        """
        to_shape, shape = whole("a shape", to_shape), self._checked(shape)
        if len(to_shape) != len(shape) or any(to % of for to, of in zip(to_shape, shape, strict=True)):
            raise LayoutError(f"to_shape must be a multiple of {shape} in each dimension, got {to_shape}")
        tiles = [to // of for to, of in zip(to_shape, shape, strict=True)]
        return self.tile(row_major(tiles), tiles, shape)

    def slice(self, shape: Shape, starts: Shape, extents: Shape) -> "Layout":
        """The layout of the region of shape `extents` that begins at `starts`. Elements keep their positions.

        Raises LayoutError if the region's elements along a dimension have no common stride.
        """
        shape, starts, extents = (
            whole(what, each)
            for what, each in (
                ("a shape", shape),
                ("a region's start", starts),
                ("a region's shape", extents),
            )
        )
        return _sliced(self, shape, starts, extents)

    def compose(self, inner: "Layout") -> "Layout":
        """This layout after `inner`: the position on `m` in `inner` is the index in this layout. The other
        axes of both are added.

        The result has `inner`'s logical index. Raises LayoutError if the index exceeds this layout, if
        `inner` has a swizzle, and if no strided layout has these positions.
        """
        if not isinstance(inner, Layout):
            raise LayoutError(f"inner must be a Layout, got {shown(inner)}")
        if inner.swizzle:
            raise LayoutError(f"inner must not have a swizzle, got {inner}")
        start, own = inner._start(), points_of(self.shard)
        reach = start[-1] + inner.span(MEMORY)
        if reach > self.size:
            raise LayoutError(
                f"inner must stay below {self.size}, the size of {self}, got {inner}, which reaches {reach}"
            )
        indices = [add(start, shift) for shift in points_of(inner.replica + inner.shard)]
        points = [add(own[point[-1]], (*point[:-1], 0)) for point in indices]
        fitted = Layout(fit(np.array(points, np.int64), lambda: f"{self} after {inner}"))
        copies, shard = fitted.group((len(points) // inner.size, inner.size))
        offset = self.offset + tuple(zip(AXES, points[0], strict=True))
        return Layout(shard, self.replica + copies, offset, self.swizzle)

    def inverse(self, shape: Shape, element_bits: int | None = None) -> dict[Coords, Coords]:
        """A map from each position in use, a value for each of `axes`, to its element's coordinates in
        `shape`.

        Raises LayoutError if two elements have the same position.
        """
        shape = self._checked(shape)
        used = [AXES.index(axis) for axis in self.axes]
        table: dict[Coords, Coords] = {}
        for flat, point in self._stored(points_of(self.shard), element_bits):
            position, coords = tuple(point[i] for i in used), unflatten(flat, shape)
            if table.setdefault(position, coords) != coords:
                raise LayoutError(
                    f"no inverse: {self} stores {table[position]} and {coords} at the same position"
                )
        return table

    def invert(self) -> "Layout":
        """The inverse as a layout: from the row-major index over a box of positions to the logical index, on
        `m`.

        The box has the span of each of `axes`. Raises LayoutError unless this layout is a bijection onto the
        box, without replica or swizzle, and has a strided inverse.
        """
        box = {axis: self.span(axis) for axis in self.axes}
        if self.replica or self.swizzle or not self.is_bijective(box):
            raise LayoutError(
                f"layout must be a bijection onto {box}, without replica or swizzle, got {self}"
            )
        logical = [(*ORIGIN[:-1], index) for _, (index,) in sorted(self.inverse((self.size,)).items())]
        return Layout(fit(np.array(logical, np.int64), lambda: f"the inverse of {self}"))

    def is_bijective(self, axis_extents: Mapping[str, int], element_bits: int | None = None) -> bool:
        """Whether each position in the box of these extents is used exactly once, by an element or a
        replica.
        """
        if not isinstance(axis_extents, Mapping):
            raise LayoutError(
                f"axis_extents must be a dictionary of extents by axis, got {shown(axis_extents)}"
            )
        extents = whole("a box", list(axis_extents.values()))
        box = dict.fromkeys(AXES, 1) | dict(zip(map(known_axis, axis_extents), extents, strict=True))
        if prod(it.extent for it in self.shard + self.replica) != prod(box.values()):
            return False
        if not (self.replica or self.offset or self.swizzle) and self._is_mixed_radix(box):
            return True  # a table of a large tile would take long
        points = {point for _, point in self._stored(points_of(self.shard), element_bits)}
        return len(points) == prod(box.values()) and all(
            value < extent for point in points for value, extent in zip(point, box.values(), strict=True)
        )

    def _is_mixed_radix(self, box: Mapping[str, int]) -> bool:
        """Whether the digits on each axis form a mixed-radix number below the box's extent."""
        for axis, extent in box.items():
            reach = 1
            for it in sorted(
                (it for it in self.shard if it.axis == axis and it.extent > 1), key=attrgetter("stride")
            ):
                if it.stride != reach:
                    return False
                reach *= it.extent
            if reach != extent:
                return False
        return True

    def lane_elements(self, lane: int, shape: Shape, warp: int = 0) -> list[Coords]:
        """The coordinates in `shape` of a lane's elements, in register order: by `reg`, then `m`."""
        shape = self._checked(shape)
        flat = self.lane_indices(lane, warp)
        if not shape:
            return [()] * len(flat)
        return list(zip(*(digit.tolist() for digit in np.unravel_index(flat, tuple(shape))), strict=True))

    def lane_indices(self, lane: int, warp: int = 0) -> npt.NDArray[np.int64]:
        """The row-major indices of a lane's elements, in the order of `lane_elements`."""
        return _held(self).get(whole("a warp and lane", (warp, lane)), np.zeros(0, np.int64))

    def first_positions(self) -> npt.NDArray[np.int64]:
        """The first position of every element, before the swizzle: a row for each, with a column for each of
        `AXES`.
        """
        return point_table(self.shard) + self._start()

    def drawn(self, shape: Shape = (), element_bits: int | None = None) -> Svg:
        """A drawing of a matrix of this shape: in each cell, the lane and register, or the address, that
        holds the element. Notebooks show it. Of large matrices it has the first 32 rows and columns. Without
        a shape, the matrix is as square as the iterators allow. A swizzle is drawn for elements of
        `element_bits`, by default 16.
        """
        return drawing.draw(self, shape, element_bits)

    def _repr_svg_(self) -> str:
        return self.drawn().text()

    def _checked(self, shape: Shape) -> Shape:
        sizes = whole("a shape", shape)
        if prod(sizes) != self.size or min(sizes, default=1) < 1:
            raise LayoutError(f"shape {shown(sizes)} doesn't have the {self.size} elements of {self}")
        return sizes

    def _start(self) -> Coords:
        return tuple(dict(self.offset).get(axis, 0) for axis in AXES)

    def _stored(self, points: Iterable[Coords], element_bits: int | None) -> Iterator[tuple[int, Coords]]:
        """The number of each of the shard's `points`, with each point where its element is stored."""
        shifts = [add(self._start(), shift) for shift in points_of(self.replica)]
        for (i, point), shift in product(enumerate(points), shifts):
            stored = add(point, shift)
            if self.swizzle:
                stored = (*stored[:-1], self.swizzle.swizzle_element(stored[-1], element_bits))
            yield i, stored


@lru_cache(maxsize=1024)
def _sliced(layout: Layout, shape: Coords, starts: Coords, extents: Coords) -> Layout:
    """`Layout.slice`; kernels ask for the same few slices many times."""
    groups = layout.group(shape)
    inside = len(shape) == len(starts) == len(extents) and all(
        0 <= start < start + n <= whole for whole, start, n in zip(shape, starts, extents, strict=True)
    )
    if not inside:
        raise LayoutError(
            f"region must lie within shape {tuple(shape)}, got {tuple(extents)} at {tuple(starts)}"
        )
    shard, base = list[Iter](), layout._start()
    for dim, (iters, start, n) in enumerate(zip(groups, starts, extents, strict=True)):
        points = point_table(iters)[start : start + n]
        shard += fit(points, partial(_region, dim, iters, start, n))
        base = add(base, points[0].tolist())
    return replace(layout, shard=tuple(shard), offset=tuple(zip(AXES, base, strict=True)))


@lru_cache(maxsize=64)
def _held(layout: Layout) -> dict[Coords, npt.NDArray[np.int64]]:
    """Logical indices by (warp, lane), in register order. Cached, since callers ask for one lane at a
    time.
    """
    if layout.swizzle:
        layout.swizzle.swizzle_element(0, None)  # raises: registers have no byte addresses
    check_listed(layout.shard)
    check_listed(layout.replica)
    # A position as one number, whose digits are those on these axes: an eighth of the memory of points.
    digits, weights, reach = (*layout.shard, *layout.replica), dict[str, int](), 1
    for axis in (MEMORY, "reg", "laneid", "warpid"):
        weights[axis] = reach
        reach *= 1 + sum((it.extent - 1) * it.stride for it in digits if it.axis == axis)
    positions = np.zeros(1, np.int64 if reach < 1 << 63 else object)
    for it in digits:
        steps = it.stride * weights.get(it.axis, 0) * np.arange(it.extent, dtype=positions.dtype)
        positions = (positions[:, None] + steps).ravel()
    order = np.argsort(positions, kind="stable")
    holders = positions[order] // weights["laneid"]
    first = np.flatnonzero(holders[1:] != holders[:-1]) + 1
    lanes, (warp, lane, *_) = weights["warpid"] // weights["laneid"], layout._start()
    keys = [(warp + each // lanes, lane + each % lanes) for each in holders[[0, *first]].tolist()]
    copies = prod(it.extent for it in layout.replica)
    return dict(zip(keys, np.split(order // copies, first), strict=True))


def row_major(shape: Shape) -> Layout:
    """The dense layout of `shape` on `m`, its last dimension contiguous."""
    return Layout(tuple(Iter(n, prod(shape[dim + 1 :])) for dim, n in enumerate(shape)))


def _region(dimension: int, iters: tuple[Iter, ...], start: int, count: int) -> str:
    """What a region's error names."""
    return f"dimension {dimension}, elements {start} to {start + count - 1} of {Layout(iters)}"


class _Reader:
    """The recursive-descent parser of `Layout.parse`."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def layout(self) -> Layout:
        replica, offset, swizzle = tuple[Iter, ...](), list[tuple[str, int]](), None
        self.take("S", "'S'")
        shard = self.iters()
        more = self.accept(r"\+")
        if more and self.accept("R"):
            replica = self.iters()
            more = self.accept(r"\+")
        if more:
            self.take("O", "'O'" if replica else "'R' or 'O'")
            offset = [(axis, value) for value, axis in self.listed(self.value, "[]")]
        if self.accept("xor"):
            swizzle = SWIZZLES[self.choice(SWIZZLES, "a swizzle")]
        self.take("$", "the end" if swizzle else "'xor' or the end" if more else "'+', 'xor' or the end")
        return Layout(shard, replica, tuple(offset), swizzle)

    def iters(self) -> tuple[Iter, ...]:
        self.take(r"\[", "'['")
        extents = self.listed(lambda: int(self.take("0*[1-9][0-9]*", "a positive extent")), "()")
        self.take(":", "':'")
        begin = self.at
        strides = self.listed(self.value, "()")
        if len(strides) != len(extents):
            self.at = begin
            self.fail(f"as many strides as extents, {len(extents)}", str(len(strides)))
        self.take(r"\]", "']'")
        return tuple(Iter(extent, *value) for extent, value in zip(extents, strides, strict=True))

    def listed(self, item: Callable[[], _T], brackets: str) -> list[_T]:
        items: list[_T] = []
        self.take(rf"\{brackets[0]}", f"'{brackets[0]}'")
        while self.accept(rf"\{brackets[1]}") is None:
            items.append(item())
            self.take(rf",|(?=\{brackets[1]})", f"',' or '{brackets[1]}'")
        return items

    def value(self) -> tuple[int, str]:
        value = int(self.take("[0-9]+", "an integer"))
        return value, self.choice(AXES, "an axis") if self.accept("@") else MEMORY

    def choice(self, names: Iterable[str], kind: str) -> str:
        return self.take(rf"(?:{'|'.join(names)})\b", f"{kind} ({', '.join(names)})")

    def take(self, pattern: str, wanted: str) -> str:
        token = self.accept(pattern)
        return self.fail(wanted) if token is None else token

    def accept(self, pattern: str) -> str | None:
        match = re.compile(rf"\s*({pattern})").match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match[1] if match else None

    def fail(self, wanted: str, got: str = "") -> NoReturn:
        token = self.accept(r"\w+|.|$")
        got = got or (f"'{token}'" if token else "the end")
        column = self.at - len(token or "") + 1
        raise LayoutError(f"layout '{self.text}', column {column}: expected {wanted}, got {got}")
