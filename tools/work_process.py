"""For the process that does a tool's work: output of native code held back, and the message if it dies."""

import os
import shutil
import signal
import sys
from typing import IO

from weft.errors import Diagnostic, WeftError
from weft.system import processes
from weft.tools import cli, pass_printing

_ABORTED = 3  # the status of a process on Windows that calls abort()


def interrupt_once(number: int, frame: object) -> None:
    """Interrupts the work, and ignores what follows: one that is sent to a group of processes arrives here
    twice, also through the parent, and must not interrupt the message about the first.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def prints_ir() -> bool:
    """Whether MLIR has been asked to print to stderr, which a user may want to see as it comes."""
    flags = ("mlir-", "print-ir-", "dump-pass-pipeline")
    return any(argument.lstrip("-").startswith(flags) for argument in sys.argv[1:])


def hold_back(said: IO[bytes] | None) -> None:
    """Sends what isn't printed by Python to the file `said` instead of stderr."""
    if said is None or sys.stderr is None:
        return
    sys.stderr.flush()
    kept = os.dup(2)
    encoding, errors = sys.stderr.encoding, sys.stderr.errors
    sys.stderr = os.fdopen(kept, "w", buffering=1, encoding=encoding, errors=errors)
    os.dup2(said.fileno(), 2)


def text(said: IO[bytes] | None) -> str:
    """What was held back."""
    if said is None:
        return ""
    said.seek(0)
    return said.read().decode("utf-8", "replace")


def relay(said: IO[bytes] | None) -> None:
    """Prints what was held back."""
    if said is not None and said.seek(0, os.SEEK_END):
        said.seek(0)
        with os.fdopen(2, "wb", closefd=False) as stderr:
            shutil.copyfileobj(said, stderr)


def crashed(status: int) -> bool:
    """Whether a process with this exit status of `subprocess` crashed or was killed."""
    return status < 0 or (sys.platform == "win32" and (status == _ABORTED or status >= 1 << 30))


def death(status: int, where: str, printed: str, kept: cli.Kept) -> list[Diagnostic]:
    """The messages about a process that crashed in the phase `where`; `printed` is its stderr."""
    from weft.compiler import reproducer

    name = signal.Signals(-status).name if status < 0 else f"status {processes.status_text(status)}"
    if name == "SIGKILL":
        return [Diagnostic(f"the system killed Weft ({name}) while {where}: it may have run out of memory")]
    messages = [reproducer.crash(name, where, printed, kept.first_read).diagnostics[0]]
    if kept.reproducer is not None:
        path, text = kept.reproducer
        try:
            cli.write(path, text)
        except WeftError as error:
            messages += error.diagnostics
        else:
            messages.append(pass_printing.remark(path))
    return messages
