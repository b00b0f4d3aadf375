"""Imports at first use that are safe if another thread forks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from weft import locks
from weft.garbage import uncollected

_lock = threading.RLock()


@contextmanager
def whole() -> Iterator[None]:
    """Prevents forks by other threads during the block: a child would wait forever for a partial import.

    Nor is garbage collected: among PyTorch's objects, that takes a fifth of the time of imports.
    """
    with _lock, uncollected():
        yield


locks.at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
