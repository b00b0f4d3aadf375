"""Exchanges of threads of a warpgroup, of a role or of a CTA through shared memory: the registers of a
fragment in another layout, and values of warps.
"""

from collections.abc import Callable, Iterator, Sequence

from weft.dialects import tile
from weft.dialects.tile import BufferType, FragmentType
from weft.isa.chips import LANES, WARPGROUP
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations import roles
from weft.language.operations.roles import warpgroup_barrier
from weft.language.values.dtypes import f32
from weft.language.values.scalars import operand
from weft.layout import Iter, Layout
from weft.mlir import ir, llvm
from weft.passes.builders import addresses, emit, registers, thread_ids
from weft.passes.builders.emit import Number


def moved(
    lane: ir.Value,
    shape: tuple[int, int],
    layouts: tuple[Layout, Layout],
    widths: Sequence[int],
    scratch: Callable[[int], ir.Type],
) -> ir.Value:
    """A lane's elements of a tile, moved from one layout to another one, by accesses of so many bytes.

    `scratch` returns the type of a buffer for the tiles of so many warpgroups.
    """
    current = trace.current()
    role = current.check_whole_in_role("lanes exchange elements to convert this fragment, which")
    element = lane.type.element_type
    if element.width == 1:
        raise mistake("conditions can't be converted: convert what is compared, or use w.where first")
    key = "convert", role.first, shape, str(element)
    buffer = current.scratch_buffer(key, lambda: scratch(role.warpgroups))
    mine, zero = tile.stage(buffer, role.number), emit.value(0)
    old, new = (FragmentType.of(shape, element, each) for each in layouts)
    warpgroup_barrier()  # others may still read what an earlier conversion stored
    tile.store(tile.from_lane(lane, old), mine, zero, zero, vector_bytes=widths[0])
    warpgroup_barrier()
    return tile.to_lane(tile.load(mine, zero, zero, new, vector_bytes=widths[1]))


def transposed(lane: ir.Value, size: int, layout: Layout) -> tuple[ir.Value, Layout]:
    """A lane's elements of a vector of rows as those of a vector of columns, or the other way around, and
    their layout.
    """
    of_rows = any(it.axis == "warpid" and it.extent > 1 for it in layout.shard)
    if not of_rows and size % registers.WGMMA_ROWS:
        raise mistake(
            f"a vector of columns must have a multiple of {registers.WGMMA_ROWS} elements to be one of rows, "
            f"got {size}"
        )
    sums = trace.current().sums
    shape = registers.WGMMA_ROWS, size
    new = registers.without_axis(sums(shape), shape, 0) if of_rows else sums((size,))
    bytes_ = lane.type.element_type.width // 8
    runs = [registers.run(each, (size,)) for each in (layout, new)]
    widths = [min(run * bytes_, registers.MOST_BYTES) if run * bytes_ > 1 else 0 for run in runs]

    def scratch(warpgroups: int) -> ir.Type:
        return tiles_type((warpgroups, 1, size), lane.type.element_type)

    return moved(lane, (1, size), (row(layout), row(new)), widths, scratch), new


def tiles_type(shape: tuple[int, int, int], element: ir.Type) -> ir.Type:
    """The type of tiles of several warpgroups, row by row."""
    tiles, rows, columns = shape
    text = f"S[({tiles},{rows},{columns}):({rows * columns},{columns},1)]"
    return BufferType.of(shape, element, Layout.parse(text))


def row(layout: Layout) -> Layout:
    """The layout of a vector as that of a tile of one row."""
    return Layout((Iter(1, 1), *layout.shard), layout.replica)


def group(warps: int) -> tuple[int, ir.Value]:
    """The number of warps that exchange values, and the thread's among them. `warps` is 0 for all of the
    role, or of the CTA. Raises WeftError where that isn't known.
    """
    warps = warps or _count()
    return warps, (roles.thread() // LANES % warps).value


def _count() -> int:
    current = trace.current()
    threads = current.role.threads if current.role is not None else current.threads_without_roles()
    return threads // LANES


def number(x: object, axis: int | None, expected: str) -> ir.Value:
    """The value of a number of each thread: an SSA value. Raises WeftError for anything else, which isn't
    what is `expected` either, and for a number along an axis.
    """
    scalar = operand(x, f32)
    if scalar is None or axis is not None:
        along = "" if axis is None else f", along axis {axis}"
        raise mistake(f"{expected}, or a number of each thread, got {x}{along}")
    return scalar.value


def of_each(value: ir.Value, warps: int, numbers: Sequence[Number] = ()) -> list[ir.Value]:
    """The value that each warp of the group has in its first lane, in their order; or that of those with
    these numbers.
    """
    (values,) = exchanged([(0, value)], 1, warps, emit.equal(thread_ids.lane(), 0), numbers)
    return values


def exchanged(
    values: Sequence[tuple[Number, ir.Value]],
    slots: int,
    warps: int,
    stores: ir.Value,
    numbers: Sequence[Number] = (),
) -> Iterator[list[ir.Value]]:
    """For each value, with its slot, those that all warps of the group have in this slot, in their order, or
    those with these numbers. They are loaded one after the other, as the caller takes them: all of them may
    need too many registers.

    `stores` is whether the lane stores them: one of those with the same values and slots, an i1.
    """
    kind_of_value = values[0][1].type
    current, kind = trace.current(), addresses.stored_type(kind_of_value)
    count, size = _count(), kind.width // 8
    key = "warps", current.role.first if current.role else 0, slots, warps, str(kind)
    size_of = count * slots
    buffer = current.scratch_buffer(
        key, lambda: BufferType.of((size_of,), kind, Layout.parse(f"S[({size_of}):(1)]"))
    )
    base, warp = tile.address(buffer), roles.thread() // LANES

    def address(of: ir.Value, slot: Number) -> ir.Value:
        number = emit.add(emit.mul(of, slots), slot)
        return addresses.offset(base, emit.value(emit.mul(number, size)))

    meets = roles.warpgroup_barrier if current.role and warps * LANES == WARPGROUP else roles.barrier
    meets()  # others may still read what an earlier exchange stored
    with emit.when(stores):
        for slot, value in values:
            llvm.store(emit.bits(value, kind), address(warp.value, slot), alignment=size)
    meets()
    first = (warp - warp % warps).value
    alone = bool(warps * slots & (warps * slots - 1))  # otherwise LLVM may load one more, to have a vector

    def loaded(number: Number, slot: Number) -> ir.Value:
        distance = emit.value(emit.mul(number, slots * size))
        pointer = addresses.offset(address(first, slot), distance)
        return emit.bits(llvm.load(kind, pointer, alignment=size, volatile_=alone), kind_of_value)

    return ([loaded(number, slot) for number in numbers or range(warps)] for slot, _ in values)
