"""Crashes and internal errors as messages, each with a file that holds all that a bug report needs."""

import os
import shlex
import sys
import tempfile
import time
import traceback
from pathlib import Path

from weft.errors import Diagnostic, WeftInternalError
from weft.system import phase
from weft.version import VERSION


def versions() -> str:
    """The versions of Weft, its dependencies and Python."""
    from importlib.metadata import PackageNotFoundError, version

    names = [f"weft {VERSION}"]
    for name in ("mlir-python-bindings", "torch-mlir", "llvmlite"):
        try:
            names.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    names += [f"{each}={os.environ[each]}" for each in ("WEFT_MLIR",) if each in os.environ]
    return ", ".join([*names, f"Python {sys.version.split()[0]}"])


def write(reason: str, details: str, source: tuple[str, str] | None) -> str:
    """Writes the reproducer to the current directory, or to a temporary one where that can't be written.

    Returns a sentence that names the file. `source` is the input's name and its text.
    """
    lines = [reason, versions(), f"command: {shlex.join(sys.argv)}", *details.strip().splitlines()]
    if source is not None:
        lines.append(f"input: {source[0]}, from the next line on")
    text = "".join(f"// {line}".rstrip() + "\n" for line in lines) + (source[1] if source else "")
    suffix = Path(source[0]).suffix or ".mlir" if source else ".txt"
    suffix = suffix if suffix in (".mlir", ".ptx") else ".txt"
    name = f"weft-crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}{suffix}"
    for folder in (Path.cwd, lambda: Path(tempfile.gettempdir())):
        try:
            kept = folder() / name
            kept.write_text(text, "utf-8", errors="replace")
        except OSError:
            continue
        return f"a reproducer for a report is in {kept}"
    return "no reproducer is kept: neither the current nor the temporary directory can be written"


def text_of(path: Path) -> str:
    """The text of an input file; a comment with the reason where it can't be read."""
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as failure:
        return f"// cannot be read: {failure.strerror}\n"


def internal_error(error: Exception, source: tuple[str, str] | None) -> WeftInternalError:
    """Writes a reproducer for an unexpected exception and returns the error to raise or report instead.

    `source` is the name and the text of the input that led to it.
    """
    where = phase.now()
    if isinstance(error, MemoryError):
        return WeftInternalError(Diagnostic(f"out of memory while {where}", notes=(_versions(source),)))
    (what,) = traceback.format_exception_only(error)[-1:]
    reason = f"internal error while {where}: {what.strip()}"
    return _defect(reason, "Weft", "".join(traceback.format_exception(error)), source)


RUNNING = "running function "


def crash(cause: str, where: str, printed: str, source: tuple[str, str] | None) -> WeftInternalError:
    """Writes a reproducer for a process that died of `cause` in the phase `where`, and returns the error.

    `printed` is the process's stderr, `source` the name and the text of its input. What runs is the user's
    host code: where that dies, it isn't a defect.
    """
    if where.startswith(RUNNING):
        advice = "host code may only access memory that it has, and recursion must end"
        return WeftInternalError(
            Diagnostic(f"{cause} while {where}", notes=(Diagnostic(advice, severity="note"),))
        )
    return _defect(f"MLIR crashed ({cause}) while {where}", "MLIR or of Weft", printed, source)


def _defect(reason: str, whose: str, details: str, source: tuple[str, str] | None) -> WeftInternalError:
    kept = Diagnostic(write(reason, details, source), severity="note")
    message = f"{reason}; this is a defect of {whose}, whatever the input"
    return WeftInternalError(Diagnostic(message, notes=(_versions(source), kept)))


def _versions(source: tuple[str, str] | None) -> Diagnostic:
    about = f", on {source[0]}" if source else ""
    return Diagnostic(f"{versions()}{about}", severity="note")
