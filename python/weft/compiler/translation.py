"""From a module of LLVM's dialect to the text of LLVM IR."""

import re
import sys

from weft.compiler.llvm_floats import respelled
from weft.errors import Diagnostic, Location, WeftError
from weft.mlir import ir, llvm, location
from weft.system import phase, processes

_MODULES = ("builtin.module", "gpu.module")


def translate(op: ir.OpView, *, apart: bool = False) -> str:
    """The LLVM IR of a module of LLVM-dialect operations. Raises WeftError for any other operation.

    The check is needed because MLIR's translation crashes on unknown operations. It also crashes when it
    fails, for example on an unknown intrinsic: `apart` runs it in a separate process.
    """
    phase.enter("translating to LLVM IR")
    _check_lowered(op)
    if apart:
        return _translate_apart(op)
    return respelled(str(llvm.translate_module_to_llvmir(op.operation)))


def _check_lowered(op: ir.OpView) -> None:
    unlowered: list[Diagnostic] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        known = inner.name.startswith(("llvm.", "nvvm.")) or inner.name in _MODULES
        if not known:
            unlowered.append(Diagnostic(f"'{inner.name}' op isn't lowered to LLVM", location(inner.location)))
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit)
    if unlowered:
        raise WeftError(*unlowered)


_TIMEOUT_SECONDS = 300.0  # of a translation in a separate process


def _translate_apart(op: ir.OpView) -> str:
    """`translate` in a child process, which may crash."""
    text: str = op.operation.get_asm(enable_debug_info=True)
    command = processes.python("-m", "weft.compiler.translation")
    done = processes.run(command, text=text, timeout=_TIMEOUT_SECONDS, name="MLIR's translation")
    if done.returncode == 0:
        return done.stdout
    errors = re.findall(r'^loc\("(.*?)":(\d+):(\d+)\): error: (.*)$', done.stderr, re.MULTILINE)
    diagnostics = [
        Diagnostic(message, Location(file, int(row), int(column))) for file, row, column, message in errors
    ]
    reason = done.stderr.strip() or f"its process ended with {done.returncode}"
    raise WeftError(*(diagnostics or [Diagnostic(f"MLIR can't translate the module: {reason}")]))


if __name__ == "__main__":
    _parsed = ir.Module.parse(sys.stdin.read(), ir.Context())
    print(translate(_parsed.body.operations[0]), end="")
