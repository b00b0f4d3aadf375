"""Imports that wait until something needs them, without harm to processes that are forked meanwhile."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()


@contextmanager
def whole() -> Iterator[None]:
    """In the block no other thread forks: a child would wait forever for modules that are half imported."""
    with _lock:
        yield


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
