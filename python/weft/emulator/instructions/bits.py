"""Bitwise operations, shifts, fields and permutations."""

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table, compute, compute_many, computing
from weft.emulator.numerics.floats import each_exactly
from weft.emulator.reading.syntax import B32, PRED, U32, Array, Integer, Type

table = Table(pure=True)
_BITS = "b16 b32 b64"
_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@table.step("and", "or", "xor")
def logic(op: Op) -> Step:
    kind = op.type("pred " + _BITS)
    return computing(op, _LOGIC[op.prefix], kind, kind, kind)


@table.step("not")
def invert(op: Op) -> Step:
    kind = op.type("pred " + _BITS)
    return computing(op, np.invert, kind, kind)


@table.step("cnot")
def logical_not(op: Op) -> Step:
    kind = op.type(_BITS)
    return computing(op, lambda x: (x == 0).astype(kind.storage), kind, kind)


@table.step("shl", "shr")
def shift(op: Op) -> Step:
    """Shifts by the width or more shift everything out, as NumPy's do. Of a constant amount, ptxas reads as
    many bits as the value has, up to 32.
    """
    kind = op.type(_BITS + " u16 u32 u64 s16 s32 s64")
    op.count(3)
    amount = op.operand(2)
    if isinstance(amount, Integer) and kind.bits == 16:
        amount = Integer(amount.value & 0xFFFF, amount.location)
    return compute(
        op.destination(0, kind), shifter(kind, op.prefix), op.source(1, kind), op.source(amount, U32)
    )


def shifter(kind: Type, direction: str) -> Callable[[Array, Array], Array]:
    """Shifts a value of `kind` by amounts of 32 bits."""
    move = np.left_shift if direction == "shl" else np.right_shift
    view, storage, most = kind.view, kind.storage, np.uint32(kind.bits)
    if kind.bits == 32 and kind.kind != "s":
        return move
    return lambda x, n: move(x.view(view), np.minimum(n, most).astype(view)).view(storage)


@table.step("shf")
def funnel(op: Op) -> Step:
    direction = op.choice(["l", "r"])
    clamps = op.choice(["clamp", "wrap"]) == "clamp"
    op.type("b32")

    def function(low: Array, high: Array, amount: Array) -> Array:
        n = np.minimum(amount, np.uint32(32)) if clamps else amount & np.uint32(31)
        both = high.astype(np.uint64) << np.uint64(32) | low
        if direction == "r":
            return (both >> n.astype(np.uint64)).astype(np.uint32)
        return (both << n.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)

    return computing(op, function, U32, B32, B32, U32)


@table.step("bfe")
def extract(op: Op) -> Step:
    kind = op.type("u32 u64 s32 s64")
    width, field_of = np.int64(kind.bits), _field(kind)

    def function(x: Array, start: Array, count: Array) -> Array:
        pos, size = field_of(start), field_of(count)
        shifted = x.astype(np.uint64) >> np.minimum(pos, 63).astype(np.uint64)
        shifted = np.where(pos < width, shifted, np.uint64(0))
        field = _low_bits(size)
        value = shifted & field
        if kind.kind == "s":
            # The sign is that of the field's last bit, or of the operand if the field extends past it.
            last = np.minimum(pos + size - 1, width - 1)
            sign = (x.astype(np.uint64) >> np.maximum(last, 0).astype(np.uint64)) & np.uint64(1)
            inside = np.minimum(size, np.maximum(width - pos, 0))
            value = np.where((sign == 1) & (size > 0), value | ~_low_bits(inside), value)
        return value.astype(kind.storage)

    return computing(op, function, kind, kind, U32, U32)


def _field(kind: Type) -> Callable[[Array], Array]:
    """A field's position or size, which PTX restricts to 8 bits: GPUs ignore the others of 32-bit
    instructions, and don't for 64 bits.
    """
    if kind.bits == 64:
        return lambda value: np.minimum(value, np.uint32(255)).astype(np.int64)
    return lambda value: (value & np.uint32(255)).astype(np.int64)


def _low_bits(count: Array) -> Array:
    return np.where(
        count >= 64,
        np.uint64(0xFFFFFFFFFFFFFFFF),
        (np.uint64(1) << np.minimum(count, 63).astype(np.uint64)) - np.uint64(1),
    )


@table.step("bfi")
def insert(op: Op) -> Step:
    kind = op.type("b32 b64")
    field_of = _field(kind)

    def function(x: Array, y: Array, start: Array, count: Array) -> Array:
        pos, size = field_of(start), field_of(count)
        shift_by = np.minimum(pos, 63).astype(np.uint64)
        field = np.where(pos < kind.bits, _low_bits(size) << shift_by, np.uint64(0))
        value = y.astype(np.uint64) & ~field | (x.astype(np.uint64) << shift_by) & field
        return value.astype(kind.storage)

    return computing(op, function, kind, kind, kind, U32, U32)


@table.step("bfind")
def find_bit(op: Op) -> Step:
    """The highest bit that differs from the sign; -1 if there is none."""
    as_shift = op.flag("shiftamt")
    kind = op.type("u32 u64 s32 s64")

    def function(x: Array) -> Array:
        flipped = np.where(x.view(kind.view) < 0, ~x, x) if kind.kind == "s" else x
        lead = leading_zeros(flipped, kind.bits)
        position = lead if as_shift else np.uint32(kind.bits - 1) - lead
        return np.where(flipped == 0, np.uint32(0xFFFFFFFF), position)

    return computing(op, function, U32, kind)


def leading_zeros(value: Array, bits: int) -> Array:
    """The number of zero bits above the highest set bit, as u32; `bits` for zero."""
    count: Array | np.uint32 = np.uint32(0)
    step = bits // 2
    rest = value
    while step:
        empty = (rest >> rest.dtype.type(bits - step)) == 0
        count = count + np.where(empty, np.uint32(step), np.uint32(0))
        rest = np.where(empty, rest << rest.dtype.type(step), rest)
        step //= 2
    return np.where(value == 0, np.uint32(bits), count)


@table.step("clz")
def clz(op: Op) -> Step:
    kind = op.type("b32 b64")
    return computing(op, lambda x: leading_zeros(x, kind.bits), U32, kind)


@table.step("popc")
def popc(op: Op) -> Step:
    kind = op.type("b32 b64")
    return computing(op, lambda x: np.bitwise_count(x).astype(np.uint32), U32, kind)


@table.step("brev")
def reverse(op: Op) -> Step:
    kind = op.type("b32 b64")
    number = kind.storage.type

    def function(x: Array) -> Array:
        width = 1
        while width < kind.bits:
            # Swaps neighbors of 1, 2, 4, ... bits.
            lower = number(sum(((1 << width) - 1) << at for at in range(0, kind.bits, 2 * width)))
            by = number(width)
            x = (x >> by & lower) | (x & lower) << by
            width *= 2
        return x

    return computing(op, function, kind, kind)


@table.step("fns")
def nth_set(op: Op) -> Step:
    """The n-th set bit at or after (before, for a negative n) a base bit; -1 if there is none."""
    op.type("b32")

    def one(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
        if base >= 32:
            return 0xFFFFFFFF
        positions = range(base, 32) if offset > 0 else range(base, -1, -1)
        bits = [p for p in positions if mask >> p & 1]
        return bits[abs(offset) - 1] if abs(offset) <= len(bits) else 0xFFFFFFFF

    def function(mask: Array, base: Array, offset: Array) -> Array:
        return each_exactly(one, mask, base, offset.view(np.int32)).astype(np.uint32)

    return computing(op, function, U32, B32, B32, B32)


@table.step("bmsk")
def mask(op: Op) -> Step:
    """`b` ones from bit `a` on; positions and widths above 32 are clamped or wrap."""
    clamps = op.choice(["clamp", "wrap"]) == "clamp"
    op.type("b32")

    def function(start: Array, count: Array) -> Array:
        limit = np.uint32(32)
        pos = np.minimum(start, limit) if clamps else start & np.uint32(31)
        size = np.minimum(count, limit) if clamps else count & np.uint32(31)
        ones = (np.uint64(1) << size.astype(np.uint64)) - np.uint64(1)
        return (ones << pos.astype(np.uint64)).astype(np.uint32)

    return computing(op, function, U32, U32, U32)


@table.step("szext")
def extend(op: Op) -> Step:
    """The low `b` bits of `a`, sign- or zero-extended; widths above 32 are clamped or wrap."""
    clamps = op.choice(["clamp", "wrap"]) == "clamp"
    signed = op.type("u32 s32").kind == "s"

    def function(x: Array, count: Array) -> Array:
        size = np.minimum(count, np.uint32(32)) if clamps else count & np.uint32(31)
        up = np.uint64(64) - size.astype(np.uint64)
        lifted = np.where(size > 0, x.astype(np.uint64) << (up & np.uint64(63)), np.uint64(0))
        down = np.where(size > 0, up, np.uint64(0))
        if signed:
            return (lifted.view(np.int64) >> down.astype(np.int64)).astype(np.uint32)
        return (lifted >> down).astype(np.uint32)

    return computing(op, function, U32, U32, U32)


@table.step("lop3")
def lop3(op: Op) -> Step:
    """Any function of three bits, as a truth table; `lop3.or d|p, a, b, c, table, q`: p = (d != 0) or q."""
    combine = op.choice(["and", "or"], "")
    op.type("b32")
    op.count(6 if combine else 5)
    truth = op.immediate(4) & 255
    terms = [n for n in range(8) if truth >> n & 1]

    def function(x: Array, y: Array, z: Array) -> Array:
        out = np.zeros(x.shape, np.uint32)
        for n in terms:
            out |= (x if n & 4 else ~x) & (y if n & 2 else ~y) & (z if n & 1 else ~z)
        return out

    known = _KNOWN_LOP3.get(truth, function)
    sources = [op.source(i, B32) for i in (1, 2, 3)]
    first, second = op.pair(0)
    if not combine:
        return compute(op.destination(first, U32), known, *sources)
    if second is None:
        op.fail("needs a predicate as its second result")
    predicate, negated = op.predicate(5)
    join = np.logical_and if combine == "and" else np.logical_or

    def both(x: Array, y: Array, z: Array, q: Array) -> tuple[Array, Array]:
        value = known(x, y, z)
        return value, join(value != 0, q ^ negated)

    results = [op.destination(first, U32), op.destination(second, PRED)]
    return compute_many(results, both, *sources, predicate)


_KNOWN_LOP3: dict[int, Callable[[Array, Array, Array], Array]] = {
    0x80: lambda x, y, z: x & y & z,
    0xFE: lambda x, y, z: x | y | z,
    0x96: lambda x, y, z: x ^ y ^ z,
    0xF8: lambda x, y, z: x | y & z,
    0xEA: lambda x, y, z: x & y | z,
    0xCA: lambda x, y, z: x & y | ~x & z,
}


@table.step("prmt")
def permute(op: Op) -> Step:
    """Selects four of the eight bytes of two registers, or repeats the sign of one."""
    op.type("b32")
    mode = op.choice(["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"], "")
    op.count(4)
    selector = op.operand(3)
    if not mode and isinstance(selector, Integer) and not selector.value & 0x8888:
        # A constant selector without signs, the most common case in compiled code.
        fixed = [selector.value >> 4 * i & 7 for i in range(4)]

        def pick_bytes(x: Array, y: Array, _: Array) -> Array:
            source = np.stack([x, y], axis=-1).view(np.uint8)
            return source[..., fixed].copy().view(np.uint32)[..., 0].copy()

        return computing(op, pick_bytes, U32, B32, B32, B32)

    def function(x: Array, y: Array, control: Array) -> Any:
        both = y.astype(np.uint64) << np.uint64(32) | x
        value: Array | np.uint32 = np.uint32(0)
        if mode:
            picks = _permute_mode(mode, control & np.uint32(3))
        else:
            picks = [control >> np.uint32(4 * i) & np.uint32(15) for i in range(4)]
        for at, pick in enumerate(picks):
            by = (pick & np.uint32(7)) << np.uint32(3)
            byte = (both >> by.astype(np.uint64)).astype(np.uint32) & np.uint32(255)
            sign = (byte >> np.uint32(7)) * np.uint32(255)
            value = value | np.where(pick & np.uint32(8), sign, byte) << np.uint32(8 * at)
        return value

    return computing(op, function, U32, B32, B32, B32)


def _permute_mode(mode: str, n: Array) -> list[Array]:
    base = [np.full_like(n, i) for i in range(4)]
    if mode == "f4e":
        return [n + i for i in base]
    if mode == "b4e":
        return [(n - i) & np.uint32(7) for i in base]
    if mode == "rc8":
        return [n] * 4
    if mode == "ecl":
        return [np.maximum(n, i) for i in base]
    if mode == "ecr":
        return [np.minimum(n, i) for i in base]
    half = (n & np.uint32(1)) * np.uint32(2)
    return [half, half + np.uint32(1)] * 2
