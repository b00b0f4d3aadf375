"""`--raise-linalg`: turns functions of linalg into functions of one `tile.matmul`, and plain ones.

A function of several products becomes several functions, with numbers after its name; `weft.sources` lists
where their arguments come from. What no product takes becomes plain functions, each of which computes one
tensor; `--outline-linalg` makes kernels of them. A remark gives the reason for each. `plain=false` leaves
functions as they are that would need such kernels.

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
from weft.ir import instrumentation
from weft.mlir import func, gpu, ir, operations, shape_of
from weft.passes.plain.functions import is_plain
from weft.passes.raising.expressions import Buffer, Unraisable
from weft.passes.raising.mixed import Decisions, MixedReader, RestartError
from weft.passes.raising.plain import Plain, Source, written
from weft.passes.raising.products import Matmul
from weft.passes.raising.reading import Reader, is_shaped
from weft.passes.raising.steps import Result, Steps, write
from weft.passes.raising.tensors import has_memrefs, on_tensors
from weft.passes.registry.pass_ import Pass


@dataclass(frozen=True)
class Step:
    """A function of one kernel. `sources` has for each of its arguments where it comes from: "argument 0" of
    the function that was raised, "product 0" or "tensor 0" for what an earlier kernel writes, or "result 0";
    for numbers from the host, how they are computed. `labels` has these names by the sources of buffers.
    """

    name: str
    sources: tuple[Source, ...]
    kernel: Matmul | Plain
    labels: Mapping[object, str]


@dataclass(frozen=True)
class Raised:
    """A function that was raised: its kernels in order, where its results are, and remarks on what became
    plain kernels.
    """

    steps: tuple[Step, ...]
    results: tuple[Source, ...]
    remarks: tuple[Diagnostic, ...] = ()


def run(module: ir.Operation, plain: str = "true") -> None:
    """Raises every function that it can, and remarks on the others."""
    if plain not in ("true", "false"):
        raise WeftError(f"pass 'raise-linalg': plain must be true or false; got {plain}")
    raised, remarks = programs(module, plain=plain == "true")
    for remark in (*(each for one in raised.values() for each in one.remarks), *remarks):
        instrumentation.remark(remark)


def wanted(module: ir.Module | ir.OpView) -> list[ir.OpView]:
    """The functions at the top of a module that contain linalg operations."""
    functions = [op for op in module.operation.regions[0].blocks[0].operations if isinstance(op, func.FuncOp)]
    return [each for each in functions if _has_linalg(each) and not is_plain(each)]


def _has_linalg(function: ir.OpView) -> bool:
    return any(op.name.startswith("linalg.") for op in mlir.within(function))


def programs(module: ir.Module | ir.OpView, *, plain: bool) -> tuple[dict[str, Raised], list[Diagnostic]]:
    """Raises what it can, with plain kernels where `plain`: the functions that were raised, by their names,
    and a remark for each that stays.
    """
    remarks: list[Diagnostic] = []
    raised: dict[str, Raised] = {}
    called = {str(op.callee.value) for op in operations(module, func.CallOp)}
    for function in wanted(module):
        name = mlir.symbol(function)
        try:
            if name in called:
                raise Unraisable("is called by another function, which would have to change")
            taken = {mlir.symbol(each) for each in operations(module, func.FuncOp)} - {name}
            raised[name] = _raise(function, taken, plain=plain)
        except Unraisable as reason:
            op = function.operation if reason.op is None else reason.op.operation
            message = f"'{op.name}' op isn't raised to tile.matmul: it {reason.message}"
            remarks.append(Diagnostic(message, mlir.location(op.location), "remark"))
    return raised, remarks


_HINT = "compile the function with weft.from_linalg: plain kernels compute what no product contains"


def raise_or_refuse(module: ir.Module, kernel: str | None = None) -> None:
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
        raised, reasons = programs(module, plain=False)
        if reasons:
            _, left = programs(module.operation.clone(), plain=True)
            notes = () if left else (Diagnostic(_HINT, severity="note"),)
            raise refusal([replace(each, notes=notes) for each in reasons])
    for name, one in raised.items():
        steps = one.steps
        if len(steps) > 1 and kernel not in (several := [step.name for step in steps]):
            what = f"function {name} becomes {len(steps)} kernels: {', '.join(several)}"
            raise WeftError(
                f"{what}; select one of them, or compile all to one callable with weft.from_linalg"
            )


def refusal(reasons: Sequence[Diagnostic]) -> WeftError:
    """The error of a tool that needs what these remarks are about."""
    return WeftError(*(replace(reason, severity="error") for reason in reasons))


def _raise(function: ir.OpView, taken: set[str], *, plain: bool) -> Raised:
    """Replaces a function. Raises Unraisable, and leaves the function as it is."""
    if len(function.body.blocks) != 1:
        raise Unraisable(f"must have one block; it has {len(function.body.blocks)}")
    try:
        return _products(function, taken, once=plain)
    except Unraisable as failure:
        if not plain:
            raise
        reason = failure
    try:
        if not has_memrefs(function):
            return _mixed(function, function, [], taken)
        tensors, numbers = on_tensors(function)
        try:
            return _mixed(function, tensors, numbers, taken)
        finally:
            tensors.operation.erase()
    except Unraisable as failure:
        if reason.message == _TWICE:
            return _products(function, taken, once=False)
        raise failure if not has_memrefs(function) else reason from None


_TWICE = "would be computed by two kernels"


def _products(function: ir.OpView, taken: set[str], *, once: bool) -> Raised:
    """Replaces a function of products. Raises Unraisable for others, and where `once`, for those that compute
    a product for several results.
    """
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
    computed = [kernel.op for kernel in steps.kernels]
    if once and (several := [op for op in computed if computed.count(op) > 1]):
        raise Unraisable(_TWICE, several[0])
    labels: dict[Any, str] = {source: f"argument {i}" for i, source in enumerate(arguments)}
    labels |= steps.memory
    labels |= {source: f"result {i}" for i, source in enumerate(results)}
    name, kernels = mlir.symbol(function), steps.kernels
    if len(kernels) == 1:
        done = _written(function, [name], [[*arguments, *results]], kernels, labels)
    else:
        done = _written(function, _names(name, kernels, taken), _used(kernels, labels), kernels, labels)
    raised = Raised(done, tuple(Source(labels[each], shape_of(each.type)) for each in results))
    function.operation.erase()
    return raised


def _mixed(function: ir.OpView, tensors: ir.OpView, numbers: Sequence[int], taken: set[str]) -> Raised:
    """Replaces a function with plain kernels, as well. `tensors` is the function on tensors, whose last
    results are what it leaves in the arguments of these numbers.
    """
    decisions = Decisions()
    arguments = list(tensors.arguments)
    while True:
        steps = Steps()
        try:
            results = _collected(tensors, numbers, steps, decisions)
            labels: dict[Any, str] = {source: f"argument {i}" for i, source in enumerate(arguments)}
            labels |= steps.memory
            labels |= {each.source: f"result {each.source.number}" for each in results if _is_own(each)}
            name, kernels = mlir.symbol(function), steps.kernels
            names = [name] if len(kernels) == 1 else _names(name, kernels, taken)
            done = _written(function, names, _used(kernels, labels), kernels, labels)
            break
        except RestartError:
            continue
        except Unraisable as reason:
            if not decisions.learn(reason):
                raise
    function.operation.erase()
    remarks = tuple(_remark(step.name, step.kernel) for step in done if isinstance(step.kernel, Plain))
    return Raised(done, tuple(_source(labels[each.source], each) for each in results), remarks)


def _is_own(buffer: Buffer) -> bool:
    """Whether memory is that of a result alone."""
    return isinstance(buffer.source, Result)


def _collected(
    tensors: ir.OpView, numbers: Sequence[int], steps: Steps, decisions: Decisions
) -> list[Buffer]:
    """Collects the kernels of a function on tensors. Returns the memory of its results, without those that
    are what it leaves in the arguments of these numbers.
    """
    reader = MixedReader(tensors, steps, decisions)
    outputs = reader.outputs()
    results, written = [], []
    first = len(outputs) - len(numbers)
    for i, output in enumerate(outputs):
        if not is_shaped(output.value):
            raise Unraisable("must return matrices only, as tensors of known rank", output.op)
        buffer = reader.needed(output.value, output.op, set())
        if i < first:
            steps.leave(buffer, Result(i))
            results.append(reader.sized(output.value, buffer))
            continue
        target = tensors.arguments[numbers[i - first]]
        if buffer.source == target:
            continue
        # What an argument was must be read before it is written.
        buffer = reader.copied(output.value) if buffer.source in list(tensors.arguments) else buffer
        written.append((target, output.value, buffer))
    for target, value, buffer in written:
        if not steps.leave(buffer, target):
            steps.leave(reader.copied(value), target)
    return [steps.place(each) for each in results]


def _source(label: str, buffer: Buffer | None) -> Source:
    return Source(label) if buffer is None else Source(label, buffer.shape, sizes=buffer.sizes)


def _remark(name: str, kernel: Plain) -> Diagnostic:
    op, reason = kernel.op, kernel.reason.split("; ")[0]
    message = f"'{op.name}' op becomes the plain kernel {name}: it {reason}"
    return Diagnostic(message, mlir.location(op.location), "remark")


def _names(name: str, kernels: Sequence[Matmul | Plain], taken: set[str]) -> list[str]:
    """The functions that a function becomes."""
    names = [f"{name}_{number}" for number in range(len(kernels))]
    if exist := sorted(taken.intersection(names)):
        raise Unraisable(f"would become several functions, of which '{exist[0]}' exists")
    return names


def _used(kernels: Sequence[Matmul | Plain], labels: Mapping[object, str]) -> list[list[object]]:
    """The sources of each kernel's buffers, in the order of the labels."""
    order = list(labels)
    return [sorted({each.source for each in kernel.buffers}, key=order.index) for kernel in kernels]


def _written(
    function: ir.OpView,
    names: Sequence[str],
    arguments: Sequence[list[object]],
    kernels: Sequence[Matmul | Plain],
    labels: Mapping[object, str],
) -> tuple[Step, ...]:
    """Writes functions of one kernel with these names and arguments before a function. Raises Unraisable,
    and leaves none, where one can't be written.
    """
    made, steps = [], []
    try:
        for name, sources, kernel in zip(names, arguments, kernels, strict=True):
            if isinstance(kernel, Plain):
                each, known = written(function, name, kernel, labels)
            else:
                each = write(function, name, kernel, sources)
                used = {buffer.source: buffer for buffer in kernel.buffers}
                known = tuple(_source(labels[source], used.get(source)) for source in sources)
            made.append(each)
            steps.append(Step(name, known, kernel, labels))
    except Unraisable:
        for each in made:
            each.operation.erase()
        raise
    for each, step in zip(made, steps, strict=True):
        if len(steps) > 1 or isinstance(step.kernel, Plain):
            texts = [ir.StringAttr.get(source.label) for source in step.sources]
            each.operation.attributes["weft.sources"] = ir.ArrayAttr.get(texts)
    return tuple(steps)


RAISE_LINALG = Pass(
    "raise-linalg",
    "turn functions of linalg on memrefs or tensors into functions of one tile.matmul, and plain ones",
    run,
    {"plain": "true"},
)
