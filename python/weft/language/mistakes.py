"""Errors of kernels, at the line of the user's code that was traced."""

from typing import Any

from weft.errors import Diagnostic, Location, WeftError, shown
from weft.ir import callers
from weft.system import late_imports


def mistake(message: str, *notes: tuple[str, Location | None]) -> WeftError:
    """An error at the user's line that is traced now. Notes are messages, each at a line of its own."""
    attached = tuple(Diagnostic(text, where, "note") for text, where in notes)
    return WeftError(Diagnostic(message, callers.here(), notes=attached))


class Unseen(WeftError):
    """A change of an object that a loop or branch of the GPU can't have, noticed at its end."""


def unseen(message: str) -> Unseen:
    """The error for such a change, at the user's line that is traced now."""
    return Unseen(Diagnostic(message, callers.here()))


def at(where: Location | None) -> str:
    """A source line in a message, such as ` (line 31)`; nothing if it isn't known."""
    return "" if where is None else f" (line {where.line})"


_MAKERS = {
    "Buffer": "w.shared(rows, columns, dtype) makes a buffer",
    "Fragment": "w.zeros, w.full and w.load make fragments",
    "Ring": "w.ring(stages, name=(rows, columns, dtype)) makes a ring",
    "Scalar": "w.i32(value) makes a number of the GPU",
}


def not_called(name: str) -> str:
    """The message about a call of a type of the language that is there for annotations."""
    instead = f": {_MAKERS[name]}" if name in _MAKERS else ""
    return f"w.{name} is a type for annotations, which can't be called{instead}"


def check_value(value: Any, name: str) -> None:
    """Raises WeftError unless a new value of a type of this name is one of MLIR, as Weft's own calls pass."""
    with late_imports.whole():
        from weft.mlir import ir

    if not isinstance(value, ir.Value):
        raise mistake(not_called(name))


def check_flag(name: str, value: Any) -> None:
    """Raises WeftError unless an argument is True or False."""
    if not isinstance(value, bool):
        raise mistake(f"{name} must be True or False, got {shown(value)}")
