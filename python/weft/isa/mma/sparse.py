"""`mma.sp`: `mma` with a structured sparse A, of which half is stored (PTX ISA, "Warp-level Matrix
Instructions: mma.sp").
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from weft.isa.chips import CHIPS, ChipSet, since
from weft.isa.family import Family, Form, Registers, Support, Verdict
from weft.isa.mma import fragments as mma_fragments
from weft.isa.mma import modifiers
from weft.isa.mma.sync import (
    FP6_FP4,
    FP8,
    NARROW,
    inputs_verdict,
    intrinsic_end,
    kind_chips,
    kind_verdict,
    results_verdict,
    satfinite_verdict,
)
from weft.isa.template import Template
from weft.isa.types import ELEMENT_TYPES
from weft.isa.unpublished import Unpublished


@dataclass(frozen=True)
class Sparse(Form):
    """One form of `mma.sp`: `d = a * b + c` over one warp, where half of A's elements are
    zeros that aren't stored.

    Types and modifiers are PTX tokens. `ordered` is `sp::ordered_metadata`, which requires that the indices
    in the metadata ascend.
    """

    shape: str
    a_type: str
    b_type: str
    c_type: str
    d_type: str
    ordered: bool = True
    a_layout: str = "row"
    b_layout: str = "col"
    satfinite: bool = False
    kind: str = ""

    templates = (
        Template("mma", modifiers.ORDERED, *modifiers.DENSE, modifiers.SATFINITE, modifiers.RESULT_FIRST),
    )
    assembly = "{{{d}}}, {{{a}}}, {{{b}}}, {{{c}}}, {metadata}, {selector}"

    @property
    def intrinsic(self) -> str | None:
        if self.kind == "" and self.d_type == "f16" and self.a_type in FP8.split():
            return None
        ordered = "ordered.metadata." if self.ordered else ""
        return f"llvm.nvvm.mma.sp.{ordered}{intrinsic_end(self)}"

    @property
    def mnk(self) -> tuple[int, int, int]:
        return mma_fragments.mnk(self.shape)

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A (its stored half), B, C, the metadata and the selector of the lanes that hold it."""
        m, n, k = self.mnk
        return (
            mma_fragments.accumulator("d", self.d_type, m, n),
            mma_fragments.input_a(self.a_type, m, k // 2),
            mma_fragments.input_b(self.b_type, k, n),
            mma_fragments.accumulator("c", self.c_type, m, n),
            *mma_fragments.metadata(self.a_type, m, k),
        )


class _Row(NamedTuple):
    """Forms of each shape with A and B of any two of the inputs, and D and C of any of the pairs; `ptx` is
    the version of those with ordered metadata, `unordered` of those without (None: there are none).
    """

    shapes: str
    inputs: str
    results: str
    chips: ChipSet
    unordered: tuple[int, int] | None
    ptx: tuple[int, int] = (8, 5)
    kind: str = ""


# fmt: off
_ROWS = (
    #    shapes                inputs   D.C                first chip       PTX without, with ordered metadata
    _Row("m16n8k16 m16n8k32",  "f16",   "f16.f16 f32.f32", since("sm_80"), (7, 1)),
    _Row("m16n8k16 m16n8k32",  "bf16",  "f32.f32",         since("sm_80"), (7, 1)),
    _Row("m16n8k8 m16n8k16",   "tf32",  "f32.f32",         since("sm_80"), (7, 1)),
    _Row("m16n8k32 m16n8k64",  "s8 u8", "s32.s32",         since("sm_80"), (7, 1)),
    _Row("m16n8k64 m16n8k128", "s4 u4", "s32.s32",         since("sm_80"), (7, 1)),
    _Row("m16n8k64",           FP8,     "f32.f32",         since("sm_89"), (8, 4)),
    _Row("m16n8k64",           FP8,     "f16.f16",         NARROW,         None,   (8, 7)),
    _Row("m16n8k64", f"{FP8} {FP6_FP4}", "f16.f16 f32.f32", NARROW,        None,   (8, 7), "f8f6f4"),
)
# fmt: on


def _forms() -> Iterator[tuple[Sparse, Support]]:
    for row in _ROWS:
        inputs = row.inputs.split()
        clamps = (False, True) if ELEMENT_TYPES[inputs[0]].kind in ("int", "uint") else (False,)
        orders = ((True, row.ptx), (False, row.unordered))
        axes = (row.shapes.split(), inputs, inputs, row.results.split(), clamps, orders)
        for shape, a, b, result, satfinite, (ordered, ptx) in product(*axes):
            if ptx is not None:
                d, c = result.split(".")
                form = Sparse(shape, a, b, c, d, ordered, satfinite=satfinite, kind=row.kind)
                yield form, Support(row.chips, ptx)


def _ordered(form: Sparse) -> Verdict | None:
    if form.ordered:
        return None
    if form.kind:
        return Verdict("ordered", f"kind {form.kind} needs ordered metadata (sp::ordered_metadata), got sp")
    if form.d_type == "f16" and form.a_type in FP8.split():
        needs = "needs ordered metadata (sp::ordered_metadata), got sp"
        return Verdict("ordered", f"{form.a_type} with f16 accumulators {needs}")
    return None


def _results(form: Sparse) -> Verdict | None:
    rows = (row for row in _ROWS if row.kind == form.kind and form.a_type in row.inputs.split())
    return results_verdict(form, (row.results for row in rows))


def _layouts(form: Sparse) -> Verdict | None:
    layouts = f"{form.a_layout}.{form.b_layout}"
    return None if layouts == "row.col" else Verdict("layout", f"layouts must be row.col, got {layouts}")


_RULES = (
    kind_verdict,
    _ordered,
    satfinite_verdict,
    lambda form: inputs_verdict(form, (row.inputs for row in _ROWS)),
    _results,
    _layouts,
)
SPARSE = Family("mma.sp", Sparse, _forms, _RULES)

FAMILIES = (SPARSE,)


def _kind_ignored(form: Sparse, chip: str) -> bool:
    support = SPARSE.table.get(replace(form, kind=""))
    if form.a_type not in FP8.split() or not form.ordered or support is None or chip not in support.chips:
        return False
    of_one_chip = form.kind in ("mxf4", "mxf4nvf4")  # as all sparse forms of these kinds are
    return chip in kind_chips(form.kind) and (not of_one_chip or CHIPS[chip].variant == "a")


UNPUBLISHED = (
    Unpublished("mma.sp", _kind_ignored, "ptxas ignores any kind on e4m3 and e5m2, where no kind is needed"),
)
