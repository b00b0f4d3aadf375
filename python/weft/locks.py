"""Locks that are free in a forked child, whichever thread of its parent held them."""

import os
import threading
import weakref
from typing import Any

_made: "weakref.WeakSet[Any]" = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock for state that a forked child can use even if the fork interrupted a change to it."""
    made = threading.Lock()
    _made.add(made)
    return made


def reentrant() -> Any:
    """The same, but a thread that holds it may take it again."""
    made = threading.RLock()
    _made.add(made)
    return made


def _after_fork() -> None:
    for each in list(_made):
        each._at_fork_reinit()


os.register_at_fork(after_in_child=_after_fork)
