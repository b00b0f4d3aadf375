"""The passes that lower a module to LLVM's dialect, as a textual pipeline, and what runs parts of it."""

from weft import mlir, passes
from weft.mlir import ir
from weft.system import phase
from weft.target import Target


def text(target: Target, rows: str) -> str:
    """The whole pipeline for a chip. `rows` of matrices are "aligned", or "any"."""
    major, minor = target.ptx
    kernel = f"weft-kernel{{chip={target} rows={rows}}}"
    attach = f"nvvm-attach-target{{chip={target} features=+ptx{major}{minor}}}"
    return f"{kernel},{attach},weft-to-instructions,weft-to-llvm"


def elements(target: Target, rows: str) -> list[str]:
    """Its passes, one by one."""
    return [str(each) for each in passes.elements(text(target, rows))]


def run(module: ir.Module | ir.OpView, pipeline: str, name: str) -> None:
    """Runs passes on a module, in place, and verifies the result. Raises WeftError."""
    with mlir.located(name):
        manager = passes.manager(pipeline, module.context)
        # Verifying after every pass costs more than the passes; once at the end checks the result as well.
        manager.enable_verifier(False)
        manager.run(module.operation)
        phase.enter("verifying what the passes made")
        module.operation.verify()
