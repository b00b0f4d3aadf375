"""The .mlir text that a command reads, and the kernel in it that the user picks."""

from pathlib import Path
from typing import Any

from weft import mlir
from weft.compiler.kernel_functions import kernels
from weft.dialects import context
from weft.dialects.tile import MatmulOp
from weft.errors import Diagnostic, WeftError
from weft.isa.suggest import did_you_mean
from weft.mlir import func, gpu, operations
from weft.passes import raise_linalg
from weft.passes.analysis import unlowered
from weft.passes.plain.functions import is_plain
from weft.tools import cli


def load(path: str, kernel: str | None = None, text: str | None = None) -> Any:
    """The module in a file or on stdin (`-`), of several kernels only `kernel`. Raises WeftError.

    `text` is the file's, where it has been read already.
    """
    text, name = cli.read(path) if text is None else text, cli.name_of(path)
    if cli.is_ptx(path, text):
        raise WeftError(f"'{name}' is PTX, not MLIR: weft emulate runs it, and weft lint checks it")
    # Locations carry a file's name; what isn't a file (a pipe) can be read only once.
    module = mlir.parse_file(path, context()) if Path(path).is_file() else mlir.parse(text, context(), name)
    with cli.speaking_of(name):
        raise_linalg.raise_or_refuse(module, kernel)
        _pick(module, kernel, name)
        unlowered.check(module)
    return module


def _pick(module: Any, kernel: str | None, name: str) -> None:
    """Erases what doesn't belong to the kernel that the user named."""
    holders = [op for op in module.body.operations if _kernels(op)]
    names = [k for op in holders for k in _kernels(op)]
    if kernel is None and len(holders) > 1:
        second = mlir.location(holders[1].operation.location)
        raise WeftError(
            Diagnostic(f"the file has several kernels: select one with --kernel: {', '.join(names)}", second)
        )
    if kernel is None:
        return
    if kernel not in names:
        meant = did_you_mean(kernel, names)
        raise WeftError(f"{name} has no kernel '{kernel}': it has {', '.join(names) or 'none'}{meant}")
    for op in holders:
        if kernel not in _kernels(op):
            op.operation.erase()
            continue
        for inner in kernels(op):
            if mlir.symbol(inner) != kernel:
                inner.operation.erase()


def _kernels(op: Any) -> list[str]:
    """The kernels that a top-level operation holds or becomes."""
    if isinstance(op, func.FuncOp):
        return [mlir.symbol(op)] if is_plain(op) or operations(op, MatmulOp) else []
    if isinstance(op, gpu.GPUModuleOp):
        return [mlir.symbol(k) for k in kernels(op)]
    return []
