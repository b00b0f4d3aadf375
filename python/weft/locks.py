"""Locks that are free in a forked child, even if a thread of its parent held them."""

import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

_locks: "weakref.WeakSet[Any]" = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock for state that a forked child can use even if the fork interrupted a change."""
    new = threading.Lock()
    _locks.add(new)
    return new


def reentrant() -> Any:
    """As `lock`, but the thread that holds it may acquire it again."""
    new = threading.RLock()
    _locks.add(new)
    return new


def at_fork(**functions: Callable[[], object]) -> None:
    """Calls functions when this process forks, as `os.register_at_fork` does. Windows has no forks."""
    if sys.platform != "win32":
        os.register_at_fork(**functions)


def _after_fork() -> None:
    for each in list(_locks):
        each._at_fork_reinit()


at_fork(after_in_child=_after_fork)
