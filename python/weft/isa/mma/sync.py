"""Dense `mma.sync`: warp-level matrix multiply-accumulate on registers (PTX ISA, "Warp-level Matrix
Instructions: mma").
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from weft.isa.chips import ChipSet, only, since
from weft.isa.family import Family, Form, Registers, Support, Verdict
from weft.isa.mma import fragments as mma_fragments
from weft.isa.mma import modifiers
from weft.isa.mma.matrix_moves import BYTES
from weft.isa.template import Template
from weft.isa.types import ELEMENT_TYPES
from weft.isa.unpublished import Unpublished

FP8 = "e4m3 e5m2"
FP6_FP4 = "e3m2 e2m3 e2m1"
# ptxas has `.kind` and block scaling on these only: neither on sm_120 and sm_121, nor on earlier chips.
NARROW = only("sm_120a", "sm_120f", "sm_121a", "sm_121f")


@dataclass(frozen=True)
class Sync(Form):
    """One form of dense `mma.sync`: `d = a * b + c` over one warp. Types, shape and modifiers are PTX tokens.

    `bit_op` is `xor.popc` or `and.popc` for b1, otherwise empty. `kind` is `f8f6f4` or empty. `rounding` is
    for f64: `rn`, `rz`, `rm` or `rp`; empty means `rn`.
    """

    shape: str
    a_type: str
    b_type: str
    c_type: str
    d_type: str
    a_layout: str = "row"
    b_layout: str = "col"
    satfinite: bool = False
    bit_op: str = ""
    kind: str = ""
    rounding: str = ""

    templates = (
        Template(
            "mma",
            *modifiers.DENSE,
            *(modifiers.SATFINITE, modifiers.RESULT_FIRST, modifiers.BIT_OP, modifiers.ROUNDING),
        ),
    )
    assembly = "{{{d}}}, {{{a}}}, {{{b}}}, {{{c}}}"

    @property
    def intrinsic(self) -> str | None:
        if self.rounding:
            return None
        bit_op = f"{self.bit_op}." if self.bit_op else ""
        return f"llvm.nvvm.mma.{bit_op}{intrinsic_end(self)}"

    @property
    def mnk(self) -> tuple[int, int, int]:
        return mma_fragments.mnk(self.shape)

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A, B, C."""
        m, n, k = self.mnk
        if self.shape == "m8n8k4" and self.a_type != "f64":
            return (
                mma_fragments.quad_accumulator("d", self.d_type),
                mma_fragments.quad_a(self.a_layout),
                mma_fragments.quad_b(self.b_layout),
                mma_fragments.quad_accumulator("c", self.c_type),
            )
        return (
            mma_fragments.accumulator("d", self.d_type, m, n),
            mma_fragments.input_a(self.a_type, m, k),
            mma_fragments.input_b(self.b_type, k, n),
            mma_fragments.accumulator("c", self.c_type, m, n),
        )


def is_f8f6f4(name: str) -> bool:
    """Whether a type is one of the floats of 8 bits and less."""
    return name in f"{FP8} {FP6_FP4}".split()


def intrinsic_end(form: Any) -> str:
    """The name of LLVM's intrinsic, dense or sparse, from the shape on. LLVM distinguishes forms of f16 by
    their accumulators, those of fp8 and narrower types by all types, and the others by their inputs.
    """
    a, b, c, d = form.a_type, form.b_type, form.c_type, form.d_type
    if a == "f16":
        types = f"{d}.{c}"
    elif is_f8f6f4(a):
        types = f"{d}.{a}.{b}.{c}"
    else:
        types = a if a == b else f"{a}.{b}"
    kind = f"kind.{form.kind}." if form.kind else ""
    satfinite = "satfinite." if form.satfinite else ""
    return f"{form.shape}.{form.a_layout}.{form.b_layout}.{kind}{satfinite}{types}"


class _Row(NamedTuple):
    """Forms of each shape with A and B of any two of the inputs, and D and C of any of the pairs."""

    shapes: str
    inputs: str
    results: str
    chips: ChipSet
    ptx: tuple[int, int]
    layouts: str = "row.col"
    kind: str = ""
    bit_op: str = ""


_ANY = "row.row row.col col.row col.col"

# fmt: off
_ROWS = (
    #    shape                inputs    D.C                      first chip       PTX
    _Row("m8n8k4",            "f16",    "f16.f16 f32.f16 f32.f32", since("sm_70"), (6, 4), _ANY),
    _Row("m16n8k8",           "f16",    "f16.f16 f32.f32",       since("sm_75"), (6, 5)),
    _Row("m16n8k16",          "f16",    "f16.f16 f32.f32",       since("sm_80"), (7, 0)),
    _Row("m16n8k8 m16n8k16",  "bf16",   "f32.f32",               since("sm_80"), (7, 0)),
    _Row("m16n8k4 m16n8k8",   "tf32",   "f32.f32",               since("sm_80"), (7, 0)),
    _Row("m8n8k4",            "f64",    "f64.f64",               since("sm_80"), (7, 0)),
    _Row("m16n8k4 m16n8k8 m16n8k16", "f64", "f64.f64",           since("sm_90"), (7, 8)),
    _Row("m8n8k16",           "s8 u8",  "s32.s32",               since("sm_75"), (6, 5)),
    _Row("m16n8k16 m16n8k32", "s8 u8",  "s32.s32",               since("sm_80"), (7, 0)),
    _Row("m8n8k32",           "s4 u4",  "s32.s32",               since("sm_75"), (6, 5)),
    _Row("m16n8k32 m16n8k64", "s4 u4",  "s32.s32",               since("sm_80"), (7, 0)),
    _Row("m8n8k128",          "b1",     "s32.s32",               since("sm_75"), (7, 0), bit_op="xor.popc"),
    _Row("m16n8k128 m16n8k256", "b1",   "s32.s32",               since("sm_80"), (7, 0), bit_op="xor.popc"),
    _Row("m8n8k128 m16n8k128 m16n8k256", "b1", "s32.s32",        since("sm_80"), (7, 1), bit_op="and.popc"),
    _Row("m16n8k32",          FP8,      "f32.f32",               since("sm_89"), (8, 4)),
    _Row("m16n8k32",          FP8,      "f16.f16",               since("sm_89"), (8, 7)),
    _Row("m16n8k16",          FP8,      "f16.f16 f32.f32",       since("sm_89"), (8, 7)),
    _Row("m16n8k32", f"{FP8} {FP6_FP4}", "f16.f16 f32.f32",      NARROW,         (8, 7), kind="f8f6f4"),
)
# fmt: on


def _forms() -> Iterator[tuple[Sync, Support]]:
    for row in _ROWS:
        inputs = row.inputs.split()
        # What overflows a 32-bit integer may be clamped.
        clamps = (False, True) if ELEMENT_TYPES[inputs[0]].kind in ("int", "uint") else (False,)
        roundings = ("", *modifiers.ROUNDINGS) if inputs == ["f64"] else ("",)
        axes = (row.shapes.split(), inputs, inputs, row.results.split(), row.layouts.split(), clamps)
        for shape, a, b, result, layout, satfinite, rounding in product(*axes, roundings):
            (d, c), (rows, columns) = result.split("."), layout.split(".")
            form = Sync(shape, a, b, c, d, rows, columns, satfinite, row.bit_op, row.kind, rounding)
            yield form, Support(row.chips, row.ptx)


def _bit_op(form: Sync) -> Verdict | None:
    if form.bit_op and (form.a_type, form.b_type) != ("b1", "b1"):
        return Verdict("bit_op", f"{form.bit_op} needs A and B of b1, got {form.a_type} and {form.b_type}")
    if not form.bit_op and form.a_type == "b1":
        return Verdict("bit_op", "b1 needs a bit operation, xor.popc or and.popc, got none")
    return None


def satfinite_verdict(form: Any) -> Verdict | None:
    """Only integer sums clamp; floating ones have no `.satfinite` in any `mma`."""
    inputs = (form.a_type, form.b_type)
    kinds = {ELEMENT_TYPES[t].kind if t in ELEMENT_TYPES else "" for t in inputs}
    if form.satfinite and not kinds <= {"int", "uint"}:
        return Verdict("satfinite", f"satfinite needs s8, u8, s4 or u4 inputs, got {' and '.join(inputs)}")
    return None


def _layouts(form: Sync) -> Verdict | None:
    layouts = f"{form.a_layout}.{form.b_layout}"
    if layouts != "row.col" and (form.shape, form.a_type) != ("m8n8k4", "f16"):
        return Verdict("layout", f"layouts must be row.col, except for m8n8k4 of f16, got {layouts}")
    return None


def kind_verdict(form: Any) -> Verdict | None:
    """fp6 and fp4 need a kind, and kind f8f6f4 is for floats of 8 bits and less."""
    inputs = (form.a_type, form.b_type)
    narrow = [t for t in inputs if t in FP6_FP4.split()]
    if narrow and not form.kind:
        return Verdict("kind", f"{narrow[0]} needs kind f8f6f4, got none")
    if form.kind == "f8f6f4" and not all(map(is_f8f6f4, inputs)):
        legal = ", ".join(f"{FP8} {FP6_FP4}".split())
        return Verdict("kind", f"kind f8f6f4 needs inputs of {legal}, got {' and '.join(inputs)}")
    return None


def inputs_verdict(form: Any, rows: Iterable[str]) -> Verdict | None:
    """A and B are inputs of one row."""
    together = [inputs.split() for inputs in rows if form.a_type in inputs.split()]
    partners = list(dict.fromkeys(t for inputs in together for t in inputs))
    if partners and form.b_type not in partners:
        legal = " or ".join(partners)
        return Verdict("b_type", f"A of {form.a_type} needs B of {legal}, got {form.b_type}")
    return None


def results_verdict(form: Any, rows: Iterable[str]) -> Verdict | None:
    """D and C are a pair that a row with such inputs has."""
    pairs = list(dict.fromkeys(pair for row in rows for pair in row.split()))
    if pairs and f"{form.d_type}.{form.c_type}" not in pairs:
        legal = " or ".join(pair.replace(".", " and ") for pair in pairs)
        got = f"{form.d_type} and {form.c_type}"
        return Verdict("d_type", f"{form.a_type} inputs need D and C of {legal}, got {got}")
    return None


def _rounding(form: Sync) -> Verdict | None:
    if form.rounding and form.a_type != "f64":
        return Verdict("rounding", f"rounding {form.rounding} needs f64, got {form.a_type}")
    return None


_RULES = (
    _bit_op,
    kind_verdict,
    satfinite_verdict,
    _rounding,
    lambda form: inputs_verdict(form, (row.inputs for row in _ROWS)),
    lambda form: results_verdict(form, (row.results for row in _ROWS if form.a_type in row.inputs.split())),
    _layouts,
)
SYNC = Family("mma.sync", Sync, _forms, _RULES)

FAMILIES = (SYNC,)


def _legal(form: Sync, chip: str) -> bool:
    support = SYNC.table.get(form)
    return support is not None and chip in support.chips


def _kind_ignored(form: Sync, chip: str) -> bool:
    return (
        form.a_type in FP8.split() and chip in kind_chips(form.kind) and _legal(replace(form, kind=""), chip)
    )


def kind_chips(kind: str) -> ChipSet:
    """The chips on which ptxas knows a kind, that of any instruction."""
    if kind in ("f16", "tf32"):
        return BYTES - NARROW
    if kind == "i8":
        return only("sm_100a", "sm_110a")
    return BYTES if kind in ("f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4") else only()


def _bit_op_ignored(form: Sync, chip: str) -> bool:
    ignored = form.a_type in ("s4", "u4") and form.bit_op != "" and not form.satfinite
    return ignored and _legal(replace(form, bit_op=""), chip)


def _bf16_quads(form: Sync, chip: str) -> bool:
    quads = Sync("m8n8k4", "bf16", "bf16", "f32", "f32", form.a_layout, form.b_layout)
    return form == quads and chip in since("sm_80")


# Where LLVM 22.1 can't select the intrinsic of a form that the chip has.
UNSELECTABLE = {Sync("m8n8k128", "b1", "b1", "s32", "s32", bit_op="xor.popc"): only("sm_75")}

UNPUBLISHED = (
    Unpublished(
        "mma.sync", _kind_ignored, "ptxas ignores any kind on e4m3 and e5m2, where no kind is needed"
    ),
    Unpublished("mma.sync", _bit_op_ignored, "ptxas ignores a bit operation on s4 and u4"),
    Unpublished("mma.sync", _bf16_quads, "no PTX ISA has m8n8k4 of bf16"),
)
