"""`cvt`: between all integer and floating-point formats, with rounding and saturation."""

from collections.abc import Callable

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.steps import compute
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions.convert_packed import packed
from weft.emulator.numerics.floats import decode, each_exactly, encode, flush, saturate
from weft.emulator.reading.types import Array, Type

table = Table()
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
    integral = op.choice(_INTEGRAL, "")
    mode = op.choice(_MODES, "")
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
    chain = [_narrow(kind)] if read.bits > kind.bits else []
    if read.bits < kind.bits:
        op.fail(f"can't read .{kind} from a register of {read.bits} bits", op.operand(1).location)
    chain.append(function)
    if written.bits > out.bits:
        chain.append(_extend(out, written))
    elif written.bits < out.bits:
        op.fail(f"can't write .{out} to a register of {written.bits} bits", op.operand(0).location)
    return compute(op.destination(0, out, any_width=True), _chained(chain), source)


def _chained(functions: list[Function]) -> Function:
    if len(functions) == 1:
        return functions[0]

    def run(value: Array) -> Array:
        for function in functions:
            value = function(value)
        return value

    return run


def _narrow(kind: Type) -> Function:
    return lambda value: value.astype(kind.storage)


def _extend(kind: Type, to: Type) -> Function:
    wide = np.dtype(f"i{to.bytes}") if kind.kind == "s" else to.storage
    return lambda value: value.view(kind.view).astype(wide).view(to.storage)


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
        encoded = _encode(value, out, mode)
        if finite:
            encoded = _limit(encoded, value, out)
        return flush(encoded, "f32") if ftz and out.name == "f32" else encoded

    if not (ftz or sat or relu or integral) and out.name == "f32":
        if kind.name == "f16":
            return lambda bits: _encode_plain(bits.view(np.float16).astype(np.float32))
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


def _encode_plain(value: Array) -> Array:
    bits = value.view(np.uint32)
    return np.where(np.isnan(value), np.uint32(0x7FFFFFFF), bits)


def _encode(value: Array, out: Type, mode: str) -> Array:
    if out.name == "f64":
        return value.astype(np.float64, order="C", copy=False).view(np.uint64)
    return encode(value, out.name, mode)


def _limit(bits: Array, value: Array, out: Type) -> Array:
    """Replaces infinities by the largest finite number."""
    most = {"f16": 0x7BFF, "bf16": 0x7F7F, "f32": 0x7F7FFFFF, "tf32": 0x7F7FE000}[out.name]
    kind = bits.dtype.type
    sign = bits & kind(1 << (out.bits - 1))
    exponent = {"f16": 0x7C00, "bf16": 0x7F80}.get(out.name, 0x7F800000)
    infinite = ((bits & kind(exponent)) == kind(exponent)) & ~np.isnan(value)
    return np.where(infinite, sign | kind(most), bits)
