"""What a stream of a GPU does itself: copies, writes to flags, and the order of its work. The sanitizer
compares its accesses with those of kernels.
"""

from collections.abc import Hashable
from typing import cast

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Thread
from weft.emulator.memory.device import Device
from weft.emulator.memory.segments import SYSTEM, Segment
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer import Findings, GlobalMemory, Sanitizer
from weft.emulator.sanitizer.clocks import Clocks, VectorClocks
from weft.emulator.sanitizer.global_races import GlobalRaces
from weft.emulator.sanitizer.kernel_properties import ANY_KERNEL

_ROW = np.zeros(1, np.intp)


class _Stream:
    """A stream, as the sanitizer sees a wave: one thread, whose memory is a GPU's."""

    warps = 1
    # What a store of a stream writes is not told: all of it counts as changed.
    moving = None

    def __init__(self, device: Device) -> None:
        self.device = device
        self.memory = self

    def thread(self, row: int, lane: int) -> Thread | None:
        """None: an access of a stream has no thread."""
        return None

    def distances(self, rows: npt.NDArray[np.intp], others: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        return np.zeros_like(rows)


class Engine:
    """The accesses of one stream. `memory`: what the sanitizer knows of all GPUs; None: no checks."""

    def __init__(self, device: Device, findings: Findings, memory: GlobalMemory | None) -> None:
        self._races: GlobalRaces | None = None
        self._clocks = VectorClocks(1, global_copies=True, levels=frozenset({SYSTEM}))
        if memory is not None:
            stream = cast("Wave", _Stream(device))
            self._races = GlobalRaces(stream, self._clocks, findings, memory, ANY_KERNEL)

    def copy(self, to: Segment, begin: int, source: Segment, first: int, size: int) -> None:
        """Copies bytes. What is copied to a flag of 4 or 8 bytes is seen after what precedes it."""
        self._access("load", source, first, size)
        to.data[begin : begin + size] = source.data[first : first + size]
        self._access("store", to, begin, size)
        if size in (4, 8) and begin % size == 0:
            self._released(to, begin, size)

    def write(self, to: Segment, begin: int, value: bytes) -> None:
        """Writes a flag, after all that precedes."""
        to.data[begin : begin + len(value)] = np.frombuffer(value, np.uint8)
        self._access("store", to, begin, len(value))
        self._released(to, begin, len(value))

    def acquire(self, key: Hashable) -> None:
        """What follows comes after what was released at `key`."""
        if self._races is not None and (clock := _everything(self._races, key)) is not None:
            self._clocks.acquire(_ROW, clock)

    def release(self, key: Hashable) -> None:
        """What acquires `key` comes after what precedes."""
        if self._races is not None:
            self._races.publish(key, _visible(self._clocks, self._clocks.of(_ROW)), SYSTEM)
            self._clocks.step(_ROW)

    def _access(self, kind: str, segment: Segment, begin: int, size: int) -> None:
        if self._races is None or not size:
            return
        column = self._clocks.column(kind)
        octets = np.arange(begin, begin + size) + segment.base
        self._races.unit(kind, column, 0, octets, 0)
        self._clocks.times[column] += 1
        self._clocks.learn(0, column, self._clocks.times[column])

    def _released(self, segment: Segment, begin: int, size: int) -> None:
        """Bytes are a flag: threads that acquire it come after what precedes."""
        if self._races is None:
            return
        shadow = self._races.memory.shadow(segment)
        shadow.level[shadow.covered(np.arange(begin, begin + size))] = SYSTEM
        self.release((segment.base, begin))


def begin(checker: Sanitizer, key: Hashable) -> None:
    """A wave begins after what was released at `key`."""
    clock = _everything(checker.globals, key)
    if clock is not None:
        checker.clocks.acquire(np.arange(checker.wave.warps), clock)


def end(checker: Sanitizer, key: Hashable) -> None:
    """What acquires `key` comes after the wave, whose asynchronous operations have completed."""
    clocks = checker.clocks
    clock = clocks.of(np.arange(checker.wave.warps))
    columns = list(clocks.names)
    clock[:, columns] = np.maximum(clock[:, columns], clocks.times[columns] + 1)
    checker.globals.publish(key, _visible(clocks, clock), SYSTEM)


def _everything(races: GlobalRaces, key: Hashable) -> Clocks | None:
    """What was released at `key`, visible to every proxy."""
    clock = races.published(key, SYSTEM)
    return None if clock is None else _visible(races.clocks, clock)


def _visible(clocks: VectorClocks, clock: Clocks) -> Clocks:
    """A clock whose contents every proxy sees, as after a kernel's end."""
    seen: Clocks = np.broadcast_to(clock[0], clock.shape).copy()
    return clocks.fitted(seen)
