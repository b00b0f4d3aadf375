"""Bytes that a copy of this process computes while this one goes on.

The copy ends by itself, after `_MOST_SECONDS` of CPU time at the latest, also if this process has ended or
was interrupted. It is no child of this process, which needn't wait for its end, and it keeps no other file
open. Other copies of this process, made before or after the work begins, see the result, too.
"""

import gc
import os
import signal
import struct
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.errors import WeftError, shown, warn
from weft.system import memory_files, processes

_POLL = 0.002
"""Seconds between looks at a result."""
_VARIABLE = "WEFT_EMULATOR_BACKGROUND"
_MOST_SECONDS = 60
_HEAD = struct.Struct("=qq")
_NOT_BEGUN, _BEGUN, _DONE, _FAILED = range(4)
_CLAIM, _LIFE = 1 << 40, (1 << 40) + 1
"""Bytes beyond the end of the file that processes lock: who begins holds one, who computes the other."""
_THREADED = {"jax", "torch", "cuda.bindings"}


class LostError(Exception):
    """The process that computed the bytes has ended without them."""


def forks() -> bool:
    """Whether copies of a process work. Windows has none, and libraries of macOS may fail in them."""
    return sys.platform not in ("win32", "darwin")


def alone() -> bool:
    """Whether this process may be copied: it has no other thread of Python, and no library whose threads hold
    locks that a copy would wait for.
    """
    return threading.active_count() == 1 and _THREADED.isdisjoint(sys.modules)


def possible() -> bool:
    """Whether bytes can be computed in the background. `WEFT_EMULATOR_BACKGROUND=0` forbids it."""
    return forks() and switch(_VARIABLE) is not False and alone()


def checked() -> None:
    """Raises WeftError if the environment variable has a wrong value."""
    switch(_VARIABLE)


def switch(variable: str) -> bool | None:
    """The value of an environment variable that is 0 or 1; None if it isn't set. Raises WeftError."""
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        raise WeftError(f"{variable} must be 0 or 1, got {shown(value)}")
    return value == "1" if value else None


def busy() -> bool:
    """Whether this process has begun as much work as it has cores."""
    _begun[:] = [work for work in _begun if work.runs()]
    return len(_begun) >= processes.cores()


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


class Work:
    """Bytes that are computed once, by a copy of the process that first calls `begin`."""

    def __init__(self) -> None:
        self._file = memory_files.unnamed()
        weakref.finalize(self, self._file.close)
        self._next = 0.0

    def begin(self, make: Callable[[], bytes]) -> None:
        """Begins to compute what `make` returns, unless another process has begun. Raises OSError."""
        if sys.platform == "win32":
            raise NotImplementedError
        if not self._locked(_CLAIM) or self._state()[0] != _NOT_BEGUN:
            return
        with signals_later():
            self._fork(make)

    def _fork(self, make: Callable[[], bytes]) -> None:
        if sys.platform == "win32":
            raise NotImplementedError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads, which `possible` excludes
            first = os.fork()
        if first == 0:
            try:
                if os.fork() == 0:
                    self._compute(make)
            except OSError:
                os.pwrite(self._file.fileno(), _HEAD.pack(_FAILED, 0), 0)
            finally:
                os._exit(0)
        os.waitpid(first, 0)
        _begun.append(self)

    def runs(self) -> bool:
        """Whether the work hasn't ended."""
        state = self._state()[0]
        return state == _NOT_BEGUN or (state == _BEGUN and not self._locked(_LIFE))

    def result(self) -> bytes | None:
        """The bytes; None as long as they aren't there. Raises LostError."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + _POLL
        state, size = self._state()
        if state == _BEGUN and self._locked(_LIFE):
            state, size = self._state()
            if state == _BEGUN:
                raise LostError
        if state == _FAILED:
            raise LostError
        if state != _DONE:
            return None
        data = _read(self._file.fileno(), _HEAD.size, size)
        if len(data) < size:
            raise LostError
        return data

    def _state(self) -> tuple[int, int]:
        head = _read(self._file.fileno(), 0, _HEAD.size)
        state, size = _HEAD.unpack(head) if head else (_NOT_BEGUN, 0)
        return state, size

    def _locked(self, byte: int) -> bool:
        """Locks a byte for this process, unless another one has."""
        if sys.platform == "win32":
            raise NotImplementedError
        import fcntl

        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _compute(self, make: Callable[[], bytes]) -> None:
        """Computes the bytes, in a process of its own."""
        file = self._file.fileno()
        self._locked(_LIFE)
        _write(file, 0, _HEAD.pack(_BEGUN, 0))
        state, size = _FAILED, 0
        try:
            _detach(file)
            data = make()
            _write(file, _HEAD.size, data)
            state, size = _DONE, len(data)
        finally:
            _write(file, 0, _HEAD.pack(state, size))


_begun: list[Work] = []


def warn_of_loss() -> None:
    """Warns after a LostError."""
    warn("a process that compiled the emulator's code has ended early; launches go on without it")


def _detach(file: int) -> None:
    """Lets go of what this process shares with the one that it is a copy of, except for a file."""
    if sys.platform == "win32":
        raise NotImplementedError
    import resource

    take_no_part()
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    seconds = _MOST_SECONDS if most == resource.RLIM_INFINITY else min(_MOST_SECONDS, most)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        if standard != file:
            os.dup2(nothing, standard)
    os.closerange(3, file)
    os.closerange(max(3, file + 1), os.sysconf("SC_OPEN_MAX"))


def _write(file: int, at: int, data: bytes) -> None:
    if sys.platform == "win32":
        raise NotImplementedError
    left = memoryview(data)
    while left:
        count = os.pwrite(file, left, at)
        at, left = at + count, left[count:]


def _read(file: int, at: int, size: int) -> bytes:
    """The bytes at a place of the file; fewer where it ends."""
    if sys.platform == "win32":
        raise NotImplementedError
    parts = []
    while size and (part := os.pread(file, size, at)):
        parts.append(part)
        at, size = at + len(part), size - len(part)
    return b"".join(parts)
