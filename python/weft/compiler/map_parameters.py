"""The tensor maps that a kernel has after its arguments: what it says of them, for a launch to make them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import Any

from weft import mlir
from weft.dialects.launch_contract import TENSOR_MAPS
from weft.dialects.op import refuse
from weft.isa.tensor_map import L2_PROMOTIONS, MOST_BOX, SWIZZLES, one_of
from weft.mlir import ir

_NAME = TENSOR_MAPS.name


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


def read_maps(kernel: Any, kinds: Sequence[Any]) -> tuple[MapParameter, ...]:
    """The tensor maps among a kernel's arguments, of these types: the last ones, as its attribute describes
    them. Raises WeftError for an attribute that doesn't fit.
    """
    if (given := TENSOR_MAPS.of(kernel)) is None:
        return ()
    found = tuple(_read_map(kernel, one) for one in given)
    pointers = list(takewhile(lambda kind: str(kind) == "!llvm.ptr", reversed(kinds)))
    if len(found) > len(pointers):
        last = f"its last arguments, {len(pointers)} of type !llvm.ptr"
        raise refuse(kernel, f"entries of {_NAME} must be at most as many as {last}, got {len(found)}")
    for one in found:
        if complaint := _complaint(one, kinds):
            raise refuse(kernel, complaint)
    return found


def _complaint(one: MapParameter, kinds: Sequence[Any]) -> str | None:
    if not 0 <= one.matrix < len(kinds) or not isinstance(kinds[one.matrix], ir.MemRefType):
        return f"matrix of {_NAME} must be the number of a memref argument, got {one.matrix}"
    if kinds[one.matrix].rank not in (2, 3):
        return f"matrix of {_NAME} must have rank 2 or 3, got argument {one.matrix}, {kinds[one.matrix]}"
    if len(one.box) != 2 or not all(1 <= extent <= MOST_BOX for extent in one.box):
        return f"box of {_NAME} must have rows and columns in 1..{MOST_BOX}, got {list(one.box)}"
    return None


def _read_map(kernel: Any, given: Any) -> MapParameter:
    kinds = {"box": ir.DenseI64ArrayAttr, "matrix": ir.IntegerAttr}
    names = sorted(field.name for field in fields(MapParameter))
    found = {named.name: named.attr for named in given} if isinstance(given, ir.DictAttr) else {}
    if list(found) != names or not all(isinstance(found[n], kinds.get(n, ir.StringAttr)) for n in names):
        raise refuse(kernel, f"entries of {_NAME} must have the fields {', '.join(names)}, got {given}")
    if not mlir.is_integer(found["matrix"]):
        raise refuse(kernel, f"matrix of {_NAME} must be {mlir.INTEGER}, got {found['matrix']}")
    swizzle, promotion = found["swizzle"].value, found["l2_promotion"].value
    wrong = one_of("swizzle", swizzle, SWIZZLES) or one_of("l2_promotion", promotion, L2_PROMOTIONS)
    if wrong:
        raise refuse(kernel, f"{_NAME}: {wrong.reason}")
    return MapParameter(found["matrix"].value, tuple(found["box"]), swizzle, promotion)
