"""Imports at first use that are safe if another thread forks."""

import logging  # noqa: F401  # whose lock a fork must take after this module's: see below
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


# The latest registered function runs first, before a fork. An import in `whole` may wait for logging's lock,
# which a fork would hold already while it waits for this one, were logging imported later than this module.
locks.at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
