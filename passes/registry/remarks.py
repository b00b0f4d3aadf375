"""Remarks about how operations are lowered, for `--tile-explain-dispatch`."""

from collections.abc import Callable, Sequence

from weft import mlir
from weft.errors import Diagnostic
from weft.ir import instrumentation
from weft.mlir import ir

Path = tuple[str, Sequence[str]]
"""The instructions that an operation becomes, and for each faster way why it isn't taken."""


def explain(op: ir.OpView, path: Callable[[], Path]) -> None:
    """Reports how `op` is lowered if remarks are enabled; `path` is called only then."""

    def said() -> Diagnostic:
        taken, others = path()
        return remark(op, f"is lowered to {taken}", others)

    instrumentation.explain(said)


def remark(op: ir.OpView, message: str, notes: Sequence[str]) -> Diagnostic:
    """A remark about an operation, with these notes and MLIR's own one, which shows the operation."""
    at = mlir.location(op.location)
    notes = [*notes, f"see current operation: {op.operation.get_asm(skip_regions=True)}"]
    said = (Diagnostic(each, at, "note") for each in notes)
    return Diagnostic(f"'{op.operation.name}' op {message}", at, "remark", tuple(said))
