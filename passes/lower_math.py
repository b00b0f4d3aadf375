"""`--lower-math`: computes functions for which upstream's lowering would call CUDA's device library.

Numbers of f16 and bf16 are computed in f32 and rounded once, except by fma. Vectors are computed element by
element. A module that has functions of the library keeps its calls. With `fastmath<afn>`, f32 is computed by
the approximation that PTX has of the function, if there is one.
"""

from collections.abc import Callable

from weft import mlir
from weft.dialects.op import refuse, target_of
from weft.mlir import arith, gpu, ir, llvm, nvvm, operations, vector
from weft.passes.analysis.upstream_operations import has_library
from weft.passes.builders import emit
from weft.passes.plain import mathematics
from weft.passes.registry.pass_ import Pass, replace

_NUMBERS = ("arith.maxnumf", "arith.minnumf")
_FAST = ("afn>", "<fast>")
_FMA = "math.fma"
_OF_BF16 = 80  # the first architecture with fma of bf16
_OF_TANH = 75  # the first one with tanh


def _instruction(name: str) -> Callable[[ir.Value], ir.Value]:
    """An instruction on f32, as inline PTX."""

    def build(x: ir.Value) -> ir.Value:
        text = f"{name}.f32 $0, $1;"
        return llvm.inline_asm(x.type, [x], text, "=f,f", has_side_effects=False, is_align_stack=False)

    return build


_DIVISION = "arith.divf"
_APPROXIMATE: dict[str, Callable[[ir.Value], ir.Value]] = {
    "math.exp2": lambda x: nvvm.ex2(x, ftz=True),
    "math.log2": _instruction("lg2.approx.ftz"),
    "math.rsqrt": _instruction("rsqrt.approx.ftz"),
    "math.sin": _instruction("sin.approx.ftz"),
    "math.cos": _instruction("cos.approx.ftz"),
    "math.tanh": _instruction("tanh.approx"),
    _DIVISION: lambda x: nvvm.rcp_approx_ftz_f(x),
}
"""Approximations of functions of f32; of a quotient, where the dividend is 1."""


def run(module: ir.Operation) -> None:
    """Lowers the functions in all kernels."""
    for kernel in operations(module, gpu.GPUModuleOp):
        for op in () if has_library(kernel) else mlir.within(kernel):
            if op.name.startswith("math.") or op.name in _NUMBERS or _is_approximate(op):
                replace(op, _lowered)


def _lowered(op: ir.Operation) -> ir.Value:
    kind = op.results[0].type
    if not isinstance(kind, ir.VectorType):
        return _element(op, list(op.operands))
    columns = [emit.elements(each) for each in op.operands]
    results = [_element(op, list(each)) for each in zip(*columns, strict=True)]
    return vector.from_elements(kind, results)


def _is_approximate(op: ir.Operation) -> bool:
    """Whether an operation may be computed by an approximation, and PTX has one."""
    if op.name not in _APPROXIMATE or not str(op.attributes.get("fastmath", "")).endswith(_FAST):
        return False
    if emit.element_of(op.results[0].type) != ir.F32Type.get():
        return False
    target = target_of(op)
    if op.name == "math.tanh" and target is not None and target.chip.number < _OF_TANH:
        return False
    return op.name != _DIVISION or mlir.splat(op.operands[0]) == 1


def _element(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """The function of numbers."""
    if _is_approximate(op):
        return _APPROXIMATE[op.name](operands[-1])
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
