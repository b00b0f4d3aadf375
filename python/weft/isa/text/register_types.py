"""The types with which PTX registers may be declared for each operand: what ptxas takes, which for many
operands is more than their type and for some of tcgen05's is less.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.isa.chips import ChipSet, only, since
from weft.isa.family import Registers

_WORDS = (".b32", ".s32", ".u32")
_ANY_WORDS = (*_WORDS, ".f32", ".f16x2")
_LONGS = (".b64", ".s64", ".u64")
_POINTERS = (*_WORDS, *_LONGS)
_SHORTS = (".b16", ".s16", ".u16")
# ptxas widens an address in shared memory, where the opcode names that space.
_NARROW = (".b8", ".s8", ".u8", *_SHORTS)

_FLOATS = ("f16", "bf16", "tf32", "e4m3", "e5m2")
_NARROW_FLOATS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_DISCARDING = ("mma", "wmma", "ldmatrix")
# Where ptxas makes mma of e4m3 and e5m2 without a kind of other instructions, and mma of m8n8k16 of another.
_FP8_OF_OTHERS = since("sm_90") - since("sm_120")
_M8N8K16_OF_ANOTHER = since("sm_100")
_VOLTA = only("sm_70", "sm_72")
# Results that `_` can't stand for, on these chips (None: on all): ptxas makes such forms of others that read
# them.
_KEPT: tuple[tuple[str, ChipSet | None, Callable[[Any], bool]], ...] = (
    ("wmma.load", _VOLTA, lambda form: form.fragment == "c" and form.layout == "col" and form.type != "s32"),
    ("wmma.mma", _VOLTA, lambda form: (form.d_type, form.c_type) == ("f16", "f32")),
    (
        "wmma.mma",
        only("sm_75"),
        lambda form: form.a_type == "f16" and f"{form.d_type}.{form.c_type}" != "f16.f32",
    ),
    ("wmma.mma", None, lambda form: form.a_type == "tf32"),
    ("mma.sync", since("sm_100"), lambda form: form.a_type == "f64" and form.shape != "m8n8k4"),
)
_UNTYPED_FAMILIES = ("ldmatrix", "stmatrix", "movmatrix")


class Accepted(NamedTuple):
    """The register types that an operand accepts, the plainest first, and what else it accepts.

    `constant`: integers without a register; `real`: floats; `sum`: a register with a constant added to it;
    `discard`: `_`. In lists, `double`: floats of .f64 beside registers; `special`: special registers;
    `distinct`: no register twice; `apart`: each word must be of one of the types, whatever the others are.
    """

    types: tuple[str, ...]
    constant: bool = False
    real: bool = False
    sum: bool = True
    discard: bool = False
    double: bool = True
    special: bool = True
    distinct: bool = False
    apart: bool = False


def accepted(family: str, form: Any, operand: Registers, chip: str | None) -> Accepted:
    """What may be written for `operand` of a form on `chip` (on some chip, where it is None). For an address
    it is what the registers in the brackets may be.
    """
    accepts = _accepted(family, form, operand, chip)
    if operand.role == "out":
        discard = family.startswith(_DISCARDING) and not any(
            name == family and (chips is None or chip in chips) and keeps(form)
            for name, chips, keeps in _KEPT
        )
        return accepts._replace(discard=discard, distinct=family.startswith("tcgen05.ld"))
    if family == "wmma.store" and chip in _VOLTA and form.type in ("f16", "f32"):
        row = form.layout == "row"
        return accepts._replace(double=row, special=row or form.type == "f16")
    stored = family in ("tcgen05.st", "wmma.store")
    accepts = accepts._replace(
        double=not stored and operand.name != "disable_output_lane", special=not stored
    )
    return _of_others(family, form, operand.name, chip, accepts)


def _of_others(family: str, form: Any, name: str, chip: str | None, accepts: Accepted) -> Accepted:
    """What remains of `accepts` for A, B or C where ptxas builds the form from other instructions."""
    if family == "wmma.mma" and name == "c" and (form.d_type, form.c_type) == ("f32", "f16"):
        return accepts if chip is None or chip in _VOLTA else accepts._replace(double=False, special=False)
    if family not in ("mma.sync", "mma.sp") or chip is None:
        return accepts
    if form.a_type in ("e4m3", "e5m2") and not form.kind and chip in _FP8_OF_OTHERS:
        if name == "c":
            return accepts._replace(special=False, apart=True)
        return accepts._replace(double=False)
    if form.shape == "m8n8k16" and name == "b" and chip not in _M8N8K16_OF_ANOTHER:
        return accepts._replace(types=_WORDS)
    if form.shape == "m8n8k16" and name in ("a", "c") and chip in _M8N8K16_OF_ANOTHER:
        return accepts._replace(special=False, apart=name == "c")
    return accepts


def _accepted(family: str, form: Any, operand: Registers, chip: str | None) -> Accepted:
    name, kind = operand.name, operand.type
    given = operand.role == "in"
    if kind.startswith("!llvm.ptr"):
        return Accepted(_addresses(family, kind), family == "tcgen05.dealloc")
    if kind == "i1":
        return Accepted((".pred",), True)
    if kind == "f64":
        return Accepted((".f64", *_LONGS), given, given)
    if kind == "i16":
        return Accepted(_SHORTS, True)
    if kind == "i64":
        return Accepted(_LONGS, True)
    if name in ("stride", "columns", "idesc", "mask"):
        return Accepted(_WORDS, name != "columns" or bool(operand.values), sum=name != "idesc")
    if family.startswith("tcgen05") or family in _UNTYPED_FAMILIES or name in ("scale_a", "scale_b"):
        return Accepted(_ANY_WORDS)
    if name == "metadata":
        types = (form.a_type, form.kind, form.d_type) if family == "mma.sp" else ()
        narrow = chip in _FP8_OF_OTHERS and types in (("e4m3", "", "f32"), ("e5m2", "", "f32"))
        return Accepted((*_WORDS, ".f16x2") if narrow else _ANY_WORDS)
    return _fragment(family, form, operand)


def _addresses(family: str, pointer: str) -> tuple[str, ...]:
    """Of registers that hold an address in tensor memory (address space 6), in shared memory, or in any."""
    if pointer != "!llvm.ptr<6>":
        narrow = family in ("ldmatrix", "stmatrix") and pointer == "!llvm.ptr<3>"
        return (*_POINTERS, *_NARROW) if narrow else _POINTERS
    if family.startswith("tcgen05.mma"):
        return (".b32",)
    return (*_WORDS, ".f16x2") if family in ("tcgen05.cp", "tcgen05.shift") else _WORDS


def _fragment(family: str, form: Any, operand: Registers) -> Accepted:
    """Of a matrix fragment: by the type of its elements, which matters little to `mma.sp`."""
    element = str(getattr(form, f"{operand.name}_type", None) or getattr(form, "type", ""))
    if element == "f32":
        lax = family == "mma.sp" and form.a_type in ("f16", "bf16", "tf32")
        real = family in ("mma.sync", "mma.sp") and form.a_type in _NARROW_FLOATS
        return Accepted(_ANY_WORDS if lax else (".f32", ".b32"), real=real)
    if element == "f16":
        return Accepted((".b32", ".f16x2"))
    if element == "s32":
        return Accepted(_WORDS, operand.role == "in")
    if family.startswith("wgmma"):
        return Accepted((".b32", ".f16x2") if element in _FLOATS else _ANY_WORDS)
    if family.endswith("block_scale"):
        return Accepted((".b32",))
    if family.startswith("wmma"):
        unpacked = family == "wmma.load" and element in ("s4", "u4", "b1")
        types = (".b32",) if element in ("bf16", "tf32") else _ANY_WORDS if unpacked else _WORDS
        return Accepted(types, family == "wmma.mma" and element not in _FLOATS)
    if family == "mma.sync" and element in ("bf16", "tf32"):
        return Accepted((".b32",))
    if family == "mma.sync" and form.shape == "m8n8k16" and operand.name == "a":
        return Accepted(_WORDS)
    return Accepted(_ANY_WORDS)
