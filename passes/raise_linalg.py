"""`--raise-linalg`: turns functions of linalg into functions of one `tile.matmul`.

A function of several products becomes several functions, with numbers after its name; `weft.sources` lists
where their arguments come from.
A function may be on memrefs or on tensors, whose results become its last arguments. Fills, casts, transposes,
alpha, C, bias, activation and residual become part of the product. A function that isn't raised stays as it
is, with a remark that gives the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft import mlir
from weft.dialects.tile import MatmulOp
from weft.errors import Diagnostic, WeftError
from weft.mlir import func, gpu, ir, operations
from weft.passes.raising.expressions import Unraisable
from weft.passes.raising.products import Matmul
from weft.passes.raising.reading import Reader
from weft.passes.raising.steps import Steps
from weft.passes.raising.writing import write
from weft.passes.registry import instrumentation
from weft.passes.registry.pass_ import Pass


@dataclass(frozen=True)
class Step:
    """A function of one product. `sources` has for each of its arguments where it comes from: "argument 0" of
    the function that was raised, "product 0" for what an earlier function writes, or "result 0". `labels` has
    these names by the sources of the product's buffers.
    """

    name: str
    sources: tuple[str, ...]
    matmul: Matmul
    labels: Mapping[Any, str]


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
    return programs(module)[1]


def programs(module: Any) -> tuple[dict[str, list[Step]], list[Diagnostic]]:
    """Raises what it can: the products of each function that was raised, by its name, and a remark for each
    that stays.
    """
    remarks: list[Diagnostic] = []
    written: dict[str, list[Step]] = {}
    called = {str(op.callee.value) for op in operations(module, func.CallOp)}
    for function in wanted(module):
        name = mlir.symbol(function)
        try:
            if name in called:
                raise Unraisable("is called by another function, which would have to change")
            taken = {mlir.symbol(each) for each in operations(module, func.FuncOp)} - {name}
            written[name] = _raise(function, taken)
        except Unraisable as reason:
            op = function.operation if reason.op is None else reason.op.operation
            message = f"'{op.name}' op isn't raised to tile.matmul: it {reason.message}"
            remarks.append(Diagnostic(message, mlir.location(op.location), "remark"))
    return written, remarks


def raise_or_refuse(module: Any, kernel: str | None = None) -> None:
    """Raises the functions of linalg in a module that is to be compiled, of which `kernel` may be the only
    one that matters. A module with kernels stays as it is. Raises WeftError with the reasons where a function
    stays.
    """
    functions = wanted(module)
    if not functions or operations(module, gpu.GPUModuleOp, MatmulOp):
        return  # what is beside a kernel is the host's
    for function in functions:
        if kernel is not None and not f"{kernel}_".startswith(f"{mlir.symbol(function)}_"):
            function.operation.erase()
    with ir.Location.unknown(module.context):
        written, reasons = programs(module)
    if reasons:
        raise refusal(reasons)
    for name, steps in written.items():
        if len(steps) > 1 and kernel not in (several := [step.name for step in steps]):
            what = f"function {name} becomes {len(steps)} kernels: {', '.join(several)}"
            raise WeftError(
                f"{what}; select one of them, or compile all to one callable with weft.from_linalg"
            )


def refusal(reasons: Sequence[Diagnostic]) -> WeftError:
    """The error of a tool that needs what these remarks are about."""
    return WeftError(*(replace(reason, severity="error") for reason in reasons))


def _raise(function: Any, taken: set[str]) -> list[Step]:
    """Replaces a function. Raises Unraisable, and leaves the function as it is."""
    if len(function.body.blocks) != 1:
        raise Unraisable(f"must have one block; it has {len(function.body.blocks)}")
    steps = Steps()
    outputs = Reader(function, steps.materialize).outputs()
    arguments = list(function.arguments)
    for output in outputs:
        if output.value in arguments and output.op.name == "func.return":
            raise Unraisable("returns an argument", output.op)
    if not outputs:
        raise Unraisable("must compute a matrix, in a memref or as its result")
    results = [each for each in map(steps.output, outputs) if each not in arguments]
    steps.check_order()
    labels: dict[Any, str] = {source: f"argument {i}" for i, source in enumerate(arguments)}
    labels |= {source: f"product {source.number}" for source in steps.memory}
    labels |= {source: f"result {i}" for i, source in enumerate(results)}
    name = mlir.symbol(function)
    if len(steps.matmuls) == 1:
        return _written(function, [name], [[*arguments, *results]], steps.matmuls, labels)
    names = [f"{name}_{number}" for number in range(len(steps.matmuls))]
    if exist := sorted(taken.intersection(names)):
        raise Unraisable(f"would become several functions, of which '{exist[0]}' exists")
    order = list(labels)
    used = [sorted({each.source for each in matmul.buffers}, key=order.index) for matmul in steps.matmuls]
    return _written(function, names, used, steps.matmuls, labels)


def _written(
    function: Any,
    names: Sequence[str],
    arguments: Sequence[list[Any]],
    matmuls: Sequence[Matmul],
    labels: Mapping[Any, str],
) -> list[Step]:
    """Replaces a function by functions of one product with these names and arguments."""
    written, done = [], []
    try:
        for name, sources, matmul in zip(names, arguments, matmuls, strict=True):
            written.append(write(function, name, matmul, sources))
            done.append(Step(name, tuple(labels[each] for each in sources), matmul, labels))
    except Unraisable:
        for each in written:
            each.operation.erase()
        raise
    if len(done) > 1:
        for each, step in zip(written, done, strict=True):
            texts = [ir.StringAttr.get(label) for label in step.sources]
            each.operation.attributes["weft.sources"] = ir.ArrayAttr.get(texts)
    function.operation.erase()
    return done


RAISE_LINALG = Pass(
    "raise-linalg", "turn functions of linalg on memrefs or tensors into functions of one tile.matmul", run
)
