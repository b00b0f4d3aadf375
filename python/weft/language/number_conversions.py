"""Numbers of the GPU, alone or in vectors, in other element types."""

from typing import Any

from weft.isa.chips import describe
from weft.isa.conversion import FP8_ROUNDING
from weft.language import trace
from weft.language.mistakes import mistake
from weft.language.scalars import DType, dtype_of, e4m3, f16, f32, i1
from weft.mlir import arith, ir
from weft.passes.builders import emit
from weft.passes.kernels import fragments

_E4M3_NAN = 0x7F
_F16_NAN = 0x7FFF  # as `cvt` returns it
_E4M3_SCALE = 256.0  # 2 to the power of the difference of the exponents' biases


def converted(value: Any, dtype: DType) -> Any:
    """An SSA value, a scalar or a vector, in another type. Floats are rounded once; those beyond the range of
    fp8 become its largest value.
    """
    old = dtype_of(value.type)
    if old == dtype:
        return value
    if dtype == i1 and old.is_float:
        raise mistake(f"can't convert {old} to {dtype}: compare it with a number")
    if _is_fp8(old) or _is_fp8(dtype):
        return _of_pairs(value, dtype)
    kind = _kind(value, dtype)
    if old.is_float and dtype.is_float:
        if old.bits == dtype.bits:
            return converted(converted(value, f32), dtype)
        return (arith.extf if dtype.bits > old.bits else arith.truncf)(kind, value)
    if old.is_float:
        return arith.fptosi(kind, value)
    if dtype.is_float:
        return (arith.uitofp if old == i1 else arith.sitofp)(kind, value)
    if dtype.bits < old.bits:
        return arith.trunci(kind, value)
    return (arith.extui if old == i1 else arith.extsi)(kind, value)


def _kind(value: Any, dtype: DType) -> Any:
    """The MLIR type of a value's shape with elements of this type."""
    return ir.VectorType.get(value.type.shape, dtype.type) if _is_vector(value) else dtype.type


def _is_vector(value: Any) -> bool:
    return isinstance(value.type, ir.VectorType)


def _is_fp8(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 8


def _of_pairs(value: Any, dtype: DType) -> Any:
    """A conversion from or to fp8, of which instructions convert two numbers at once."""
    numbers = emit.elements(value)
    padded = emit.vector_of([*numbers, *numbers[: len(numbers) % 2]])
    if _is_fp8(dtype_of(value.type)):
        made = converted(_from_fp8(padded), dtype)
    else:
        made = _to_fp8(converted(padded, f32), dtype)
    elements = emit.elements(made)[: len(numbers)]
    return emit.vector_of(elements) if _is_vector(value) else elements[0]


def _to_fp8(lane: Any, dtype: DType) -> Any:
    """A vector of f32 in fp8."""
    chip = trace.current().chip
    if chip not in FP8_ROUNDING:
        raise mistake(
            f"conversion to {dtype} needs {describe(FP8_ROUNDING)}, got {chip}: use w.f16 or w.bf16"
        )
    return fragments.convert(lane, _kind(lane, dtype))


def _from_fp8(lane: Any) -> Any:
    """A vector of fp8 in f16, which holds all of its values. Chips without the instruction compute it from
    the bits.
    """
    halves = _kind(lane, f16)
    if trace.current().chip in FP8_ROUNDING:
        return fragments.convert(lane, halves)
    kind = _integers(lane, 16)
    bits = arith.extui(kind, arith.bitcast(_integers(lane, 8), lane))
    if dtype_of(lane.type) != e4m3:  # the upper byte of f16
        return arith.bitcast(halves, _shifted(bits, 8))
    magnitude = arith.andi(bits, emit.constant(kind, _E4M3_NAN))
    sign = _shifted(arith.subi(bits, magnitude), 8)
    scaled = arith.bitcast(halves, arith.ori(sign, _shifted(magnitude, 7)))
    number = arith.mulf(scaled, emit.constant(halves, _E4M3_SCALE))
    is_nan = arith.cmpi(arith.CmpIPredicate.eq, magnitude, emit.constant(kind, _E4M3_NAN))
    return arith.select(is_nan, arith.bitcast(halves, emit.constant(kind, _F16_NAN)), number)


def _integers(lane: Any, bits: int) -> Any:
    """A vector type of integers, as many as in a vector."""
    return ir.VectorType.get(lane.type.shape, ir.IntegerType.get_signless(bits))


def _shifted(value: Any, bits: int) -> Any:
    """Integers, shifted to the left."""
    return arith.shli(value, emit.constant(value.type, bits))
