"""Runs the CTAs of a launch on several cores, in processes that share its global memory.

CTAs run in parallel only if nothing can tell: no instruction communicates between CTAs, and no process finds
a mistake or accesses memory that another one writes. Otherwise the launch begins again in this process, as
if there had been no others. A launch begins in this process, which goes on with the waves that it has begun;
other processes, copies of it, take the waves that have not begun, one at a time.

Copies of this process, which run a part of a launch.
"""

import gc
import mmap
import os
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import connection
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.arguments import Bytes, put_changes
from weft.emulator.errors import Deadlock, Fault, TimeLimit
from weft.emulator.memory.device import Device
from weft.emulator.memory.segments import Segment
from weft.emulator.running.ctas import Grid, Launch
from weft.emulator.watching.observers import Observers
from weft.emulator.waves import Waves
from weft.system import processes

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


_TRIAL = 0.02
"""Seconds that a launch of several waves runs in this process alone; starting others takes about as long."""
_RESTART = 0.3
"""The same for a launch of one wave, which begins again in several processes."""
_POLL = 0.5
"""Seconds after which processes that run look after each other."""
_MOST_PIECES = 2048
_MOST_BYTES = 1 << 31
"""Larger buffers are mostly empty: rows of an array with gigabytes between them, which nobody should copy."""
_PIECE = struct.Struct("=qq")
_COMMUNICATES = ("multimem", "clusterlaunchcontrol", "call")
_ATOMIC = ("atom", "red")
_ORDERED = {"volatile", "relaxed", "acquire", "release", "mmio"}
_OWN_SPACES = ("shared", "shared::cta", "shared::cluster")

Piece = tuple[int, int]
"""CTAs by their positions in a grid: the first one, and the one after the last."""


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
    observers. `start` makes what runs them; it is called again if the launch begins again.
    """
    waves, observers = start()
    if threads is None and alone():
        threads = processes.cores()
    one_wave = waves.launch.total_ctas <= waves.together
    pieces = _pieces(waves.launch, 0, waves.launch.cluster_size if one_wave else waves.together)
    if min(threads or 1, len(pieces)) < 2 or not work() or not _independent(waves, observers):
        waves.run(Grid(waves.launch))
        return observers
    memory, shown = _Memory(waves.device), 0
    try:
        waves.totals.pause = time.monotonic() + (_RESTART if one_wave else _TRIAL)
        grid = Grid(waves.launch)
        if waves.run(grid):
            return observers
        waves.totals.pause, shown = None, waves.done
        none_left = not one_wave and grid.begun == grid.end
        if observers.findings() or none_left:
            waves.run(grid)
            return observers
        if one_wave:
            memory.restore()
            waves, observers = _again(start, waves, shown)
            grid, pieces = Grid(waves.launch, 0, 0), _even(waves.launch, threads or 1)
        else:
            pieces = _pieces(waves.launch, grid.begun, waves.together)
        memory.keeps = False
        begun = Grid(waves.launch, grid.begun, grid.begun)
        memory.keeps = _spread(waves, observers, begun, pieces, threads or 1)
        if memory.keeps:
            return observers
    finally:
        memory.close()
    waves, observers = _again(start, waves, max(shown, waves.done))
    waves.run(Grid(waves.launch))
    return observers


def _again(
    start: Callable[[], tuple[Waves, Observers]], before: Waves, shown: int
) -> tuple[Waves, Observers]:
    """What begins a launch again, which has shown the end of so many CTAs already."""
    before.totals.restart()
    waves, observers = start()
    progress = waves.progress
    if progress is not None:  # for what it has not been told yet
        waves.progress = lambda done, total: progress(done, total) if done > shown else None
    return waves, observers


class _Memory:
    """The buffers of a device while processes share them. In the end they are changed only if `keeps`."""

    def __init__(self, device: Device) -> None:
        self.keeps = True
        self._buffers: list[tuple[Segment, Bytes, Bytes]] = []
        """Each with its own memory, and the bytes that it had at first."""
        for segment in device.segments:
            if segment.writable and segment.size:
                shared = np.frombuffer(mmap.mmap(-1, segment.size), np.uint8)
                before = segment.data.copy()
                shared[:] = before
                self._buffers.append((segment, segment.data, before))
                segment.replace(shared)

    def restore(self) -> None:
        """Undoes all changes."""
        for segment, _, before in self._buffers:
            segment.data[:] = before

    def close(self) -> None:
        """Makes the buffers this process's own again."""
        for segment, own, before in self._buffers:
            if self.keeps and not np.array_equal(segment.data, before):
                put_changes(own, segment.data, before)
            segment.replace(own)


def _independent(waves: Waves, observers: Observers) -> bool:
    """Whether nobody can notice in which order CTAs run, and memory isn't too large to be shared."""
    plain = waves.seed is None and not observers.traces
    shared = sum(segment.size for segment in waves.device.segments if segment.writable)
    bodies = [code.function.body or [] for code in waves.program.codes.values()]
    opcodes = [instruction.opcode.split(".") for body in bodies for instruction in body]
    return plain and shared <= _MOST_BYTES and not any(map(_communicates, opcodes))


def _communicates(opcode: Sequence[str]) -> bool:
    """Whether an instruction may carry something from one CTA to another."""
    if opcode[0] in _COMMUNICATES:
        return True
    if any(space in opcode for space in _OWN_SPACES) and "global" not in opcode:
        return False
    if opcode[0] in ("ld", "st"):
        return not _ORDERED.isdisjoint(opcode)
    return opcode[0] in _ATOMIC or opcode[:2] == ["cp", "reduce"]


def _spread(waves: Waves, observers: Observers, begun: Grid, pieces: Sequence[Piece], threads: int) -> bool:
    """Runs the waves that have begun in this process, and the pieces in this and in others; False if that
    must not count.
    """
    if sys.platform == "win32":
        return False
    queue = _Queue(pieces)
    pipes: list[connection.Connection[Any, Any]] = []
    processes: list[int] = []
    try:
        for _ in range(min(threads - 1, len(pieces))):
            here, there = connection.Pipe(duplex=False)
            with signals_later():
                process = _fork()
                if process == 0:
                    _work(waves, observers, queue, there)
                processes.append(process)
            there.close()
            pipes.append(here)
        others = _Others(pipes, waves)
        if not _share(waves, begun, queue, others) or observers.findings():
            return False
        parts = others.parts()
    except TimeLimit:
        raise
    except (Fault, Deadlock):
        return False
    finally:
        queue.close()
        for process in processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        for pipe in pipes:
            pipe.close()
    if parts is None or _conflict([_part(waves, observers, 0), *parts]):
        return False
    totals = waves.totals
    if totals.instructions + sum(part.instructions for part in parts) > totals.limit:
        return False
    _add(waves, parts)
    return True


def _share(waves: Waves, begun: Grid, queue: "_Queue", others: "_Others") -> bool:
    """Runs the waves that have begun, then pieces of the queue; False as soon as another process fails."""
    own = waves.progress
    if own is not None:
        waves.progress = lambda done, total: own(done + others.done(), total)
    piece: Grid | None = begun
    while piece is not None:
        waves.totals.pause = time.monotonic() + _POLL
        ended = waves.run(piece)
        if not others.look():
            return False
        if ended:
            piece = queue.take(waves)
    waves.totals.pause = None
    waves.progress = own
    return True


class _Queue:
    """The pieces that no process has taken, in a pipe that all of them read."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._end, begin = os.pipe()
        os.write(begin, b"".join(_PIECE.pack(*piece) for piece in pieces))
        os.close(begin)

    def take(self, waves: Waves) -> Grid | None:
        """The next piece; None if none is left."""
        piece = os.read(self._end, _PIECE.size)
        return Grid(waves.launch, *_PIECE.unpack(piece)) if piece else None

    def close(self) -> None:
        os.close(self._end)


def _pieces(launch: Launch, begin: int, together: int) -> list[Piece]:
    """The CTAs from `begin` on, in pieces of a wave, or of several if there are many."""
    waves = -(-(launch.total_ctas - begin) // together)
    size = together * -(-waves // _MOST_PIECES)
    return [(at, min(at + size, launch.total_ctas)) for at in range(begin, launch.total_ctas, size)]


def _even(launch: Launch, count: int) -> list[Piece]:
    """All CTAs in so many pieces of about the same size."""
    size = launch.cluster_size
    clusters = launch.total_ctas // size
    bounds = [clusters * at // count * size for at in range(count + 1)]
    return [(begin, end) for begin, end in pairwise(bounds) if begin < end]


def _fork() -> int:
    if sys.platform == "win32":
        raise NotImplementedError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries with threads of their own, which the copy doesn't use
        return os.fork()


def _work(waves: Waves, observers: Observers, queue: _Queue, pipe: "connection.Connection[Any, Any]") -> None:
    """Runs pieces in a process of its own, sends its part (None: it must not count), and exits."""
    status = 1
    try:
        take_no_part()
        waves.begin_part()
        since, parent = len(observers.memory.warps), os.getppid()
        waves.progress = lambda done, total: pipe.send(done)
        with np.errstate(all="ignore"):
            while (piece := queue.take(waves)) is not None:
                ended = False
                while not ended:
                    waves.totals.pause = time.monotonic() + _POLL
                    ended = waves.run(piece)
                    if os.getppid() != parent:
                        os._exit(1)
        pipe.send(None if observers.findings() else _part(waves, observers, since))
        status = 0
    except (Fault, Deadlock):
        pipe.send(None)
    finally:
        os._exit(status)


def _part(waves: Waves, observers: Observers, since: int) -> _Part:
    """What this process has run, by waves from number `since` on."""
    touched = {}
    for base, shadow in observers.memory.shadows.items():
        read, written = shadow.touched(since)
        touched[base] = shadow.granule, np.packbits(read), np.packbits(written)
    totals = waves.totals
    return _Part(waves.done, totals.instructions, totals.runs, totals.bytes, touched)


class _Others:
    """The other processes of a launch."""

    def __init__(self, pipes: "Sequence[connection.Connection[Any, Any]]", waves: Waves) -> None:
        self._waves, self._own = waves, waves.progress
        self._open = list(pipes)
        self._done = dict.fromkeys(pipes, 0)
        self._parts: list[_Part] = []

    def done(self) -> int:
        """The CTAs that they have completed."""
        return sum(self._done.values())

    def look(self, seconds: float | None = 0) -> bool:
        """Receives what they have sent; False if one of them must not count."""
        waves = self._waves
        for pipe in connection.wait(self._open, seconds):
            assert isinstance(pipe, connection.Connection)
            try:
                message = pipe.recv()
            except EOFError:
                return False
            if message is None:
                return False
            if isinstance(message, _Part):
                self._parts.append(message)
                self._open.remove(pipe)
            else:
                self._done[pipe] = message
                if self._own is not None:
                    self._own(waves.done + self.done(), waves.launch.total_ctas)
        return True

    def parts(self) -> list[_Part] | None:
        """Their parts, when all have ended; None as soon as one must not count."""
        while self._open:
            if not self.look(None):
                return None
        return self._parts


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


def _add(waves: Waves, parts: Sequence[_Part]) -> None:
    totals = waves.totals
    for part in parts:
        waves.done += part.done
        totals.instructions += part.instructions
        totals.runs = [a + b for a, b in zip(totals.runs, part.runs, strict=True)]
        totals.bytes.update(part.bytes)
