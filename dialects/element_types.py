"""MLIR's names of element types, and the PTX types as which tensor cores read them. It doesn't import MLIR:
schedules and calls of compiled kernels need it, too.
"""

FP8_TYPES = ("f8E4M3FN", "f8E5M2")
BYTE_TYPES = ("i8", "ui8")
NIBBLE_TYPES = ("i4", "ui4")
_PTX_FLOATS = {
    "f16": "f16",
    "bf16": "bf16",
    "f32": "tf32",
    "f64": "f64",
    "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2",
}
_PTX_NARROW = {"f6E2M3FN": "e2m3", "f6E3M2FN": "e3m2", "f4E2M1FN": "e2m1"}
NARROW_TYPES = (*FP8_TYPES, *_PTX_NARROW)
"""The floats of at most 8 bits. Those of 4 and 6 bits are packed in global memory."""
PTX_INPUTS = {**_PTX_FLOATS, "i8": "s8", "ui8": "u8", **_PTX_NARROW}
"""The PTX types as which tensor cores read elements of MLIR's types in tiles."""
PTX_PACKED = {"i4": "s4", "ui4": "u4", "i1": "b1"}
"""The same for integers of less than a byte, which only whole products have. Their rows are packed."""
PTX_OPERANDS = {**PTX_INPUTS, **PTX_PACKED}
"""The PTX types of A and B in whole products."""
INPUT_TYPES = tuple(PTX_OPERANDS)
"""MLIR's types of A and B in whole products."""


def may_be_mixed(a: str, b: str) -> bool:
    """Whether A and B of these types make a product: they are the same or of one kind."""
    return a == b or any({a, b} <= set(kinds) for kinds in (NARROW_TYPES, BYTE_TYPES, NIBBLE_TYPES))


PTX_SCALES = {"f8E8M0FNU": "ue8m0", "f8E4M3FN": "ue4m3"}
"""The PTX types as which they read block scales of MLIR's types."""
_WIDE_INTEGERS = ("i16", "i32", "i64", "ui16", "ui32", "ui64")
ELEMENT_TYPES = (*PTX_INPUTS, "f8E8M0FNU", *_WIDE_INTEGERS)
