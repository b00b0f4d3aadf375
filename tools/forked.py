"""A tool's work in a forked process, for systems where forks are safe.

The parent does nothing but wait: it passes on signals and the exit status. What native code prints to stderr
meanwhile is held back until the work is done, and goes into the reproducer where the process died.
"""

import mmap
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import IO

from weft.system import phase, processes
from weft.tools import cli, work_process

assert sys.platform != "win32"
assert sys.platform != "darwin"

_PATIENCE_SECONDS = 2.0  # after a signal, for the work to end by itself
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FROM_TERMINAL = 0x80  # SI_KERNEL: every process in the terminal's group has got it already
_TOLD = (
    *(signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS),
    *(signal.SIGTRAP, signal.SIGKILL, signal.SIGXCPU, signal.SIGXFSZ),
)


def run(tool: str, body: Callable[[], int]) -> int:
    """The exit status of `body`, run in a forked process; where that dies, or where there is none to be had,
    prints why and returns 1.
    """
    said, kept = None if work_process.prints_ir() else _file(), _file()
    sys.stdout.flush() if sys.stdout else None
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDING, signal.SIGCHLD})
    try:
        memory = mmap.mmap(-1, 8192)
        child = os.fork()
    except OSError as error:
        cli.report(processes.refusal("cannot start a process", error).diagnostics, tool)
        return 1
    if child == 0:
        phase.end_with_parent(parent)
        work_process.hold_back(said)
        phase.share(memory)
        cli.keep_for_crash(kept)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, work_process.interrupt_once)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ENDING, signal.SIGCHLD})
        status = body()
        phase.enter("ending")
        if signal.getsignal(signal.SIGINT) is work_process.interrupt_once:
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
        printed, told = work_process.text(said), cli.Kept.read(kept)
        cli.report(work_process.death(status, phase.read(memory), printed, told), tool)
        return 1
    work_process.relay(said)
    return status


def _file() -> IO[bytes] | None:
    try:
        return tempfile.TemporaryFile()
    except OSError:  # no temporary directory, or a full one
        return None


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
