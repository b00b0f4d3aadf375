"""Video instructions: arithmetic on the bytes and halves of registers, scalar or packed.

`vadd4.u32.s32.u32.sat{.add} d, a, b, c` works on four lanes of 8 bits; `.add` adds them to c. Selectors such
as `.b0` and `.h1` select a scalar's part, masks such as `.b3210` the lanes of a packed operand.
"""

import re
from collections.abc import Callable

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table, compute
from weft.emulator.instructions.compare import ORDERED
from weft.emulator.reading.syntax import U32, Array, Name, Negative, Operand, Type

table = Table(pure=True)
Function = Callable[[Array, Array], Array]
_FUNCTIONS: dict[str, Function] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda x, y: np.abs(x - y),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1,
}
_PACKED = [f"{name}{lanes}" for name in (*_FUNCTIONS, "vset") for lanes in (2, 4)]
_LETTER = {2: "h", 4: "b"}
_SCALAR = [name for name in (*_FUNCTIONS, "vset", "vshl", "vshr") if name != "vavrg"]


def _function(op: Op, name: str) -> Function:
    if name == "vset":
        compare = ORDERED[op.choice(ORDERED)]
        return lambda x, y: compare(x, y).astype(np.int64)
    return _FUNCTIONS[name]


@table.step(*_PACKED)
def packed(op: Op) -> Step:
    """Lane by lane. `.add` adds the results of all lanes to c; otherwise lanes outside the mask are c's."""
    name, lanes = op.prefix[:-1], int(op.prefix[-1])
    bits = 32 // lanes
    function = _function(op, name)
    saturates, adds = op.flag("sat"), op.flag("add")
    out = op.type("u32 s32") if name != "vset" else U32
    kinds = [op.type("u32 s32"), op.type("u32 s32")]
    op.count(4)
    destination, named = _suffix(op, op.operand(0), lanes)
    if named != sorted(set(named)) or max(named, default=0) >= lanes:
        got = "".join(map(str, reversed(named)))
        op.fail(
            f"a mask must name lanes of 0..{lanes - 1}, the highest first, got {got}", op.operand(0).location
        )
    mask = [not named or lane in named for lane in range(lanes)]
    operands, picks = zip(*(_picks(op, op.operand(i), lanes, i - 1) for i in (1, 2)), strict=True)
    low = -(1 << (bits - 1)) if out.kind == "s" else 0
    high = low + (1 << bits) - 1

    def run(x: Array, y: Array, z: Array) -> Array:
        parts = np.concatenate([_split(x, kinds[0], bits), _split(y, kinds[1], bits)], axis=-1)
        value = function(parts[..., picks[0]], parts[..., picks[1]])
        if adds:
            total: Array = np.where(mask, value, 0).sum(axis=-1) + z
            return total.astype(np.uint32)
        if saturates:
            value = np.clip(value, low, high)
        lanes = np.ascontiguousarray(np.where(mask, value, _split(z, U32, bits)))
        joined: Array = lanes.astype(np.int64).astype(f"u{bits // 8}").view(np.uint32)[..., 0]
        return joined

    sources = [op.source(operand, U32) for operand in (*operands, op.operand(3))]
    return compute(op.destination(destination, U32), run, *sources)


def _suffix(op: Op, operand: Operand, lanes: int) -> tuple[Operand, list[int]]:
    """The register of `%r.b20` (of 4 lanes) or `%r.h1` (of 2), and the lanes it names, the last first."""
    if isinstance(operand, Name) and op.entity(operand) is None:
        match = re.fullmatch(rf"(.+)\.{_LETTER[lanes]}([0-7]+)", operand.text)
        if match:
            return Name(match.group(1), operand.location), [int(d) for d in reversed(match.group(2))]
    return operand, []


def _picks(op: Op, operand: Operand, lanes: int, number: int) -> tuple[Operand, list[int]]:
    """The register of a packed source, and the lanes of a (from 0) and b (after them) that it selects."""
    register, named = _suffix(op, operand, lanes)
    if named and (len(named) != lanes or max(named) >= 2 * lanes):
        got = "".join(map(str, reversed(named)))
        op.fail(f"a selector must name {lanes} lanes of 0..{2 * lanes - 1}, got {got}", operand.location)
    return register, named or list(range(number * lanes, (number + 1) * lanes))


def _split(value: Array, kind: Type, bits: int) -> Array:
    view = np.dtype(f"{'i' if kind.kind == 's' else 'u'}{bits // 8}")
    parts: Array = np.ascontiguousarray(value, np.uint32).view(view).reshape(*value.shape, 32 // bits)
    return parts.astype(np.int64)


@table.step(*_SCALAR)
def scalar(op: Op) -> Step:
    """`vadd.u32.s32.u32.sat.min d, a.b0, b.h1, c`: on parts of registers, then `.add`, `.min` or `.max`; or
    `vadd… d.h1, a, b, c`: the result replaces that part of c.
    """
    name = op.prefix
    function = _function(op, name) if name not in ("vshl", "vshr") else None
    mode = op.choice(["clamp", "wrap"]) if function is None else ""
    saturates = op.flag("sat")
    then = op.choice(["add", "min", "max"], "")
    out = op.type("u32 s32") if name != "vset" else U32
    kinds = [op.type("u32 s32"), op.type("u32 s32")]
    (target, (bits, number)) = _part(op, op.operand(0))
    merges = bits < 32
    if merges and then:
        op.fail(f"must write a whole register with .{then}", op.operand(0).location)
    op.count(4 if then or merges else 3, 4)  # a whole register keeps nothing of c
    (first, pick_a), (second, pick_b) = _part(op, op.operand(1)), _part(op, op.operand(2))
    signed = (kinds[0] if name == "vset" else out).kind == "s"
    shifts = function is None
    # GPUs compute these by other instructions. Their shifts saturate to 32 bits when they merge, too.
    limits = np.iinfo(f"{'int' if signed else 'uint'}{32 if shifts else bits}")
    carries = name in ("vadd", "vsub", "vabsdiff") and not merges and not signed
    narrows = name in ("vadd", "vsub") or (shifts and saturates)
    wide = np.int64 if signed else np.uint64
    mask, shifted = np.uint32((1 << bits) - 1), np.uint32(bits * number)

    def shift(x: Array, y: Array) -> Array:
        by = np.minimum(y & 0xFFFFFFFF, 32) if mode == "clamp" else y & 31
        value = np.asarray(x << by if name == "vshl" else x >> by)
        return value << 30 >> 30 if saturates else value  # of 34 bits

    def run(x: Array, y: Array, *rest: Array) -> Array:
        value = (function or shift)(_picked(x, kinds[0], pick_a), _picked(y, kinds[1], pick_b))
        if saturates:  # unsigned sums above the limit aren't limited
            value = np.clip(value, limits.min, None if carries else limits.max)
        if merges:
            part = value.astype(np.uint32) & mask
            return rest[0] & ~(mask << shifted) | part << shifted
        if then:  # it takes 64 bits
            value = value.astype(np.int32).astype(np.int64) if narrows else value
            other = rest[0].view(np.int32 if signed else np.uint32).astype(np.int64)
            if then == "add":
                value = value + other
            else:
                value = {"min": np.minimum, "max": np.maximum}[then](value.view(wide), other.view(wide))
        return value.astype(np.uint32)

    sources = [op.source(first, U32), op.source(second, U32)]
    sources += [op.source(3, U32)] if then or merges else []
    return compute(op.destination(target, U32), run, *sources)


def _part(op: Op, operand: Operand) -> tuple[Operand, tuple[int, int]]:
    """A register and the (bits, number) of the part that `.b2` or `.h0` selects."""
    if isinstance(operand, Name) and op.entity(operand) is None:
        match = re.fullmatch(r"(.+)\.(b[0-3]|h[01])", operand.text)
        if match:
            bits = 8 if match.group(2)[0] == "b" else 16
            return Name(match.group(1), operand.location), (bits, int(match.group(2)[1]))
    return operand, (32, 0)


def _picked(value: Array, kind: Type, part: tuple[int, int]) -> Array:
    bits, number = part
    part_of: Array = _split(value, kind, bits)[..., number]
    return part_of


@table.step("vmad")
def multiply_add(op: Op) -> Step:
    """`vmad.u32.s32.u32{.sat}{.shr7|.shr15} d, {-}a, {-}b, {-}c`; `.po` adds one."""
    saturates, one = op.flag("sat"), op.flag("po")
    down = int(op.choice(["shr7", "shr15"], "shr0")[3:])
    op.type("u32 s32")
    kinds = [op.type("u32 s32"), op.type("u32 s32")]
    op.count(4)
    operands, negative = zip(*(_negated(op.operand(i)) for i in (1, 2, 3)), strict=True)
    product, addend = negative[0] != negative[1], negative[2]
    if (one and (product or addend)) or (product and addend):
        rule = "no operand with .po" if one else "either the product or the addend"
        op.fail(f"negates {rule}", op.operand(1).location)
    (first, pick_a), (second, pick_b) = _part(op, operands[0]), _part(op, operands[1])
    # The sum has the sign of its operands, whatever the result's type. GPUs take all of them for signed
    # numbers, and only the sum's 64 bits for unsigned ones.
    signed = product or addend or any(kind.kind == "s" for kind in kinds)
    limits = np.iinfo(np.int32 if signed else np.uint32)

    def run(x: Array, y: Array, z: Array) -> Array:
        first, second = _picked(x, kinds[0], pick_a), _picked(y, kinds[1], pick_b)
        total = first.astype(np.int32).astype(np.int64) * second.astype(np.int32)
        third = (~z if addend else z).view(np.int32)
        total = (~total if product else total) + third + np.int64(one or product or addend)
        if down:
            total = total >> down if signed else (total.view(np.uint64) >> np.uint64(down)).view(np.int64)
        if saturates:
            total = np.clip(total, limits.min, limits.max)
        return total.astype(np.uint32)

    sources = [op.source(first, U32), op.source(second, U32), op.source(operands[2], U32)]
    return compute(op.destination(0, U32), run, *sources)


def _negated(operand: Operand) -> tuple[Operand, bool]:
    return (operand.name, True) if isinstance(operand, Negative) else (operand, False)
