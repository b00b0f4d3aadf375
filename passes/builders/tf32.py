"""Rounding of f32 to tf32."""

from weft.dialects.op import target_of
from weft.isa.conversion import TF32_TO_EVEN
from weft.mlir import ir, llvm, nvvm
from weft.passes.builders import emit


def to_tf32(value: ir.Value) -> ir.Value:
    """An f32, or each of a vector's, rounded to the nearest tf32: an f32 as well. Values of another type are
    returned as they are.
    """
    if isinstance(value.type, ir.VectorType):
        if value.type.element_type != ir.F32Type.get():
            return value
        return emit.vector_of([to_tf32(each) for each in emit.elements(value)])
    if value.type != ir.F32Type.get():
        return value
    target = target_of(ir.InsertionPoint.current.block.owner)
    to_even = target is not None and target.chip.name in TF32_TO_EVEN
    mode = nvvm.FPRoundingMode.RN if to_even else nvvm.FPRoundingMode.RNA
    return llvm.bitcast(value.type, nvvm.convert_float_to_tf32(value, rnd=mode))
