"""From a module to LLVM IR: the stages that need MLIR. `compiled` has those that follow."""

import io
from pathlib import Path

from weft import mlir, passes
from weft.cache import disk_cache as cache
from weft.compiler import checks, codegen, kernel_choice, pipeline, translation
from weft.compiler.compiled import Compiled, key_of, of_entry, to_entry
from weft.compiler.kernel_functions import is_lowered, kernels
from weft.compiler.read_launch import read_launch
from weft.dialects import context as new_context
from weft.dialects import dialects, instruction_ops
from weft.dialects.op import kind_of, target_of
from weft.dialects.tile import MatmulOp
from weft.errors import WeftError, shown
from weft.ir import instrumentation
from weft.mlir import gpu, ir, llvm, operations
from weft.passes import raise_linalg
from weft.passes.analysis import unlowered
from weft.passes.builders import votes
from weft.passes.plain.real import is_own_call
from weft.schedules import tuned_files
from weft.system import garbage, phase
from weft.target import Target, with_default_note

Source = ir.Module | str | Path


def compile_module(
    module: Source,
    arch: str | None = None,
    *,
    name: str = "-",
    default: str | None = None,
    rows: str = "aligned",
    own: bool = False,
    kernel: str | None = None,
) -> Compiled:
    """Takes a module (an `ir.Module`, .mlir text, or a Path) down to LLVM IR for a chip.

    The chip is `arch`, or otherwise the one that the module's `gpu.module` names, or otherwise `default`.
    `rows` of matrices may be "aligned" for the fastest kernel, or "any". Of several `gpu.module`s, the one
    with `kernel` is compiled; host code is left out. A module that is the caller's `own`, whose context no
    other thread uses, is changed; others are copied. Raises WeftError with the source location of each
    mistake.
    """
    ours = own or isinstance(module, Path | str)
    if isinstance(module, Path):
        name, module = str(module), mlir.parse_file(module, new_context())
    elif isinstance(module, str):
        module = mlir.parse(module, new_context(), name)
    elif not _is_module(module):
        wanted = "a weft.Module, an MLIR module, .mlir text or a Path"
        raise WeftError(f"module must be {wanted}, got {shown(module)}")
    if kernel_choice.is_mixed(module):
        module, ours = module if ours else _apart(module), True
        kernel_choice.pick(module, kernel, name, "kernel")
    if raise_linalg.wanted(module):
        module, ours = module if ours else _apart(module), True
        raise_linalg.raise_or_refuse(module)
    with mlir.only_reachable_blocks(module):
        _check(module)
        target, assumed = _target(module, arch, default)
        try:
            return _compile(module, target, name, rows, ours=ours)
        except WeftError as error:
            raise (with_default_note(error, target) if assumed else error) from None


def lower_in_place(module: ir.Module, arch: str) -> Compiled:
    """Lowers a module of one `gpu.module` to LLVM's dialect in place, and returns what it is compiled to."""
    _check(module)
    return _lowered(module, Target.of(arch), "-", "aligned")


def _check(module: ir.Module | ir.OpView) -> None:
    """Raises WeftError for what the passes would only find later, or not at all."""
    checks.names(module)
    unlowered.check(module)
    checks.sizes(module)


def _is_module(value: ir.Module | ir.OpView) -> bool:
    known = isinstance(value, ir.Module | ir.Operation | ir.OpView)
    return known and value.operation.name == "builtin.module"


def _compile(module: ir.Module | ir.OpView, target: Target, name: str, rows: str, *, ours: bool) -> Compiled:
    """Compiles a module as `compile_module` does. One that is `ours` may be changed."""
    on_disk = cache.default()
    # What is to be shown of the passes shows only where they run.
    if on_disk.directory is None or not decides_all(module) or instrumentation.current().watches:
        return _lowered(module if ours else _apart(module), target, name, rows)
    compiled: list[Compiled] = []
    key = key_of(bytecode(module), target, name, rows)  # LLVM IR has the locations of operations

    def lower() -> bytes:
        if not phase.shared():  # a process that only lowers needs no LLVM
            codegen.start()
        compiled.append(_lowered(module if ours else _apart(module), target, name, rows))
        return to_entry(compiled[0].record())

    entry = on_disk.get_or_make("llvm", key, lower)
    return compiled[0] if compiled else of_entry(entry)


def decides_all(module: ir.Module | ir.OpView) -> bool:
    """Whether only the module and Weft's code determine what it is lowered to. A product without a schedule
    also depends on the files of tuned schedules, where any are asked.
    """
    if not tuned_files.asks_files():
        return True
    return all("schedule" in op.attributes for op in operations(module, MatmulOp))


def _lowered(module: ir.Module | ir.OpView, target: Target, name: str, rows: str) -> Compiled:
    """Lowers the module to LLVM IR in place, and returns it with its kernels' launches."""
    # One full collection of garbage takes as long as all passes, where PyTorch is imported.
    with garbage.uncollected():
        return _lowered_in_place(module, target, name, rows)


def _lowered_in_place(module: ir.Module | ir.OpView, target: Target, name: str, rows: str) -> Compiled:
    written = bytecode(module)
    checks.shared_bytes(module, {}, target)  # a buffer's gigabytes would wrap around in the kernel's sum
    passes.check_printed(pipeline.text(target, rows))
    elements = pipeline.elements(target, rows)
    if all(isinstance(op, gpu.GPUModuleOp) for op in module.body.operations):
        # `_check` has looked at all operations of kernels, but not at those of functions that become kernels.
        elements.remove("refuse-unlowered")
    split = elements.index("lower-wmma")
    pipeline.run(module, ",".join(elements[:split]), name)
    holders = [op for op in module.body.operations if isinstance(op, gpu.GPUModuleOp)]
    if len(holders) != 1:
        raise WeftError(
            f"{name}: module must have one tile.matmul function or one gpu.module, got {len(holders)}"
        )
    functions = kernels(module)
    launches = {launch.name: launch for launch in map(read_launch, functions)}
    checks.shared_bytes(module, launches, target)
    if not launches:
        what = "a kernel (a gpu.func with the attribute 'kernel') or an llvm.func with 'nvvm.kernel'"
        raise WeftError(f"{name}: module must have {what}, got none")
    instructions = {kind_of(op.operation): op for op in operations(module, *instruction_ops(dialects()))}
    version = max((target.ptx, *(op.ptx_version for op in instructions.values())))
    if any(map(is_lowered, functions)):  # no operation is left that specifies the PTX that an intrinsic needs
        version = max(version, codegen.LAST_PTX)
    # Calls that our own passes haven't written name what they like, with operands as they like.
    calls = operations(module, llvm.CallIntrinsicOp)
    risky = not all(is_own_call(each) or votes.is_own_call(each) for each in calls)
    pipeline.run(module, ",".join(elements[split:]), name)
    checks.library_calls(module)
    holder = next(op for op in module.body.operations if isinstance(op, gpu.GPUModuleOp))
    text = translation.translate(holder, apart=risky)
    return Compiled(written, name, target, version, text, launches, rows)


def _apart(module: ir.Module | ir.OpView) -> ir.Module:
    """A copy in a context of its own: passes of several threads in one would get each other's errors."""
    with mlir.located():
        return ir.Module.parse(bytecode(module), new_context())


def bytecode(module: ir.Module | ir.OpView) -> bytes:
    """The module with its locations."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def _target(module: ir.Module | ir.OpView, arch: str | None, default: str | None) -> tuple[Target, bool]:
    """The chip to compile for, and whether it is the default; a module that names another than `arch` is
    refused.
    """
    named = [t for op in operations(module, gpu.GPUModuleOp) if (t := target_of(op.operation)) is not None]
    if arch is not None:
        target = Target.of(arch)
    elif named:
        target = named[0]
    elif default is not None:
        target = Target.of(default)
    else:
        raise WeftError("no chip to compile for: pass arch, for instance arch='sm_80'")
    for other in named:
        if other != target:
            raise WeftError(f"the module is for {other}, not for {target}: change or remove its #nvvm.target")
    return target, arch is None and not named
