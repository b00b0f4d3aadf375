"""Instructions outside of the tensor-core tables that no chip has, as ptxas 12.9 and 13.5 refuse them: with
modifiers that don't go together, or without one that they need.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from weft.isa.availability import matches


class Row(NamedTuple):
    """Instructions and modifiers as in a row of `availability`, and what is wrong with them."""

    heads: str
    modifiers: str
    reason: str


READ_SYMBOLS = ("mov", "cvta", "mapa", "getctarank", "call")
"""The instructions that take the name of a variable."""
DISCARD = ("atom", "lop3", "match", "mbarrier", "setp")
"""The instructions whose whole result may be `_`."""

_INTEGER, _FLOAT = r"[us]\d+", "(?:f16|bf16|f32|f64|tf32)"
_OTHER_TYPES = r"tf32|[us]8x4|[usf]16x2|bf16x2|f32x2|[es]\w+x[24]|ue8m0x2"
_TYPE = rf"{_INTEGER}|{_FLOAT}|b\d+|{_OTHER_TYPES}"
_MODES, _WHOLE = "rn|rz|rm|rp", "rni|rzi|rmi|rpi"
_EVERY = f"{_MODES}|rna|{_WHOLE}"
_HELD = r"u8\.u8|s8\.s8|u16\.u(?:8|16)|s16\.(?:[su]8|s16)|u32\.u(?:8|16|32)|s32\.(?:[su](?:8|16)|s32)|" \
    r"u64\.u\d+|s64\.(?:[su](?:8|16|32)|s64)"  # fmt: skip
_SCOPES = "cta|cluster|gpu|sys"
_ORDERS = "weak|volatile|relaxed|acquire|release|acq_rel"
_ONCE = "ftz|abs|xorsign|global|shared|local|const|param"


def _twice(words: str) -> str:
    return rf"(?:{words})(?=\.(?:.*\.)?(?:{words})(?![\w:]))"


# fmt: off
ROWS = tuple(Row(*row) for row in (
    # instructions, modifiers, what is wrong
    ("ld|ldu|st|mov", f"f16|bf16|{_OTHER_TYPES}", "moves only b, u and s types, f32 and f64"),
    ("mov", "[bus]8", "moves no type of 8 bits"),
    ("sub", "[us]16x2", "has no packed integers"),
    # Conversions of one number
    ("cvt", rf"{_EVERY}|ftz|relu|satfinite {_INTEGER}\.{_INTEGER}", "rounds only floats"),
    ("cvt", f"sat {_HELD}", "saturates only what may be out of range"),
    ("cvt", rf"!{_MODES} {_FLOAT}\.{_INTEGER}", "needs .rn, .rz, .rm or .rp"),
    ("cvt", rf"!{_WHOLE} {_INTEGER}\.{_FLOAT}", "needs .rni, .rzi, .rmi or .rpi"),
    ("cvt", rf"{_MODES}|rna|relu|satfinite {_INTEGER}\.{_FLOAT}", "rounds only to an integer"),
    ("cvt", rf"rna|{_WHOLE}|relu|satfinite {_FLOAT}\.{_INTEGER}", "rounds only by .rn, .rz, .rm or .rp"),
    ("cvt", rf"!{_MODES} (?:f32|f16|bf16)\.f64|(?:f16|bf16)\.f32", "needs .rn, .rz, .rm or .rp"),
    ("cvt", r"!rn|rz|rna tf32\.f32", "needs .rn, .rz or .rna"),
    ("cvt", rf"tf32\.(?!f32)\w+|(?:{_FLOAT}|{_INTEGER})\.tf32", "converts only f32 to tf32"),
    ("cvt", rf"{_MODES} f32\.f16|f64\.f16|f64\.f32|({_FLOAT})\.\1", "doesn't round: the result is exact"),
    ("cvt", rf"{_WHOLE} (?!({_FLOAT})\.\1(?!\w)){_FLOAT}\.{_FLOAT}",
     "rounds to integers only without another type"),
    ("cvt", r"rm|rp|rni|rzi|rmi|rpi|ftz|sat relu|satfinite !\w+x[24]",
     "takes .relu and .satfinite with .rn and .rz"),
    ("cvt", rf"relu|satfinite (?!\w+\.f32){_FLOAT}\.{_FLOAT}|f32\.f32|f64\.f32",
     "has .relu and .satfinite from f32 to shorter types"),
    ("cvt", rf"rna (?!tf32){_FLOAT}\.{_FLOAT}", "rounds by .rna only to tf32"),
    ("cvt", "rna relu", "takes .relu with .rn and .rz"),
    ("cvt", r"bf16\.[us]8|[us]8\.bf16", "converts no integers of 8 bits to or from bf16"),
    ("cvt", "ftz !f32", "flushes only numbers of f32"),
    ("cvt", r"ftz|sat tf32\.f32", "takes neither .ftz nor .sat to tf32"),
    ("cvt", rf"sat bf16\.{_FLOAT}|bf16\.{_INTEGER}|(?:{_FLOAT}|{_INTEGER})\.bf16", "saturates no bf16"),
    # Arithmetic
    ("add|sub|mul", "rz|rm|rp f16|bf16|f16x2|bf16x2 !f32", "rounds these types only by .rn"),
    ("fma", "rz|rm|rp f16|f16x2 !f32", "rounds these types only by .rn"),
    ("add|sub|mul|fma", "ftz|sat bf16|bf16x2|f64 !f32", "takes neither .ftz nor .sat with this type"),
    ("add|sub|mul", "relu|NaN|abs|xorsign f16|bf16|f16x2|bf16x2|f32|f64", "has no such modifier"),
    ("fma", f"!{_MODES}", "needs .rn, .rz, .rm or .rp"),
    ("mad", f"f32|f64 !{_MODES}", "needs .rn, .rz, .rm or .rp"),
    ("div|rcp|sqrt", f"f32 !{_MODES}|approx|full", "needs a rounding, or .approx"),
    ("div|sqrt", f"f64 !{_MODES}", "needs .rn, .rz, .rm or .rp"),
    ("div|rcp|sqrt", f"{_MODES} approx|full", "takes a rounding or an approximation"),
    ("sin|cos|lg2|ex2|tanh|rsqrt", "!approx", "needs .approx"),
    ("add|sub", r"sat [us](?:64|16)", "saturates 32 bits only"),
    ("add|sub", "cc [us](?:16|16x2)", "needs 32 or 64 bits with .cc"),
    ("and|or|xor|not|cnot|shl", r"[usf]\d+|bf16", "needs a b type"),
    ("setp|set", r"(?:lt|le|gt|ge|lo|ls|hi|hs)(?:\.\w+)?\.b\d+", "compares b types only by .eq and .ne"),
    ("min|max", "NaN|xorsign f64", "has no such modifier for f64"),
    ("min|max", "xorsign !abs", "needs .abs with .xorsign"),
    ("min|max", "abs !xorsign #3", "needs .xorsign with .abs"),
    ("min|max", "ftz bf16|bf16x2|f64", "takes no .ftz with this type"),
    # Memory
    ("ld|st|multimem|mbarrier", _twice(_ORDERS), "must have one order"),
    ("atom|red", _twice(_ORDERS), "must have one order"),
    ("ld|st|multimem|mbarrier|atom|red|fence", _twice(_SCOPES), "must have one scope"),
    ("ld|st|multimem|mbarrier", f"{_SCOPES} !relaxed|acquire|release|acq_rel|mmio|async",
     "needs an order with a scope"),
    ("ld|st|multimem|mbarrier", f"relaxed|acquire|release !{_SCOPES}|async", "needs a scope with an order"),
    ("ld", "nc weak|relaxed|acquire|volatile|mmio", "must have no order with .nc"),
    ("ld", "nc !global", "needs .global with .nc"),
    ("ld|st", "ca|cg|cs|lu|cv|wb|wt relaxed|acquire|release|volatile|mmio",
     "must have no cache operator with an order"),
    ("atom|red|cp.reduce", r"noftz [usb]\d+", "needs a float with .noftz"),
    ("redux", "min|max b32", "needs a u or s type"),
    ("atom|red", "f16|bf16|f16x2|bf16x2 add|min|max !noftz", "needs .noftz with this type"),
    ("prefetch|prefetchu|fence|membar|brkpt|applypriority|discard|pmevent",
     rf"[busf]\d+|bf16|{_OTHER_TYPES}|{_EVERY}", "has no type and no rounding"),
    ("prefetch", r"!L1|L2|L2::\w+|tensormap", "needs a cache"),
    ("discard", "!L2", "needs .L2"),
    ("createpolicy.fractional|applypriority", r"!L2::\w+", "needs a priority"),
    ("", rf"({_ONCE})(?=\.(?:.*\.)?\1(?![\w:]))", "has a modifier twice"),
))
# fmt: on


def reads_special_registers(opcode: str) -> bool:
    """Whether special registers may be sources of an instruction; others need them moved to registers."""
    head, *modifiers = opcode.split(".")
    return head in ("mov", "cvt") and not any(re.fullmatch(_FLOAT, each) for each in modifiers)


@lru_cache(maxsize=1 << 12)
def complaint(opcode: str, operands: int) -> str | None:
    """What is wrong with an instruction's modifiers; None if no row names them."""
    if opcode.startswith("cvt."):  # whose modifiers may stand between its types
        opcode = ".".join(sorted(opcode.split("."), key=lambda part: re.fullmatch(_TYPE, part) is not None))
    found = (row.reason for row in ROWS if matches(opcode, operands, row.heads, row.modifiers))
    return next(found, None)
