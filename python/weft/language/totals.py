"""Reductions to one number: of a fragment, or of a number of each thread."""

from typing import Any

from weft.isa.chips import LANES, WARPS
from weft.language import exchanges, trace
from weft.language import warps as groups
from weft.language.fragments import Fragment
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar
from weft.mlir import arith, ir
from weft.passes.builders import emit

_DISTANCES = tuple(1 << bit for bit in range(LANES.bit_length() - 1))


def total(x: Any, name: str, axis: int | None, within: str | None) -> Scalar:
    """The reduction of all elements of a fragment, or of a number of each thread; the same in all threads."""
    if isinstance(x, Fragment):
        if within is not None:
            raise mistake(f"within must be None for all elements of {x}, got {within!r}")
        warps, value = WARPS, _of_lane(x, name)
    else:
        value = groups.number(x, axis, "expects a fragment to reduce")
        if within not in (None, "warp"):
            raise mistake(f"within must be None or 'warp', for a number of each thread, got {within!r}")
        warps = 0
    trace.current().check_whole_warps("a reduction to one number")
    value = exchanges.across(value, name, _DISTANCES)
    return Scalar(value if within == "warp" else _across_warps(value, name, warps))


def _of_lane(x: Fragment, name: str) -> ir.Value:
    """The reduction of a lane's elements. For sums, only the first of several lanes with the same ones."""
    value = exchanges.folded(name, x.elements())
    if name != "add" or all(it.extent == 1 for it in x.layout.replica):
        return value
    return arith.select(exchanges.first_of_copies(x.layout), value, emit.constant(value.type, 0))


def _across_warps(value: ir.Value, name: str, warps: int) -> ir.Value:
    """The reduction over groups of so many warps, of a value of each warp; 0 for all warps of the role, or of
    the CTA.
    """
    warps, _ = groups.group(warps)
    if warps == 1:
        return value
    return exchanges.folded(name, groups.of_each(value, warps))
