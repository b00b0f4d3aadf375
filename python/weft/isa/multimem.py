"""The operations and types of `multimem.ld_reduce`, `multimem.st` and `multimem.red` (PTX ISA, "Data
Movement and Conversion Instructions: multimem.ld_reduce, multimem.st, multimem.red"). Types of fp8, which
only some chips have, are left out.
"""

HALVES = ("f16", "f16x2", "bf16", "bf16x2")
FLOATS = (*HALVES, "f32", "f64")
STORED = ("b32", "b64", "u32", "u64", "s32", "s64", *FLOATS)

REDUCED = {
    "add": ("u32", "u64", "s32", *FLOATS),
    "min": ("u32", "s32", "u64", "s64", *HALVES),
    "max": ("u32", "s32", "u64", "s64", *HALVES),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
"""The types of each operation of `multimem.ld_reduce`."""
ADDED = {name: FLOATS if name == "add" else () for name in REDUCED}
"""The floating-point types of each operation of `multimem.red`; its integers are those of `REDUCED`."""

SIZES = (4, 8, 16)
"""The bytes of a vector of floating-point elements."""
VECTORS = ("v2", "v4", "v8")
