"""Locks that are free in a forked child, even if a thread of its parent held them."""

# They have locks that a fork takes: after those of this module, if they are imported before it.
import concurrent.futures.thread  # noqa: F401
import importlib
import logging  # noqa: F401
import os
import sys
import threading
import time
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


_whole = threading.RLock()


def whole_process() -> AbstractContextManager[bool]:
    """A block in which no other thread forks this process, for pipes whose end somebody waits for: a child
    that has inherited the other end keeps it open as long as it lives.
    """
    return _whole


class _Held(threading.local):
    """The lock of llvmlite that this thread has taken to fork; None: llvmlite isn't imported."""

    lock: AbstractContextManager[object] | None = None


_held = _Held()


def _hold_llvm() -> None:
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    _held.lock = getattr(library, "_lock", None)
    if _held.lock is not None:
        _held.lock.__enter__()


def _release_llvm() -> None:
    lock, _held.lock = _held.lock, None
    if lock is not None:
        lock.__exit__(None, None, None)


_imports: dict[str, Callable[[], object]] = importlib._bootstrap._module_locks  # type: ignore[attr-defined]
"""A reference to the lock of each module that is being imported."""
_LIBRARIES = sys.stdlib_module_names | {
    *("cuda", "jax", "jaxlib", "llvmlite", "mlir", "ml_dtypes", "numpy", "platformdirs", "rich", "torch"),
    *("torch_mlir", "weft"),
}
"""The modules whose imports a fork waits for. Those of users may wait for the thread that forks."""
_IMPORT_SECONDS = 60


def _importing() -> bool:
    """Whether another thread imports a library."""
    own = None, threading.get_ident()
    held = [lock() for name, lock in _imports.copy().items() if name.partition(".")[0] in _LIBRARIES]
    return any(getattr(lock, "owner", None) not in own for lock in held)


def _before_fork() -> None:
    """Waits until no other thread is within an import, in LLVM or in `whole_process`: the child would have
    their locks, which no thread of it releases.
    """
    end = time.monotonic() + _IMPORT_SECONDS
    while True:
        while _importing() and time.monotonic() < end:
            time.sleep(0.001)
        _hold_llvm()
        _whole.acquire()
        if not _importing() or time.monotonic() > end:
            return
        _release()  # what has been imported since may need these


def _release() -> None:
    _whole.release()
    _release_llvm()


# Functions that are registered last run first: before locks of libraries are taken that imports may need.
at_fork(before=_before_fork, after_in_parent=_release, after_in_child=_release)


def _after_fork() -> None:
    for each in list(_locks):
        each._at_fork_reinit()


at_fork(after_in_child=_after_fork)
