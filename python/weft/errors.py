"""What Weft raises for a user's mistake, with the place it was made, and what it warns of."""

import numbers
import sys
import warnings
from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A place in a text that the user wrote; `line` and `column` count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One message, as MLIR prints it: `file:line:col: severity: message`, with its notes below."""

    message: str
    location: Location | None = None
    severity: str = "error"
    notes: tuple["Diagnostic", ...] = ()

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        return "\n".join([f"{place}{self.severity}: {self.message}", *map(str, self.notes)])


class WeftError(Exception):
    """A mistake in what Weft was given; `diagnostics` holds every message with its location.

    As text it is the diagnostics, of which the first says "error: " behind its location only: a traceback
    puts the exception's name before it.
    """

    def __init__(self, *diagnostics: Diagnostic | str) -> None:
        self.diagnostics = tuple(d if isinstance(d, Diagnostic) else Diagnostic(d) for d in diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)).removeprefix("error: "))


_MOST_SHOWN = 80


def shown(value: object) -> str:
    """A value that a caller gave, as a message has it: one line, not long, whatever the value is."""
    if not (_is_plain(value) or (isinstance(value, (list, tuple)) and all(map(_is_plain, value)))):
        return type(value).__qualname__
    try:
        text = ascii(value)
    except ValueError:  # of an integer with more digits than Python prints
        return "a number too long to print"
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 4]} ..."


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, bytes, numbers.Number, type))


class WeftInternalError(WeftError):
    """A defect of Weft's or of what it stands on: an exception that nobody foresaw, or a crash of MLIR.

    Its notes have the versions, and the file that a report of it needs.
    """


def warn(message: str) -> None:
    """Warns of what a user may want to mend, at the line outside of Weft that has led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "weft":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
