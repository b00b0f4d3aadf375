"""Copies of this process, which run a part of a launch."""

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_THREADED = {"jax", "torch", "cuda.bindings"}


def work() -> bool:
    """Whether copies of a process work. Windows has none, and libraries of macOS may fail in them."""
    return sys.platform not in ("win32", "darwin")


def alone() -> bool:
    """Whether this process may be copied: it has no other thread of Python, and no library whose threads hold
    locks that a copy would wait for.
    """
    return threading.active_count() == 1 and _THREADED.isdisjoint(sys.modules)


@contextmanager
def signals_later() -> Iterator[None]:
    """Blocks all signals, for the time in which this process is copied: a handler must not run in the copy,
    where an exception would go on with the program.
    """
    if sys.platform == "win32":
        raise NotImplementedError
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def take_no_part() -> None:
    """In a copy that `signals_later` protects: from now on, nothing of the program runs in it, neither
    handlers of signals nor the ends of objects.
    """
    if sys.platform == "win32":
        raise NotImplementedError
    for each in signal.valid_signals():
        if callable(signal.getsignal(each)):
            signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    gc.disable()
