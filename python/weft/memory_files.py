"""Files for other programs: in memory where the system has such files, otherwise temporary ones."""

import errno
import os
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from weft import locks, system

if sys.platform == "linux":
    import fcntl


class MemoryFile(Protocol):
    """A file that a program can open by its path."""

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that the program must inherit."""

    @property
    def path(self) -> str:
        """The file's path in that program."""

    def content(self) -> bytes:
        """The contents, as all processes have written them."""


if sys.platform == "win32":

    class _File:
        """A temporary file, for Windows, where processes don't inherit open files by number."""

        inherited = ()

        def __init__(self) -> None:
            descriptor, self.path = tempfile.mkstemp(prefix="weft-")
            os.close(descriptor)

        def write(self, data: bytes) -> None:
            Path(self.path).write_bytes(data)

        def content(self) -> bytes:
            return Path(self.path).read_bytes()

        def close(self) -> None:
            with suppress(OSError):  # a process that was killed may still have it open
                Path(self.path).unlink()

else:

    class _File:
        """An open file without a name. It is freed when the last process that has it open ends."""

        def __init__(self) -> None:
            self._file = unnamed()
            self._descriptor = self._file.fileno()
            self.inherited = (self._descriptor,)
            folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
            self.path = f"{folder}/{self._descriptor}"

        def write(self, data: bytes) -> None:
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]
            # On macOS, a program that opens the path shares this offset.
            os.lseek(self._descriptor, 0, os.SEEK_SET)

        def content(self) -> bytes:
            parts, at = [], 0
            while part := os.pread(self._descriptor, 1 << 24, at):
                parts.append(part)
                at += len(part)
            return b"".join(parts)

        def close(self) -> None:
            self._file.close()


def unnamed() -> IO[bytes]:
    """An empty file that is freed when the last process that has it open ends. Raises OSError."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("weft"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


class LateFile:
    """A file for a program that opens it before there are contents: it waits for them. Linux has it."""

    path: str
    _reader: int
    _writer: int
    _file: _File | None

    def __init__(self) -> None:
        """Raises OSError."""
        if sys.platform != "linux":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        process = Path("/proc/self").resolve(strict=True)  # not os.getpid(), if it is another namespace's
        with locks.whole_process():
            self._reader, self._writer = os.pipe()
            _late.add(self)
        self._file = None
        self.path = f"{process}/fd/{self._reader}"

    def write(self, data: bytes) -> bool:
        """Writes all contents. False if they don't fit the pipe from which the program reads them, or if a
        forked child has inherited this file.
        """
        if sys.platform == "linux" and self in _late:
            with suppress(OSError):
                if fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, len(data) or 1) < len(data):
                    return False
                self._file = _File()
                self._file.write(data)
                reader = os.dup(self._reader)
                try:
                    # A program that opens it from now on finds a file. A pipe without a reader refuses data.
                    os.dup2(*self._file.inherited, self._reader, inheritable=False)
                    return os.write(self._writer, data) == len(data)
                finally:
                    os.close(reader)
                    self.end()
        return False

    def close(self) -> None:
        """Frees it, once no program opens it any more."""
        self.end()
        os.close(self._reader)
        if self._file is not None:
            self._file.close()

    def end(self) -> None:
        """Lets a program that has opened the pipe find the end of the contents."""
        with locks.whole_process():
            if self in _late:
                _late.remove(self)
                os.close(self._writer)


_late: "weakref.WeakSet[LateFile]" = weakref.WeakSet()
"""Those to which nothing has been written."""


def _after_fork() -> None:
    """In a child: as long as it has a pipe's writing end open, the program waits for more."""
    for each in list(_late):
        each.end()


locks.at_fork(after_in_child=_after_fork)


@contextmanager
def memory_file(data: bytes = b"") -> Iterator[MemoryFile]:
    """A file with these contents. Raises WeftError if the system can't provide one."""
    try:
        file = _File()
    except OSError as error:
        raise system.refusal("cannot create a file in memory", error) from None
    try:
        try:
            file.write(data)
        except OSError as error:
            raise system.refusal(f"cannot write {len(data)} bytes to memory", error) from None
        yield file
    finally:
        file.close()
