"""Locks that exclude other processes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
    import time
else:
    import fcntl

_POLL_SECONDS = 0.01
_FAR = 1 << 40  # Windows locks bytes, and others can't read those: lock one that no file has


def with_directory(path: Path, work: Callable[[], object]) -> None:
    """Does work while other processes that lock this directory wait. Raises OSError if it can't be locked.

    A context manager could keep the lock: Ctrl-C may interrupt it where it begins or ends, and whoever keeps
    the error keeps its frames.
    """
    if sys.platform == "win32":  # which doesn't open directories
        descriptor = os.open(path / ".lock", os.O_RDWR | os.O_CREAT)
    else:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if sys.platform == "win32":
            while not try_file(descriptor):
                time.sleep(_POLL_SECONDS)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        work()
    finally:
        os.close(descriptor)


def try_file(descriptor: int) -> bool:
    """Locks an open file until it is closed. False if another process has locked it."""
    try:
        if sys.platform == "win32":
            at = os.lseek(descriptor, 0, os.SEEK_CUR)
            os.lseek(descriptor, _FAR, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(descriptor, at, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
