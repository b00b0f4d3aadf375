"""Which forms of `wmma.load`, `wmma.store` and `wmma.mma` are legal, and why others aren't (PTX ISA,
"Warp-level Matrix Instructions using wmma").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from weft.isa.chips import ChipSet, since
from weft.isa.family import Family, Form, Support, Verdict, must_be
from weft.isa.mma.sync import SYNC, Sync
from weft.isa.types import B1, BF16, F16, F32, S4, S8, S32, TF32, U4, U8, ElementType
from weft.isa.unpublished import Unpublished
from weft.isa.wmma.forms import SPACES, Load, Mma, Store

F = TypeVar("F", bound=Form)
_DOUBLES = "m8n8k4"
_LAYOUTS = ("row", "col")


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
    for (key, support), space, stride in product(_fragments().items(), SPACES, (False, True)):
        if key[1] != "d":
            yield Load(*key, space, stride), support


def _store_forms() -> Iterator[tuple[Store, Support]]:
    for (key, support), space, stride in product(_fragments().items(), SPACES, (False, True)):
        shape, fragment, name, layout = key
        if fragment == "d":
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


"""Values in no row, by family and axis, for the checker."""

_NO_DOUBLES = "Weft's dialects have mma.sync m8n8k4 for f64, no wmma"
_DOUBLES_SINCE = (7, 0)
_NO_LOADS = "neither PTX nor ptxas has a wmma.load of f64 in this shape"
_NO_MMA = "no wmma.mma of this shape has f32 operands"

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
