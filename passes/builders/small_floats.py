"""Conversions of f8E4M3FN and f8E5M2 by arithmetic on their bits, for any chip. Weft's fp8 is these two."""

from weft.mlir import arith, ir, llvm, vector
from weft.passes.builders import emit

_MANTISSA = {"f8E4M3FN": 3, "f8E5M2": 2}
_BIAS = {"f8E4M3FN": 7, "f8E5M2": 15}
_OVERFLOW = {"f8E4M3FN": 0x7F, "f8E5M2": 0x7C}  # NaN, and infinity
_E4M3_NAN, _E4M3_SCALE, _F16_NAN = 0x7F, 256.0, 0x7FFF  # of f16, whose exponents are 8 larger
_F32_BIAS, _F32_MANTISSA, _F32_INFINITY = 127, 23, 0x7F800000


def is_small(kind: ir.Type) -> bool:
    """Whether these are the elements of a type, a scalar or a vector."""
    return isinstance(emit.element_of(kind), ir.Float8E4M3FNType | ir.Float8E5M2Type)


def convert(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A value of floats, a scalar or a vector, in another type, if one of them is fp8. It is rounded once, to
    the nearest; f8E4M3FN, which has no infinity, has NaN for numbers beyond its range.
    """
    if is_small(value.type):
        value = to_f16(value)
    return _from_f32(as_f32(value), kind) if is_small(kind) else _resized(value, kind)


def to_f16(value: ir.Value) -> ir.Value:
    """Fp8 in f16, which holds all of its values."""
    halves = emit.with_elements(value.type, ir.F16Type.get())
    kind = _integers(value.type, 16)
    bits = arith.extui(kind, arith.bitcast(_integers(value.type, 8), value))
    if isinstance(emit.element_of(value.type), ir.Float8E5M2Type):  # the upper byte of f16
        return arith.bitcast(halves, _shifted(bits, 8))
    magnitude = arith.andi(bits, emit.constant(kind, _E4M3_NAN))
    sign = _shifted(arith.subi(bits, magnitude), 8)
    scaled = arith.bitcast(halves, arith.ori(sign, _shifted(magnitude, 7)))
    number = arith.mulf(scaled, emit.constant(halves, _E4M3_SCALE))
    is_nan = arith.cmpi(arith.CmpIPredicate.eq, magnitude, emit.constant(kind, _E4M3_NAN))
    return arith.select(is_nan, arith.bitcast(halves, emit.constant(kind, _F16_NAN)), number)


def _from_f32(value: ir.Value, kind: ir.Type) -> ir.Value:
    """F32 in fp8. What becomes subnormal is rounded by an addition to a number with such a last digit."""
    name, words = str(emit.element_of(kind)), _integers(kind, 32)
    surplus, bias = _F32_MANTISSA - _MANTISSA[name], _F32_BIAS - _BIAS[name]
    bits = arith.bitcast(words, value)
    magnitude = arith.andi(bits, emit.constant(words, 0x7FFFFFFF))
    odd = arith.andi(arith.shrui(magnitude, emit.constant(words, surplus)), emit.constant(words, 1))
    half = emit.constant(words, (1 << (surplus - 1)) - 1)
    rounded = arith.shrui(arith.addi(arith.addi(magnitude, half), odd), emit.constant(words, surplus))
    normal = arith.subi(rounded, emit.constant(words, bias << _MANTISSA[name]))
    normal = arith.minui(normal, emit.constant(words, _OVERFLOW[name]))
    digit = emit.constant(words, bias + 1 + surplus << _F32_MANTISSA)
    sum_ = arith.addf(arith.bitcast(value.type, magnitude), arith.bitcast(value.type, digit))
    small = arith.subi(arith.bitcast(words, sum_), digit)
    least = emit.constant(words, bias + 1 << _F32_MANTISSA)
    code = arith.select(arith.cmpi(arith.CmpIPredicate.ult, magnitude, least), small, normal)
    infinity = emit.constant(words, _F32_INFINITY)
    is_nan = arith.cmpi(arith.CmpIPredicate.ugt, magnitude, infinity)
    code = arith.select(is_nan, emit.constant(words, _E4M3_NAN), code)
    sign = arith.shrui(arith.subi(bits, magnitude), emit.constant(words, 24))
    return arith.bitcast(kind, arith.trunci(_integers(kind, 8), arith.ori(code, sign)))


def as_f32(value: ir.Value) -> ir.Value:
    """Floats in f32, which narrower types round as they do these floats. Those of f64 are rounded toward
    zero, and get an odd last digit where this isn't exact.
    """
    f32 = ir.F32Type.get()
    kind = emit.with_elements(value.type, f32)
    words = _integers(value.type, 32)
    if emit.element_of(value.type) != ir.F64Type.get():
        return _resized(value, kind)
    near = [llvm.call_intrinsic(f32, "llvm.nvvm.d2f.rz", [each], [], []) for each in emit.elements(value)]
    shorter = vector.from_elements(kind, near) if isinstance(kind, ir.VectorType) else near[0]
    differs = arith.cmpf(arith.CmpFPredicate.ONE, arith.extf(value.type, shorter), value)
    return arith.bitcast(kind, arith.ori(arith.bitcast(words, shorter), arith.extui(words, differs)))


def _resized(value: ir.Value, kind: ir.Type) -> ir.Value:
    """F16, bf16 or f32 in another type that holds it."""
    single = emit.with_elements(kind, ir.F32Type.get())
    if value.type == kind:
        return value
    if emit.element_of(kind) == ir.BF16Type.get():
        return arith.truncf(kind, arith.extf(single, value))
    return arith.extf(kind, value)


def _integers(kind: ir.Type, bits: int) -> ir.Type:
    return emit.with_elements(kind, ir.IntegerType.get_signless(bits))


def _shifted(value: ir.Value, bits: int) -> ir.Value:
    """Integers, shifted to the left."""
    return arith.shli(value, emit.constant(value.type, bits))
