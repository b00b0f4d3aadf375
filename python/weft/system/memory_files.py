"""Files for other programs: in memory where the system has such files, otherwise temporary ones."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from weft.system import processes

if sys.platform == "win32":

    class MemoryFile:
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

    class MemoryFile:
        """An open file without a name, freed when the last process that has it open ends. Others inherit its
        descriptor, and open it by its path.
        """

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


@contextmanager
def memory_file(data: bytes = b"") -> Iterator[MemoryFile]:
    """A file with these contents. Raises WeftError if the system can't provide one."""
    try:
        file = MemoryFile()
    except OSError as error:
        raise processes.refusal("cannot create a file in memory", error) from None
    try:
        try:
            file.write(data)
        except OSError as error:
            raise processes.refusal(f"cannot write {len(data)} bytes to memory", error) from None
        yield file
    finally:
        file.close()
