"""Imports at first use that are safe if another thread forks."""

# A fork must take the locks of these modules after this module's: see below.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from weft.system import locks
from weft.system.garbage import uncollected

_changed = threading.Condition()
_depths: dict[int, int] = {}
"""How many blocks of `whole` each thread is in."""


@contextmanager
def whole() -> Iterator[None]:
    """Prevents forks by other threads during the block: a child would wait forever for a partial import.

    Several threads may be in such blocks. Were it only one, it could wait for a module that another thread
    imports, which itself waits for this block. Nor is garbage collected: among PyTorch's objects, that takes
    a fifth of the time of imports.
    """
    thread = threading.get_ident()
    before = _depths.get(thread, 0)
    try:
        with _changed:
            _depths[thread] = before + 1
        with uncollected():
            yield
    finally:
        with _changed:
            _depths[thread] = before
            if not before:
                del _depths[thread]
                _changed.notify_all()


def _wait_for_others() -> None:
    """Waits until no other thread is in a block, and keeps all from entering one."""
    _changed.acquire()
    _changed.wait_for(lambda: _depths.keys() <= {threading.get_ident()})


def attribute(package: str, name: str, module: str | None) -> Any:
    """An attribute of a package by its name, from the package's `module`. Raises AttributeError for None."""
    if module is None:
        # From `name` and `obj`, Python suggests similar attributes.
        raise AttributeError(
            f"module '{package}' has no attribute '{name}'", name=name, obj=sys.modules[package]
        )
    with whole():
        return getattr(import_module(f"{package}.{module}"), name)


# The latest registered function runs first, before a fork. An import in `whole` may wait for logging's lock,
# which a fork would hold already while it waits for this one, were logging imported later than this module.
# And Python would release a lock that the import of another thread registers while a fork waits here.
locks.at_fork(before=_wait_for_others, after_in_parent=_changed.release, after_in_child=_changed.release)
