"""`cvt`: between all integer and floating-point formats, with rounding and saturation.

`cvt` of two or four values at once: pairs of f16 and bf16, and the formats of eight, six and four bits.

`cvt.rn.bf16x2.f32 d, a, b` puts a into the upper half. `cvt.pack` packs integers.
"""

from collections.abc import Callable

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table, compute, computing
from weft.emulator.numerics.floats import (
    canonical,
    decode,
    decode_small,
    each_exactly,
    encode,
    encode_s2f6,
    encode_small,
    encode_ue8m0,
    flush,
    saturate,
    stochastic,
    width,
)
from weft.emulator.reading.syntax import TYPES, U32, Array, Type

table = Table(pure=True)
_HALVES = ("f16x2", "bf16x2")
_SCALED = "scaled::n2::ue8m0"
F32 = TYPES["f32"]


def packed(op: Op, out: Type, kind: Type, mode: str, relu: bool, finite: bool) -> Step:
    """Any conversion between packed formats, or of float32 to one."""
    if not (out.is_float and kind.is_float):
        op.fail(f"doesn't convert .{kind} to .{out}")
    if out.name in _HALVES and kind.name == "f32":
        return _to_halves(op, out, mode, relu, finite)
    if out.name in _HALVES and kind.name not in (*_HALVES, "f32", "f32x2") and kind.name[-2:] == "x2":
        return _from_small(op, out, kind, relu, finite)
    if kind.name not in ("f32", *_HALVES) or out.name[-2:] not in ("x2", "x4") or out.name in _HALVES:
        op.fail(f"doesn't convert .{kind} to .{out}")
    if out.name == "s2f6x2":
        if not finite or kind.name == "f16x2":
            op.fail("needs .satfinite" if not finite else "must convert .f32 or .bf16x2, got .f16x2")
        return _to_small(op, out, kind, lambda value: encode_s2f6(value, relu), op.flag(_SCALED))
    if out.name == "ue8m0x2":
        return _to_small(op, out, kind, lambda value: encode_ue8m0(value, mode == "rp", finite))
    if out.name.endswith("x4"):
        return _four_to_small(op, out, kind, mode, relu)
    element = out.name[:-2]
    return _to_small(op, out, kind, lambda value: encode_small(value, element, relu))


def _to_halves(op: Op, out: Type, mode: str, relu: bool, finite: bool) -> Step:
    element = TYPES[out.name[:-2]]
    random = mode == "rs"
    noise_bits = 13 if element.name == "f16" else 16

    def half(bits: Array, noise: Array | None) -> Array:
        value = decode(bits, "f32")
        if relu:
            value = np.where(np.isnan(value) | (value > 0), value, 0.0)
        if noise is None:
            rounded = encode(value, element.name, mode)
        else:
            rounded = encode(stochastic(value, element.name, noise, noise_bits), element.name)
        return _limit(rounded, value, element) if finite else rounded

    def function(high: Array, low: Array, *noise: Array) -> Array:
        kept = np.uint32((1 << noise_bits) - 1)
        upper = noise[0] >> np.uint32(16) & kept if noise else None
        lower = noise[0] & kept if noise else None
        return half(high, upper).astype(np.uint32) << np.uint32(16) | half(low, lower)

    return computing(op, function, out, *[F32] * (3 if random else 2))


def _to_small(
    op: Op, out: Type, kind: Type, encode_one: Callable[[Array], Array], scaled: bool = False
) -> Step:
    """Two values, from two float32 or from one pair, each divided by its power of two first if `scaled`."""
    shift = np.uint16(width(out.name[:-2]))
    storage, inputs = out.storage, 2 if kind.name == "f32" else 1

    def function(*registers: Array) -> Array:
        if inputs > 1:
            pair: list[Array] = [register.view(np.float32) for register in registers[:inputs]]
        else:
            halves = decode(registers[0].view(np.uint16), kind.name[:-2]).astype(np.float32)
            pair = [halves[..., 1::2], halves[..., 0::2]]
        if scaled:
            pair = [v.astype(np.float64) / s for v, s in zip(pair, _powers(registers[-1]), strict=True)]
        upper = encode_one(pair[0]).astype(np.uint16) << shift
        return (upper | encode_one(pair[1])).astype(storage)

    return computing(op, function, out, *[kind] * inputs, *[TYPES["b16"]] * scaled)


def _powers(scales: Array) -> tuple[Array, Array]:
    """The powers of two of a pair of ue8m0, the upper one first."""
    return decode_small(scales >> np.uint16(8), "ue8m0"), decode_small(scales & np.uint16(255), "ue8m0")


def _four_to_small(op: Op, out: Type, kind: Type, mode: str, relu: bool) -> Step:
    """`cvt.rs d, {a, b, e, f}, rbits`: a is the highest. Each pair of values shares 16 random bits."""
    if mode != "rs" or kind.name != "f32":
        op.fail("must convert four .f32 with .rs")
    op.count(3)
    element = out.name[:-2]
    bits, storage = width(element), out.storage
    low, eight, sixteen = np.uint32(0xFF), np.uint32(8), np.uint32(16)

    def function(*registers: Array) -> Array:
        noise = registers[4]
        if bits == 8:
            upper, lower = noise >> sixteen, noise & np.uint32(0xFFFF)
        else:
            # Each half of the random bits has eight for each pair.
            upper = noise >> sixteen & np.uint32(0xFF00) | noise >> eight & low
            lower = noise >> eight & np.uint32(0xFF00) | noise & low
        value = np.zeros(noise.shape, np.uint32)
        for register, random in zip(registers[:4], (upper, upper, lower, lower), strict=True):
            code = encode_small(register.view(np.float32), element, relu, random)
            value = value << np.uint32(bits) | code
        return value.astype(storage)

    return compute(op.destination(0, out), function, *op.registers(1, F32, 4), op.source(2, U32))


def _from_small(op: Op, out: Type, kind: Type, relu: bool, finite: bool) -> Step:
    """To a pair of f16 or bf16; `.scaled::n2::ue8m0` multiplies each by its power of two first."""
    scaled = op.flag(_SCALED)
    if out.name == "f16x2" and (scaled or finite or kind.name == "s2f6x2"):
        flags = f"{f'.{_SCALED}' * scaled}{'.satfinite' * finite}"
        op.fail(f"must convert .{kind}{' with ' * bool(flags)}{flags} to .bf16x2, got .f16x2")
    element, target = kind.name[:-2], out.name[:-2]
    shift = width(element)

    def half(code: Array, power: Array | None) -> Array:
        value = decode_small(code, element).astype(np.float64)
        if power is not None:
            value = value * power
        if relu:
            value = np.where(np.isnan(value) | (value > 0), value, 0.0)
        rounded = encode(value, target)
        return (_limit(rounded, value, TYPES[target]) if finite else rounded).astype(np.uint32)

    def function(codes: Array, *scale: Array) -> Array:
        powers = _powers(scale[0]) if scale else (None, None)
        upper = half(codes >> codes.dtype.type(shift), powers[0])
        return upper << np.uint32(16) | half(codes, powers[1])

    return computing(op, function, out, kind, *[TYPES["b16"]] * scaled)


@table.step("cvt.pack.sat")
def pack(op: Op) -> Step:
    """Two integers, saturated, with a above b; with a third operand, above that operand's lower bits."""
    narrow = op.choice(["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"])
    bits, is_signed = int(narrow[1:]), narrow[0] == "s"
    op.type("s32")
    if bits < 16:
        op.type("b32")
    low = -(1 << (bits - 1)) if is_signed else 0
    high = low + (1 << bits) - 1
    mask, shift = np.uint32((1 << bits) - 1), np.uint32(bits)

    def clamp(value: Array) -> Array:
        return np.clip(value.view(np.int32), low, high).astype(np.int32).view(np.uint32) & mask

    def function(a: Array, b: Array, *rest: Array) -> Array:
        pair = clamp(a) << shift | clamp(b)
        return pair if not rest else rest[0] << np.uint32(2 * bits) | pair

    return computing(op, function, U32, *[U32] * (3 if bits < 16 else 2))


_INTEGRAL: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_MODES = ("rn", "rz", "rm", "rp", "rna", "rs")
Function = Callable[[Array], Array]
_FRACTION = {"f16": 10, "bf16": 7, "f32": 23}
_QUIET_F64 = np.uint64(1 << 51)
_TF32 = np.uint32(0xFFFFE000)


@table.step("cvt")
def cvt(op: Op) -> Step:
    integral, mode = op.choice(_INTEGRAL, ""), op.choice(_MODES, "")
    ftz, sat, relu = op.flag("ftz"), op.flag("sat"), op.flag("relu")
    finite = op.flag("satfinite")
    out, kind = op.type(), op.type()
    if out.kind == "p" or kind.kind == "p":
        op.fail("doesn't convert predicates")
    if 128 in (out.bits, kind.bits):
        op.fail("doesn't convert 128 bits")
    if out.name[-2:] in ("x2", "x4") or kind.name[-2:] in ("x2", "x4"):
        return packed(op, out, kind, mode or "rn", relu, finite)
    op.count(2)
    if mode == "rs":
        op.fail(".rs must convert to a packed format")
    if out.is_float and kind.is_float:
        function = _float_to_float(out, kind, mode or "rn", integral, ftz, sat, relu, finite)
    elif out.is_float:
        function = _integer_to_float(out, kind, mode or "rn", sat)
    elif kind.is_float:
        if not integral:
            op.fail("needs .rni, .rzi, .rmi or .rpi")
        function = _float_to_integer(out, kind, integral, ftz)
    else:
        function = _integer_to_integer(out, kind, sat)
    source = op.source(1, kind, any_width=True)
    # A register wider than the type has the value in its low bits; a wider result is extended.
    read = op.register_type(op.operand(1), kind)
    written = op.register_type(op.operand(0), out)
    chain: list[Function] = []
    if read.bits > kind.bits:
        chain.append(lambda value: value.astype(kind.storage))
    if read.bits < kind.bits:
        op.fail(f"can't read .{kind} from a register of {read.bits} bits", op.operand(1).location)
    chain.append(function)
    if written.bits > out.bits:
        wide = np.dtype(f"i{written.bytes}") if out.kind == "s" else written.storage
        chain.append(lambda value: value.view(out.view).astype(wide).view(written.storage))
    elif written.bits < out.bits:
        op.fail(f"can't write .{out} to a register of {written.bits} bits", op.operand(0).location)

    def in_turn(value: Array) -> Array:
        for step in chain:
            value = step(value)
        return value

    return compute(op.destination(0, out, any_width=True), function if len(chain) == 1 else in_turn, source)


def _integer_to_integer(out: Type, kind: Type, sat: bool) -> Function:
    view, storage = kind.view, out.storage
    if not sat:
        return lambda value: value.view(view).astype(out.view).view(storage)
    limits, own = np.iinfo(out.view), np.iinfo(view)
    low, high = max(limits.min, own.min), min(limits.max, own.max)
    return lambda value: np.clip(value.view(view), low, high).astype(out.view).view(storage)


def _integer_to_float(out: Type, kind: Type, mode: str, sat: bool) -> Function:
    view = kind.view
    narrow = {"f16": np.float16, "f32": np.float32, "f64": np.float64}

    def function(value: Array) -> Array:
        number = value.view(view)
        if mode == "rn" and out.name in ("f32", "f64"):
            bits = number.astype(narrow[out.name]).view(out.storage)
        elif kind.bits < 64:
            bits = encode(number.astype(np.float64), out.name, mode)
        elif out.name == "f64":
            bits = each_exactly(lambda n: _round_to_f64(n, mode), number).astype(np.float64).view(np.uint64)
        else:
            bits = encode(each_exactly(_to_odd, number).astype(np.float64), out.name, mode)
        if sat and out.name in narrow:
            bits = saturate(bits.view(narrow[out.name])).view(out.storage)
        return bits

    return function


def _to_odd(number: int) -> float:
    """A 64-bit integer as a float64, rounded to odd."""
    size = abs(number)
    shift = max(0, size.bit_length() - 53)
    kept = size >> shift
    if kept << shift != size:
        kept |= 1
    return float(kept << shift) * (-1 if number < 0 else 1)


def _round_to_f64(number: int, mode: str) -> float:
    value = float(number)
    exact = int(value)
    if (mode == "rz" and abs(exact) > abs(number)) or (mode == "rm" and exact > number):
        return float(np.nextafter(value, 0.0 if mode == "rz" else -np.inf))
    if mode == "rp" and exact < number:
        return float(np.nextafter(value, np.inf))
    return value


def _float_to_integer(out: Type, kind: Type, integral: str, ftz: bool) -> Function:
    """Out of range gives the nearest limit; NaN gives 0, or the highest bit if a 64-bit type is involved."""
    limits = np.iinfo(out.view)
    low, above = float(limits.min), float(int(limits.max) + 1)
    nan = 1 << (out.bits - 1) if out.bits == 64 or kind.bits == 64 else 0
    to_integral = _INTEGRAL[integral]

    def function(bits: Array) -> Array:
        if ftz and kind.name == "f32":
            bits = flush(bits, "f32")
        value = decode(bits, kind.name)
        unordered = np.isnan(value)
        value = to_integral(np.where(unordered, 0.0, value))
        over = value >= above
        number = np.where(over, low, np.maximum(value, low)).astype(out.view)
        number = np.where(over, limits.max, number).view(out.storage)
        return np.where(unordered, out.storage.type(nan & ((1 << out.bits) - 1)), number)

    return function


def _float_to_float(
    out: Type, kind: Type, mode: str, integral: str, ftz: bool, sat: bool, relu: bool, finite: bool
) -> Function:
    def function(bits: Array) -> Array:
        if ftz and kind.name == "f32" and out.name != "f16":  # where GPUs keep them
            bits = flush(bits, "f32")
        value = decode(bits, kind.name)
        if integral:
            value = np.copysign(_INTEGRAL[integral](value), value)
        if sat:
            value = saturate(value)
        if relu:
            value = np.where(np.isnan(value) | (value > 0), value, 0.0)
        if out.name == "f64":
            encoded = value.astype(np.float64, order="C", copy=False).view(np.uint64)
        else:
            encoded = encode(value, out.name, mode)
        if finite:
            encoded = _limit(encoded, value, out)
        return flush(encoded, "f32") if ftz and out.name == "f32" else encoded

    if not (ftz or sat or relu or integral) and out.name == "f32":
        if kind.name == "f16":
            return lambda bits: canonical(bits.view(np.float16).astype(np.float32), "f32")
        if kind.name == "bf16":
            return lambda bits: bits.astype(np.uint32) << np.uint32(16)  # NaN, too
        if kind.name == "f32":
            return np.positive
    special = None if sat else _special_nan(out, kind, mode, ftz, finite)
    if special is None:
        return function
    unordered = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind.name]
    return lambda bits: np.where(np.isnan(bits.view(unordered)), special(bits), function(bits))


def _special_nan(out: Type, kind: Type, mode: str, ftz: bool, finite: bool) -> Function | None:
    """The NaN of conversions that GPUs don't convert to that of computed results. Those of f64 keep their
    sign and the upper bits of their payload.
    """
    if kind.name == "f64" and out.name in _FRACTION:
        return lambda bits: _shorter_nan(bits, out)
    if kind.name == "f16" and out.name == "f64":
        return lambda bits: bits.view(np.float16).astype(np.float64).view(np.uint64) | _QUIET_F64
    if kind.name == "f32" and out.name == "f64" and ftz:
        return lambda bits: np.full(bits.shape, 0x7FFFFFFFE0000000, np.uint64)
    if kind.name == "f32" and out.name == "tf32" and mode == "rna":
        # It is only shortened, and may become infinity; .satfinite takes one off, as off infinity.
        return lambda bits: (bits & _TF32) - np.uint32(0x2000 * finite)
    return None


def _shorter_nan(bits: Array, out: Type) -> Array:
    fraction = _FRACTION[out.name]
    ones = ((1 << (out.bits - 1)) - 1) & ~((1 << (fraction - 1)) - 1)  # the exponent, and the quiet bit
    payload = bits >> np.uint64(52 - fraction) & np.uint64((1 << fraction) - 1)
    sign = bits >> np.uint64(63) << np.uint64(out.bits - 1)
    return (sign | np.uint64(ones) | payload).astype(out.storage)


def _limit(bits: Array, value: Array, out: Type) -> Array:
    """Replaces infinities by the largest finite number."""
    most = {"f16": 0x7BFF, "bf16": 0x7F7F, "f32": 0x7F7FFFFF, "tf32": 0x7F7FE000}[out.name]
    kind = bits.dtype.type
    sign = bits & kind(1 << (out.bits - 1))
    exponent = {"f16": 0x7C00, "bf16": 0x7F80}.get(out.name, 0x7F800000)
    infinite = ((bits & kind(exponent)) == kind(exponent)) & ~np.isnan(value)
    return np.where(infinite, sign | kind(most), bits)
