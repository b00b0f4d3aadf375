"""Workspaces: memory that a launch provides in addition to a kernel's arguments.

They are zero at first; each launch finds what the previous one wrote. Launches on one stream run one after
another and share them. Launches on two streams, or in two graphs, may overlap, so each has its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from weft.launch.cuda_driver import api, call
from weft.launch.runtime import DeviceArray
from weft.system import locks

Key = tuple[int, int]


class Pool:
    """The workspaces of a kernel on one GPU. They live as long as this object, since queued launches and
    captured graphs refer to them.
    """

    def __init__(self, allocate: Callable[[int], DeviceArray] | None = None) -> None:
        self._allocate = allocate or zeroed
        self._kept: dict[Key, list[list[DeviceArray]]] = {}
        self._lock = locks.lock()

    def addresses(self, key: Key, sizes: Sequence[int]) -> list[int]:
        """The addresses of a key's workspaces of at least these sizes, in bytes."""
        with self._lock:
            kept = self._kept.setdefault(key, [])
            for memory in kept:
                if all(m.nbytes >= size for m, size in zip(memory, sizes, strict=True)):
                    return [m.address for m in memory]
            kept.append([self._allocate(size) for size in sizes])
            return [m.address for m in kept[-1]]


class PerStream:
    """Workspaces of these sizes, in bytes, from a pool, for each stream (`runtime.Workspaces`)."""

    def __init__(self, pool: Pool, sizes: Sequence[int]) -> None:
        self._pool, self._sizes = pool, tuple(sizes)
        self.count = len(self._sizes)

    def of(self, stream: int) -> tuple[Key, list[int]]:
        """The key of a stream of the current GPU, and the addresses of its workspaces."""
        key = stream_key(stream)
        return key, self.of_key(key)

    def of_key(self, key: Key) -> list[int]:
        """The addresses of the workspaces of a key, on the current GPU."""
        return self._pool.addresses(key, self._sizes)


def stream_key(stream: int) -> Key:
    """A key for a stream, or for it in the graph that captures it. No two streams or graphs share a key."""
    driver = api()
    action = "reading a stream's state"
    status, capture, *_ = call(action, driver.cuStreamGetCaptureInfo, stream)
    if status == driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE:
        return int(stream), int(capture)  # a captured stream's own number can't be read
    return int(call(action, driver.cuStreamGetId, stream)), 0


def zeroed(size: int) -> DeviceArray:
    """Cleared memory on the current GPU. Works while a stream is captured, too, outside its graph."""
    return filled(size, None)


def filled(size: int, numbers: npt.NDArray[Any] | None) -> DeviceArray:
    """Memory on the current GPU with the bytes of a contiguous array, or cleared. Waits for nothing else that
    the GPU does. Works while a stream is captured, too, outside its graph.
    """
    driver = api()
    action = f"{'clearing' if numbers is None else 'copying'} {size} bytes"
    # In this mode, calls may allocate and wait without ending a capture that this thread has begun.
    relaxed, mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED, "changing the capture mode"
    before = call(mode, driver.cuThreadExchangeStreamCaptureMode, relaxed)
    try:
        memory = DeviceArray((size,), "i8")
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = call(action, driver.cuStreamCreate, flags)
        if numbers is None:
            call(action, driver.cuMemsetD8Async, memory.address, 0, size, stream)
        else:
            call(action, driver.cuMemcpyHtoDAsync, memory.address, numbers.ctypes.data, size, stream)
        call(action, driver.cuStreamSynchronize, stream)
        call(action, driver.cuStreamDestroy, stream)
    finally:
        call(mode, driver.cuThreadExchangeStreamCaptureMode, before)
    return memory
