"""How `wmma.load`, `wmma.store` and `wmma.mma` are spelled, and how many registers their fragments have
(PTX ISA, "Warp-level Matrix Instructions using wmma").
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from weft.isa.family import Form, Registers
from weft.isa.mma import modifiers
from weft.isa.mma.fragments import mnk
from weft.isa.template import ELEMENT_TYPE, LAYOUT, Field, Template, Unnamed, Values
from weft.isa.types import ELEMENT_TYPES, F16, F64

F = TypeVar("F", bound=Form)

SPACES = {"": "!llvm.ptr", "shared": "!llvm.ptr<3>", "global": "!llvm.ptr<1>"}
"""The state spaces of an address, generic first, and what a pointer into each is in LLVM."""

_LAYOUTS = ("row", "col")
_DOUBLES = "m8n8k4"
_WARP = 32
_LEAST_OPERANDS = 2  # of a load or a store: one more is the stride
_MEMORY = (
    *(modifiers.SYNC, modifiers.ALIGNED, Field("layout", ("{}", LAYOUT)), modifiers.SHAPES),
    Field("space", ("{}", "shared|global"), ("shared::cta", "shared"), default=""),
    Field("type", ("{}", ELEMENT_TYPE)),
)
_PRODUCT = (modifiers.BIT_OP, modifiers.SYNC, modifiers.ALIGNED, modifiers.LAYOUTS, modifiers.SHAPES)


@dataclass(frozen=True)
class Load(Form):
    """One form of `wmma.load`: one warp reads fragment a, b or c of a matrix from memory.

    With `stride` the distance between rows (columns) is an operand; otherwise they are contiguous.
    """

    shape: str
    fragment: str
    type: str
    layout: str = "row"
    space: str = ""
    stride: bool = False

    templates = (Template("wmma.load", *_MEMORY, lead=Field("fragment", ("{}", "[abcd]"))),)

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values:
        return {"stride": len(operands) > _LEAST_OPERANDS}

    @property
    def intrinsic(self) -> str:
        return _memory_intrinsic(self, f"load.{self.fragment}")

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, the fragment; then the address and the stride, in elements."""
        return (_fragment("d", self.fragment, self.shape, self.type, "out"), *_address(self))

    @property
    def assembly(self) -> str:
        return "{{{d}}}, [{address}]" + (", {stride}" if self.stride else "")


@dataclass(frozen=True)
class Store(Form):
    """One form of `wmma.store`: one warp writes fragment d of a matrix to memory. The axes are those of
    `wmma.load`.
    """

    shape: str
    type: str
    layout: str = "row"
    space: str = ""
    stride: bool = False

    templates = (Template("wmma.store.d", *_MEMORY),)

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values:
        return {"stride": len(operands) > _LEAST_OPERANDS}

    @property
    def intrinsic(self) -> str:
        return _memory_intrinsic(self, "store.d")

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The address, then D, the fragment, and the stride, in elements."""
        address, *stride = _address(self)
        return (address, _fragment("d", "d", self.shape, self.type), *stride)

    @property
    def assembly(self) -> str:
        return "[{address}], {{{d}}}" + (", {stride}" if self.stride else "")


@dataclass(frozen=True)
class Mma(Form):
    """One form of `wmma.mma`: `d = a * b + c` over one warp. Layouts are those that A and B were loaded with.

    `bit_op` combines single bits: `xor.popc` or `and.popc`.
    """

    shape: str
    a_type: str
    b_type: str
    c_type: str
    d_type: str
    a_layout: str = "row"
    b_layout: str = "col"
    bit_op: str = ""
    satfinite: bool = False

    templates = (
        # PTX names f16 forms by their accumulators alone.
        Template(
            "wmma.mma",
            *_PRODUCT,
            Field("d_type c_type", ("{}.{}", ELEMENT_TYPE)),
            modifiers.SATFINITE,
            fixed={"a_type": F16.name, "b_type": F16.name},
        ),
        Template("wmma.mma", *_PRODUCT, modifiers.RESULT_FIRST, modifiers.SATFINITE),
    )
    misspelled = (
        # Forms of f64, which the table lacks, may be rounded.
        Template(
            "wmma.mma",
            *_PRODUCT,
            Field("d_type a_type b_type c_type", ("{}.{}.{}.{}", F64.name)),
            Unnamed("|".join(modifiers.ROUNDINGS)),
            modifiers.SATFINITE,
        ),
    )
    assembly = "{{{d}}}, {{{a}}}, {{{b}}}, {{{c}}}"

    @property
    def mnk(self) -> tuple[int, int, int]:
        """The shape as numbers."""
        return mnk(self.shape)

    @property
    def intrinsic(self) -> str:
        types = f"{self.d_type}.{self.c_type}" if self.a_type == F16.name else self.a_type
        bit_op = f".{self.bit_op}" if self.bit_op else ""
        satfinite = ".satfinite" if self.satfinite else ""
        return f"llvm.nvvm.wmma.{self.shape}.mma{bit_op}.{self.a_layout}.{self.b_layout}.{types}{satfinite}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A, B, C."""
        return (
            _fragment("d", "d", self.shape, self.d_type, "out"),
            _fragment("a", "a", self.shape, self.a_type),
            _fragment("b", "b", self.shape, self.b_type),
            _fragment("c", "c", self.shape, self.c_type),
        )


def _memory_intrinsic(form: Load | Store, operation: str) -> str:
    stride = ".stride" if form.stride else ""
    space = re.sub(r"\D", "", SPACES.get(form.space, "")) or "0"
    return f"llvm.nvvm.wmma.{form.shape}.{operation}.{form.layout}{stride}.{form.type}.p{space}"


def _address(form: Load | Store) -> Iterator[Registers]:
    # A space that no form has is as good as generic for those who only count registers.
    yield Registers("address", 1, SPACES.get(form.space, SPACES[""]))
    if form.stride:
        yield Registers("stride", 1, "i32")


def _fragment(operand: str, fragment: str, shape: str, name: str, role: str = "in") -> Registers:
    """Registers of a fragment; PTX specifies their number, not which lane holds what."""
    m, n, k = mnk(shape)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(fragment, (m, n))
    element = ELEMENT_TYPES[name]
    bits = max(32, element.bits, rows * columns * element.bits // _WARP)
    if element is F16 and fragment in ("a", "b"):
        # Sixteen halves in every lane, whatever the shape: Volta needs elements in more than one lane.
        bits = 16 * element.bits
    register = {"f16": "vector<2xf16>", "f32": "f32", "f64": "f64"}.get(name, "i32")
    count = bits // (64 if name == "f64" else 32)
    return Registers(operand, count, register, "", (rows, columns), role)


def h200_layout(shape: str, fragment: str, name: str) -> str:
    """Where an H200 holds the elements of a fragment of type `name`; replicas are copies in the same lane.

    PTX promises none of it, so `Registers.layout` is empty. The fragments are those of `mma.sync`, side by
    side; m8n32k16 is computed transposed.
    """
    m, n, k = mnk(shape)
    transposed = m < n
    if fragment in ("c", "d"):
        left = _left(n, m, 2) if transposed else _left(m, n, 2)
        return _layout(*(reversed(left) if transposed else left))
    pack = max(1, 32 // ELEMENT_TYPES[name].bits)
    rows = m if fragment == "a" else n
    digits = _left(rows, k, pack) if (fragment == "a") != transposed else _right(rows, k, pack)
    copies = 16 * _WARP // (rows * k) if name == F16.name else 1
    replica = f" + R[({copies}):({16 // copies})]" if copies > 1 else ""
    return _layout(*(digits if fragment == "a" else reversed(digits))) + replica


_Digits = tuple[tuple[int, str], ...]


def _left(rows: int, k: int, pack: int) -> tuple[_Digits, _Digits]:
    """Extents and strides of rows and of k: packs of k, then rows 8 apart, more packs of k, rows 16 apart."""
    low, high = min(2, rows // 8), k // (4 * pack)
    return (
        ((rows // (8 * low), f"{pack * low * high}"), (low, f"{pack}"), (8, "4@laneid")),
        ((high, f"{pack * low}"), (4, "1@laneid"), (pack, "1")),
    )


def _right(rows: int, k: int, pack: int) -> tuple[_Digits, _Digits]:
    """As `_left`, with all packs of k before the next rows."""
    high = k // (4 * pack)
    return (
        ((rows // 8, f"{pack * high}"), (8, "4@laneid")),
        ((high, f"{pack}"), (4, "1@laneid"), (pack, "1")),
    )


def _layout(rows: _Digits, columns: _Digits) -> str:
    digits = [(extent, stride) for extent, stride in (*rows, *columns) if extent > 1]
    return f"S[({','.join(str(e) for e, _ in digits)}):({','.join(s for _, s in digits)})]"
