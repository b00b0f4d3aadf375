"""Errors for users' mistakes, with source locations, and warnings."""

import numbers
import re
import sys
import warnings
from dataclasses import dataclass

BYTE_ORDER_MARK = "\ufeff"
BEGINS_WITH_MARK = "text must not begin with a byte order mark: save the file as UTF-8 without one"


@dataclass(frozen=True)
class Location:
    """A source location in the user's text. `line` and `column` are counted from 1."""

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
        prefix = f"{self.location}: " if self.location else ""
        return "\n".join([f"{prefix}{self.severity}: {self.message}", *map(str, self.notes)])


# A path as messages have it, before a line number, or IPython's own name of a cell.
_PATH = re.compile(r"(?:<ipython-input[^>]*>|[^\s:()\"']*[/\\]ipykernel_[^\s:()\"']*)(?=:\d)")


def with_cells(text: str) -> str:
    """A message in which cells of the notebook that runs have their names there, such as "Cell In[3]"."""
    notebook = sys.modules.get("IPython")
    shell = None if notebook is None else notebook.get_ipython()
    if shell is None:
        return text

    def named(match: re.Match[str]) -> str:
        found = shell.compile.format_code_name(match[0])
        return " ".join(found) if found else match[0]

    return _PATH.sub(named, text)


class WeftError(Exception):
    """A mistake in Weft's input. `diagnostics` contains every message with its source location.

    Its text is that of the diagnostics. The first one starts with "error: " only after a location, since
    tracebacks print the exception's name before it.
    """

    # Without a constructor, so that torch.compile can trace functions that raise it.

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Every message."""
        return tuple(each if isinstance(each, Diagnostic) else Diagnostic(each) for each in self.args)

    def __str__(self) -> str:
        return with_cells("\n".join(map(str, self.diagnostics)).removeprefix("error: "))


class about:
    """A block in which messages of WeftErrors get a subject in front, such as a call and its argument."""

    __slots__ = ("subject",)

    def __init__(self, subject: str) -> None:
        self.subject = subject

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, WeftError):
            raise WeftError(f"{self.subject}: {error.diagnostics[0].message}") from None


_MOST_SHOWN = 80


def shown(value: object) -> str:
    """A caller's value in a message: one short line for any value."""
    if not (_is_plain(value) or (isinstance(value, (list, tuple)) and all(map(_is_plain, value)))):
        return type(value).__qualname__
    try:
        text = ascii(value)
    except ValueError:  # of an integer with more digits than Python prints
        return "a number too long to print"
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 4]} ..."


def not_a_multiple(subject: str, size: int, unit: int, why: str = "") -> WeftError:
    """The error of a size that isn't a multiple of a unit, which `why` may explain."""
    near = -(-size // unit) * unit
    return WeftError(f"{subject} must be a multiple of {unit}{why}, got {size}; the next is {near}")


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, bytes, numbers.Number, type))


class WeftInternalError(WeftError):
    """A defect of Weft or of its dependencies: an unexpected exception, or a crash of MLIR.

    Its notes list the versions, and the reproducer to attach to a bug report.
    """


def missing_package(failure: ModuleNotFoundError, user: str, package: str, extra: str) -> ModuleNotFoundError:
    """What to raise where an import fails: the failure itself unless it is about an optional package, for
    which it names the extra that installs it.
    """
    if failure.name != package:
        return failure
    what = f"{user} needs the package {package}, which isn't installed: pip install 'weft[{extra}]'"
    return ModuleNotFoundError(what, name=package)


def warn(message: str) -> None:
    """Issues a Python warning, with the innermost line outside Weft as its source."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "weft":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
