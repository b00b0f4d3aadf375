"""Integer arithmetic."""

from collections.abc import Callable

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table, compute, computing
from weft.emulator.reading.syntax import PRED, STORAGE, TYPES, U32, Array, Type
from weft.emulator.running.lanes import Lanes

table = Table(pure=True)
_INTEGERS = "u16 u32 u64 s16 s32 s64"
_PACKED = "u16x2 s16x2 u8x4 s8x4"
_WIDER = {16: 32, 32: 64}


def signed(kind: Type, function: Callable[..., Array]) -> Callable[..., Array]:
    """`function` on the operands interpreted as `kind`, with its result as register bits."""
    if kind.kind != "s":
        return function
    view, storage = kind.view, kind.storage
    return lambda *values: function(*[v.view(view) for v in values]).view(storage)


def wider(kind: Type) -> np.dtype[np.generic]:
    """The integer type of twice the width."""
    return np.dtype(f"{'i' if kind.kind == 's' else 'u'}{kind.bytes * 2}")


@table.step("add", "sub")
def add_sub(op: Op) -> Step:
    plain = np.add if op.prefix == "add" else np.subtract
    saturates, keeps_carry = op.flag("sat"), op.flag("cc")
    kind = op.type(f"{_INTEGERS} b32 b64 {_PACKED}")
    op.count(3)
    result, a, b = op.destination(0, kind), op.source(1, kind), op.source(2, kind)
    if kind.name in _PACKED.split():
        return compute(result, _by_parts(plain, kind, saturates), a, b)
    if saturates:
        return compute(result, lambda x, y: _clamp(plain(_widen(x, kind), _widen(y, kind)), kind), a, b)
    if keeps_carry:
        return _with_carry(op, kind, (result, a, b), 0, True, op.prefix == "sub")
    return compute(result, plain, a, b)


def _element(kind: Type) -> Type:
    """The type of the parts of a packed one, such as u8 of u8x4."""
    return TYPES[kind.name.partition("x")[0]]


def _by_parts(function: np.ufunc, kind: Type, saturates: bool) -> Callable[[Array, Array], Array]:
    """A function on the parts of registers."""
    element = _element(kind)
    part = element.storage
    if not saturates:
        return lambda x, y: function(x.view(part), y.view(part)).view(np.uint32)

    def run(x: Array, y: Array) -> Array:
        wide = [v.view(part).view(element.view).astype(np.int32) for v in (x, y)]
        return _clamp(function(*wide), element).view(np.uint32)

    return run


@table.step("addc", "subc")
def add_carry(op: Op) -> Step:
    keeps_carry = op.flag("cc")
    kind = op.type("u32 s32 b32 u64 s64 b64")
    op.count(3)
    result, a, b = op.destination(0, kind), op.source(1, kind), op.source(2, kind)
    return _with_carry(op, kind, (result, a, b), op.code.carry, keeps_carry, op.prefix == "subc")


def _with_carry(
    op: Op, kind: Type, slots: tuple[int, int, int], carry: int, keeps: bool, subtract: bool
) -> Step:
    """Adds or subtracts with a carry in, if `carry` is a slot; may write the carry out.

    A difference is `a + ~b + carry`, so a borrow is a clear carry. nvcc's divisions subtract and then read
    the flag with `addc`.
    """
    out = op.code.carry if keeps else op.slots.scrap(PRED)
    op.reads += [carry] * bool(carry)
    op.writes += [out] * keeps
    result, a, b = slots
    storage = kind.storage

    def run(lanes: Lanes) -> None:
        x, y = lanes.read(a), lanes.read(b)
        first = 1 if subtract else 0
        into = lanes.read(carry).astype(storage) if carry else np.full(x.shape, first, storage)
        if subtract:
            y = ~y
        value = x + y + into
        over = (value < x) | ((value == x) & (into != 0))
        lanes.write(result, value)
        lanes.write(out, over)

    return run


def _widen(value: Array, kind: Type) -> Array:
    return value.view(kind.view).astype(wider(kind))


def _clamp(value: Array, kind: Type) -> Array:
    limits = np.iinfo(kind.view)
    return np.clip(value, limits.min, limits.max).astype(kind.view).view(kind.storage)


@table.step("mul", "mul24")
def mul(op: Op) -> Step:
    part = op.choice(["lo", "hi", "wide"])
    kind = op.type(_INTEGERS)
    out = TYPES[f"{kind.kind}{_WIDER[kind.bits]}"] if part == "wide" and kind.bits in _WIDER else kind
    if part == "wide" and out is kind:
        op.fail("isn't defined for 64 bits")
    product = multiply24(kind, part) if op.prefix == "mul24" else multiply(kind, part)
    return computing(op, product, out, kind, kind)


@table.step("mad", "mad24", "madc")
def mad(op: Op) -> Step:
    part = op.choice(["lo", "hi", "wide"])
    saturates = op.flag("sat")
    keeps_carry = op.flag("cc")
    kind = op.type(_INTEGERS)
    op.count(4)
    out = TYPES[f"{kind.kind}{_WIDER[kind.bits]}"] if part == "wide" and kind.bits in _WIDER else kind
    product = multiply24(kind, part) if op.prefix == "mad24" else multiply(kind, part)
    result, a, b = op.destination(0, out), op.source(1, kind), op.source(2, kind)
    c = op.source(3, out)
    if keeps_carry or op.prefix == "madc":
        between = op.slots.new(out)
        first = compute(between, product, a, b)
        carry = op.code.carry if op.prefix == "madc" else 0
        second = _with_carry(op, out, (result, between, c), carry, keeps_carry, False)

        def run(lanes: Lanes) -> None:
            first(lanes)
            second(lanes)

        return run
    if saturates:
        return compute(
            result, lambda x, y, z: _clamp(_widen(product(x, y), out) + _widen(z, out), out), a, b, c
        )
    return compute(result, lambda x, y, z: product(x, y) + z, a, b, c)


def multiply(kind: Type, part: str) -> Callable[[Array, Array], Array]:
    """The lower half, the upper half or all of a product."""
    if part == "lo":
        return np.multiply
    if kind.bits == 64:
        return _high_signed if kind.kind == "s" else _high_unsigned
    view, wide = kind.view, wider(kind)
    storage = STORAGE[2 * kind.bits]

    def whole(x: Array, y: Array) -> Array:
        product: Array = np.multiply(x.view(view), y.view(view), dtype=wide)
        return product

    if part == "wide":
        return lambda x, y: whole(x, y).view(storage)
    shift = wide.type(kind.bits)
    narrow = kind.storage
    return lambda x, y: (whole(x, y) >> shift).astype(narrow)


def _high_unsigned(x: Array, y: Array) -> Array:
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    upper: Array = x1 * y1 + (middle >> half) + (other >> half)
    return upper


def _high_signed(x: Array, y: Array) -> Array:
    high = _high_unsigned(x, y)
    zero = np.uint64(0)
    return high - np.where(x.view(np.int64) < 0, y, zero) - np.where(y.view(np.int64) < 0, x, zero)


def multiply24(kind: Type, part: str) -> Callable[[Array, Array], Array]:
    """The product of the low 24 bits: its lower 32 bits, or bits 16 to 47."""

    def low24(value: Array) -> Array:
        wide = value.astype(np.int64) << 40
        return wide >> 40 if kind.kind == "s" else (wide.view(np.uint64) >> np.uint64(40)).view(np.int64)

    shift = 16 if part == "hi" else 0
    return lambda x, y: (low24(x) * low24(y) >> shift).astype(np.uint32)


@table.step("div")
def div(op: Op) -> Step:
    kind = op.type(_INTEGERS)
    return computing(op, _divide(kind), kind, kind, kind)


@table.step("rem")
def rem(op: Op) -> Step:
    kind = op.type(_INTEGERS)
    divide = _divide(kind)

    def function(x: Array, y: Array) -> Array:
        quotient = divide(x, y)
        return np.where(y == 0, quotient, x - quotient * y)

    return computing(op, function, kind, kind, kind)


def _divide(kind: Type) -> Callable[[Array, Array], Array]:
    """Division toward zero; division by zero gives all ones, as in NVIDIA's own code. So do remainders."""
    ones = kind.storage.type((1 << kind.bits) - 1)
    zero, one = kind.storage.type(0), kind.storage.type(1)

    def unsigned(x: Array, y: Array) -> Array:
        none = y == zero
        return np.where(none, ones, x // np.where(none, one, y))

    def divide_signed(x: Array, y: Array) -> Array:
        sx, sy = x.view(kind.view) < 0, y.view(kind.view) < 0
        quotient = unsigned(np.where(sx, zero - x, x), np.where(sy, zero - y, y))
        return np.where((sx != sy) & (y != zero), zero - quotient, quotient)

    return divide_signed if kind.kind == "s" else unsigned


@table.step("abs", "neg")
def sign(op: Op) -> Step:
    negates = op.prefix == "neg"
    kind = op.type("s16 s32 s64" + " s8x4" * negates)
    if kind.name == "s8x4":
        return computing(op, lambda x: np.negative(x.view(np.uint8)).view(np.uint32), kind, kind)
    return computing(op, signed(kind, np.negative if negates else np.absolute), kind, kind)


@table.step("min", "max")
def min_max(op: Op) -> Step:
    relu = op.flag("relu")
    kind = op.type(f"{_INTEGERS} {_PACKED}")
    op.count(3, 4)
    pick = np.minimum if op.prefix == "min" else np.maximum
    view = _element(kind).view

    def function(x: Array, *others: Array) -> Array:
        value: Array = x.view(view)
        for other in others:
            value = pick(value, other.view(view))
        return (np.maximum(value, 0) if relu else value).view(kind.storage)

    return computing(op, function, kind, *[kind] * (len(op.operands) - 1))


@table.step("sad")
def sad(op: Op) -> Step:
    kind = op.type(_INTEGERS)

    def function(x: Array, y: Array, z: Array) -> Array:
        return z + np.where(x.view(kind.view) < y.view(kind.view), y - x, x - y)

    return computing(op, function, kind, kind, kind, kind)


@table.step("dp4a", "dp2a")
def dot(op: Op) -> Step:
    """Four bytes times four bytes, or two halves times two of the bytes, plus an accumulator."""
    upper = op.prefix == "dp2a" and op.choice(["lo", "hi"]) == "hi"
    a_kind, b_kind = op.type("u32 s32"), op.type("u32 s32")
    parts = 4 if op.prefix == "dp4a" else 2

    def split(value: Array, kind: Type, width: int) -> Array:
        return value.view(f"{'i' if kind.kind == 's' else 'u'}{width}").reshape(*value.shape, 4 // width)

    def function(x: Array, y: Array, z: Array) -> Array:
        left = split(x, a_kind, 4 // parts).astype(np.int64)
        right = split(y, b_kind, 1).astype(np.int64)
        right = right[..., 2:] if upper else right[..., :parts]
        total: Array = (left * right).sum(axis=-1) + z.astype(np.int64)
        return total.astype(np.uint32)

    return computing(op, function, U32, U32, U32, U32)
