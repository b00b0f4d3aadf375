"""`wmma.load`, `wmma.store` and `wmma.mma`: warp-level matrices in fragments whose layout PTX leaves open
(PTX ISA, "Warp-level Matrix Instructions using wmma").
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from weft.isa.chips import ChipSet, since
from weft.isa.family import Family, Form, Registers, Support, Verdict, must_be
from weft.isa.mma import tokens
from weft.isa.mma.fragments import mnk
from weft.isa.mma.sync import SYNC, Sync
from weft.isa.template import ELEMENT_TYPE, LAYOUT, Field, Template, Unnamed, Values
from weft.isa.types import B1, BF16, ELEMENT_TYPES, F16, F32, F64, S4, S8, S32, TF32, U4, U8, ElementType
from weft.isa.unpublished import Unpublished

F = TypeVar("F", bound=Form)

SPACES = {"": "!llvm.ptr", "shared": "!llvm.ptr<3>", "global": "!llvm.ptr<1>"}
"""The state spaces of an address, generic first, and what a pointer into each is in LLVM."""

_LAYOUTS = ("row", "col")
_DOUBLES = "m8n8k4"
_WARP = 32
_LEAST_OPERANDS = 2  # of a load or a store: one more is the stride
_MEMORY = (
    *(tokens.SYNC, tokens.ALIGNED, Field("layout", ("{}", LAYOUT)), tokens.SHAPES),
    Field("space", ("{}", "shared|global"), ("shared::cta", "shared"), default=""),
    Field("type", ("{}", ELEMENT_TYPE)),
)
_PRODUCT = (tokens.BIT_OP, tokens.SYNC, tokens.ALIGNED, tokens.LAYOUTS, tokens.SHAPES)


@dataclass(frozen=True)
class Load(Form):
    """One form of `wmma.load`: one warp reads fragment a, b or c of a matrix from memory.

    `stride` tells whether the distance between rows (columns) is an operand; without it they are dense.
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
    """One form of `wmma.store`: one warp writes fragment d of a matrix to memory; axes as in `Load`."""

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
            tokens.SATFINITE,
            fixed={"a_type": F16.name, "b_type": F16.name},
        ),
        Template("wmma.mma", *_PRODUCT, tokens.RESULT_FIRST, tokens.SATFINITE),
    )
    misspelt = (
        # Forms of f64, which the table lacks, may be rounded.
        Template(
            "wmma.mma",
            *_PRODUCT,
            Field("d_type a_type b_type c_type", ("{}.{}.{}.{}", F64.name)),
            Unnamed("|".join(tokens.ROUNDINGS)),
            tokens.SATFINITE,
        ),
    )
    assembly = "{{{d}}}, {{{a}}}, {{{b}}}, {{{c}}}"

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
    """Registers of a fragment; PTX says how many there are, not which lane holds what."""
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
    pack = 32 // ELEMENT_TYPES[name].bits
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


@dataclass(frozen=True)
class _Row:
    """Which accumulators go with these inputs (A and B alike) in these shapes, and the other axes' values."""

    shapes: tuple[str, ...]
    inputs: tuple[ElementType, ...]
    accumulators: tuple[ElementType, ...]
    chips: ChipSet
    ptx: tuple[int, int]
    layouts: tuple[tuple[str, str], ...] = (("row", "row"), ("row", "col"), ("col", "row"), ("col", "col"))
    bit_op: str = ""
    satfinite: tuple[bool, ...] = (False,)


_K16 = ("m16n16k16", "m8n32k16", "m32n8k16")
_BITS = ("m8n8k32", "m8n8k128")
_ROW_COL = (("row", "col"),)
_SAT = (False, True)

#   shapes          a, b      c, d        since          PTX
_ROWS = (
    _Row(_K16, (F16,), (F16, F32), since("sm_70"), (6, 3)),
    _Row(_K16, (BF16,), (F32,), since("sm_80"), (7, 0)),
    _Row(("m16n16k8",), (TF32,), (F32,), since("sm_80"), (7, 0)),
    _Row(_K16, (S8, U8), (S32,), since("sm_72"), (6, 3), satfinite=_SAT),
    _Row(("m8n8k32",), (S4, U4), (S32,), since("sm_75"), (6, 3), _ROW_COL, satfinite=_SAT),
    _Row(("m8n8k128",), (B1,), (S32,), since("sm_75"), (6, 3), _ROW_COL, "xor.popc"),
    _Row(("m8n8k128",), (B1,), (S32,), since("sm_80"), (7, 1), _ROW_COL, "and.popc"),
)


def _mma_forms() -> Iterator[tuple[Mma, Support]]:
    for row in _ROWS:
        axes = product(row.shapes, row.inputs, row.accumulators, row.accumulators, row.layouts, row.satfinite)
        for shape, ab, c, d, layouts, satfinite in axes:
            form = Mma(shape, ab.name, ab.name, c.name, d.name, *layouts, row.bit_op, satfinite)
            yield form, Support(row.chips, row.ptx)


def _fragments() -> dict[tuple[str, str, str, str], Support]:
    """Shape, fragment, type and layout of all that `wmma.mma` takes and gives, and the first row to do so."""
    supports: dict[tuple[str, str, str, str], Support] = {}
    for row in _ROWS:
        support = Support(row.chips, row.ptx)
        inputs = [(f, ab.name, ls[i]) for i, f in enumerate("ab") for ab in row.inputs for ls in row.layouts]
        accumulators = product("cd", (t.name for t in row.accumulators), _LAYOUTS)
        for shape, key in product(row.shapes, (*inputs, *accumulators)):
            supports.setdefault((shape, *key), support)
    return supports


def _load_forms() -> Iterator[tuple[Load, Support]]:
    for (shape, fragment, name, layout), support in _fragments().items():
        if fragment != "d":
            for space, stride in product(SPACES, (False, True)):
                yield Load(shape, fragment, name, layout, space, stride), support


def _store_forms() -> Iterator[tuple[Store, Support]]:
    for (shape, fragment, name, layout), support in _fragments().items():
        if fragment == "d":
            for space, stride in product(SPACES, (False, True)):
                yield Store(shape, name, layout, space, stride), support


# Rules that say more than which axis has no such value.


def _no_doubles(form: Any) -> Verdict | None:
    types = (form.a_type, form.b_type, form.c_type, form.d_type) if isinstance(form, Mma) else (form.type,)
    if "f64" not in types:
        return None
    return Verdict("f64", "has no f64: use mma.sync, whose fragments of f64 PTX documents")


def _bit_operation(form: Mma) -> Verdict | None:
    bits = (form.a_type == B1.name) or (form.b_type == B1.name)
    if bits == bool(form.bit_op):
        return None
    if bits:
        return Verdict("bit_op", must_be("bit_op", ("xor.popc", "and.popc"), "", " for b1"))
    return Verdict("bit_op", f"{form.bit_op} needs A and B of b1, got {form.a_type} and {form.b_type}")


def _alike_inputs(form: Mma) -> Verdict | None:
    if form.a_type == form.b_type:
        return None
    return Verdict("b_type", f"A and B must have the same type, got {form.a_type} and {form.b_type}")


def _saturation(form: Mma) -> Verdict | None:
    if not form.satfinite or form.a_type in ("s8", "u8", "s4", "u4"):
        return None
    return Verdict("satfinite", f"satfinite needs s8, u8, s4 or u4 inputs, got {form.a_type}")


def _packed_layout(form: Load) -> Verdict | None:
    """Elements of less than a byte lie along K."""
    along_k = {"a": "row", "b": "col"}.get(form.fragment)
    if form.type not in ("s4", "u4", "b1") or along_k in (None, form.layout):
        return None
    reason = f"layout must be {along_k} for {form.fragment.upper()} of {form.type}, got {form.layout}"
    return Verdict("layout", reason)


@dataclass(frozen=True)
class _Wmma(Family[F]):
    """A table whose forms of f64, which it lacks, are near to `mma.sync`."""

    def nearest(self, form: F, chip: str | None, most: int = 3) -> tuple[str, ...]:
        """As `Family.nearest`."""
        doubles = Sync(_DOUBLES, "f64", "f64", "f64", "f64")
        if _no_doubles(form) and SYNC.judge(doubles, chip) is None:
            return (doubles.ptx,)
        return super().nearest(form, chip, most)


LOAD = _Wmma("wmma.load", Load, _load_forms, (_no_doubles, _packed_layout))
STORE = _Wmma("wmma.store", Store, _store_forms, (_no_doubles,))
MMA = _Wmma("wmma.mma", Mma, _mma_forms, (_no_doubles, _alike_inputs, _bit_operation, _saturation))

FAMILIES = (LOAD, STORE, MMA)

_NEAR_SHAPES = ("m8n8k4", "m16n8k16", "m8n32k8", "m32n8k8", "m8n8k64", "m16n16k32")
_NEAR_TYPES = ("f64", "e4m3")

NEAR: dict[str, dict[str, tuple[object, ...]]] = {
    "wmma.load": {
        "shape": _NEAR_SHAPES,
        "fragment": ("d",),
        "type": _NEAR_TYPES,
        "space": ("local", "const"),
    },
    "wmma.store": {"shape": _NEAR_SHAPES, "type": _NEAR_TYPES, "space": ("local", "const")},
    "wmma.mma": {
        "shape": _NEAR_SHAPES,
        "a_type": _NEAR_TYPES,
        "b_type": _NEAR_TYPES,
        "bit_op": ("or.popc", "popc"),
    },
}
"""Values in no row, by family and axis, for the checker."""

_NO_DOUBLES = "Weft's dialects have mma.sync m8n8k4 for f64, no wmma"
_DOUBLES_SINCE = (7, 0)
_NO_LOADS = "f64 has no wmma.load of this shape, in PTX as in ptxas"
_NO_MMA = "no wmma.mma of this shape takes or gives f32"

_UNLOADED = ("m16n16k8", "m16n16k16")


_DOUBLE_CHIPS = since("sm_80")


def _is_double(
    form: Load | Store | Mma, chip: str, types: Sequence[str], shapes: Sequence[str] = (_DOUBLES,)
) -> bool:
    return {*types} == {"f64"} and form.shape in shapes and chip in _DOUBLE_CHIPS


def _is_double_product(form: Mma, chip: str, shapes: Sequence[str] = (_DOUBLES,)) -> bool:
    types = (form.a_type, form.b_type, form.c_type, form.d_type)
    return not form.satfinite and not form.bit_op and _is_double(form, chip, types, shapes)


UNPUBLISHED = (
    Unpublished(
        "wmma.load", lambda form, chip: _is_double(form, chip, (form.type,)), _NO_DOUBLES, _DOUBLES_SINCE
    ),
    Unpublished(
        "wmma.store", lambda form, chip: _is_double(form, chip, (form.type,)), _NO_DOUBLES, _DOUBLES_SINCE
    ),
    Unpublished("wmma.mma", lambda form, chip: _is_double_product(form, chip), _NO_DOUBLES, _DOUBLES_SINCE),
    Unpublished("wmma.mma", lambda form, chip: _is_double_product(form, chip, _UNLOADED), _NO_LOADS),
    Unpublished("wmma.load", lambda form, chip: form.type == "f32" and form.shape in _BITS, _NO_MMA),
    Unpublished("wmma.store", lambda form, chip: form.type == "f32" and form.shape in _BITS, _NO_MMA),
)
"""What ptxas takes and these tables leave out. PTX 6.3 and 6.4 also had satfinite for f16."""
