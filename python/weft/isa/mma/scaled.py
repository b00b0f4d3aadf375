"""`mma` with block scaling, dense and sparse: A and B times scales that blocks of their rows and columns
share (PTX ISA, "Block Scaling for mma.sync").
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, NamedTuple, TypeVar

from weft.isa.chips import ChipSet, only
from weft.isa.family import Family, Form, Registers, Support, Verdict, must_be
from weft.isa.mma import fragments as mma_fragments
from weft.isa.mma import modifiers
from weft.isa.mma.sync import FP6_FP4, FP8, NARROW
from weft.isa.template import ELEMENT_TYPE, Field, Template, Word

_MODIFIERS = (
    *modifiers.DENSE,
    Word("block_scale"),
    Field("scale_vec", ("scale_vec::{}", "[^.]*"), default=""),
    Field("d_type a_type b_type c_type scale_type", ("{}.{}.{}.{}.{}", ELEMENT_TYPE)),
)


@dataclass(frozen=True)
class Scaled(Form):
    """One form of block-scaled `mma`: `d = (a * scale_a) * (b * scale_b) + c` over one warp.

    `kind` is `mxf8f6f4`, `mxf4` or `mxf4nvf4`. `scale_vec` is the number of scales for each row of A: `1X`,
    `2X`, `4X`, or empty for the kind's default. `scale_type` is their type.
    """

    shape: str
    kind: str
    scale_vec: str
    a_type: str
    b_type: str
    scale_type: str
    c_type: str = "f32"
    d_type: str = "f32"
    a_layout: str = "row"
    b_layout: str = "col"

    sparse: ClassVar[bool] = False
    templates = (Template("mma", *_MODIFIERS),)

    @property
    def intrinsic(self) -> str | None:
        if (self.scale_vec, self.scale_type) == ("4X", "ue8m0"):
            return None
        sparse = "sp.ordered.metadata." if self.sparse else ""
        vector = f"scale.{self.scale_vec.lower()}." if self.scale_vec else ""
        types = f"{self.d_type}.{self.a_type}.{self.b_type}.{self.c_type}.{self.scale_type}"
        layouts = f"{self.a_layout}.{self.b_layout}"
        return f"llvm.nvvm.mma.{sparse}block.scale.{self.shape}.{layouts}.{self.kind}.{vector}{types}"

    @property
    def assembly(self) -> str:
        sparse = "{metadata}, {selector}, " if self.sparse else ""
        return (
            "{{{d}}}, {{{a}}}, {{{b}}}, {{{c}}}, "
            + sparse
            + "{scale_a}, {{{byte_id_a}, {thread_id_a}}}, {scale_b}, {{{byte_id_b}, {thread_id_b}}}"
        )

    @property
    def mnk(self) -> tuple[int, int, int]:
        return mma_fragments.mnk(self.shape)

    @property
    def packed(self) -> bool:
        """Whether fp4 elements share bytes."""
        return self.kind != "mxf8f6f4"

    @property
    def scales(self) -> int:
        """Scales of one row of A, or one column of B."""
        return int(self.scale_vec[:1] or (2 if self.packed else 1))

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A, B, C, for a sparse A its metadata and selector, then for A and for B: the register with
        scales, the byte of it where they begin, and the lanes of a quad that hold them.
        """
        m, n, k = self.mnk
        stored = k // 2 if self.sparse else k
        return (
            mma_fragments.accumulator("d", self.d_type, m, n),
            mma_fragments.input_a(self.a_type, m, stored, packed=self.packed),
            mma_fragments.input_b(self.b_type, k, n, packed=self.packed),
            mma_fragments.accumulator("c", self.c_type, m, n),
            *(mma_fragments.metadata(self.a_type, m, k, packed=self.packed) if self.sparse else ()),
            *mma_fragments.scales("a", m, self.scales),
            *mma_fragments.scales("b", n, self.scales),
        )


@dataclass(frozen=True)
class SparseScaled(Scaled):
    """One form of block-scaled `mma.sp`: A is half zeros. `ordered` is `sp::ordered_metadata`."""

    ordered: bool = True

    sparse: ClassVar[bool] = True
    templates = (Template("mma", modifiers.ORDERED, *_MODIFIERS),)


class _Row(NamedTuple):
    """Forms with A and B of any two of the inputs."""

    kind: str
    dense: str
    sparse: str
    inputs: str
    scale_vec: str
    scale_type: str
    sparse_chips: ChipSet = NARROW
    ptx: tuple[int, int] = (8, 7)


# Sparse fp4 is for one chip only, not for its family.
_ONE_CHIP = only("sm_120a", "sm_121a")

# fmt: off
_ROWS = (
    #    kind        dense shape  sparse shape  inputs             scale_vec scales  sparse on  PTX
    _Row("mxf8f6f4", "m16n8k32", "m16n8k64",  f"{FP8} {FP6_FP4}",  "",      "ue8m0"),
    _Row("mxf8f6f4", "m16n8k32", "m16n8k64",  f"{FP8} {FP6_FP4}",  "1X",    "ue8m0"),
    _Row("mxf4",     "m16n8k64", "m16n8k128", "e2m1",              "",      "ue8m0", _ONE_CHIP),
    _Row("mxf4",     "m16n8k64", "m16n8k128", "e2m1",              "2X",    "ue8m0", _ONE_CHIP),
    _Row("mxf4nvf4", "m16n8k64", "m16n8k128", "e2m1",              "2X",    "ue8m0", _ONE_CHIP),
    _Row("mxf4nvf4", "m16n8k64", "m16n8k128", "e2m1",              "4X",    "ue4m3", _ONE_CHIP),
    _Row("mxf4nvf4", "m16n8k64", "m16n8k128", "e2m1",              "4X",    "ue8m0", _ONE_CHIP, (9, 1)),
)
# fmt: on


_S = TypeVar("_S", bound=Scaled)


def _forms(form: type[_S]) -> Iterator[tuple[_S, Support]]:
    for row in _ROWS:
        shape, chips = (row.sparse, row.sparse_chips) if form.sparse else (row.dense, NARROW)
        for a, b in product(row.inputs.split(), repeat=2):
            yield form(shape, row.kind, row.scale_vec, a, b, row.scale_type), Support(chips, row.ptx)


def _scale_vec(form: Scaled) -> Verdict | None:
    legal = tuple(dict.fromkeys(row.scale_vec or "none" for row in _ROWS if row.kind == form.kind))
    if legal and (form.scale_vec or "none") not in legal:
        return Verdict("scale_vec", must_be("scale_vec", legal, form.scale_vec, f" for kind {form.kind}"))
    return None


def _scale_type(form: Scaled) -> Verdict | None:
    rows = [row for row in _ROWS if (row.kind, row.scale_vec) == (form.kind, form.scale_vec)]
    legal = tuple(row.scale_type for row in rows)
    if legal and form.scale_type not in legal:
        vector = f" with scale_vec {form.scale_vec}" if form.scale_vec else ""
        reason = must_be("scale_type", legal, form.scale_type, f" for kind {form.kind}{vector}")
        return Verdict("scale_type", reason)
    return None


_RULES = (_scale_vec, _scale_type)
SCALED = Family("mma.block_scale", Scaled, lambda: _forms(Scaled), _RULES)
SPARSE_SCALED = Family("mma.sp.block_scale", SparseScaled, lambda: _forms(SparseScaled), _RULES)

FAMILIES = (SCALED, SPARSE_SCALED)
