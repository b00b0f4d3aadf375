"""Reductions to one number: of a fragment, or of a number of each thread."""

from typing import Any

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.language import exchanges, roles, trace
from weft.language.fragments import Fragment
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar, f32, operand
from weft.layout import Layout
from weft.mlir import arith, llvm
from weft.passes.builders import addresses, emit

_DISTANCES = tuple(1 << bit for bit in range(LANES.bit_length() - 1))


def total(x: Any, name: str, axis: int | None, within: str | None) -> Scalar:
    """The reduction of all elements of a fragment, or of a number of each thread; the same in all threads."""
    if isinstance(x, Fragment):
        if within is not None:
            raise mistake(f"within must be None for all elements of {x}, got {within!r}")
        warps, value = WARPS, _of_lane(x, name)
    else:
        number = operand(x, f32)
        if number is None or axis is not None:
            along = "" if axis is None else f", along axis {axis}"
            raise mistake(f"expects a fragment to reduce, or a number of each thread, got {x}{along}")
        if within not in (None, "warp"):
            raise mistake(f"within must be None or 'warp', for a number of each thread, got {within!r}")
        warps, value = 0, number.value
    trace.current().check_whole_warps("a reduction to one number")
    value = exchanges.across(value, name, _DISTANCES)
    return Scalar(value if within == "warp" else _across_warps(value, name, warps))


def _of_lane(x: Fragment, name: str) -> Any:
    """The reduction of a lane's elements. For sums, only the first of several lanes with the same ones."""
    value = exchanges.folded(name, x.elements())
    if name != "add" or all(it.extent == 1 for it in x.layout.replica):
        return value
    return arith.select(exchanges.first_of_copies(x.layout), value, emit.constant(value.type, 0))


def _across_warps(value: Any, name: str, warps: int) -> Any:
    """The reduction over groups of so many warps, of a value of each warp; 0 for all warps of the role, or of
    the CTA.
    """
    current, kind = trace.current(), addresses.stored_type(value.type)
    threads = current.role.threads if current.role is not None else current.threads_without_roles()
    count = threads // LANES
    warps = warps or count
    if warps == 1:
        return value
    key = "total", current.role.first if current.role else 0, warps, str(kind)
    if key not in current.scratch:
        with current.at_entry():
            layout = Layout.parse(f"S[({count}):(1)]")
            current.scratch[key] = tile.alloc(BufferType.of((count,), kind, layout))
    base, size, warp = tile.address(current.scratch[key]), kind.width // 8, roles.thread() // LANES
    mine = addresses.offset(base, emit.value((warp * size).value))
    first = addresses.offset(base, emit.value(((warp - warp % warps) * size).value))
    meets = roles.warpgroup_barrier if current.role and warps * LANES == WARPGROUP else roles.barrier
    meets()  # others may still read what an earlier reduction stored
    with emit.when(emit.equal(emit.rem(emit.thread(), LANES), 0)):
        llvm.store(value, mine, alignment=size)
    meets()
    alone = bool(warps & (warps - 1))  # otherwise LLVM may load one more, to have a vector
    parts = [
        llvm.load(kind, addresses.offset(first, number * size), alignment=size, volatile_=alone)
        for number in range(warps)
    ]
    return exchanges.folded(name, parts)
