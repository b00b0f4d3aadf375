"""Registers of a warpgroup in another layout, through shared memory."""

from collections.abc import Sequence
from math import gcd
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import BufferType, FragmentType
from weft.language import registers, trace
from weft.language.mistakes import mistake
from weft.language.roles import warpgroup_barrier
from weft.layout import Iter, Layout
from weft.mlir import ir
from weft.passes.builders import emit

MOST_BYTES = 16
"""Of a lane's access."""


def moved(
    lane: Any, shape: tuple[int, int], layouts: tuple[Layout, Layout], widths: Sequence[int], scratch: Any
) -> ir.Value:
    """A lane's elements of a tile, moved from one layout to another one, by accesses of so many bytes.

    `scratch` returns the type of a buffer for the tiles of so many warpgroups.
    """
    current = trace.current()
    role = current.role
    if role is None or current.one_thread:
        raise mistake(
            "lanes exchange elements to convert this fragment, which must be in a role, executed by whole "
            "warpgroups"
        )
    element = lane.type.element_type
    if element.width == 1:
        raise mistake("conditions can't be converted: convert what is compared, or use w.where first")
    key = "convert", role.first, shape, str(element)
    if key not in current.scratch:
        with current.at_entry():
            current.scratch[key] = tile.alloc(scratch(role.warpgroups))
    mine, zero = tile.stage(current.scratch[key], role.number), emit.value(0)
    old, new = (FragmentType.of(shape, element, each) for each in layouts)
    warpgroup_barrier()  # others may still read what an earlier conversion stored
    tile.store(tile.from_lane(lane, old), mine, zero, zero, vector_bytes=widths[0])
    warpgroup_barrier()
    return tile.to_lane(tile.load(mine, zero, zero, new, vector_bytes=widths[1]))


def transposed(lane: Any, size: int, layout: Layout) -> tuple[ir.Value, Layout]:
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
    runs = [gcd(registers.run(each, (size,)), size) for each in (layout, new)]
    widths = [min(run * bytes_, MOST_BYTES) if run * bytes_ > 1 else 0 for run in runs]
    text = f"S[({{}},1,{size}):({size},{size},1)]"

    def scratch(warpgroups: int) -> ir.Type:
        rows = Layout.parse(text.format(warpgroups))
        return BufferType.of((warpgroups, 1, size), lane.type.element_type, rows)

    return moved(lane, (1, size), (row(layout), row(new)), widths, scratch), new


def row(layout: Layout) -> Layout:
    """The layout of a vector as that of a tile of one row."""
    return Layout((Iter(1, 1), *layout.shard), layout.replica)
