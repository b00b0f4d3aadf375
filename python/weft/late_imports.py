"""Imports at the first use, safe against forks of other threads."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()


@contextmanager
def whole() -> Iterator[None]:
    """No other thread forks during the block: a child would wait forever for half-imported modules."""
    with _lock:
        yield


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
