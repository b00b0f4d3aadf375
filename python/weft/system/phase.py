"""Weft's current activity, for messages about a process that ended unexpectedly."""

import os
import sys
import time
from contextvars import ContextVar
from mmap import mmap

_LENGTH_BYTES = 4
_POLL_SECONDS = 0.5

_now: ContextVar[str] = ContextVar("phase", default="starting")
_shared: mmap | None = None


def enter(what: str) -> None:
    """Begins a phase and ends the previous one. `what` completes "ended while", such as "parsing a.mlir"."""
    _now.set(what)
    if _shared is not None:
        text = what.encode("utf-8", "replace")[: len(_shared) - _LENGTH_BYTES]
        _shared[: _LENGTH_BYTES + len(text)] = len(text).to_bytes(_LENGTH_BYTES, "little") + text


def now() -> str:
    """The current phase of this thread or task."""
    return _now.get()


def share(memory: mmap) -> None:
    """Writes this and each later phase to `memory`, from which `read` gets it after the process has ended."""
    global _shared
    _shared = memory
    enter(now())


def shared() -> bool:
    """Whether another process supervises this one, so that a crash doesn't end the caller's process."""
    return _shared is not None


def read(memory: mmap | bytes) -> str:
    """The last phase that a process wrote to `memory`."""
    length = int.from_bytes(memory[:_LENGTH_BYTES], "little")
    return memory[_LENGTH_BYTES : _LENGTH_BYTES + length].decode("utf-8", "replace")


def end_with_parent(parent: int) -> None:
    """Ends this process when `parent`, the process that started it, ends."""
    if sys.platform == "linux":
        import ctypes
        import signal

        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
        ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL))
        if os.getppid() != parent:
            os._exit(1)
    else:
        import threading

        threading.Thread(target=_end_after, args=(parent,), name="weft-parent", daemon=True).start()


def _end_after(parent: int) -> None:
    """Waits for the end of the parent, and ends this process."""
    if sys.platform == "win32":
        import ctypes

        synchronize, infinite = 0x00100000, 0xFFFFFFFF
        system = ctypes.windll.kernel32
        process = system.OpenProcess(synchronize, False, parent)
        if not process or system.WaitForSingleObject(process, infinite):
            return
    else:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
    os._exit(1)
