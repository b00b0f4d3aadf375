"""Runs programs, provides files in memory, and turns the operating system's errors into messages."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.errors import WeftError

_ADVICE = {
    errno.EAGAIN: "end some processes, or raise the limit on their number (ulimit -u)",
    errno.ENOMEM: "free some memory, or raise the limit on it (ulimit -v)",
    errno.EMFILE: "close some files, or raise the limit on their number (ulimit -n)",
    errno.ENFILE: "close some files: too many are open on this system",
    errno.ENOSPC: "free some space on that file system",
    errno.EDQUOT: "free some space on that file system, or have the quota raised",
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
        return f"ended with status {status}"
    reason = f"was killed by signal {-status}"
    if -status == signal.SIGXFSZ:
        return f"{reason}, {signal.strsignal(-status)}; {_ADVICE[errno.EFBIG]}"
    if -status == signal.SIGKILL:
        return f"{reason}, {signal.strsignal(-status)}, perhaps because memory ran out"
    return reason


class MemoryFile:
    """A file in memory. It is freed when the last process that has it open ends."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @property
    def path(self) -> str:
        """The file's path, in a process that inherits the descriptor."""
        return f"/proc/self/fd/{self.descriptor}"

    def write(self, data: bytes) -> None:
        """Appends to the file."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.descriptor, left) :]

    def content(self) -> bytes:
        """The contents, as all processes have written them."""
        parts, at = [], 0
        while part := os.pread(self.descriptor, 1 << 24, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)


@contextmanager
def memory_file(data: bytes = b"") -> Iterator[MemoryFile]:
    """A file in memory with these contents. Raises WeftError if the system can't provide one."""
    try:
        descriptor = os.memfd_create("weft")
    except OSError as error:
        raise refusal("cannot create a file in memory", error) from None
    try:
        file = MemoryFile(descriptor)
        try:
            file.write(data)
        except OSError as error:
            raise refusal(f"cannot write {len(data)} bytes to memory", error) from None
        yield file
    finally:
        os.close(descriptor)


def run(
    command: Sequence[str | Path],
    *,
    timeout: float,
    text: str = "",
    files: Sequence[MemoryFile] = (),
    name: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program until it ends, with `text` on its stdin. `name` is its name in messages.

    Raises WeftError if it doesn't start, or doesn't end within `timeout` seconds. In that case it is killed,
    with all processes that it started.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            encoding="utf-8",
            errors="replace",
            pass_fds=[file.descriptor for file in files],
            process_group=0,
        )
    except OSError as error:
        raise refusal(f"cannot run {name or command[0]}", error) from None
    with process:
        try:
            out, err = process.communicate(text, timeout=timeout)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                program = name or Path(command[0]).name
                raise WeftError(f"{program} didn't finish within {timeout:g} s") from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def python(*arguments: str) -> list[str]:
    """A command that runs this Python and doesn't import from the current directory."""
    return [sys.executable, "-P", *arguments]


def write(path: Path, data: bytes) -> None:
    """Writes a file atomically, through links. A file that isn't regular is written in place.

    Raises OSError if the file can't be written.
    """
    target = _target(path)
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            file.write(data)
        return
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raises the OSError that `write` would raise, as far as this can be checked without leaving a file."""
    target = _target(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not target.exists() or target.is_file():
        tempfile.TemporaryFile(dir=target.parent).close()


def _target(path: Path) -> Path:
    """The file to which a path leads, through links."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "the name contains a zero byte")
    return Path(os.path.realpath(path))
