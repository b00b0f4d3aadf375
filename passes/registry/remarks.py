"""Remarks about how operations are lowered, for `--tile-explain-dispatch`."""

from collections.abc import Callable, Sequence
from typing import Any

from weft import instrumentation, mlir
from weft.errors import Diagnostic

Path = tuple[str, Sequence[str]]
"""The instructions that an operation becomes, and for each faster way why it isn't taken."""


def explain(op: Any, path: Callable[[], Path]) -> None:
    """Reports how `op` is lowered if remarks are enabled; `path` is called only then."""

    def remark() -> Diagnostic:
        taken, others = path()
        notes = tuple(Diagnostic(other, severity="note") for other in others)
        message = f"'{op.operation.name}' op is lowered to {taken}"
        return Diagnostic(message, mlir.location(op.location), "remark", notes)

    instrumentation.explain(remark)
