"""The kernel of a module that is to be compiled, where it has several, or host code."""

from weft import mlir
from weft.compiler.kernel_functions import kernels
from weft.dialects.tile import MatmulOp
from weft.errors import Diagnostic, WeftError
from weft.isa.suggest import did_you_mean
from weft.mlir import func, gpu, ir, operations
from weft.passes.plain.functions import is_plain


def is_mixed(module: ir.Module | ir.OpView) -> bool:
    """Whether a module has something beside a `gpu.module`, or a module in it."""
    names = [op.operation.name for op in module.operation.regions[0].blocks[0].operations]
    return "builtin.module" in names or (len(names) > 1 and gpu.GPUModuleOp.OPERATION_NAME in names)


def pick(module: ir.Module, kernel: str | None, name: str, option: str) -> None:
    """Erases what doesn't belong to `kernel`, and host code: one `gpu.module`, or a function that becomes a
    kernel, remains. `option` is what selects a kernel. Raises WeftError for a module that has several, and
    for an unknown name.
    """
    holders = [holder for holder in operations(module, gpu.GPUModuleOp, func.FuncOp) if _kernels(holder)]
    names = [each for holder in holders for each in _kernels(holder)]
    if kernel is None and len(holders) > 1:
        second = mlir.location(holders[1].operation.location)
        what = f"the file has several kernels: select one with {option}: {', '.join(names)}"
        raise WeftError(Diagnostic(what, second))
    if kernel is not None and kernel not in names:
        meant = did_you_mean(kernel, names)
        raise WeftError(f"{name} has no kernel '{kernel}': it has {', '.join(names) or 'none'}{meant}")
    if not holders:
        return
    (chosen, *others) = [each for each in holders if kernel is None or kernel in _kernels(each)]
    if others:
        second = mlir.location(others[0].operation.location)
        raise WeftError(Diagnostic(f"the file has two kernels '{kernel}': give them different names", second))
    is_device = isinstance(chosen, gpu.GPUModuleOp)
    if chosen.operation.parent.operation != module.operation:
        chosen.operation.move_before(next(iter(module.body.operations)).operation)
    for op in list(module.body.operations):  # the functions that a `func.func` may call stay
        if op.operation != chosen.operation and (is_device or _kernels(op)):
            op.operation.erase()
    for inner in kernels(chosen):
        if kernel is not None and mlir.symbol(inner) != kernel:
            inner.operation.erase()


def _kernels(op: ir.OpView) -> list[str]:
    """The kernels that an operation holds or becomes."""
    if isinstance(op, func.FuncOp):
        return [mlir.symbol(op)] if is_plain(op) or operations(op, MatmulOp) else []
    if isinstance(op, gpu.GPUModuleOp):
        return [mlir.symbol(k) for k in kernels(op)]
    return []
