"""Runs the CTAs of a launch on several cores, in processes that share its global memory.

CTAs run in parallel only if nothing can tell: no instruction communicates between CTAs, and no process finds
a mistake or accesses memory that another one writes. Otherwise the launch begins again in this process, as
if there had been no others.
"""

import gc
import mmap
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import connection
from typing import Any

import numpy as np
import numpy.typing as npt

from weft import system
from weft.emulator.decoding.program import Program
from weft.emulator.errors import Deadlock, Fault
from weft.emulator.memory.device import Device
from weft.emulator.memory.segments import Segment
from weft.emulator.running.ctas import Grid
from weft.emulator.watching.observers import Observers
from weft.emulator.waves import Progress, Waves

_TRIAL = 0.3
"""Seconds that a launch runs in this process alone; one that takes longer begins again in several."""
_COMMUNICATES = ("multimem", "clusterlaunchcontrol", "call")
_ATOMIC = ("atom", "red")
_ORDERED = {"volatile", "relaxed", "acquire", "release", "mmio"}
_THREADED = {"jax", "torch", "cuda.bindings"}
_OWN_SPACES = ("shared", "shared::cta", "shared::cluster")


@dataclass(frozen=True)
class _Part:
    """What a process has run: its totals, and the granules of each buffer that it read and wrote, packed,
    with the size of a granule.
    """

    done: int
    instructions: int
    runs: list[int]
    bytes: Mapping[str, int]
    touched: Mapping[int, tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]


def run(start: Callable[[], tuple[Waves, Observers]], threads: int | None) -> Observers:
    """Runs all CTAs of a launch, on as many cores as `threads` (None: all, if that is safe), and returns its
    observers. `start` makes what runs them; it is called again if several processes do.
    """
    waves, observers = start()
    if threads is None and _alone():
        threads = system.cores()
    pieces = _pieces(waves, threads or 1)
    if len(pieces) < 2 or not _forks() or not _independent(waves, observers):
        waves.run(Grid(waves.launch))
        return observers
    buffers = [segment for segment in waves.device.segments if segment.writable and segment.size]
    before = {segment.base: segment.data.copy() for segment in buffers}
    waves.totals.pause = time.monotonic() + _TRIAL
    if waves.run(Grid(waves.launch)):
        return observers
    waves.totals.restart()
    for segment in buffers:
        segment.data[:] = before[segment.base]
    shown = waves.done
    waves, observers = start()
    waves.progress = _beyond(shown, waves.progress)
    if not _spread(waves, observers, pieces, buffers):
        waves.run(Grid(waves.launch))
    return observers


def _beyond(shown: int, progress: Progress | None) -> Progress | None:
    """`progress` for what it has not been told yet."""
    if progress is None:
        return None
    return lambda done, total: progress(done, total) if done > shown else None


def _alone() -> bool:
    """Whether this process may be copied: it has no other thread of Python, and no library whose threads hold
    locks that a copy would wait for.
    """
    return threading.active_count() == 1 and _THREADED.isdisjoint(sys.modules)


def _independent(waves: Waves, observers: Observers) -> bool:
    """Whether CTAs can't notice in which order they run, and nobody watches that."""
    plain = waves.seed is None and not observers.traces
    return plain and not any(map(_communicates, _opcodes(waves.program)))


def _forks() -> bool:
    """Whether copies of a process work. Windows has none, and libraries of macOS may fail in them."""
    return sys.platform not in ("win32", "darwin")


def _opcodes(program: Program) -> list[list[str]]:
    bodies = [code.function.body or [] for code in program.codes.values()]
    return [instruction.opcode.split(".") for body in bodies for instruction in body]


def _communicates(opcode: Sequence[str]) -> bool:
    """Whether an instruction may carry something from one CTA to another."""
    if opcode[0] in _COMMUNICATES:
        return True
    if any(space in opcode for space in _OWN_SPACES) and "global" not in opcode:
        return False
    if opcode[0] in ("ld", "st"):
        return not _ORDERED.isdisjoint(opcode)
    return opcode[0] in _ATOMIC or opcode[:2] == ["cp", "reduce"]


def _spread(waves: Waves, observers: Observers, pieces: Sequence[Grid], buffers: Sequence[Segment]) -> bool:
    """Runs the pieces of a launch, each in a process; False, with no effect, if it must run in this one."""
    if sys.platform == "win32":
        return False
    shared = {segment.base: _shared(segment) for segment in buffers}
    pipes, processes = [], []
    try:
        for piece in pieces:
            here, there = connection.Pipe(duplex=False)
            process = _fork()
            if process == 0:
                _work(waves, observers, piece, shared, there)
            there.close()
            pipes.append(here)
            processes.append(process)
        parts = _results(pipes, waves)
    finally:
        for process in processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        for pipe in pipes:
            pipe.close()
    if parts is None or _conflict(parts) or _over_limit(waves, parts):
        return False
    for segment in buffers:
        if not np.array_equal(segment.data, shared[segment.base]):
            segment.data[:] = shared[segment.base]
    _add(waves, parts)
    return True


def _shared(segment: Segment) -> npt.NDArray[np.uint8]:
    """A copy of a buffer that processes share."""
    data = np.frombuffer(mmap.mmap(-1, segment.size), np.uint8)
    data[:] = segment.data
    return data


def _pieces(waves: Waves, threads: int) -> list[Grid]:
    """The CTAs of a launch in a piece for each core, of whole waves if there are enough."""
    total, size = waves.launch.total_ctas, waves.launch.cluster_size
    if total // waves.together >= threads:
        size = waves.together
    count = -(-total // size)
    bounds = [min(count * i // threads * size, total) for i in range(threads + 1)]
    bounds[-1] = total
    return [Grid(waves.launch, begin, end) for begin, end in pairwise(bounds) if begin < end]


def _fork() -> int:
    if sys.platform == "win32":
        raise NotImplementedError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries with threads of their own, which the copy doesn't use
        return os.fork()


def _work(
    waves: Waves,
    observers: Observers,
    piece: Grid,
    shared: Mapping[int, npt.NDArray[np.uint8]],
    pipe: "connection.Connection[Any, Any]",
) -> None:
    """Runs a piece in a process of its own, sends its part (None if this process must not count), and
    exits.
    """
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.disable()  # objects of the other process must not be destroyed here
        _use(waves.device, shared)
        found, before = observers.findings(), _Start.of(waves, observers)
        parent = os.getppid()

        def progress(done: int, total: int) -> None:
            if os.getppid() != parent:
                os._exit(1)
            pipe.send(done - before.done)

        waves.progress = progress
        with np.errstate(all="ignore"):
            waves.run(piece)
        pipe.send(before.part(waves, observers) if observers.findings() == found else None)
        status = 0
    except (Fault, Deadlock):
        pipe.send(None)
    finally:
        os._exit(status)


def _use(device: Device, shared: Mapping[int, npt.NDArray[np.uint8]]) -> None:
    for segment in device.segments:
        if segment.base in shared:
            segment.replace(shared[segment.base])


@dataclass(frozen=True)
class _Start:
    """What had run when a process began."""

    done: int
    instructions: int
    runs: tuple[int, ...]
    bytes: Mapping[str, int]
    waves: int

    @classmethod
    def of(cls, waves: Waves, observers: Observers) -> "_Start":
        totals = waves.totals
        count = len(observers.memory.warps)
        return cls(waves.done, totals.instructions, tuple(totals.runs), dict(totals.bytes), count)

    def part(self, waves: Waves, observers: Observers) -> _Part:
        totals = waves.totals
        touched = {}
        for base, shadow in observers.memory.shadows().items():
            read, written = shadow.touched(self.waves)
            touched[base] = shadow.granule, np.packbits(read), np.packbits(written)
        return _Part(
            waves.done - self.done,
            totals.instructions - self.instructions,
            [after - before for after, before in zip(totals.runs, self.runs, strict=True)],
            {space: count - self.bytes.get(space, 0) for space, count in totals.bytes.items()},
            touched,
        )


def _results(pipes: Sequence["connection.Connection[Any, Any]"], waves: Waves) -> list[_Part] | None:
    """The parts of all processes; None as soon as one has none."""
    parts: list[_Part] = []
    done = dict.fromkeys(pipes, 0)
    open_ = list(pipes)
    while open_:
        for pipe in connection.wait(open_):
            assert isinstance(pipe, connection.Connection)
            try:
                message = pipe.recv()
            except EOFError:
                return None
            if message is None:
                return None
            if isinstance(message, _Part):
                parts.append(message)
                open_.remove(pipe)
            else:
                done[pipe] = message
                if waves.progress is not None:
                    waves.progress(waves.done + sum(done.values()), waves.launch.total_ctas)
    return parts


def _conflict(parts: Sequence[_Part]) -> bool:
    """Whether a process wrote what another one read or wrote."""
    for base in {base for part in parts for base in part.touched}:
        read: npt.NDArray[np.bool_] | None = None
        fine = min(part.touched[base][0] for part in parts if base in part.touched)
        for part in parts:
            if base not in part.touched:
                continue
            granule, *packed = part.touched[base]
            mine = [np.repeat(np.unpackbits(bits).view(np.bool_), granule // fine) for bits in packed]
            if read is None:
                read, written = mine
                continue
            size = min(len(read), len(mine[0]))
            one, other = (read[:size] | written[:size]), (mine[0] | mine[1])[:size]
            if (written[:size] & other).any() or (one & mine[1][:size]).any():
                return True
            read, written = read[:size] | mine[0][:size], written[:size] | mine[1][:size]
    return False


def _over_limit(waves: Waves, parts: Sequence[_Part]) -> bool:
    totals = waves.totals
    return totals.instructions + sum(part.instructions for part in parts) > totals.limit


def _add(waves: Waves, parts: Sequence[_Part]) -> None:
    totals = waves.totals
    for part in parts:
        waves.done += part.done
        totals.instructions += part.instructions
        totals.runs = [a + b for a, b in zip(totals.runs, part.runs, strict=True)]
        for space, count in part.bytes.items():
            totals.bytes[space] = totals.bytes.get(space, 0) + count
