"""What a report of a crash or an internal error needs, in one file: versions, command, phase and input."""

import os
import shlex
import sys
import tempfile
import time
import traceback
from pathlib import Path

import weft
from weft import phase
from weft.errors import Diagnostic, WeftInternalError


def versions() -> str:
    """Weft's version, and those of what it stands on."""
    from importlib.metadata import PackageNotFoundError, version

    found = [f"weft {weft.__version__}"]
    for name in ("mlir-python-bindings", "torch-mlir", "llvmlite"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*found, f"Python {sys.version.split()[0]}"])


def write(reason: str, details: str, given: tuple[str, str] | None) -> str:
    """Writes the reproducer into the current directory, or a temporary one; returns where, as a sentence.

    `given` is the input's name and its text.
    """
    lines = [reason, versions(), f"command: {shlex.join(sys.argv)}", *details.strip().splitlines()]
    if given is not None:
        lines.append(f"input: {given[0]}, from the next line on")
    text = "".join(f"// {line}".rstrip() + "\n" for line in lines) + (given[1] if given else "")
    suffix = Path(given[0]).suffix or ".mlir" if given else ".txt"
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
    """The text of an input file, as far as it can be had."""
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as failure:
        return f"// cannot be read: {failure.strerror}\n"


def notes(kept: str, given: tuple[str, str] | None) -> tuple[Diagnostic, ...]:
    """What is said below a crash or an internal error; `kept` is what `write` returned."""
    about = f", on {given[0]}" if given else ""
    return tuple(Diagnostic(text, severity="note") for text in (f"{versions()}{about}", kept))


def internal_error(error: Exception, given: tuple[str, str] | None) -> WeftInternalError:
    """The error that stands for one that nobody foresaw, with a reproducer written for it."""
    where = phase.now()
    if isinstance(error, MemoryError):
        return WeftInternalError(Diagnostic(f"out of memory while {where}", notes=notes("", given)[:1]))
    (what,) = traceback.format_exception_only(error)[-1:]
    reason = f"internal error while {where}: {what.strip()}"
    kept = write(reason, "".join(traceback.format_exception(error)), given)
    told = f"{reason}; this is a defect of Weft, whatever the input"
    return WeftInternalError(Diagnostic(told, notes=notes(kept, given)))
