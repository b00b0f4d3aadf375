"""Errors of kernels, at the line of the user's code that was traced."""

from typing import Any

from weft import construction
from weft.errors import Diagnostic, Location, WeftError, shown


def mistake(message: str, *notes: tuple[str, Location | None]) -> WeftError:
    """An error at the user's line that is traced now. Notes are messages, each at a line of its own."""
    attached = tuple(Diagnostic(text, where, "note") for text, where in notes)
    return WeftError(Diagnostic(message, construction.here(), notes=attached))


def at(where: Location | None) -> str:
    """A source line in a message, such as ` (line 31)`; nothing if it isn't known."""
    return "" if where is None else f" (line {where.line})"


def check_flag(name: str, value: Any) -> None:
    """Raises WeftError unless an argument is True or False."""
    if not isinstance(value, bool):
        raise mistake(f"{name} must be True or False, got {shown(value)}")
