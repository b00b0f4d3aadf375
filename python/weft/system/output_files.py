"""Writes files atomically."""

import errno
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Writes a file atomically, through links. A file that isn't regular is written in place.

    Raises OSError if the file can't be written.
    """
    write_all({path: data})


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Writes files as `write` does, once all that they contain has been written to the file system.

    Raises OSError with the path of a file that can't be written.
    """
    drafts = dict[Path, tuple[Path, Path]]()
    path = Path()
    try:
        for path, data in contents.items():
            target = _target(path)
            if target.exists() and not target.is_file():
                with target.open("wb") as file:
                    file.write(data)
                continue
            draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
            drafts[path] = draft, target
            draft.write_bytes(data)
        for path in drafts:
            replace(*drafts[path])
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        for draft, _ in drafts.values():
            draft.unlink(missing_ok=True)


def replace(draft: Path, target: Path) -> None:
    """Renames a file to a name that another file may have. Windows refuses that while a process has the
    other file open: then it is tried again, for a second. Raises OSError.
    """
    deadline = time.monotonic() + 1
    while True:
        try:
            draft.replace(target)
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


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
