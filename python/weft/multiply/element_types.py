"""Which element types the arrays of a product may have together, as callers of `weft.matmul` see them."""

from collections.abc import Mapping

from weft.dialects.element_types import INPUT_TYPES, may_be_mixed
from weft.dialects.operand_roles import GROUPINGS, OUTPUT_TYPES, ROLES
from weft.dialects.product_types import Types
from weft.errors import WeftError

_BY_SUMS = {"f64": "f64", "i32": "integers"}
"""The types of sums that all other arrays share, and what a and b are then."""
_IN_BYTES = {
    **dict.fromkeys(("i16", "i32", "i64"), "i8 if its values are in -128..127"),
    **dict.fromkeys(("ui16", "ui32", "ui64"), "ui8 if its values are in 0..255"),
}
"""For other types of integers, the type to which they may be converted without a loss."""


def check(given: Mapping[str, str]) -> None:
    """Raises WeftError where arrays of these types, by their names, make no product."""
    if wrong := _complaint(given):
        raise WeftError(f"weft.matmul: {wrong}")


def _complaint(given: Mapping[str, str]) -> str | None:
    for name in ("a", "b"):
        if given[name] not in INPUT_TYPES:
            got = given[name]
            if got in _IN_BYTES:  # f32 is rounded to tf32, which has integers up to 2048
                got += (
                    f": convert it to {_IN_BYTES[got]}, or to f64, which is exact while sums are below 2**53"
                )
            return f"{name} must have elements of {', '.join(INPUT_TYPES)}, got {got}"
    if not may_be_mixed(given["a"], given["b"]):
        a, b = given["a"], given["b"]
        return f"a and b must have one element type, got {a} and {b}: convert one of them"
    for name, dtype in given.items():
        legal = _LEGAL.get(name, (dtype,))
        if dtype not in legal:
            return f"{name} must have elements of {', '.join(legal)}, got {dtype}: convert it"
    sums = Types(given["a"], given["b"], given["out"]).sums
    for name, dtype in given.items():
        if name != "out" and name not in _ADDED:
            continue
        what = "the result (out, out_dtype)" if name == "out" else name
        if sums in _BY_SUMS and dtype != sums:
            inputs = _BY_SUMS[sums]
            return f"{what} must have elements of {sums} where a and b are {inputs}, got {dtype}"
        if sums not in _BY_SUMS and dtype in _BY_SUMS:
            legal = f"elements of {dtype} only where a and b are {_BY_SUMS[dtype]}"
            return f"{what} may have {legal}, got a of {given['a']}: use f32"
    return None


_LEGAL = {name: role.elements for name, role in ROLES.items() if role.is_added or name in GROUPINGS}
_LEGAL["out"] = OUTPUT_TYPES
_ADDED = {name for name, role in ROLES.items() if role.is_added}
