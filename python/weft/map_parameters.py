"""The tensor maps that a kernel has after its arguments: what it says of them, for a launch to make them."""

from dataclasses import dataclass, fields
from typing import Any

from weft.dialects.op import refuse
from weft.isa.tensor_map import L2_PROMOTIONS, SWIZZLES, one_of
from weft.mlir import ir
from weft.passes.lower_tma import MAPS


@dataclass(frozen=True)
class MapParameter:
    """A tensor map that a launch makes of one of its matrices and passes after its arguments.

    `matrix` is the number of the memref argument, `box` the rows and columns that a copy takes; `swizzle` and
    `l2_promotion` are named as in `weft.isa.tensor_map`.
    """

    matrix: int
    box: tuple[int, int]
    swizzle: str
    l2_promotion: str


def read_maps(kernel: Any) -> tuple[MapParameter, ...]:
    """The tensor maps that a launch of a kernel needs. Raises WeftError for an attribute that says none."""
    attributes = kernel.operation.attributes
    if MAPS not in attributes:
        return ()
    if not isinstance(attributes[MAPS], ir.ArrayAttr):
        raise refuse(kernel, f"expects {MAPS} to be an array, got {attributes[MAPS]}")
    return tuple(_read_map(kernel, one) for one in attributes[MAPS])


def _read_map(kernel: Any, given: Any) -> MapParameter:
    kinds = {"box": ir.DenseI64ArrayAttr, "matrix": ir.IntegerAttr}
    names = sorted(field.name for field in fields(MapParameter))
    found = {named.name: named.attr for named in given} if isinstance(given, ir.DictAttr) else {}
    if list(found) != names or not all(isinstance(found[n], kinds.get(n, ir.StringAttr)) for n in names):
        raise refuse(kernel, f"expects {MAPS} to say {', '.join(names)} of each map, got {given}")
    swizzle, promotion = found["swizzle"].value, found["l2_promotion"].value
    wrong = one_of("swizzle", swizzle, SWIZZLES) or one_of("l2_promotion", promotion, L2_PROMOTIONS)
    if wrong:
        raise refuse(kernel, f"expects {MAPS} of known kinds, but one {wrong.reason}")
    return MapParameter(found["matrix"].value, tuple(found["box"]), swizzle, promotion)
