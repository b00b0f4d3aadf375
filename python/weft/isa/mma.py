"""`mma.sync` and `ldmatrix`: warp-level matrix multiply-accumulate on registers (PTX ISA, "Warp-level Matrix
Instructions using mma.sync").
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.isa.chips import since
from weft.isa.family import Family, Registers, Support
from weft.isa.types import BF16, ELEMENT_TYPES, F16, F32, ElementType

REGISTER_BITS = 32


@dataclass(frozen=True)
class Sync:
    """One form of dense `mma.sync`: `d = a * b + c` over one warp. Types and shape are PTX tokens."""

    shape: str
    a_type: str
    b_type: str
    c_type: str
    d_type: str
    a_layout: str = "row"
    b_layout: str = "col"

    @property
    def ptx(self) -> str:
        types = f"{self.d_type}.{self.a_type}.{self.b_type}.{self.c_type}"
        return f"mma.sync.aligned.{self.shape}.{self.a_layout}.{self.b_layout}.{types}"

    @property
    def intrinsic(self) -> str:
        # LLVM names f16 forms by their accumulators and the others by their inputs.
        types = f"{self.d_type}.{self.c_type}" if self.a_type == "f16" else self.a_type
        return f"llvm.nvvm.mma.{self.shape}.{self.a_layout}.{self.b_layout}.{types}"

    @property
    def assembly(self) -> str:
        return "{d}, {a}, {b}, {c}"

    @property
    def mnk(self) -> tuple[int, int, int]:
        m, n, k = re.findall(r"\d+", self.shape)
        return int(m), int(n), int(k)

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A, B, C."""
        m, n, k = self.mnk
        return (
            _accumulator("d", self.d_type, m, n),
            _input_a(self.a_type, m, k),
            _input_b(self.b_type, k, n),
            _accumulator("c", self.c_type, m, n),
        )


# Fragment maps (PTX ISA, "Matrix Fragments for mma.m16n8k8" and the sections beside it): lane 4g + t holds
# rows g and g + 8, and packs consecutive k; a k beyond four packs opens the next register (pair).


def _input_a(name: str, m: int, k: int) -> Registers:
    pack, high, register = _packing(name, k)
    layout = f"S[({m // 8},8,{high},4,{pack}):({pack},4@laneid,{m // 8 * pack},1@laneid,1)]"
    return Registers("a", m // 8 * high, register, layout, (m, k))


def _input_b(name: str, k: int, n: int) -> Registers:
    pack, high, register = _packing(name, k)
    layout = f"S[({high},4,{pack},{n}):({pack},1@laneid,1,4@laneid)]"
    return Registers("b", high, register, layout, (k, n))


def _accumulator(operand: str, name: str, m: int, n: int) -> Registers:
    layout = f"S[({m // 8},8,4,{n // 4}):({n // 4},4@laneid,1@laneid,1)]"
    return Registers(operand, m * n // 32, name, layout, (m, n), role="out" if operand == "d" else "in")


def _packing(name: str, k: int) -> tuple[int, int, str]:
    """Elements in a register, registers along k, and the register's LLVM type."""
    element = ELEMENT_TYPES[name]
    pack = REGISTER_BITS // element.bits
    return pack, k // (4 * pack), "vector<2xf16>" if element is F16 else "i32"


#   m   n  k   a,b   c,d  since    PTX
_SYNC: tuple[tuple[int, int, int, ElementType, ElementType, str, tuple[int, int]], ...] = (
    (16, 8, 8, F16, F32, "sm_75", (6, 5)),
    (16, 8, 16, F16, F32, "sm_80", (7, 0)),
    (16, 8, 8, BF16, F32, "sm_80", (7, 0)),
    (16, 8, 16, BF16, F32, "sm_80", (7, 0)),
)


def _sync_forms() -> Iterator[tuple[Sync, Support]]:
    for m, n, k, ab, cd, first, ptx in _SYNC:
        yield (
            Sync(f"m{m}n{n}k{k}", ab.name, ab.name, cd.name, cd.name),
            Support(since(first), ptx),
        )





@dataclass(frozen=True)
class Ldmatrix:
    """One form of `ldmatrix`: `num` 8x8 matrices from shared memory, each lane's address giving one row."""

    shape: str
    num: int
    trans: bool
    type: str = "b16"

    @property
    def ptx(self) -> str:
        trans = ".trans" if self.trans else ""
        return f"ldmatrix.sync.aligned.{self.shape}.x{self.num}{trans}.shared.{self.type}"

    @property
    def intrinsic(self) -> str:
        trans = ".trans" if self.trans else ""
        return f"llvm.nvvm.ldmatrix.sync.aligned.{self.shape}.x{self.num}{trans}.{self.type}.p3"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D; its layout is one matrix's, which the others repeat a register later."""
        layout = "S[(4,2,8):(1@laneid,1,4@laneid)]" if self.trans else "S[(8,4,2):(4@laneid,1@laneid,1)]"
        return (
            Registers("d", self.num, "i32", layout, (8, 8), role="out"),
            Registers("address", 1, "!llvm.ptr<3>"),
        )

    @property
    def assembly(self) -> str:
        return "{d}, [{address}]"


def _ldmatrix_forms() -> Iterator[tuple[Ldmatrix, Support]]:
    for num in (1, 2, 4):
        for trans in (False, True):
            yield Ldmatrix("m8n8", num, trans), Support(since("sm_75"), (6, 5))




def parse_sync(opcode: str, operands: Sequence[str] = ()) -> Sync | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't a dense `mma.sync`.

    PTX takes modifiers in more than one order, so tokens are told apart by what they can be.
    """
    head, *tokens = opcode.split(".")
    if head != "mma":
        return None
    shapes = [t for t in tokens if re.fullmatch(r"m\d+n\d+k\d+", t)]
    layouts = [t for t in tokens if t in ("row", "col")]
    types = [t for t in tokens if t in ELEMENT_TYPES]
    known = {"sync", "aligned", *shapes, *layouts, *types}
    if len(shapes) != 1 or len(layouts) != 2 or len(types) != 4 or not known.issuperset(tokens):
        return None
    d, a, b, c = types
    return Sync(shapes[0], a, b, c, d, *layouts)


def parse_ldmatrix(opcode: str, operands: Sequence[str] = ()) -> Ldmatrix | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't an `ldmatrix`."""
    match = re.fullmatch(
        r"ldmatrix\.sync\.aligned\.(m\d+n\d+)\.x(\d+)(\.trans)?(?:\.shared(?:::cta)?)?\.(b\w+)", opcode
    )
    if match is None:
        return None
    shape, num, trans, kind = match.groups()
    return Ldmatrix(shape, int(num), trans is not None, kind)


SYNC = Family("mma.sync", Sync, _sync_forms, parse_sync)
LDMATRIX = Family("ldmatrix", Ldmatrix, _ldmatrix_forms, parse_ldmatrix)

FAMILIES = (SYNC, LDMATRIX)
