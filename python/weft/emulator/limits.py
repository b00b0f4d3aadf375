"""Progress and limits of launches that other functions make, such as `weft.matmul`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from weft.emulator.arguments import seconds, whole_number
from weft.errors import WeftError, shown

Progress = Callable[[int, int], None]
"""Called with the number of completed CTAs, and of all CTAs."""


@dataclass(frozen=True)
class Limits:
    """The options of a launch that don't change its results; None: not set."""

    progress: Progress | None = None
    max_seconds: float | None = None
    threads: int | None = None

    def over(self, others: "Limits") -> "Limits":
        """These, and the others where these are not set."""
        own = {name: value for name, value in vars(self).items() if value is not None}
        return replace(others, **own)


_NONE = Limits()
_now: ContextVar[Limits] = ContextVar("limits", default=_NONE)


def checked(progress: object, max_seconds: object, threads: object) -> Limits:
    """The options of one launch, which take precedence over those around it. Raises WeftError."""
    return _checked(progress, max_seconds, threads).over(_now.get())


def _checked(progress: object, max_seconds: object, threads: object) -> Limits:
    cores = None if threads is None else whole_number("threads", threads)
    if cores == 0:
        raise WeftError("threads must be at least 1, got 0")
    if progress is not None and not callable(progress):
        raise WeftError(f"progress must be a function of two numbers, got {shown(progress)}")
    return Limits(progress, seconds(max_seconds), cores)


@contextmanager
def limits(
    *, progress: Progress | None = None, max_seconds: float | None = None, threads: int | None = None
) -> Iterator[None]:
    """Sets options of `Module.launch` for all launches inside the `with` block that don't set them, also for
    those by `weft.matmul`, compiled kernels and frameworks. It affects only the current thread.

    Raises WeftError for values that `launch` rejects.
    """
    token = _now.set(_checked(progress, max_seconds, threads).over(_now.get()))
    try:
        yield
    finally:
        _now.reset(token)
