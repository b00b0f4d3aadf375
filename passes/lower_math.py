"""`--lower-math`: computes functions for which upstream's lowering would call CUDA's device library.

Numbers of f16 and bf16 are computed in f32 and rounded once, except by fma. Vectors are computed element by
element. A module that has functions of the library keeps its calls.
"""

from weft.dialects.op import refuse, target_of
from weft.mlir import arith, gpu, ir, operations, vector
from weft.passes.analysis.upstream_operations import has_library
from weft.passes.builders import emit
from weft.passes.plain import mathematics
from weft.passes.registry.pass_ import Pass

_NUMBERS = ("arith.maxnumf", "arith.minnumf")
_FMA = "math.fma"
_OF_BF16 = 80  # the first architecture with fma of bf16


def run(module: ir.Operation) -> None:
    """Lowers the functions in all kernels."""
    for kernel in operations(module, gpu.GPUModuleOp):
        found: list[ir.Operation] = []

        def visit(op: ir.Operation, found: list[ir.Operation] = found) -> ir.WalkResult:
            if op.name.startswith("math.") or op.name in _NUMBERS:
                found.append(op)
            return ir.WalkResult.ADVANCE

        if not has_library(kernel):
            kernel.operation.walk(visit)
        for op in found:
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_lowered(op))
            op.erase()


def _lowered(op: ir.Operation) -> ir.Value:
    kind = op.results[0].type
    if not isinstance(kind, ir.VectorType):
        return _element(op, list(op.operands))
    columns = [emit.elements(each) for each in op.operands]
    results = [_element(op, list(each)) for each in zip(*columns, strict=True)]
    return vector.from_elements(kind, results)


def _element(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """The function of numbers."""
    kind = operands[0].type
    short = isinstance(kind, ir.F16Type | ir.BF16Type)
    if not short or op.name == _FMA:
        if op.name == _FMA and isinstance(kind, ir.BF16Type):
            target = target_of(op)
            if target is not None and target.chip.number < _OF_BF16:
                raise refuse(op.opview, f"on bf16 needs sm_{_OF_BF16} or later, got {target}: extend to f32")
        return mathematics.lowered(op, operands)
    wide = ir.F32Type.get()
    found = mathematics.lowered(op, [arith.extf(wide, x) if x.type == kind else x for x in operands])
    return arith.truncf(kind, found) if found.type == wide else found


LOWER_MATH = Pass("lower-math", "compute functions of the math dialect without CUDA's device library", run)
