"""Leading dimensions of a product: they become rows of one matrix, one batch, or several launches.

A kernel has at most one dimension of products, with one stride for each array. Leading dimensions that share
B and lie like rows in A and the result become rows. Those that are left become the batch where they have one
stride in every array; otherwise each launch computes the batch along one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as every
from math import prod

from weft.isa.launch_limits import MOST_SIZE
from weft.launch.arrays import ArrayView, contiguous_strides
from weft.multiply.array_views import refuse
from weft.multiply.product import kind_of

_OF_ROWS = {"a", "b", "out", "c", "residual", "bias", "alpha", "column_factors", "extra"}
"""The arrays of products whose leading dimensions may become rows."""
_WITH_ROWS = ("a", "out", "c", "residual", "extra")
_PER_PRODUCT = ("b", *_WITH_ROWS, "scale_a", "scale_b")


@dataclass(frozen=True)
class Folded:
    """What one launch computes: `m` rows of each product, and a batch of `members` (None for one result).

    `turns` has, for each launch, the bytes from each array to its part. `views` are those of the first
    launch, in the order of the arrays.
    """

    views: tuple[ArrayView, ...]
    m: int
    members: int | None
    turns: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Dimension:
    size: int
    strides: tuple[int, ...]  # of each array, in elements

    def holds(self, inner: "_Dimension") -> bool:
        """Whether this dimension and one inside of it are one dimension in every array."""
        return all(s == t * inner.size for s, t in zip(self.strides, inner.strides, strict=True))


def fold(
    names: Sequence[str], views: Sequence[ArrayView], leading: tuple[int, ...], m: int, keeps_rows: bool
) -> Folded:
    """Folds the leading dimensions of a product whose result has these. Arrays of matrices have them, or
    fewer or 1, which is broadcast; M is `m`. They become no rows if it `keeps_rows`. Raises WeftError for
    block scales of products that aren't one batch.
    """
    parts = {name: view for name, view in zip(names, views, strict=True) if _is_apart(name, view)}
    given = list(parts)
    dimensions = _merged(_dimensions(leading, list(parts.values())))
    rows = _Dimension(m, tuple(0 if name == "alpha" else parts[name].strides[-2] for name in given))
    members = prod(leading) if leading else None
    singles = {name for name in names if name == "row_factors" and _count(names, views, name) == 1}
    kinds = set(map(kind_of, set(names) - singles))
    alone = kinds <= _OF_ROWS and not keeps_rows and _count(names, views, "alpha") == 1
    if leading and alone:
        dimensions, rows = _into_rows(given, dimensions, rows)
        members = prod(each.size for each in dimensions) if dimensions else None
    batch = _longest(given, dimensions)
    turns = [each for each in dimensions if each is not batch]
    if turns and any(name.startswith("scale_") and name not in parts for name in names):
        sizes = " x ".join(map(str, leading))
        raise refuse(
            f"leading dimensions of {sizes} must be one batch in memory with block scales: copy a and b so "
            "that they have these dimensions and are contiguous"
        )
    if turns:
        assert batch is not None
        members = batch.size
    folded = {}
    for number, name in enumerate(given):
        view = parts[name]
        if name == "alpha":
            folded[name] = view if members is None else replace(view, shape=(members,), strides=(1,))
            continue
        shape, strides = view.shape[-2:], view.strides[-2:]
        if kind_of(name) in _WITH_ROWS and rows.size != m:
            shape, strides = (rows.size, shape[1]), (rows.strides[number], strides[1])
        step = batch.strides[number] if batch is not None else 0
        if members is not None and (kind_of(name) == "out" or step):
            shape, strides = (members, *shape), (step or shape[0] * strides[0], *strides)
        folded[name] = replace(view, shape=shape, strides=strides)
    offsets = [
        tuple(
            sum(i * each.strides[given.index(name)] for i, each in zip(at, turns, strict=True))
            * view.bits
            // 8
            if name in parts
            else 0
            for name, view in zip(names, views, strict=True)
        )
        for at in every(*(range(each.size) for each in turns))
    ]
    new = tuple(folded.get(name, view) for name, view in zip(names, views, strict=True))
    return Folded(new, rows.size, members, tuple(offsets))


def _is_apart(name: str, view: ArrayView) -> bool:
    """Whether each product has its own part of an array, by the array's leading dimensions."""
    if name == "alpha":
        return view.shape != (1,)
    tiles = name.startswith("scale_") and view.dtype not in ("f32", "i32")
    return kind_of(name) in _PER_PRODUCT and not tiles


def _count(names: Sequence[str], views: Sequence[ArrayView], name: str) -> int:
    return prod(views[names.index(name)].shape) if name in names else 1


def _dimensions(leading: tuple[int, ...], views: Sequence[ArrayView]) -> list[_Dimension]:
    """The leading dimensions but those of one element, outermost first."""
    strides = []
    for view in views:
        if len(view.shape) == 1:  # an alpha for each product
            strides.append(contiguous_strides(leading))
            continue
        own = zip(view.shape[:-2], view.strides[:-2], strict=True)
        broadcast = [0 if size == 1 else stride for size, stride in own]
        strides.append((*[0] * (len(leading) - len(broadcast)), *broadcast))
    each = zip(leading, zip(*strides, strict=True), strict=True) if leading else ()
    return [_Dimension(size, of) for size, of in each if size != 1]


def _merged(dimensions: Sequence[_Dimension]) -> list[_Dimension]:
    """The dimensions with neighbors made one where they are one in every array."""
    merged: list[_Dimension] = []
    for inner in dimensions:
        if merged and merged[-1].holds(inner):
            inner = replace(inner, size=merged.pop().size * inner.size)
        merged.append(inner)
    return merged


def _into_rows(
    names: Sequence[str], dimensions: Sequence[_Dimension], rows: _Dimension
) -> tuple[list[_Dimension], _Dimension]:
    """The dimensions that are left, and the rows with the innermost ones that are like rows of one B."""
    left, b = list(dimensions), names.index("b")
    while left and not left[-1].strides[b] and left[-1].size * rows.size <= MOST_SIZE:
        of_a = left[-1].strides[names.index("a")]
        like_rows = [
            rows.size == 1 or left[-1].strides[number] == rows.strides[number] * rows.size
            for number, name in enumerate(names)
            if kind_of(name) in _WITH_ROWS
        ]
        if not of_a or not all(like_rows):
            break
        inner = left.pop()
        strides = inner.strides if rows.size == 1 else rows.strides
        rows = _Dimension(inner.size * rows.size, strides)
    return left, rows


def _longest(names: Sequence[str], dimensions: Sequence[_Dimension]) -> _Dimension | None:
    """The dimension of the most products, to be the batch. An alpha for each of them must be contiguous."""
    if "alpha" in names:
        return dimensions[-1] if dimensions else None
    return max(dimensions, key=lambda each: each.size, default=None)
