"""Reductions along columns of a tile: within warps by exchanges, across warps through shared memory."""

from collections.abc import Callable
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import BufferType, FragmentType
from weft.isa.chips import THREAD_REGISTERS, WARPS
from weft.language import registers, trace
from weft.language.fragments import Fragment
from weft.language.mistakes import mistake
from weft.language.roles import warpgroup_barrier
from weft.layout import MEMORY, Iter, Layout
from weft.mlir import ir
from weft.passes.builders import emit


def distances(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The distances of the lanes of a warp that hold elements of one column; None where warps don't each hold
    a part of all columns.
    """
    found: list[int] = []
    for it in layout.group(shape)[0]:
        if it.axis == MEMORY or (it.axis != "laneid" and (it.extent, it.stride) == (WARPS, 1)):
            continue
        if it.axis != "laneid" or it.extent & (it.extent - 1):
            return None
        found += [it.stride << bit for bit in range(it.extent.bit_length() - 1)]
    return tuple(found)


def across_warps(x: Fragment, values: dict[int, ir.Value], fold: Callable[[list[Any]], Any]) -> Fragment:
    """A vector of the columns of a tile, from what each warp has for each of a lane's columns."""
    current, columns = trace.current(), x.shape[1]
    role = current.role
    if role is None or current.one_thread:
        raise mistake("a reduction along axis 0 must be in a role, executed by whole warpgroups")
    groups = x.layout.group(x.shape)
    copies = tuple(it for it in groups[0] if it.axis == "laneid" and it.extent > 1)
    of_columns = registers.without_axis(x.layout, x.shape, 0)
    by_warp = Layout((Iter(WARPS, 1, "warpid"), *of_columns.shard), (*x.layout.replica, *copies))
    order = [at[1] for at in registers.registers_of(by_warp, (WARPS, columns))]
    part = Fragment(emit.vector_of([values[column] for column in order]), (WARPS, columns), by_warp)
    key = role.first, columns, x.dtype.name
    if key not in current.scratch:
        with current.at_entry():
            current.scratch[key] = tile.alloc(_scratch(role.warpgroups, columns, x.dtype))
    mine = tile.stage(current.scratch[key], role.number)
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
    of_column = dict[int, list[Any]]()
    for warp in range(0, WARPS, rows):
        read = Fragment.of(tile.load(mine, emit.value(warp), zero, kind, vector_bytes=width))
        for at, element in zip(registers.registers_of(together, read.shape), read.elements(), strict=True):
            of_column.setdefault(at[1], []).append(element)
    folded = {column: fold(elements) for column, elements in of_column.items()}
    order = [at[0] for at in registers.registers_of(of_columns, (columns,))]
    return Fragment(emit.vector_of([folded[column] for column in order]), (columns,), of_columns)


def _scratch(warpgroups: int, columns: int, dtype: Any) -> ir.Type:
    """The type of a row for each warp, of each warpgroup."""
    rows = f"S[({warpgroups},{WARPS},{columns}):({WARPS * columns},{columns},1)]"
    return BufferType.of((warpgroups, WARPS, columns), dtype.type, Layout.parse(rows))
