"""Locks that are free in a forked child, even if a thread of its parent held them."""

# They have locks that a fork takes: after those of this module, if they are imported before it.
import concurrent.futures.thread  # noqa: F401
import importlib
import logging  # noqa: F401
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

_locks: "weakref.WeakSet[Any]" = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock for state that a forked child can use even if the fork interrupted a change."""
    new = threading.Lock()
    _locks.add(new)
    return new


def reentrant() -> AbstractContextManager[bool]:
    """As `lock`, but the thread that holds it may acquire it again."""
    new = threading.RLock()
    _locks.add(new)
    return new


def at_fork(**functions: Callable[[], object]) -> None:
    """Calls functions when this process forks, as `os.register_at_fork` does. Windows has no forks."""
    if sys.platform != "win32":
        os.register_at_fork(**functions)


_bootstrap: Any = importlib._bootstrap
_imports: dict[str, Callable[[], object]] = _bootstrap._module_locks
"""A reference to the lock of each module that is being imported."""


def _wait_for_imports() -> None:
    """Waits until no other thread is within an import, whose lock nobody would release in the child."""
    own = None, threading.get_ident()
    while held := [name for name, ref in _imports.copy().items() if getattr(ref(), "owner", None) not in own]:
        for name in held:
            _bootstrap._lock_unlock_module(name)


# The functions that are registered last run first. So other threads, whose imports may need locks of
# libraries, can finish them, and hardly any import can begin between this function and the fork.
at_fork(before=_wait_for_imports)
_whole = threading.RLock()


def whole_process() -> AbstractContextManager[bool]:
    """A block in which no other thread forks this process, for pipes whose end somebody waits for: a child
    that has inherited the other end keeps it open as long as it lives.
    """
    return _whole


at_fork(before=_whole.acquire, after_in_parent=_whole.release, after_in_child=_whole.release)


class _Held(threading.local):
    """The lock of llvmlite that this thread has taken to fork; None: llvmlite isn't imported."""

    lock: AbstractContextManager[object] | None = None


_held = _Held()


def _hold_llvm() -> None:
    """Waits until no other thread is in LLVM, whose lock nobody would release in the child."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    _held.lock = getattr(library, "_lock", None)
    if _held.lock is not None:
        _held.lock.__enter__()


def _release_llvm() -> None:
    lock, _held.lock = _held.lock, None
    if lock is not None:
        lock.__exit__(None, None, None)


at_fork(before=_hold_llvm, after_in_parent=_release_llvm, after_in_child=_release_llvm)


def _after_fork() -> None:
    for each in list(_locks):
        each._at_fork_reinit()


at_fork(after_in_child=_after_fork)
