"""What Weft raises for a user's mistake, with the place it was made."""

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
    """A mistake in what Weft was given; `diagnostics` holds every message with its location."""

    def __init__(self, *diagnostics: Diagnostic | str) -> None:
        self.diagnostics = tuple(d if isinstance(d, Diagnostic) else Diagnostic(d) for d in diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))
