"""Reductions of fragments, and of a number of each thread: of the values of a lane, of lanes by exchanges,
and of warps through shared memory.
"""

from functools import partial

from weft.dialects import tile
from weft.dialects.op import as_attribute, build
from weft.dialects.tile import FragmentType, ReduceOp
from weft.dialects.tile_epilogue import YieldOp
from weft.errors import shown
from weft.isa.chips import LANES, THREAD_REGISTERS, WARPGROUP, WARPS
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations import roles, shared_exchange
from weft.language.operations.maths import chosen
from weft.language.operations.roles import warpgroup_barrier
from weft.language.values import operators
from weft.language.values.coordinates import column, row
from weft.language.values.dtypes import i1
from weft.language.values.foreign import Foreign
from weft.language.values.fragments import Fragment, from_first
from weft.language.values.scalars import Loaded, Scalar, condition
from weft.layout import Iter, Layout
from weft.mlir import arith, ir
from weft.passes.builders import emit, registers, thread_ids, votes


def reduced(name: str, values: list[ir.Value]) -> ir.Value:
    """The reduction of values."""
    return emit.folded(values, partial(operators.apply, name))


def across_lanes(value: ir.Value, name: str, distances: tuple[int, ...]) -> ir.Value:
    """The reduction over the lanes at these distances, in all of them."""
    return emit.across_lanes(value, distances, partial(operators.apply, name))


_MANY = 16  # warps, whose values would need many registers and loads of each thread
_DISTANCES = tuple(1 << bit for bit in range(LANES.bit_length() - 1))


def total(x: object, name: str, axis: int | None, within: str | None) -> Scalar:
    """The reduction of all elements of a fragment, or of a number of each thread; the same in all threads."""
    if isinstance(x, Fragment):
        if within is not None:
            raise mistake(f"within must be None for all elements of {x}, got {within!r}")
        warps, value = x.layout.span("warpid"), _of_lane(x, name)
    else:
        value = shared_exchange.number(x, axis, "expects a fragment to reduce")
        if within not in (None, "warp"):
            raise mistake(f"within must be None or 'warp', for a number of each thread, got {within!r}")
        warps = 0
    trace.current().check_whole_warps("a reduction to one number")
    value = across_lanes(value, name, _DISTANCES)
    if within == "warp":
        return Scalar(value)
    warps, _ = shared_exchange.group(warps)  # for 0, all of the role or of the CTA
    if warps == 1:
        return Scalar(value)
    if warps < _MANY or LANES % warps:
        return Scalar(reduced(name, shared_exchange.of_each(value, warps)))
    (value,) = shared_exchange.of_each(value, warps, [emit.rem(thread_ids.lane(), warps)])
    return Scalar(across_lanes(value, name, _DISTANCES[: warps.bit_length() - 1]))


def _of_lane(x: Fragment, name: str) -> ir.Value:
    """The reduction of a lane's elements. For sums, only the first of several lanes with the same ones."""
    value = reduced(name, x.elements())
    if name != "add" or all(it.extent == 1 for it in x.layout.replica):
        return value
    return arith.select(thread_ids.first_of_copies(x.layout), value, emit.constant(value.type, 0))


def _columns_across_warps(x: Fragment, values: dict[int, ir.Value], name: str) -> Fragment:
    """A vector of the columns of a tile, from what each warp has for each of a lane's columns."""
    current, columns = trace.current(), x.shape[1]
    role = current.check_whole_in_role("a reduction along axis 0")
    groups = x.layout.group(x.shape)
    copies = tuple(it for it in groups[0] if it.axis == "laneid" and it.extent > 1)
    of_columns = registers.without_axis(x.layout, x.shape, 0)
    by_warp = Layout((Iter(WARPS, 1, "warpid"), *of_columns.shard), (*x.layout.replica, *copies))
    order = [point[1] for point in registers.registers_of(by_warp, (WARPS, columns))]
    part = Fragment.of_lane(emit.vector_of([values[column] for column in order]), (WARPS, columns), by_warp)
    key = role.first, columns, x.dtype.name
    shape = role.warpgroups, WARPS, columns
    scratch = current.scratch_buffer(key, lambda: shared_exchange.tiles_type(shape, x.dtype.type))
    mine = tile.stage(scratch, role.number)
    warpgroup_barrier()  # others may still read what an earlier reduction stored
    width = 2 if x.dtype.bits == 16 else 0  # not by instructions that move matrices
    tile.store(part.value, mine, emit.value(0), emit.value(0), vector_bytes=width)
    warpgroup_barrier()
    count = len(registers.registers_of(of_columns, (columns,)))
    # All warps' values at once if they fit in registers, as the compiler then overlaps the loads.
    fit = WARPS * count * x.dtype.bits // 32 <= (role.registers or THREAD_REGISTERS)
    rows, zero = WARPS if fit else 1, emit.value(0)
    together = Layout((Iter(rows, count), *of_columns.shard), of_columns.replica)
    kind = FragmentType.of((rows, columns), x.dtype.type, together)
    of_column = dict[int, list[ir.Value]]()
    for warp in range(0, WARPS, rows):
        read = Fragment(tile.load(mine, emit.value(warp), zero, kind, vector_bytes=width))
        for point, element in zip(registers.registers_of(together, read.shape), read.elements(), strict=True):
            of_column.setdefault(point[1], []).append(element)
    folded = {column: reduced(name, elements) for column, elements in of_column.items()}
    order = [point[0] for point in registers.registers_of(of_columns, (columns,))]
    return Fragment.of_lane(emit.vector_of([folded[column] for column in order]), (columns,), of_columns)


def _reduce(x: object, name: str, axis: int | None, within: str | None) -> Fragment | Scalar:
    """A vector of rows or columns, along an axis; or one number."""
    axis = _checked_axis(x, axis, name)
    if not isinstance(x, Fragment) or axis is None or (len(x.shape) == 1 and axis == 0):
        return total(x, name, axis, within)
    if axis not in range(len(x.shape)):
        axes = "0 or 1" if len(x.shape) == 2 else "0, or None"
        raise mistake(f"axis must be {axes}, of {x}, got {axis}")
    if within not in (None, "lane"):
        raise mistake(f"within must be None or 'lane', got {within!r}")
    if x.is_free and axis == 1 and within is None:
        trace.current().check_whole_warps("a reduction along axis 1")
        return _built(x, name, axis)
    distances = registers.shuffles(x.layout, x.shape, axis)
    through = axis == 0 and within is None and distances is None
    if through:
        distances = registers.shuffles(x.layout, x.shape, 0, within=True)
    if distances is None and within is None:
        raise mistake(
            f"can't reduce along axis {axis}: several warps hold the elements, in layout {x.layout}: reduce "
            "a tile in the layout of sums of w.gemm"
        )
    lanes = within == "lane"
    if not lanes:
        trace.current().check_whole_warps(f"a reduction along axis {axis}")
    if not lanes and not through:
        return _built(x, name, axis)
    groups = dict[int, list[ir.Value]]()
    for point, element in zip(registers.registers_of(x.layout, x.shape), x.elements(), strict=True):
        groups.setdefault(point[1 - axis], []).append(element)
    folded = {key: reduced(name, elements) for key, elements in groups.items()}
    if through:
        folded = {key: across_lanes(value, name, distances or ()) for key, value in folded.items()}
        return _columns_across_warps(x, folded, name)
    layout = registers.without_axis(x.layout, x.shape, axis, lanes)
    other, count = x.shape[1 - axis], 2 ** len(distances or ())
    shape = (other, count) if axis == 1 else (count, other)
    order = [point[1 - axis] for point in registers.registers_of(layout, shape)]
    return Fragment.of_lane(emit.vector_of([folded[key] for key in order]), shape, layout)


def _built(x: Fragment, name: str, axis: int) -> Fragment:
    """The reduction along an axis of a tile, of which a warp has all elements."""
    element, shape = x.type.element_type, (x.shape[1 - axis],)
    kind = ir.RankedTensorType.get(shape, element)
    if not x.is_free:
        kind = FragmentType.of(shape, element, registers.without_axis(x.layout, x.shape, axis))
    made = ir.Operation.create(
        ReduceOp.OPERATION_NAME,
        results=[kind],
        operands=[x.value],
        attributes={"axis": as_attribute(axis)},
        regions=1,
    )
    with ir.InsertionPoint(made.regions[0].blocks.append(element, element)) as at:
        build(YieldOp, operands=[operators.apply(name, *at.block.arguments)])
    return Fragment(made.result, 1 - axis)


def _checked_axis(x: object, axis: object, name: str) -> int | None:
    """An axis, counted from the first one. Raises WeftError for a second value in its place."""
    if axis is None or (isinstance(axis, int) and not isinstance(axis, bool)):
        return from_first(x, axis)
    hint = f": w.{name}(x, y) is of two values" if name in ("maximum", "minimum") else ""
    got = str(axis) if isinstance(axis, Foreign) else shown(axis)
    raise mistake(f"axis must be None, 0 or 1, got {got}{hint}")


def warp_any(x: object) -> Scalar:
    """Whether a condition is true in any lane of the warp, for any of the lane's elements. All lanes get the
    same result, so a branch on it doesn't diverge.
    """
    trace.current().check_whole_warps("w.warp_any")
    return Scalar(votes.in_warp(_any_of_lane(x, "w.warp_any")))


def warpgroup_any(x: object) -> Scalar:
    """Whether a condition is true in any thread of the warpgroup, for any of its elements. All threads get
    the same result, so they can multiply in a branch on it. All threads of the warpgroup must execute it; it
    is a barrier.
    """
    current = trace.current()
    role = current.check_whole_in_role("w.warpgroup_any")
    condition_ = _any_of_lane(x, "w.warpgroup_any")
    return Scalar(votes.in_warpgroup(roles.own_barrier(role), WARPGROUP, condition_))


def _any_of_lane(x: object, name: str) -> ir.Value:
    """The i1 of a condition, which is that of any of the lane's elements. `name` is that of the caller."""
    if isinstance(x, Fragment):
        if x.dtype != i1:
            raise mistake(f"{name} expects a condition, such as x < y, got {x}")
        return reduced("or", x.elements())
    value = condition(x) if isinstance(x, (Scalar, Loaded)) else x
    if not isinstance(value, Scalar):
        raise mistake(f"{name} expects a condition of the GPU, got {shown(x)}")
    return value.value


def maximum_of(x: object, axis: int | None = None, *, within: str | None = None) -> Fragment | Scalar:
    """The largest elements along an axis: of rows (`axis=1`), a vector of rows. Without an axis, the largest
    one, as `w.sum`.
    """
    return _reduce(x, "maximum", axis, within)


def minimum_of(x: object, axis: int | None = None, *, within: str | None = None) -> Fragment | Scalar:
    """The smallest elements along an axis. Without an axis, the smallest one, as `w.sum`."""
    return _reduce(x, "minimum", axis, within)


def sum_of(x: object, axis: int | None = None, *, within: str | None = None) -> Fragment | Scalar:
    """The sums along an axis: of rows (`axis=1`), a vector of rows; of columns (`axis=0`), a vector of
    columns. The latter goes through shared memory, so all threads of the warpgroup must execute it.

    Without an axis, it is one number: the sum of all elements of a tile or vector, or that of a number of
    each thread of the role, outside of roles of the CTA. All of these threads must execute it, and get the
    sum. With `within="warp"` it is that of the numbers of a warp, which needs no shared memory.

    Along an axis of a tile, with `within="lane"` each lane adds only its own elements, which needs no
    exchange. The result has a column for each lane of a row; adding these up, once, is the sum.
    """
    return _reduce(x, "add", axis, within)


def argmax(x: Fragment, axis: int) -> Fragment | Scalar:
    """The index along an axis of the first one of the largest elements, in i32. If any is NaN, it is that of
    the first NaN, as in NumPy and PyTorch.
    """
    return _first_index(x, "maximum", axis)


def argmin(x: Fragment, axis: int) -> Fragment | Scalar:
    """The index along an axis of the first one of the smallest elements, as `argmax`."""
    return _first_index(x, "minimum", axis)


def _first_index(x: Fragment, name: str, axis: int) -> Fragment | Scalar:
    axis = from_first(x, axis)
    best = _reduce(x, name, axis, None)
    index = column(x) if axis == 1 else row(x)
    is_best = x == best
    if x.dtype.is_float:
        is_best |= x != x  # the best one is then NaN, which equals nothing
    return _reduce(chosen(is_best, index, x.shape[axis]), "minimum", axis, None)
