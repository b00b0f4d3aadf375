"""Reductions: of the elements of a fragment, or of a number of each thread."""

from typing import Any

from weft.errors import shown
from weft.isa.chips import WARPGROUP
from weft.language import column_reductions, exchanges, registers, roles, totals, trace
from weft.language.coordinates import column, row
from weft.language.dtypes import i1
from weft.language.foreign import Foreign
from weft.language.fragments import Fragment, from_first
from weft.language.loaded import Loaded
from weft.language.maths import where
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar, condition
from weft.mlir import ir
from weft.passes.builders import emit, votes


def _reduce(x: Any, name: str, axis: int | None, within: str | None) -> Any:
    """A vector of rows or columns, along an axis; or one number."""
    axis = _checked_axis(x, axis, name)
    if not isinstance(x, Fragment) or axis is None or (len(x.shape) == 1 and axis == 0):
        return totals.total(x, name, axis, within)
    if len(x.shape) != 2 or axis not in (0, 1):
        raise mistake(f"axis must be 0 or 1, of a fragment of rows and columns, got axis {axis} of {x}")
    if within not in (None, "lane"):
        raise mistake(f"within must be None or 'lane', got {within!r}")
    distances = registers.shuffles(x.layout, x.shape, axis)
    through = axis == 0 and within is None and distances is None
    if through:
        distances = column_reductions.distances(x.layout, x.shape)
    if distances is None and within is None:
        raise mistake(
            f"can't reduce along axis {axis}: several warps hold the elements, in layout {x.layout}: reduce "
            "a tile in the layout of sums of w.gemm"
        )
    lanes = within == "lane"
    if not lanes:
        trace.current().check_whole_warps(f"a reduction along axis {axis}")
    layout = registers.without_axis(x.layout, x.shape, axis, lanes)
    other = x.shape[1 - axis]
    count = 2 ** len(distances or ()) if lanes else 1
    shape = ((other, count) if axis == 1 else (count, other)) if lanes else (other,)
    groups = dict[int, list[Any]]()
    for at, element in zip(registers.registers_of(x.layout, x.shape), x.elements(), strict=True):
        groups.setdefault(at[1 - axis], []).append(element)
    folded = {key: exchanges.folded(name, elements) for key, elements in groups.items()}
    if not lanes:
        folded = {key: exchanges.across(value, name, distances or ()) for key, value in folded.items()}
    if through:
        return column_reductions.across_warps(x, folded, lambda values: exchanges.folded(name, values))
    order = [at[1 - axis] if lanes else at[0] for at in registers.registers_of(layout, shape)]
    return Fragment(emit.vector_of([folded[key] for key in order]), shape, layout)


def _checked_axis(x: Any, axis: Any, name: str) -> Any:
    """An axis, counted from the first one. Raises WeftError for a second value in its place."""
    if axis is None or (isinstance(axis, int) and not isinstance(axis, bool)):
        return from_first(x, axis)
    hint = f": w.{name}(x, y) is of two values" if name in ("maximum", "minimum") else ""
    got = str(axis) if isinstance(axis, Foreign) else shown(axis)
    raise mistake(f"axis must be None, 0 or 1, got {got}{hint}")


def warp_any(x: Any) -> Scalar:
    """Whether a condition is true in any lane of the warp, for any of the lane's elements. All lanes get the
    same result, so a branch on it doesn't diverge.
    """
    trace.current().check_whole_warps("w.warp_any")
    return Scalar(votes.in_warp(_any_of_lane(x, "w.warp_any")))


def warpgroup_any(x: Any) -> Scalar:
    """Whether a condition is true in any thread of the warpgroup, for any of its elements. All threads get
    the same result, so they can multiply in a branch on it. All threads of the warpgroup must execute it; it
    is a barrier.
    """
    current = trace.current()
    if current.role is None or current.one_thread:
        raise mistake("w.warpgroup_any must be in a role, executed by whole warpgroups")
    condition_ = _any_of_lane(x, "w.warpgroup_any")
    return Scalar(votes.in_warpgroup(roles.own_barrier(current.role), WARPGROUP, condition_))


def _any_of_lane(x: Any, name: str) -> ir.Value:
    """The i1 of a condition, which is that of any of the lane's elements. `name` is that of the caller."""
    if isinstance(x, Fragment):
        if x.dtype != i1:
            raise mistake(f"{name} expects a condition, such as x < y, got {x}")
        return exchanges.folded("or", x.elements())
    value = condition(x) if isinstance(x, (Scalar, Loaded)) else x
    if not isinstance(value, Scalar):
        raise mistake(f"{name} expects a condition of the GPU, got {shown(x)}")
    return value.value


def maximum_of(x: Any, axis: int | None = None, *, within: str | None = None) -> Fragment | Scalar:
    """The largest elements along an axis: of rows (`axis=1`), a vector of rows. Without an axis, the largest
    one, as `w.sum`.
    """
    return _reduce(x, "maximum", axis, within)


def minimum_of(x: Any, axis: int | None = None, *, within: str | None = None) -> Fragment | Scalar:
    """The smallest elements along an axis. Without an axis, the smallest one, as `w.sum`."""
    return _reduce(x, "minimum", axis, within)


def sum_of(x: Any, axis: int | None = None, *, within: str | None = None) -> Fragment | Scalar:
    """The sums along an axis: of rows (`axis=1`), a vector of rows; of columns (`axis=0`), a vector of
    columns. The latter goes through shared memory, so all threads of the warpgroup must execute it.

    Without an axis, it is one number: the sum of all elements of a tile or vector, or that of a number of
    each thread of the role, outside of roles of the CTA. All of these threads must execute it, and get the
    sum. With `within="warp"` it is that of the numbers of a warp, which needs no shared memory.

    Along an axis of a tile, with `within="lane"` each lane adds only its own elements, which needs no
    exchange. The result has a column for each lane of a row; adding these up, once, is the sum.
    """
    return _reduce(x, "add", axis, within)


def argmax(x: Fragment, axis: int) -> Fragment:
    """The index along an axis of the first one of the largest elements, in i32. If any is NaN, it is that of
    the first NaN, as in NumPy and PyTorch.
    """
    return _first_index(x, "maximum", axis)


def argmin(x: Fragment, axis: int) -> Fragment:
    """The index along an axis of the first one of the smallest elements, as `argmax`."""
    return _first_index(x, "minimum", axis)


def _first_index(x: Fragment, name: str, axis: int) -> Fragment:
    axis = from_first(x, axis)
    best = _reduce(x, name, axis, None)
    index = column(x) if axis == 1 else row(x)
    found = x == best
    if x.dtype.is_float:
        found |= x != x  # the best one is then NaN, which equals nothing
    first: Fragment = _reduce(where(found, index, x.shape[axis]), "minimum", axis, None)
    return first
