"""Comparisons and selections."""

from collections.abc import Callable

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table, compute, compute_many, computing
from weft.emulator.numerics.floats import flush, numbers
from weft.emulator.reading.syntax import PRED, TYPES, Array, Bools, Type

table = Table(pure=True)
_SCALARS = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f16 bf16 f32 f64"
_ALL = _SCALARS + " f16x2 bf16x2"
Compare = Callable[[Array, Array], Bools]

ORDERED: dict[str, Compare] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
# For unsigned integers these are synonyms; for floats, `…u` is also true if an operand is
# NaN.
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = {f"{name}u": name for name in ORDERED}
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(op: Op, name: str, kind: Type, ftz: bool) -> Compare:
    """The comparison of two registers of `kind`; pairs give twice as many results."""
    if not kind.is_float:
        if name not in ORDERED and name not in _UNSIGNED:
            op.fail(f".{name} isn't defined for .{kind}")
        function, view = ORDERED[_UNSIGNED.get(name, name)], kind.view
        if kind.kind != "s":
            return function
        return lambda x, y: function(x.view(view), y.view(view))
    element = kind.name.removesuffix("x2")
    compare = _float_comparison(op, name)

    def values(bits: Array) -> Array:
        bits = bits.view(f"u{2 if element in ('f16', 'bf16') else kind.bytes}")
        return numbers(flush(bits, element) if ftz and element != "f64" else bits, element)

    return lambda x, y: compare(values(x), values(y))


def _float_comparison(op: Op, name: str) -> Compare:
    if name in ("num", "nan"):
        negate = name == "num"
        return lambda x, y: (np.isnan(x) | np.isnan(y)) ^ negate
    if name == "ne":
        return lambda x, y: (x < y) | (x > y)
    if name == "neu":
        return np.not_equal
    if name in _UNORDERED:
        function = ORDERED[_UNORDERED[name]]
        return lambda x, y: function(x, y) | np.isnan(x) | np.isnan(y)
    if name not in ORDERED:
        op.fail(f".{name} isn't defined for floating-point types")
    return ORDERED[name]


_NAMES = [*ORDERED, *_UNSIGNED, *_UNORDERED, "num", "nan"]


@table.step("setp")
def setp(op: Op) -> Step:
    name = op.choice(_NAMES)
    combine = op.choice(_COMBINE, "")
    ftz = op.flag("ftz")
    kind = op.type(_ALL)
    op.count(4 if combine else 3)
    compare = comparison(op, name, kind, ftz)
    first, second = op.pair(0)
    result = op.destination(first, PRED)
    sources = [op.source(1, kind), op.source(2, kind)]
    packed = kind.name.endswith("x2")  # one result is that of the low halves
    if second is None and not combine and not packed:
        return compute(result, compare, *sources)
    other = op.destination(second, PRED) if second is not None else op.slots.scrap(PRED)
    third, negated = op.predicate(3) if combine else (0, False)
    if combine:
        sources.append(third)

    def function(x: Array, y: Array, *rest: Bools) -> tuple[Array, Array]:
        held = compare(x, y)
        both = (held[..., 0::2], held[..., 1::2]) if packed else (held, ~held)
        if not rest:
            return both[0].copy(), both[1].copy()
        with_ = rest[0] ^ negated
        return _COMBINE[combine](both[0], with_), _COMBINE[combine](both[1], with_)

    return compute_many([result, other], function, *sources)


@table.step("set")
def set_(op: Op) -> Step:
    """All ones, or 1.0 for a floating-point result, if a comparison is true."""
    name = op.choice(_NAMES)
    combine = op.choice(_COMBINE, "")
    ftz = op.flag("ftz")
    out, kind = op.type("u16 s16 u32 s32 f32 f16 bf16 f16x2 bf16x2"), op.type(_ALL)
    op.count(4 if combine else 3)
    compare = comparison(op, name, kind, ftz)
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80}
    packed = kind.name.endswith("x2")
    if packed and (out.bits != 32 or out.name == "f32"):
        op.fail(f"isn't defined for .{out} of .{kind}")
    storage = TYPES["u16"].storage if packed else out.storage
    true = storage.type(ones.get(out.name, (1 << 8 * storage.itemsize) - 1))
    sources = [op.source(1, kind), op.source(2, kind)]
    third, negated = op.predicate(3) if combine else (0, False)
    if combine:
        sources.append(third)

    def function(x: Array, y: Array, *rest: Bools) -> Array:
        held = compare(x, y)
        if rest:
            with_ = rest[0] ^ negated
            held = _COMBINE[combine](held, np.repeat(with_, 2, axis=-1) if packed else with_)
        value: Array = np.where(held, true, storage.type(0))
        return value.view(out.storage)

    return compute(op.destination(0, out), function, *sources)


@table.step("selp")
def selp(op: Op) -> Step:
    kind = op.type(_SCALARS)
    op.count(4)
    result, a, b = op.destination(0, kind), op.source(1, kind), op.source(2, kind)
    condition, negated = op.predicate(3)
    if negated:
        a, b = b, a
    op.selects = a, b, condition
    return compute(result, _select, condition, a, b)


def _select(condition: Bools, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


@table.step("slct")
def slct(op: Op) -> Step:
    """The first operand if the third is not negative; NaN selects the second."""
    ftz = op.flag("ftz")
    kind, by = op.type(_SCALARS), op.type("s32 f32")
    view = by.view if not by.is_float else np.dtype(np.float32)

    def function(x: Array, y: Array, c: Array) -> Array:
        if ftz and by.is_float:
            c = flush(c, "f32")
        return np.where(c.view(view) >= 0, x, y)

    return computing(op, function, kind, kind, kind, by)
