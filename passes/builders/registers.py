"""Which registers of a lane hold which elements of a fragment, and how layouts fit together."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from weft.isa.chips import LANES, WARPS
from weft.layout import MEMORY, Iter, Layout
from weft.mlir import arith, ir, vector
from weft.passes.builders import emit, fragment_registers
from weft.passes.builders.emit import Number
from weft.passes.builders.fragment_registers import LaneDigit

Shape = tuple[int, ...]
WGMMA_ROWS = 64
"""Rows of the sums of one `wgmma`."""
LANE_ROWS = 128
"""Rows of the sums of one `tcgen05.mma`, in the lanes of tensor memory."""
MOST_BYTES = 16
"""Bytes that a lane accesses at once."""


@lru_cache(maxsize=256)
def sums(shape: Shape, row_block: int = WGMMA_ROWS) -> Layout:
    """The layout of the sums of products: of rows x columns, or of a vector with an element for each row.

    It is that of the sums of `wgmma`, where each warp has 16 of 64 rows. With a `row_block` of 128, each has
    32 of 128 rows where there are as many, as it can access so many lanes of tensor memory.
    """
    rows = shape[0]
    columns = shape[1] if len(shape) > 1 else 8
    if row_block == LANE_ROWS and rows % LANE_ROWS == 0:
        high = f"{columns // 2}"
        text = f"S[(4,2,2,8,{columns // 8},4,2):(1@warpid,{high},2,4@laneid,4,1@laneid,1)]"
    else:
        row_block = WGMMA_ROWS
        text = f"S[(4,2,8,{columns // 8},4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]"
    block = Layout.parse(text)
    layout = block if rows == row_block else block.tile_to((rows, columns), (row_block, columns))
    return layout if len(shape) > 1 else without_axis(layout, (rows, columns), 1)


@lru_cache(maxsize=256)
def rows_in_threads(shape: Shape) -> Layout:
    """The layout of a tile, or of a vector of rows, of which each thread has a row of 128."""
    columns = shape[1] if len(shape) > 1 else 1
    block = Layout.parse(f"S[({WARPS},{LANES},{columns}):(1@warpid,1@laneid,1)]")
    layout = block if shape[0] == LANE_ROWS else block.tile_to((shape[0], columns), (LANE_ROWS, columns))
    return layout if len(shape) > 1 else without_axis(layout, (shape[0], columns), 1)


@lru_cache(maxsize=256)
def left_operand(shape: Shape, bits: int) -> Layout:
    """The layout of a fragment that `wgmma` takes as its left operand, of elements with so many bits."""
    pack = 32 // bits
    layout = Layout.parse(f"S[(4,2,8,2,4,{pack}):(1@warpid,{pack},4@laneid,{2 * pack},1@laneid,1)]")
    return layout.tile_to(shape, (WGMMA_ROWS, 8 * pack))


@lru_cache(maxsize=256)
def registers_of(layout: Layout, shape: Shape) -> tuple[Shape, ...]:
    """The coordinates of the elements that lane 0 holds, in register order."""
    return tuple(layout.lane_elements(0, shape))


def coordinates(layout: Layout, shape: Shape, axis: int) -> tuple[tuple[int, ...], Number] | None:
    """The coordinates of a lane's elements along an axis: constants, and the number of the lane that is added
    to all of them; None for a layout in which that isn't so.
    """
    digits = fragment_registers.lane_digits(layout, shape)
    if digits is None:
        return None
    offsets = tuple(at[axis] for at in registers_of(layout, shape))
    return offsets, fragment_registers.lane_coordinate(digits[axis])


def offset(offsets: Sequence[int], base: Number) -> ir.Value:
    """A vector of i32 of these constants, to each of which one number is added."""
    constants = constants_of(offsets)
    return arith.addi(vector.broadcast(constants.type, emit.value(base)), constants)


def constants_of(numbers: Sequence[int]) -> ir.Value:
    """A vector of i32 of these numbers."""
    kind = ir.VectorType.get([len(numbers)], emit.i32())
    elements = [ir.IntegerAttr.get(emit.i32(), each) for each in numbers]
    return arith.constant(kind, ir.DenseElementsAttr.get(elements, kind))


@lru_cache(maxsize=256)
def without_axis(layout: Layout, shape: Shape, axis: int, lanes: bool = False) -> Layout:
    """The layout of a fragment reduced along an axis: copies where the lanes of a row held its elements.

    With `lanes` each of these lanes keeps what it has: the axis becomes as long as they are many.
    """
    groups = layout.group(shape)
    kept = [it for number, group in enumerate(groups) for it in group if number != axis]
    spread = [it for it in groups[axis] if it.axis != MEMORY]
    replica = layout.replica
    if lanes:
        before = [it for number, group in enumerate(groups) for it in group if number < axis]
        after = [it for number, group in enumerate(groups) for it in group if number > axis]
        kept = [*before, *spread, *after]
    else:
        replica = (*replica, *(it for it in spread if it.extent > 1))
    return Layout(dense(kept), replica)


def transposed(layout: Layout, shape: Shape) -> Layout:
    """The layout of the transposed tile in the same registers."""
    rows, columns = layout.group(shape)
    return Layout((*columns, *rows), layout.replica)


def dense(shard: list[Iter]) -> tuple[Iter, ...]:
    """The digits with a lane's registers renumbered without gaps, in the same order."""
    reach, strides = 1, dict[int, int]()
    order = sorted((it.stride, number) for number, it in enumerate(shard) if it.axis == MEMORY)
    for _, number in order:
        strides[number], reach = reach, reach * shard[number].extent
    return tuple(
        replace(it, stride=strides[number]) if number in strides else it for number, it in enumerate(shard)
    )


@lru_cache(maxsize=1024)
def along(layout: Layout, shape: Shape, axis: int, vector: Layout, extent: int) -> tuple[int, ...] | None:
    """For each register of a fragment, the register of a vector along one of its axes that has its element;
    None if the lanes hold other elements of the vector.
    """
    if shape[axis] != extent or _digits(layout, shape, axis) != _digits(vector, (extent,), 0):
        return None
    held = {at[0]: number for number, at in enumerate(registers_of(vector, (extent,)))}
    wanted = [at[axis] for at in registers_of(layout, shape)]
    return tuple(held[each] for each in wanted) if all(each in held for each in wanted) else None


@lru_cache(maxsize=1024)
def same(one: Layout, other: Layout, shape: Shape) -> bool:
    """Whether two layouts hold the same elements in the same registers."""
    if one == other:
        return True
    if registers_of(one, shape) != registers_of(other, shape):
        return False
    return all(_digits(one, shape, axis) == _digits(other, shape, axis) for axis in range(len(shape)))


def run(layout: Layout, shape: Shape) -> int:
    """The elements of a lane that follow each other in a row."""
    count = 1
    for it in reversed(layout.group(shape)[-1]):
        if it.axis != MEMORY or it.stride != count:
            break
        count *= it.extent
    return count


def access_bytes(kind: ir.Type) -> int:
    """The bytes of a row that a lane of a fragment accesses at once; 0 for single elements."""
    count = run(kind.layout, kind.shape)
    return min(count * int(kind.element_type.width) // 8, MOST_BYTES) if count > 1 else 0


@lru_cache(maxsize=1024)
def reordered(one: Layout, other: Layout, shape: Shape) -> tuple[int, ...] | None:
    """For each register of a layout `other`, the register of `one` that holds the same element; None where
    other lanes hold it.
    """
    if any(_digits(one, shape, axis) != _digits(other, shape, axis) for axis in range(len(shape))):
        return None
    held = {at: number for number, at in enumerate(registers_of(one, shape))}
    wanted = registers_of(other, shape)
    return tuple(held[at] for at in wanted) if all(at in held for at in wanted) else None


def _digits(layout: Layout, shape: Shape, axis: int) -> tuple[LaneDigit, ...] | None:
    """The digits of a lane's and a warp's number that give its coordinate along an axis."""
    digits = fragment_registers.lane_digits(layout, shape)
    if digits is None:
        return None
    merged: list[LaneDigit] = []
    for each in sorted(digits[axis], key=lambda d: (d.axis, d.stride)):
        if each.extent == 1:
            continue
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.axis == each.axis
            and each.stride == last.stride * last.extent
            and each.weight == last.weight * last.extent
        ):
            merged[-1] = replace(last, extent=last.extent * each.extent)
        else:
            merged.append(each)
    return tuple(merged)


@lru_cache(maxsize=256)
def shuffles(layout: Layout, shape: Shape, axis: int, within: bool = False) -> tuple[int, ...] | None:
    """The distances of the lanes that hold a row's elements along an axis, for exchanges by halves; None if
    several warps hold them, unless the distances `within` warps suffice, of which each has a part.
    """
    distances: list[int] = []
    for it in layout.group(shape)[axis]:
        of_warps = it.axis not in (MEMORY, "laneid") and (it.extent, it.stride) == (WARPS, 1)
        if it.axis == MEMORY or it.extent == 1 or (within and of_warps):
            continue
        if it.axis != "laneid" or it.extent & (it.extent - 1):
            return None
        distances += [it.stride << bit for bit in range(it.extent.bit_length() - 1)]
    return tuple(distances)
