"""Whether kernels that are traced name their variables in their PTX, for a debugger (`variables`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_kept: ContextVar[bool] = ContextVar("weft_language_variables", default=False)


@contextmanager
def kept() -> Iterator[None]:
    """Kernels that are traced inside the `with` block name their variables in their PTX."""
    token = _kept.set(True)
    try:
        yield
    finally:
        _kept.reset(token)


def are_kept() -> bool:
    """Whether kernels that are traced now name their variables."""
    return _kept.get()
