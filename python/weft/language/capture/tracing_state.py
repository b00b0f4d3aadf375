"""Whether a kernel is traced now, and whether it names its variables in its PTX, for a debugger. This doesn't
import MLIR: calls of compiled kernels ask, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from weft.language.messages.mistakes import mistake

CURRENT: ContextVar[Any] = ContextVar("weft_language_trace", default=None)
"""The `Trace` of the running code, or None."""


def is_tracing() -> bool:
    """Whether a kernel is traced now."""
    return CURRENT.get() is not None


def refuse_within(message: str) -> None:
    """Raises WeftError in a kernel, for what can't be done there."""
    if CURRENT.get() is not None:
        raise mistake(f"{message}: put what both compute into a function with @w.inline")


_kept: ContextVar[bool] = ContextVar("weft_language_variables", default=False)


@contextmanager
def keeping_variables() -> Iterator[None]:
    """Kernels that are traced inside the `with` block name their variables in their PTX."""
    token = _kept.set(True)
    try:
        yield
    finally:
        _kept.reset(token)


def keeps_variables() -> bool:
    """Whether kernels that are traced now name their variables."""
    return _kept.get()
