"""Runs programs, and turns the operating system's errors into messages."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.system import locks

_ADVICE = {
    errno.EAGAIN: "end some processes, or raise the limit on their number (ulimit -u)",
    errno.ENOMEM: "free some memory, or raise the limit on it (ulimit -v)",
    errno.EMFILE: "close some files, or raise the limit on their number (ulimit -n)",
    errno.ENFILE: "close some files: too many are open on this system",
    errno.ENOSPC: "free some space on that file system",
    getattr(errno, "EDQUOT", errno.ENOSPC): "free some space on that file system, or have the quota raised",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.ENOEXEC: "install the program for this machine's processor",
}


def refusal(what: str, error: OSError) -> WeftError:
    """An error with the action that failed ("cannot start ptxas"), the reason, and advice."""
    reason = f"{what}: {error.strerror or error}"
    advice = _ADVICE.get(error.errno or 0)
    return WeftError(f"{reason}; {advice}" if advice else reason)


def death(status: int) -> str:
    """How a process with this exit status of `subprocess` ended, with advice if a limit ended it."""
    if status >= 0:
        return f"ended with status {status_text(status)}"
    reason = f"was killed by signal {-status}"
    if sys.platform == "win32":
        return reason
    if -status == signal.SIGXFSZ:
        return f"{reason}, {signal.strsignal(-status)}; {_ADVICE[errno.EFBIG]}"
    if -status == signal.SIGKILL:
        return f"{reason}, {signal.strsignal(-status)}, perhaps because memory ran out"
    return reason


def status_text(status: int) -> str:
    """An exit status, in hexadecimal if it is one of Windows' codes, such as 0xC0000005."""
    return str(status) if status < 1 << 30 else f"0x{status:08X}"


def cores() -> int:
    """The cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """The size of this machine's memory; None if the system doesn't tell."""
    if sys.platform == "win32" or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def own_group() -> dict[str, Any]:
    """Options of `subprocess.Popen` for a process that Ctrl-C in the terminal doesn't interrupt."""
    if sys.platform == "win32":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return {"process_group": 0}


def _kill(process: "subprocess.Popen[str]") -> None:
    """Kills a process that was started with `own_group`, on POSIX with all processes that it started."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def run(
    command: Sequence[str | Path],
    *,
    timeout: float,
    text: str = "",
    inherited: Sequence[int] = (),
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program until it ends, with `text` on its stdin and the descriptors `inherited`. `name` is its
    name in messages. Its `environment` is by default that of this process.

    Raises WeftError if it doesn't start, or doesn't end within `timeout` seconds. In that case it is killed,
    with all processes that it started.
    """
    named, name = name or command[0], name or Path(command[0]).name
    pipe = subprocess.PIPE
    try:
        with locks.whole_process():
            process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                encoding="utf-8",
                errors="replace",
                pass_fds=inherited,
                env=environment,
                **own_group(),
            )
    except OSError as error:
        raise refusal(f"cannot run {named}", error) from None
    with process:
        try:
            out, err = process.communicate(text, timeout=timeout)
        except BaseException as error:
            _kill(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise WeftError(f"{name} didn't finish within {timeout:g} s") from None
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def python(*arguments: str) -> list[str]:
    """A command that runs this Python and doesn't import from the current directory."""
    return [sys.executable, "-P", *arguments]
