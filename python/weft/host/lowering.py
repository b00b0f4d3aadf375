"""From a module with host code to LLVM IR that calls functions of `weft.host.runtime`, by upstream's passes.

The kernels become `gpu.binary`s first. What is left of a dialect other than LLVM's is refused at its line.
"""

from typing import Any

from weft import mlir, passes
from weft.compiler import stages
from weft.compiler.llvm_floats import respelled
from weft.dialects.op import refuse, target_of
from weft.errors import Diagnostic, WeftError
from weft.host import sequential
from weft.host.lowered import ASSERT, Lowered
from weft.isa.suggest import did_you_mean
from weft.mlir import func, gpu, ir, operations
from weft.passes import weft_to_binary
from weft.system import phase
from weft.target import Target, with_default_note

_REMEDIES = {
    "async": "use async.execute and async.await alone, or the tokens of gpu (gpu.wait async)",
    "tile": "a host function launches kernels of gpu.modules: without --entry, a tile.matmul runs by itself",
    "tensor": "bufferize it with upstream's passes (weft-opt --one-shot-bufferize)",
    "bufferization": "lower it with upstream's passes (weft-opt --one-shot-bufferize)",
    "transform": "run it before (weft-opt --transform-interpreter)",
}
_BEFORE = (("nvgpu.", "convert-nvgpu-to-nvvm"), ("gpu.launch", "gpu-kernel-outlining"))
# Loops and memory, then numbers, then what is LLVM's dialect already.
_HOST = (
    "convert-linalg-to-loops,lower-affine,convert-vector-to-scf,convert-scf-to-cf,expand-strided-metadata,"
    "lower-affine,func.func(arith-expand{include-bf16=true}),convert-math-to-llvm,convert-math-to-libm,"
    "convert-vector-to-llvm,convert-complex-to-llvm,convert-index-to-llvm,convert-arith-to-llvm,"
    "finalize-memref-to-llvm{use-generic-functions=1},convert-cf-to-llvm,convert-func-to-llvm,gpu-to-llvm,"
    "convert-ub-to-llvm,reconcile-unrealized-casts"
)
_NUMBERS = {"index": "i64", "f32": "float", "f64": "double"} | {f"i{n}": f"i{n}" for n in (1, 8, 16, 32, 64)}
_LEFT = ("llvm.", "gpu.binary", "gpu.launch_func", "builtin.module")


def lower(
    module: Any, entry: str, arch: str | None, default: str, name: str, *, machine_code: bool
) -> Lowered:
    """Lowers the module that holds a function, which takes no arguments. `arch` is the chip of the kernels,
    otherwise what their modules name, otherwise `default`. Raises WeftError for what can't run.
    """
    holder, result = _found(module, entry, name)
    _leave_out_the_rest(holder, entry)
    with ir.Location.unknown(module.context):
        sequential.inline_async(holder)
    for prefix, pipeline in _BEFORE:
        if _uses(holder, prefix):
            _run(holder, pipeline, name)
    chips = _set_targets(holder, arch, default)
    mapped: set[str] = set()

    def compile(kernels: Any, chip: str) -> Any:
        compiled = stages.lower_in_place(kernels, chip)
        mapped.update(name for name, launch in compiled.launches.items() if launch.maps)
        return compiled

    weft_to_binary.compiled_by(compile)
    form = "bin" if machine_code else "isa"
    try:
        _run(holder, f"weft-to-binary{{format={form}}}", name)
    except WeftError as error:
        raise (error if arch else with_default_note(error, Target.of(default))) from None
    for launch in operations(holder, gpu.LaunchFuncOp):
        if (kernel := launch.kernel.value[-1]) in mapped:
            what = f"can't launch '{kernel}', whose arguments are followed by tensor maps"
            raise refuse(launch, f"{what}: make it by --weft-kernel=rows=any, or launch it by weft.compile")
    with ir.Location.unknown(module.context):
        sequential.rewrite(holder)
        assertions = sequential.number_assertions(holder, ASSERT)
    _run(holder, _HOST, name)
    _refuse_what_is_left(holder)
    phase.enter("translating host code to LLVM IR")
    text = respelled(str(mlir.llvm.translate_module_to_llvmir(holder)))
    return Lowered(text, entry, result, chips, assertions)


def _found(module: Any, entry: str, name: str) -> tuple[Any, str]:
    """The module around a function, and the type of the function's result in LLVM IR."""
    defined = [each for each in operations(module, func.FuncOp) if each.body.blocks]
    functions = [each for each in defined if each.operation.parent.name == "builtin.module"]
    named = [each for each in functions if mlir.symbol(each) == entry]
    if not named:
        names = [mlir.symbol(each) for each in functions]
        known = f"it has {', '.join(names) or 'none'}{did_you_mean(entry, names)}"
        raise WeftError(f"{name} has no function '{entry}': {known}")
    kind = named[0].function_type.value
    results = [_NUMBERS.get(str(each)) for each in kind.results] or ["void"]
    if kind.inputs or len(results) > 1 or results[0] is None:
        legal = "no arguments, and return nothing or one number"
        what = f"function '{entry}' must take {legal} to be run, got {kind}"
        raise WeftError(Diagnostic(what, mlir.location(named[0].location)))
    return named[0].operation.parent.operation, results[0]


def _leave_out_the_rest(holder: ir.OpView, entry: str) -> None:
    """Erases what the function doesn't use."""
    for op in list(holder.regions[0].blocks[0].operations):
        if op.operation.name == "builtin.module":
            op.operation.erase()
    private = ir.StringAttr.get("private", holder.context)
    for op in holder.regions[0].blocks[0].operations:
        if isinstance(op, gpu.BinaryOp):  # the verifier of launches finds none that is private
            continue
        if "sym_name" in op.operation.attributes and mlir.symbol(op) != entry:
            op.operation.attributes["sym_visibility"] = private
    passes.manager("symbol-dce", holder.context).run(holder)
    for op in holder.regions[0].blocks[0].operations:
        if isinstance(op, gpu.GPUModuleOp):
            del op.operation.attributes["sym_visibility"]


def _uses(holder: ir.OpView, prefix: str) -> bool:
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or op.name == prefix or (prefix.endswith(".") and op.name.startswith(prefix))
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    holder.walk(visit)
    return found


def _set_targets(holder: ir.OpView, arch: str | None, default: str) -> tuple[str, ...]:
    """Gives each `gpu.module` that names no chip one, and returns the chips of all."""
    chips = []
    for each in operations(holder, gpu.GPUModuleOp):
        named = target_of(each.operation)
        if arch is not None and named not in (None, Target.of(arch)):
            what = f"the module is for {named}, not for {arch}: change or remove its #nvvm.target"
            raise WeftError(Diagnostic(what, mlir.location(each.location)))
        target = named or Target.of(arch or default)
        if named is None:
            major, minor = target.ptx
            text = f'[#nvvm.target<O = 3, chip = "{target}", features = "+ptx{major}{minor}">]'
            each.operation.attributes["targets"] = ir.Attribute.parse(text, holder.context)
        chips.append(str(target))
    return tuple(dict.fromkeys(chips))


def _run(holder: ir.OpView, pipeline: str, name: str) -> None:
    with mlir.located(name):
        manager = passes.manager(pipeline, holder.context)
        manager.run(holder)


def _refuse_what_is_left(holder: ir.OpView) -> None:
    """Raises WeftError for operations that no pass has lowered."""
    left: list[Diagnostic] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if not op.name.startswith(_LEFT):
            remedy = _REMEDIES.get(op.name.partition(".")[0])
            what = f"'{op.name}' op can't run in a host function"
            left.append(Diagnostic(f"{what}: {remedy}" if remedy else what, mlir.location(op.location)))
            return ir.WalkResult.SKIP
        return ir.WalkResult.ADVANCE

    holder.walk(visit, ir.WalkOrder.PRE_ORDER)
    if left:
        raise WeftError(*dict.fromkeys(left))
