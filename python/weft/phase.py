"""What Weft is doing at the moment, for messages about a process that has died."""

import os
from contextvars import ContextVar
from typing import Protocol

_LENGTH_BYTES = 4

_now: ContextVar[str] = ContextVar("phase", default="starting")


class Memory(Protocol):
    """Bytes that another process reads, such as an `mmap`."""

    def __len__(self) -> int: ...
    def __getitem__(self, where: slice, /) -> bytes: ...
    def __setitem__(self, where: slice, value: bytes, /) -> None: ...


_shared: Memory | None = None


def enter(what: str) -> None:
    """Begins a phase, named as in "died while `what`"; the one before it is over."""
    _now.set(what)
    if _shared is not None:
        text = what.encode("utf-8", "replace")[: len(_shared) - _LENGTH_BYTES]
        _shared[: _LENGTH_BYTES + len(text)] = len(text).to_bytes(_LENGTH_BYTES, "little") + text


def now() -> str:
    """The phase that this thread or task is in."""
    return _now.get()


def share(memory: Memory) -> None:
    """From now on, each phase is written to `memory` too, where `read` finds it after a death."""
    global _shared
    _shared = memory
    enter(now())


def shared() -> bool:
    """Whether another process supervises this one, so that its death harms no caller."""
    return _shared is not None


def read(memory: Memory | bytes) -> str:
    """The phase that a process has written to `memory` last."""
    length = int.from_bytes(memory[:_LENGTH_BYTES], "little")
    return memory[_LENGTH_BYTES : _LENGTH_BYTES + length].decode("utf-8", "replace")


def end_with_parent(parent: int) -> None:
    """Has the system end this process when `parent`, the process that forked it, ends."""
    import ctypes
    import signal

    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
    ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)
