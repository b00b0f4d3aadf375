"""`--raise-linalg`: turns functions of linalg into functions of one `tile.matmul`.

A function may be on memrefs or on tensors, whose results become its last arguments. Fills, casts, transposes,
alpha, C, bias, activation and residual become part of the product. A function that isn't raised stays as it
is, with a remark that gives the reason.
"""

from dataclasses import replace
from typing import Any

from weft import mlir
from weft.dialects.tile import MatmulOp
from weft.errors import Diagnostic, WeftError
from weft.mlir import func, gpu, ir, operations
from weft.passes.raising.expressions import Buffer, Expression, Unraisable
from weft.passes.raising.products import Matmul, recognised
from weft.passes.raising.reading import Reader, Shape, argument_buffer, shape_of
from weft.passes.raising.writing import write
from weft.passes.registry import instrumentation
from weft.passes.registry.pass_ import Pass


def run(module: Any) -> None:
    """Raises every function that it can, and remarks on the others."""
    for remark in raised(module):
        instrumentation.remark(remark)


def wanted(module: Any) -> list[Any]:
    """The functions at the top of a module that contain linalg operations."""
    functions = [op for op in module.operation.regions[0].blocks[0].operations if isinstance(op, func.FuncOp)]
    return [each for each in functions if _has_linalg(each)]


def _has_linalg(function: Any) -> bool:
    found = False

    def visit(op: Any) -> Any:
        nonlocal found
        found = op.name.startswith("linalg.")
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    function.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def raised(module: Any) -> list[Diagnostic]:
    """Raises what it can, and returns a remark for each function of linalg that stays."""
    remarks = []
    called = {str(op.callee.value) for op in operations(module, func.CallOp)}
    for function in wanted(module):
        try:
            if mlir.symbol(function) in called:
                raise Unraisable("is called by another function, which would have to change")
            _raise(function)
        except Unraisable as reason:
            op = function.operation if reason.op is None else reason.op.operation
            message = f"'{op.name}' op isn't raised to tile.matmul: it {reason.message}"
            remarks.append(Diagnostic(message, mlir.location(op.location), "remark"))
    return remarks


def raise_or_refuse(module: Any, kernel: str | None = None) -> None:
    """Raises the functions of linalg in a module that is to be compiled, of which `kernel` may be the only
    one that matters. A module with kernels stays as it is. Raises WeftError with the reasons where a function
    stays.
    """
    functions = wanted(module)
    if not functions or operations(module, gpu.GPUModuleOp, MatmulOp):
        return  # what is beside a kernel is the host's
    for function in functions:
        if kernel is not None and mlir.symbol(function) != kernel:
            function.operation.erase()
    with ir.Location.unknown(module.context):
        reasons = raised(module)
    if reasons:
        raise WeftError(*(replace(reason, severity="error") for reason in reasons))


def _raise(function: Any) -> None:
    """Replaces a function. Raises Unraisable, and leaves the function as it is."""
    if len(function.body.blocks) != 1:
        raise Unraisable(f"must have one block; it has {len(function.body.blocks)}")
    outputs = Reader(function, _materialize).outputs()
    if len(outputs) != 1:
        raise Unraisable(f"must compute one matrix, in a memref or as its result; it computes {len(outputs)}")
    (output,) = outputs
    arguments = list(function.arguments)
    if output.value in arguments:
        d = argument_buffer(output.value)
        if output.op.name == "func.return":
            raise Unraisable("returns an argument", output.op)
    else:
        d = Buffer(output.value, shape_of(output.value.type), str(output.value.type.element_type))
        arguments.append(output.value)
    matmul: Matmul = recognised(output.expression, d, output.op)
    name = mlir.symbol(function)
    write(function, name, matmul, arguments)
    function.operation.erase()


def _materialize(expression: Expression, shape: Shape, op: Any) -> Buffer:
    raise Unraisable("has an operand that is computed; write it to memory in a function of its own", op)


RAISE_LINALG = Pass(
    "raise-linalg", "turn functions of linalg on memrefs or tensors into functions of one tile.matmul", run
)
