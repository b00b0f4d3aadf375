"""`wgmma.mma_async`, dense and sparse: asynchronous multiply-accumulate by a warpgroup, four warps in a row
(PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").

LLVM has no intrinsic for `mma_async`: it is inline PTX, `ptx` with `assembly`, whose accumulators are tied to
the results, and whose predicate is an i1 in LLVM's constraint `b`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, TypeVar

from weft.isa.chips import only
from weft.isa.family import Family, Form, Registers, Support, Verdict, must_be
from weft.isa.mma import modifiers
from weft.isa.mma.fragments import mnk
from weft.isa.template import ELEMENT_TYPE, Field, Template, Values, Word
from weft.isa.types import B1, BF16, E4M3, E5M2, ELEMENT_TYPES, F16, F32, S8, S32, TF32, U8, ElementType

M = 64
"""Rows of every product: 16 a warp."""

CHIPS = only("sm_90a")
_TRANSPOSABLE = (F16.name, BF16.name)
ALIGNED = Word("aligned", optional=True)


def _mma_async(*sparse: Word) -> Template:
    types = Field("d_type a_type b_type", ("{}.{}.{}", ELEMENT_TYPE))
    words = (modifiers.SYNC, ALIGNED, modifiers.SHAPES, types, modifiers.BIT_OP, modifiers.SATFINITE)
    return Template("wgmma.mma_async", *sparse, *words)


@dataclass(frozen=True)
class MmaAsync(Form):
    """One form of dense `wgmma.mma_async`: `d = a * b + d`, or `a * b` where the predicate scale_d is false.

    B is in shared memory, located by a descriptor. So is A, unless `a_registers`. The other immediates of PTX
    are operands here: scale_a and scale_b (1 or -1, float types), trans_a and trans_b (0 for a K-major
    matrix, 1 for an MN-major one; 16-bit types; A from memory).
    """

    shape: str
    a_type: str
    b_type: str
    d_type: str
    a_registers: bool = False
    bit_op: str = ""
    satfinite: bool = False

    sparse: ClassVar[bool] = False

    templates = (_mma_async(),)

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values:
        return {"a_registers": len(operands) > 1 and operands[1].startswith("{")}

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, both result and addend; A; the descriptor of B; a sparse A's metadata; scales; transposes."""
        m, n, k = mnk(self.shape)
        return (
            _accumulator(self.d_type, m, n),
            _input_a(self.a_type, m, k // 2 if self.sparse else k)
            if self.a_registers
            else Registers("a", 1, "i64"),
            Registers("b", 1, "i64"),
            *(_metadata(self.a_type) if self.sparse else ()),
            Registers("scale_d", 1, "i1"),
            *self._immediates(),
        )

    @property
    def assembly(self) -> str:
        a = "{{{a}}}" if self.a_registers else "{a}"
        rest = [f"{{{operand.name}}}" for operand in self.operands[2:]]
        return ", ".join(("{{{d}}}", a, *rest))

    def _immediates(self) -> Iterator[Registers]:
        if ELEMENT_TYPES[self.a_type].kind == "float":
            for name in ("scale_a", "scale_b"):
                yield Registers(name, 1, "i32", role="immediate", values=(1, -1))
        if self.a_type in _TRANSPOSABLE:
            for name in ("trans_b",) if self.a_registers else ("trans_a", "trans_b"):
                yield Registers(name, 1, "i32", role="immediate", values=(0, 1))


@dataclass(frozen=True)
class MmaAsyncSparse(MmaAsync):
    """One form of `wgmma.mma_async.sp`: half of A's elements are zeros that aren't stored.

    The axes are those of `wgmma.mma_async`. K includes the zeros; metadata holds the indices of the other
    elements, two bits each. The immediate selector chooses the lanes of each four whose metadata counts: 0
    the first two, 1 the last two. With 8-bit types all lanes' metadata counts.
    """

    sparse: ClassVar[bool] = True
    templates = (_mma_async(Word("sp")),)


# Fragments (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16" and the sections next to it): warp w
# holds rows 16w to 16w + 15, lane 4g + t of it rows g and g + 8, of which it has the t-th pack of each eight
# columns (D) or four packs (A).


def _accumulator(name: str, m: int, n: int) -> Registers:
    layout = f"S[(4,2,8,{n // 8},4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]"
    register = {"f16": "vector<2xf16>", "f32": "f32"}.get(name, "i32")
    count = n // 4 if name == F16.name else n // 2
    return Registers("d", count, register, layout, (m, n), role="inout")


def _input_a(name: str, m: int, k: int) -> Registers:
    element = ELEMENT_TYPES[name]
    pack = 32 // element.bits
    layout = f"S[(4,2,8,2,4,{pack}):(1@warpid,{pack},4@laneid,{2 * pack},1@laneid,1)]"
    return Registers("a", 4, "vector<2xf16>" if element is F16 else "i32", layout, (m, k))


def _metadata(name: str) -> tuple[Registers, Registers]:
    """Chunks of four bits, two indices each, the first lowest: which of its four elements (of a tf32, which
    of its four halves) are stored. Measured on an H200 for selector 0; with 1 it is two lanes later.
    """
    if ELEMENT_TYPES[name].bits == 8:
        layout = "S[(4,2,8,2,8):(1@warpid,1@laneid,4@laneid,2@laneid,1)]"
        selector = Registers("selector", 1, "i32", role="immediate", values=(0,))
        return Registers("metadata", 1, "i32", layout, (M, 16)), selector
    layout = "S[(4,2,8,2,4):(1@warpid,4,4@laneid,1@laneid,1)]"
    selector = Registers("selector", 1, "i32", role="immediate", values=(0, 1))
    return Registers("metadata", 1, "i32", layout, (M, 8)), selector


@dataclass(frozen=True)
class _Row:
    """One rule of the table: its inputs with their accumulators, in every N."""

    a_types: tuple[ElementType, ...]
    b_types: tuple[ElementType, ...]
    d_types: tuple[ElementType, ...]
    columns: Sequence[int]
    ptx: tuple[int, int] = (8, 0)
    sparse: tuple[int, int] | None = (8, 2)
    bit_op: str = ""
    satfinite: tuple[bool, ...] = (False,)


COLUMNS = range(8, 257, 8)  # that D may have; not of every type
_BY_16 = (8, 16, 24, *range(32, 257, 16))
_FP8 = (E4M3, E5M2)
_SAT = (False, True)

#   a           b       d          N     PTX: dense, sparse
_ROWS = (
    _Row((F16,), (F16,), (F16, F32), COLUMNS),
    _Row((BF16,), (BF16,), (F32,), COLUMNS),
    _Row((TF32,), (TF32,), (F32,), COLUMNS),
    _Row(_FP8, _FP8, (F16, F32), COLUMNS),
    _Row((S8,), (S8,), (S32,), _BY_16, satfinite=_SAT),
    _Row((U8,), (U8,), (S32,), _BY_16, satfinite=_SAT),
    _Row((S8,), (U8,), (S32,), _BY_16, (8, 4), (8, 4), satfinite=_SAT),
    _Row((U8,), (S8,), (S32,), _BY_16, (8, 4), (8, 4), satfinite=_SAT),
    _Row((B1,), (B1,), (S32,), _BY_16, sparse=None, bit_op="and.popc"),
)


def depth(element: ElementType, sparse: bool = False) -> int:
    """K of every product of such elements: 32 bytes of A, or twice as many elements if it is sparse."""
    return 256 // element.bits * (2 if sparse else 1)


_A = TypeVar("_A", bound=MmaAsync)


def _forms(form: type[_A]) -> Iterator[tuple[_A, Support]]:
    for row in _ROWS:
        ptx = row.sparse if form.sparse else row.ptx
        if ptx is None:
            continue
        axes = product(row.a_types, row.b_types, row.d_types, row.columns, (False, True), row.satfinite)
        for a, b, d, n, a_registers, satfinite in axes:
            shape = f"m{M}n{n}k{depth(a, form.sparse)}"
            yield (
                form(shape, a.name, b.name, d.name, a_registers, row.bit_op, satfinite),
                Support(CHIPS, ptx),
            )


# Rules that say more than which axis has no such value.


def _inputs(form: MmaAsync) -> Verdict | None:
    a, b = form.a_type, form.b_type
    if a == b or any({a, b} <= {t.name for t in kind} for kind in (_FP8, (S8, U8))):
        return None
    return Verdict(
        "b_type",
        f"A and B must have the same type, or both be of e4m3 and e5m2, or of s8 and u8, got {a} and {b}",
    )


def _shape(form: MmaAsync) -> Verdict | None:
    """Names the extent that is wrong, where a list of all shapes would hide it."""
    row = _row(form.a_type)
    match = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", form.shape)
    if row is None or match is None or (form.sparse and row.sparse is None):
        return None
    m, n, k = map(int, match.groups())
    want = depth(ELEMENT_TYPES[form.a_type], form.sparse)
    for axis, got, ok, legal in (
        ("m", m, m == M, str(M)),
        ("k", k, k == want, f"{want} for {form.a_type}{' with its zeros' if form.sparse else ''}"),
        ("n", n, n in row.columns, _columns(row.columns)),
    ):
        if not ok:
            near = sorted(row.columns, key=lambda column: (abs(column - n), column))[:2]
            shapes = sorted(near) if axis == "n" else near[:1]
            nearest = tuple(replace(form, shape=f"m{M}n{c}k{want}").ptx for c in shapes)
            return Verdict("shape", f"{axis} must be {legal}, got {got} in {form.shape}", nearest)
    return None


def _row(a_type: str) -> _Row | None:
    return next((row for row in _ROWS if a_type in (each.name for each in row.a_types)), None)


def columns_complaint(a_type: str, n: int) -> str | None:
    """Why products of such elements can't have n columns, to follow "must have". None if they can."""
    row = _row(a_type)
    columns = COLUMNS if row is None else row.columns
    if n in columns:
        return None
    nearest = sorted(sorted(columns, key=lambda each: abs(each - n))[:2])
    return f"{_columns(columns)} columns, got {n}: use {' or '.join(map(str, nearest))}"


def _columns(columns: Sequence[int]) -> str:
    if columns == COLUMNS:
        return "a multiple of 8 in 8..256"
    return "8, 16, 24, or a multiple of 16 in 32..256"


def _sparse_bits(form: MmaAsync) -> Verdict | None:
    dense = [row for row in _ROWS if row.sparse is None and form.a_type in (t.name for t in row.a_types)]
    if form.sparse and dense:
        return Verdict("sparse", f"has no sparse A of {form.a_type}")
    return None


def _bit_operation(form: MmaAsync) -> Verdict | None:
    bits = B1.name in (form.a_type, form.b_type)
    if bits and form.bit_op != "and.popc":
        return Verdict("bit_op", must_be("bit_op", ("and.popc",), form.bit_op, " for b1"))
    if not bits and form.bit_op:
        return Verdict("bit_op", f"{form.bit_op} needs A and B of b1, got {form.a_type} and {form.b_type}")
    return None


def _saturation(form: MmaAsync) -> Verdict | None:
    element = ELEMENT_TYPES.get(form.a_type)
    if not form.satfinite or element is None or element.kind in ("int", "uint"):
        return None
    return Verdict("satfinite", f"satfinite needs s8 or u8 inputs, got {form.a_type}")


def judge_immediates(form: MmaAsync, given: Mapping[str, int]) -> Verdict | None:
    """Why the values of scale_a, scale_b, trans_a, trans_b or selector aren't legal in a legal form; None
    where they are.

    An operand that the form lacks may still be given as what it means then: a scale of 1, no transpose,
    selector 0.
    """
    operands = {operand.name: operand for operand in form.operands if operand.role == "immediate"}
    for name, value in given.items():
        if name in operands and value not in operands[name].values:
            return Verdict(name, must_be(name, operands[name].values, value, f" for {form.a_type}"))
        neutral = 1 if name.startswith("scale") else 0
        if name not in operands and value != neutral:
            return Verdict(name, must_be(name, (neutral,), value, _why_without(form, name)))
    return None


def _why_without(form: MmaAsync, name: str) -> str:
    if name == "selector":
        return " without a sparse A"
    if name.startswith("scale"):
        return f" for {form.a_type}, which isn't a float type"
    if form.a_type in _TRANSPOSABLE:
        return " with A in registers"
    return f" for {form.a_type}: only f16 and bf16 can be transposed"


_RULES = (_inputs, _sparse_bits, _shape, _bit_operation, _saturation)

MMA_ASYNC = Family("wgmma.mma_async", MmaAsync, lambda: _forms(MmaAsync), _RULES)
MMA_ASYNC_SPARSE = Family("wgmma.mma_async.sp", MmaAsyncSparse, lambda: _forms(MmaAsyncSparse), _RULES)

FAMILIES = (MMA_ASYNC, MMA_ASYNC_SPARSE)
