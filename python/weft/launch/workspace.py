"""Memory that launches give a kernel beside its arguments: zero at first, then as the last launch left it.

Launches on one stream follow each other and share it; on two streams, or in two graphs, they may overlap, and
each has its own.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft import locks
from weft.launch.cuda_driver import api, call
from weft.launch.runtime import DeviceArray

Key = tuple[int, int]


class Pool:
    """The memory of a kernel's launches on one GPU, kept as long as this object: queued launches and captured
    graphs count on that.
    """

    def __init__(self, allocate: Callable[[int], DeviceArray] | None = None) -> None:
        self._allocate = allocate or zeroed
        self._kept: dict[Key, list[list[DeviceArray]]] = {}
        self._lock = locks.lock()

    def addresses(self, key: Key, sizes: Sequence[int]) -> list[int]:
        """Where memory of at least these sizes, in bytes, is for a stream or graph."""
        with self._lock:
            kept = self._kept.setdefault(key, [])
            for memory in kept:
                if all(m.nbytes >= size for m, size in zip(memory, sizes, strict=True)):
                    return [m.address for m in memory]
            kept.append([self._allocate(size) for size in sizes])
            return [m.address for m in kept[-1]]


class PerStream:
    """Memory of these sizes, in bytes, from a pool, on each stream (`runtime.Workspaces`)."""

    def __init__(self, pool: Pool, sizes: Sequence[int]) -> None:
        self._pool, self._sizes = pool, tuple(sizes)
        self.count = len(self._sizes)

    def of(self, stream: int) -> tuple[Key, list[int]]:
        """The key of a stream of the current GPU, and where its memory is."""
        key = stream_key(stream)
        return key, self._pool.addresses(key, self._sizes)


def stream_key(stream: int) -> Key:
    """What tells a stream from every other that there was, and what a graph captures from what runs."""
    driver = api()
    what = "asking a stream's state"
    status, capture, *_ = call(what, driver.cuStreamGetCaptureInfo, stream)
    if status == driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE:
        return 0, int(capture)  # a stream that is captured doesn't tell its own number
    return int(call(what, driver.cuStreamGetId, stream)), 0


def zeroed(size: int) -> DeviceArray:
    """Memory of zeros on the current GPU; while a stream is captured too, which doesn't see it."""
    driver = api()
    what = f"clearing {size} bytes"
    with _beside_capture(driver):
        made = DeviceArray((size,), "i8")
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = call(what, driver.cuStreamCreate, flags)
        call(what, driver.cuMemsetD8Async, made.address, 0, size, stream)
        call(what, driver.cuStreamSynchronize, stream)
        call(what, driver.cuStreamDestroy, stream)
    return made


@contextlib.contextmanager
def _beside_capture(driver: Any) -> Iterator[None]:
    """In the block, calls that allocate or wait don't end a capture that this thread has begun."""
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    what = "leaving a capture aside"
    before = call(what, driver.cuThreadExchangeStreamCaptureMode, relaxed)
    try:
        yield
    finally:
        call(what, driver.cuThreadExchangeStreamCaptureMode, before)
