"""Tile layouts: where each element of a logical tile lives, on named axes, as a sum of strided iterators.

    S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + R[(4):(1@warpid)] + O[3@laneid,5] xor 128B

`S` is the shard: the row-major index over the tile splits into digits of these extents, the last fastest, and
each digit moves the element by its stride on its axis. `R` lists shifts at which every element is stored too,
`O` adds a constant, `xor` swizzles the byte address on `m`. An axis that a layout doesn't name is at 0.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, product
from math import prod
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from weft.errors import shown
from weft.layout.arguments import PRINTABLE, Shape, flatten, unflatten, whole
from weft.layout.arguments import LayoutError as LayoutError
from weft.layout.swizzle import SWIZZLES as SWIZZLES
from weft.layout.swizzle import Swizzle as Swizzle

MEMORY = "m"
AXES = ("warpid", "laneid", "TLane", "TCol", "reg", MEMORY)
"""Every axis, outermost first. `m`, last and the default, counts elements, of memory or of a lane."""

Coords = tuple[int, ...]
Place = dict[str, int]
_MOST = 2**31 - 1  # of an extent, a stride and an offset: no memory reaches further
_MOST_POINTS = 1 << 24  # that are listed: a chip's shared memory has fewer, and more would take minutes
_ORIGIN: Coords = (0,) * len(AXES)  # In this module a point has a value for each axis.
_T = TypeVar("_T")


@dataclass(frozen=True)
class Iter:
    """One digit of an index, from 0 to `extent - 1`, that moves by `stride` on `axis`."""

    extent: int
    stride: int
    axis: str = MEMORY

    def __post_init__(self) -> None:
        _known(self.axis)
        whole("an iterator", (self.extent, self.stride), PRINTABLE)
        if self.extent < 1 or self.stride < 0:
            raise LayoutError(f"iterator {self} needs a positive extent and a stride that is not negative")
        if max(self.extent, self.stride) > _MOST:
            raise LayoutError(f"iterator {self} needs an extent and a stride of at most {_MOST}")

    def __str__(self) -> str:
        return f"{self.extent}:{_at(self.stride, self.axis)}"


@dataclass(frozen=True)
class Layout:
    """A map from the elements of a tile to places; it fixes the tile's size, callers bring the shape.

    `offset` is normalised: one (axis, value) pair an axis, in the order of `AXES`, none of value 0.
    """

    shard: tuple[Iter, ...]
    replica: tuple[Iter, ...] = ()
    offset: tuple[tuple[str, int], ...] = ()
    swizzle: Swizzle | None = None

    def __post_init__(self) -> None:
        total = dict.fromkeys(AXES, 0)
        for axis, value in self.offset:
            total[_known(axis)] += value
            if value < 0:
                raise LayoutError(f"an offset can't be negative, got {_at(value, axis)}")
            if total[axis] > _MOST:
                raise LayoutError(f"an offset is at most {_MOST}, got {_at(total[axis], axis)}")
        object.__setattr__(self, "offset", tuple((axis, value) for axis, value in total.items() if value))

    @staticmethod
    def parse(text: str) -> "Layout":
        """Reads what `str` prints; LayoutError names the column, from 1, and what was expected there."""
        if not isinstance(text, str):
            raise LayoutError(f"a layout must be read from text, got {shown(text)}")
        return _Reader(text).layout()

    def __str__(self) -> str:
        replica = f" + R{_notation(self.replica)}" if self.replica else ""
        offset = f" + O[{','.join(_at(value, axis) for axis, value in self.offset)}]" if self.offset else ""
        return (
            f"S{_notation(self.shard)}{replica}{offset}{f' xor {self.swizzle.name}' if self.swizzle else ''}"
        )

    @property
    def size(self) -> int:
        """How many logical elements there are; replicas don't count."""
        return prod(it.extent for it in self.shard)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that the layout names, in the order of `AXES`."""
        named = {it.axis for it in self.shard + self.replica} | {axis for axis, _ in self.offset}
        return tuple(axis for axis in AXES if axis in named)

    @property
    def has_replica(self) -> bool:
        """Whether every element is stored more than once (a replica of extent 1 stores it once)."""
        return any(it.extent > 1 for it in self.replica)

    def span(self, axis: str) -> int:
        """One more than the largest distance between two places on `axis`, before the swizzle."""
        _known(axis)
        return 1 + sum((it.extent - 1) * it.stride for it in self.shard + self.replica if it.axis == axis)

    def apply(self, index: int | Shape, shape: Shape = (), element_bits: int | None = None) -> Place:
        """The first place of one element: a value for each of `axes`.

        `index` is the row-major index, or coordinates in `shape`; without a shape, one digit an iterator.
        """
        return self.places(index, shape, element_bits)[0]

    def places(self, index: int | Shape, shape: Shape = (), element_bits: int | None = None) -> list[Place]:
        """`apply` for every replica, the last replica iterator fastest; a swizzle needs `element_bits`."""
        extents = [it.extent for it in self.shard]
        box = self._checked(shape if len(whole("a shape", shape)) else extents)
        flat = index if isinstance(index, int) else flatten(whole("an index", index), box)
        point = _ORIGIN
        for it, digit in zip(self.shard, unflatten(flat, extents), strict=True):
            point = _step(point, it, digit)
        stored = (dict(zip(AXES, copy, strict=True)) for _, copy in self._stored([point], element_bits))
        return [{axis: place[axis] for axis in self.axes} for place in stored]

    def group(self, shape: Shape) -> tuple[tuple[Iter, ...], ...]:
        """For each dimension of `shape`, the iterators that its coordinate splits into, the last one fastest.

        An iterator across several dimensions is split where extents divide; extents of 1 are left out.
        """
        shape = self._checked(shape)
        rest = [it for it in self.shard if it.extent > 1]
        groups: list[tuple[Iter, ...]] = []
        for dim, extent in reversed(list(enumerate(shape))):
            need, taken = extent, list[Iter]()
            while need > 1:
                it = rest.pop()
                if need % it.extent and it.extent % need:
                    raise LayoutError(
                        f"shape {tuple(shape)}, dimension {dim} of extent {extent}: its last {need} are in "
                        f"iterator {it}, and neither {need} nor {it.extent} divides the other"
                    )
                if it.extent > need:
                    rest.append(Iter(it.extent // need, it.stride * need, it.axis))
                    it = replace(it, extent=need)
                taken.append(it)
                need //= it.extent
            groups.append(tuple(reversed(taken)))
        return tuple(reversed(groups))

    def canonical(self) -> "Layout":
        """The same map with fewest iterators: none of extent 1, contiguous neighbours merged."""
        return replace(self, shard=_merged(self.shard), replica=_merged(self.replica))

    def tile(self, outer: "Layout", outer_shape: Shape, inner_shape: Shape) -> "Layout":
        """This layout, of shape `inner_shape`, repeated where `outer`, of shape `outer_shape`, says.

        The result's shape is their elementwise product. A step of `outer` on an axis is this layout's span
        there, so tiles don't overlap. `outer` has no swizzle; this layout's acts on the whole address.
        """
        if not isinstance(outer, Layout):
            raise LayoutError(f"can't tile by {shown(outer)}: it is no layout")
        outer_shape, inner_shape = whole("a shape", outer_shape), whole("a shape", inner_shape)
        if len(outer_shape) != len(inner_shape):
            raise LayoutError(f"shapes {outer_shape} and {inner_shape} differ in rank")
        if outer.swizzle:
            raise LayoutError(f"can't tile by {outer}: only the inner layout may have a swizzle")
        scaled = Layout(
            tuple(replace(it, stride=it.stride * self.span(it.axis)) for it in outer.shard),
            tuple(replace(it, stride=it.stride * self.span(it.axis)) for it in outer.replica),
            tuple((axis, value * self.span(axis)) for axis, value in outer.offset),
        )
        dims = zip(scaled.group(outer_shape), self.group(inner_shape), strict=True)
        shard = tuple(it for outside, inside in dims for it in outside + inside)
        return Layout(shard, scaled.replica + self.replica, scaled.offset + self.offset, self.swizzle)

    def tile_to(self, to_shape: Shape, shape: Shape) -> "Layout":
        """This layout, of shape `shape`, repeated to fill `to_shape`; its tiles follow row-major on `m`."""
        to_shape, shape = whole("a shape", to_shape), self._checked(shape)
        if len(to_shape) != len(shape) or any(to % of for to, of in zip(to_shape, shape, strict=True)):
            raise LayoutError(f"shape {to_shape} is no whole number of tiles of shape {shape}")
        tiles = [to // of for to, of in zip(to_shape, shape, strict=True)]
        return self.tile(row_major(tiles), tiles, shape)

    def slice(self, shape: Shape, starts: Shape, extents: Shape) -> "Layout":
        """The layout of the region of shape `extents` that begins at `starts`; every place stays as it was.

        LayoutError where the region's elements along some dimension are not at strided places.
        """
        shape, starts, extents = (
            whole(what, each)
            for what, each in (
                ("a shape", shape),
                ("a region's start", starts),
                ("a region's shape", extents),
            )
        )
        groups = self.group(shape)
        inside = len(shape) == len(starts) == len(extents) and all(
            0 <= start < start + n <= whole for whole, start, n in zip(shape, starts, extents, strict=True)
        )
        if not inside:
            raise LayoutError(f"region {tuple(extents)} at {tuple(starts)} is not inside {tuple(shape)}")
        shard, base = list[Iter](), self._start()
        for dim, (iters, start, n) in enumerate(zip(groups, starts, extents, strict=True)):
            points = _points(iters)[start : start + n]
            shard += _fit(points, f"dimension {dim}, elements {start} to {start + n - 1} of {Layout(iters)}")
            base = _add(base, points[0])
        return replace(self, shard=tuple(shard), offset=tuple(zip(AXES, base, strict=True)))

    def compose(self, inner: "Layout") -> "Layout":
        """This layout after `inner`: `inner`'s value on `m` is the index here, its other axes are added.

        The result has `inner`'s logical index. LayoutError where the index leaves this layout, where `inner`
        has a swizzle, and where its strides don't divide this layout's iterators, so that no strides remain.
        """
        if not isinstance(inner, Layout):
            raise LayoutError(f"can't compose with {shown(inner)}: it is no layout")
        if inner.swizzle:
            raise LayoutError(f"can't compose: {inner} has a swizzle")
        start, mine = inner._start(), _points(self.shard)
        reach = start[-1] + inner.span(MEMORY)
        if reach > self.size:
            raise LayoutError(f"can't compose: {inner} reaches {reach} elements, {self} has {self.size}")
        read = [_add(start, shift) for shift in _points(inner.replica + inner.shard)]
        points = [_add(mine[point[-1]], (*point[:-1], 0)) for point in read]
        fitted = Layout(_fit(points, f"{self} after {inner}"))
        copies, shard = fitted.group((len(points) // inner.size, inner.size))
        offset = self.offset + tuple(zip(AXES, points[0], strict=True))
        return Layout(shard, self.replica + copies, offset, self.swizzle)

    def inverse(self, shape: Shape, element_bits: int | None = None) -> dict[Coords, Coords]:
        """From each place in use, values in the order of `axes`, to its element's coordinates in `shape`."""
        shape = self._checked(shape)
        used = [AXES.index(axis) for axis in self.axes]
        table: dict[Coords, Coords] = {}
        for flat, point in self._stored(_points(self.shard), element_bits):
            place, coords = tuple(point[i] for i in used), unflatten(flat, shape)
            if table.setdefault(place, coords) != coords:
                raise LayoutError(f"no inverse: {self} stores {table[place]} and {coords} in one place")
        return table

    def invert(self) -> "Layout":
        """The layout that takes the row-major index over the box of `axes` to the logical index, on `m`.

        The box is the span of each axis. LayoutError unless this layout has no replica or swizzle, is
        a bijection onto the box, and has a strided inverse.
        """
        box = {axis: self.span(axis) for axis in self.axes}
        if self.replica or self.swizzle or not self.is_bijective(box):
            raise LayoutError(f"{self} is no plain bijection onto the box {box}")
        logical = [(*_ORIGIN[:-1], index) for _, (index,) in sorted(self.inverse((self.size,)).items())]
        return Layout(_fit(logical, f"the inverse of {self}"))

    def is_bijective(self, axis_extents: Mapping[str, int], element_bits: int | None = None) -> bool:
        """Whether each place of the box, from 0 to each extent, is hit exactly once, replicas counted."""
        if not isinstance(axis_extents, Mapping):
            raise LayoutError(f"a box must be a dictionary of extents by axis, got {shown(axis_extents)}")
        extents = whole("a box", list(axis_extents.values()))
        box = dict.fromkeys(AXES, 1) | dict(zip(map(_known, axis_extents), extents, strict=True))
        if prod(it.extent for it in self.shard + self.replica) != prod(box.values()):
            return False
        if not (self.replica or self.offset or self.swizzle) and self._is_mixed_radix(box):
            return True  # counting the points of a large tile takes long
        points = {point for _, point in self._stored(_points(self.shard), element_bits)}
        return len(points) == prod(box.values()) and all(
            value < extent for point in points for value, extent in zip(point, box.values(), strict=True)
        )

    def _is_mixed_radix(self, box: Mapping[str, int]) -> bool:
        """Whether the digits on each axis, by stride, count from 0 to the box's extent."""
        for axis, extent in box.items():
            reach = 1
            for it in sorted((it for it in self.shard if it.axis == axis and it.extent > 1), key=_stride_of):
                if it.stride != reach:
                    return False
                reach *= it.extent
            if reach != extent:
                return False
        return True

    def lane_elements(self, lane: int, shape: Shape, warp: int = 0) -> list[Coords]:
        """The coordinates in `shape` that a lane of a warp holds, in register order (by `reg`, then `m`)."""
        shape = self._checked(shape)
        flat = _held(self).get(whole("a warp and lane", (warp, lane)), np.zeros(0, np.int64))
        if not shape:
            return [()] * len(flat)
        return list(zip(*(digit.tolist() for digit in np.unravel_index(flat, tuple(shape))), strict=True))

    def _checked(self, shape: Shape) -> Shape:
        sizes = whole("a shape", shape)
        if prod(sizes) != self.size or min(sizes, default=1) < 1:
            raise LayoutError(f"shape {shown(sizes)} doesn't have the {self.size} elements of {self}")
        return sizes

    def _start(self) -> Coords:
        return tuple(dict(self.offset).get(axis, 0) for axis in AXES)

    def _stored(self, points: Iterable[Coords], element_bits: int | None) -> Iterator[tuple[int, Coords]]:
        """For the number of each of the shard's `points`, every place where its element is stored."""
        shifts = [_add(self._start(), shift) for shift in _points(self.replica)]
        for (i, point), shift in product(enumerate(points), shifts):
            place = _add(point, shift)
            if self.swizzle:
                place = (*place[:-1], self.swizzle.swizzle_element(place[-1], element_bits))
            yield i, place


@lru_cache(maxsize=64)
def _held(layout: Layout) -> dict[Coords, npt.NDArray[np.int64]]:
    """Logical indices at each (warp, lane), in register order; cached, since callers ask lane by lane."""
    if layout.swizzle:
        layout.swizzle.swizzle_element(0, None)  # raises: registers have no bytes
    copies = _table(layout.replica)
    places = (_table(layout.shard)[:, None] + copies + layout._start()).reshape(-1, len(AXES))
    flat = np.repeat(np.arange(layout.size), len(copies))
    warp, lane, *_, register, memory = places.T
    order = np.lexsort((flat, memory, register, lane, warp))
    holders = places[order, :2]
    first = np.flatnonzero((holders[1:] != holders[:-1]).any(1)) + 1
    keys = holders[[0, *first]].tolist()
    return dict(zip(map(tuple, keys), np.split(flat[order], first), strict=True))


def _stride_of(it: Iter) -> int:
    return it.stride


def row_major(shape: Shape) -> Layout:
    """The dense layout of `shape` on `m`, its last dimension contiguous."""
    return Layout(tuple(Iter(n, prod(shape[dim + 1 :])) for dim, n in enumerate(shape)))


def _known(axis: str) -> str:
    if not (isinstance(axis, str) and axis in AXES):
        found = f"'{axis}'" if isinstance(axis, str) else shown(axis)
        raise LayoutError(f"unknown axis {found}; the axes are {', '.join(AXES)}")
    return axis


def _at(value: int, axis: str) -> str:
    return str(value) if axis == MEMORY else f"{value}@{axis}"


def _notation(iters: Sequence[Iter]) -> str:
    extents = ",".join(str(it.extent) for it in iters)
    return f"[({extents}):({','.join(_at(it.stride, it.axis) for it in iters)})]"


def _add(a: Coords, b: Coords) -> Coords:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _step(point: Coords, it: Iter, digit: int) -> Coords:
    i = AXES.index(it.axis)
    return (*point[:i], point[i] + digit * it.stride, *point[i + 1 :])


def _table(iters: Iterable[Iter]) -> npt.NDArray[np.int64]:
    """The sums of the iterators' steps, the last iterator fastest: a row for each."""
    iters = tuple(iters)
    if (points := prod(it.extent for it in iters)) > _MOST_POINTS:
        raise LayoutError(
            f"a layout of {points} elements is too large to list element by element: {_notation(iters)}"
        )
    table = np.zeros((1, len(AXES)), np.int64)
    for it in iters:
        steps = np.zeros((it.extent, len(AXES)), np.int64)
        steps[:, AXES.index(it.axis)] = it.stride * np.arange(it.extent)
        table = (table[:, None] + steps).reshape(-1, len(AXES))
    return table


def _points(iters: Iterable[Iter]) -> list[Coords]:
    """`_table` as points."""
    return [tuple(point) for point in _table(iters).tolist()]


def _fit(points: Sequence[Coords], what: str) -> tuple[Iter, ...]:
    """The canonical iterators that visit `points` in this order, counted from the first one.

    The longest run misses nothing: after the fastest iterator the next goes on in step only if they merge.
    """
    iters: list[Iter] = []
    while len(points) > 1:
        moved = [(b - a, axis) for a, b, axis in zip(points[0], points[1], AXES, strict=True) if a != b]
        step = Iter(1, max(moved[0][0], 0), moved[0][1]) if moved else Iter(1, 0)
        # A step that is backwards or not along one axis leaves a run of 1.
        run = next(n for n in count(1) if n == len(points) or points[n] != _step(points[0], step, n))
        again = (p == _step(points[i - i % run], step, i % run) for i, p in enumerate(points))
        if run == 1 or len(points) % run or not all(again):
            raise LayoutError(f"{what}: the places are not strided")
        iters.insert(0, replace(step, extent=run))
        points = points[::run]
    return tuple(iters)


def _merged(iters: Iterable[Iter]) -> tuple[Iter, ...]:
    merged: list[Iter] = []
    for it in (it for it in iters if it.extent > 1):
        if merged and merged[-1].axis == it.axis and merged[-1].stride == it.stride * it.extent:
            it = replace(it, extent=merged.pop().extent * it.extent)
        merged.append(it)
    return tuple(merged)


class _Reader:
    """The recursive-descent reader behind `Layout.parse`."""

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

    def choice(self, among: Iterable[str], what: str) -> str:
        return self.take(rf"(?:{'|'.join(among)})\b", f"{what} ({', '.join(among)})")

    def take(self, pattern: str, wanted: str) -> str:
        token = self.accept(pattern)
        return self.fail(wanted) if token is None else token

    def accept(self, pattern: str) -> str | None:
        found = re.compile(rf"\s*({pattern})").match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[1] if found else None

    def fail(self, wanted: str, got: str = "") -> NoReturn:
        token = self.accept(r"\w+|.|$")
        got = got or (f"'{token}'" if token else "the end")
        column = self.at - len(token or "") + 1
        raise LayoutError(f"layout '{self.text}', column {column}: expected {wanted}, got {got}")
