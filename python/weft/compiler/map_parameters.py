"""The tensor maps that a launch passes after a kernel's arguments, read from the kernel's attribute."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from itertools import takewhile

from weft import mlir
from weft.compiler.launch_record import MapParameter
from weft.dialects.launch_contract import TENSOR_MAPS
from weft.dialects.op import refuse
from weft.isa.tensor_map import L2_PROMOTIONS, MOST_BOX, SWIZZLE_NAMES, one_of
from weft.mlir import ir

_NAME = TENSOR_MAPS.name
_FLAGS = ("padded", "any_rows", "skewed", "joined", "tf32")
_RANKS = range(2, 5)  # of matrices, batches and batches of batches


def read_maps(kernel: ir.OpView, kinds: Sequence[ir.Type]) -> tuple[MapParameter, ...]:
    """The tensor maps among a kernel's arguments, of these types: the last ones, as its attribute describes
    them. Raises WeftError for an attribute that doesn't fit.
    """
    if (entries := TENSOR_MAPS.of(kernel)) is None:
        return ()
    maps = tuple(_read_map(kernel, one) for one in entries)
    pointers = list(takewhile(lambda kind: str(kind) == "!llvm.ptr", reversed(kinds)))
    if len(maps) > len(pointers):
        last = f"its last arguments, {len(pointers)} of type !llvm.ptr"
        raise refuse(kernel, f"{_NAME} must not have more entries than {last}, got {len(maps)}")
    for one in maps:
        if not 0 <= one.matrix < len(kinds) or not isinstance(kinds[one.matrix], ir.MemRefType):
            raise refuse(
                kernel, f"matrix of {_NAME} must be the number of a memref argument, got {one.matrix}"
            )
        if kinds[one.matrix].rank not in _RANKS:
            got = f"argument {one.matrix}, {kinds[one.matrix]}"
            raise refuse(kernel, f"matrix of {_NAME} must have rank 2, 3 or 4, got {got}")
        box = one.box[:1] if one.chunk else one.box
        if len(one.box) != 2 or not all(1 <= extent <= MOST_BOX for extent in box):
            legal = f"rows and columns in 1..{MOST_BOX}"
            raise refuse(kernel, f"box of {_NAME} must have {legal}, got {list(one.box)}")
    return maps


def _read_map(kernel: ir.OpView, entry: ir.Attribute) -> MapParameter:
    kinds = {"box": ir.DenseI64ArrayAttr, "matrix": ir.IntegerAttr, "chunk": ir.IntegerAttr}
    kinds |= dict.fromkeys(_FLAGS, ir.UnitAttr)
    names = sorted(field.name for field in fields(MapParameter) if field.default is MISSING)
    values = {named.name: named.attr for named in entry} if isinstance(entry, ir.DictAttr) else {}
    wrong = any(not isinstance(values[n], kinds.get(n, ir.StringAttr)) for n in values)
    optional = [field.name for field in fields(MapParameter) if field.default is not MISSING]
    if wrong or sorted({*values, *optional}) != sorted([*names, *optional]):
        raise refuse(kernel, f"entries of {_NAME} must have the fields {', '.join(names)}, got {entry}")
    if not mlir.is_integer(values["matrix"]):
        raise refuse(kernel, f"matrix of {_NAME} must be {mlir.INTEGER}, got {values['matrix']}")
    swizzle, promotion = values["swizzle"].value, values["l2_promotion"].value
    verdict = one_of("swizzle", swizzle, SWIZZLE_NAMES) or one_of("l2_promotion", promotion, L2_PROMOTIONS)
    if verdict:
        raise refuse(kernel, f"{_NAME}: {verdict.reason}")
    return MapParameter(
        values["matrix"].value,
        tuple(values["box"]),
        swizzle,
        promotion,
        chunk=values["chunk"].value if "chunk" in values else 0,
        **{flag: flag in values for flag in _FLAGS},
    )
