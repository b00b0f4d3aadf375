"""A tool's work in a process of its own, so that a crash of MLIR ends in a message, not in an abort.

The parent does nothing but wait: it passes on signals and the exit status. What native code prints to stderr
meanwhile is held back until the work is done, and goes into the reproducer where the process died.
"""

import mmap
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import IO

from weft import phase, system
from weft.errors import Diagnostic, WeftError
from weft.tools import cli, pass_printing

_PHASE_BYTES = 1 << 13
_PATIENCE_SECONDS = 2.0  # after a signal, for the work to end by itself
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FROM_TERMINAL = 0x80  # SI_KERNEL: every process in the terminal's group has got it already
_TOLD = (
    *(signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS),
    *(signal.SIGTRAP, signal.SIGKILL, signal.SIGXCPU, signal.SIGXFSZ),
)


def supervised(tool: str, body: Callable[[], int]) -> int:
    """The exit status of `body`, run in a forked process; where that dies, or where there is none to be had,
    prints why and returns 1.
    """
    said, kept = None if _prints_ir() else _file(), _file()
    sys.stdout.flush() if sys.stdout else None
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDING, signal.SIGCHLD})
    try:
        memory = mmap.mmap(-1, _PHASE_BYTES)
        child = os.fork()
    except OSError as error:
        cli.report(system.refusal("cannot start a process", error).diagnostics, tool)
        return 1
    if child == 0:
        phase.end_with_parent(parent)
        _hold_back(said)
        phase.share(memory)
        cli.keep_for_crash(kept)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt_once)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ENDING, signal.SIGCHLD})
        status = body()
        phase.enter("ending")
        if signal.getsignal(signal.SIGINT) is _interrupt_once:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # with its work done, it needs no KeyboardInterrupt
        return status
    status, interrupted = _wait(child)
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work has ended: another would spoil the status
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ENDING, signal.SIGCHLD})
    if interrupted == signal.SIGINT:
        if status < 0:  # it had no time to say so
            cli.tell_interrupted(tool)
        return 128 + signal.SIGINT
    # Asked to end, it ends by what it was asked with, also where the work had to be killed for it.
    if status < 0 and (interrupted or -status not in _TOLD):
        number = interrupted or -status
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    if status < 0:
        cli.report(_death(-status, phase.read(memory), _text(said), cli.Kept.read(kept)), tool)
        return 1
    _relay(said)
    return status


def _interrupt_once(number: int, frame: object) -> None:
    """Interrupts the work, and ignores what follows: one that is sent to a group of processes arrives here
    twice, also through the parent, and must not interrupt the message about the first.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _prints_ir() -> bool:
    """Whether MLIR has been asked to print to stderr, which a user may want to see as it comes."""
    flags = ("mlir-", "print-ir-", "dump-pass-pipeline")
    return any(argument.lstrip("-").startswith(flags) for argument in sys.argv[1:])


def _file() -> IO[bytes] | None:
    try:
        return tempfile.TemporaryFile()
    except OSError:  # no temporary directory, or a full one
        return None


def _hold_back(said: IO[bytes] | None) -> None:
    """Sends what isn't printed by Python to the file `said` instead of stderr."""
    if said is None or sys.stderr is None:
        return
    sys.stderr.flush()
    kept = os.dup(2)
    encoding, errors = sys.stderr.encoding, sys.stderr.errors
    sys.stderr = os.fdopen(kept, "w", buffering=1, encoding=encoding, errors=errors)
    os.dup2(said.fileno(), 2)


def _wait(child: int) -> tuple[int, int]:
    """The exit status of the child, negative for a signal; and which signal has asked us to end, or 0."""
    asked = 0
    while True:
        info = signal.sigtimedwait((*_ENDING, signal.SIGCHLD), _PATIENCE_SECONDS)
        if info is not None and info.si_signo != signal.SIGCHLD:
            asked = info.si_signo
            if info.si_code != _FROM_TERMINAL:
                os.kill(child, asked)
        elif info is None and asked:
            os.kill(child, signal.SIGKILL)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), asked


def _text(said: IO[bytes] | None) -> str:
    if said is None:
        return ""
    said.seek(0)
    return said.read().decode("utf-8", "replace")


def _relay(said: IO[bytes] | None) -> None:
    """Prints what was held back."""
    if said is not None and said.seek(0, os.SEEK_END):
        said.seek(0)
        with os.fdopen(2, "wb", closefd=False) as stderr:
            shutil.copyfileobj(said, stderr)


def _death(number: int, where: str, printed: str, kept: cli.Kept) -> list[Diagnostic]:
    """The messages about a process that a signal ended in the phase `where`; `printed` is its stderr."""
    from weft.compiler import reproducer

    name = signal.Signals(number).name
    if number == signal.SIGKILL:
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
