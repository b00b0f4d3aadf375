"""Whether a kernel is traced now. It doesn't import MLIR: calls of compiled kernels ask, too."""

from contextvars import ContextVar
from typing import Any

from weft.language.mistakes import mistake

CURRENT: ContextVar[Any] = ContextVar("weft_language_trace", default=None)
"""The `Trace` of the running code, or None."""


def is_tracing() -> bool:
    """Whether a kernel is traced now."""
    return CURRENT.get() is not None


def refuse_within(message: str) -> None:
    """Raises WeftError in a kernel, for what can't be done there."""
    if CURRENT.get() is not None:
        raise mistake(f"{message}: put what both compute into a function with @w.inline")
