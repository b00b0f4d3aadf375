"""State that the waves of a launch share: shadows of global memory, and releases at addresses; which accesses
are checked, of padding and of local memory, too.

Whoever comes after a strong read of a write comes after the write, too, even if nothing was released with
it: a counter may be reset by a plain store once it has been seen.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.program import Program
from weft.emulator.memory import untouched
from weft.emulator.memory.segments import Access, Segment
from weft.emulator.reading.syntax import Array, Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks
from weft.emulator.sanitizer.dataflow import is_copy
from weft.emulator.sanitizer.discards import lines_of_loads
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.shadow import Granules, Index, Times
from weft.emulator.watch import CHUNK, Traffic


@dataclass(frozen=True)
class Checked:
    """What is checked: granules, the warp that accesses each, and the line. Of threads: their access, the
    number of granules of each lane, and the lanes, by default all; otherwise a unit accesses them for a warp.
    """

    index: Index
    rows: Index
    line: int
    access: Access | None = None
    count: int = 1
    lanes: Bools | None = None

    def report(self, findings: Findings, wave: Wave, rule: str, name: str, what: str, bad: Bools) -> None:
        """Records what is wrong with `bad` granules; `name` is that of the first, with its address last."""
        if self.access is not None:
            findings.add_lanes(rule, what, wave, self.access, bad, self.count, self.lanes)
            return
        thread, count = wave.thread(int(self.rows[0]), 0), int(np.count_nonzero(bad))
        findings.add(rule, f"{name} {what}", self.line, thread, int(name.split()[-1], 16), count)


def at_once(of: Checked, wave: Wave, writers: Index, level: int) -> tuple[str, Bools]:
    """What is wrong with a store by which several warps write the same granules, whose last writers are
    `writers`, and which of them are.
    """
    mixed: Bools = writers != of.rows
    if np.count_nonzero(mixed):
        assert of.access is not None
        if level:
            mixed &= wave.distances(of.rows, writers) >= level
        else:
            mixed &= np.repeat(disagree(of.access, wave), of.count)
    alone = ", and their scopes don't include each other" if level else ""
    return f"is written by two warps at once{alone}", mixed


def changes(access: Access, wave: Wave) -> Bools:
    """The lanes of a store that change the value in memory; warps may write the same value without a race."""
    value = wave.memory.storing
    if value is None or value.shape != access.offsets.shape:
        return np.ones(access.lanes.active, np.bool_)
    enabled = access.lanes.enabled()
    there = access.segment.view(access.width)[access.offsets[enabled].view(np.intp) // access.width]
    return _differ(there, value[enabled])


def disagree(access: Access, wave: Wave) -> Bools:
    """The lanes of a store that write another value than the last lane with the same address."""
    value = wave.memory.storing
    if value is None or value.shape != access.offsets.shape:
        return np.ones(access.lanes.active, np.bool_)
    enabled = access.lanes.enabled()
    offsets, values = access.offsets[enabled], value[enabled]
    _, last, inverse = np.unique(offsets[::-1], return_index=True, return_inverse=True)
    winner = len(offsets) - 1 - last
    return _differ(values, values[winner[inverse[::-1]]])


def _differ(a: Array, b: Array) -> Bools:
    """The elements whose bits differ; as numbers, a NaN would differ from itself."""
    as_bytes = [np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1) for x in (a, b)]
    differ: Bools = np.logical_or.reduce(as_bytes[0] != as_bytes[1], axis=1)
    return differ


_WORD = 4
_Write = tuple[int, int]
"""The owner and the time of a write."""


class Observed:
    """By buffer and word: the warps that have read it, when that was last, and which write they saw."""

    def __init__(self) -> None:
        self._reads: dict[tuple[int, int], dict[int, tuple[int, _Write]]] = {}

    def note(self, base: int, offset: int, rows: Index, known: Clocks, write: _Write) -> None:
        """Warps read a word."""
        reads = self._reads.setdefault((base, offset // _WORD), {})
        reads.update((row, (int(known[row, row]), write)) for row in rows.tolist())

    def after(
        self,
        base: int,
        late: Bools,
        offsets: Index,
        rows: Index,
        writes: tuple[npt.NDArray[np.int64], Times],
        known: Clocks,
    ) -> Bools:
        """`late` without the accesses of warps that come after a read of the last write."""
        left: Bools = late.copy()
        for at in np.flatnonzero(late).tolist() if self._reads else ():
            reads = self._reads.get((base, int(offsets[at]) // _WORD), {})
            write, row = (int(writes[0][at]), int(writes[1][at])), int(rows[at])
            left[at] = not any(
                seen == write and (by == row or time <= known[row, by]) for by, (time, seen) in reads.items()
            )
        return left


_KEPT = 32
_COPIES = ("cp.async", "tensormap.cp_fenceproxy")
_OBJECT = ("tensormap.cp_fenceproxy",)
"""Instructions that copy an object in several accesses, some of which may be all padding."""


@lru_cache(_KEPT)
def needed_elements(program: Program) -> dict[int, Bools]:
    """The lines of loads and copies, and which of their elements they need: a program only stores what it has
    read of the others, if anything. In programs with functions, none is found.
    """
    if len(program.codes) > 1:
        return {}
    every = [traffic for block in program.blocks for traffic in block.traffic]
    lines, readers = lines_of_loads(program), defaultdict(list)
    for traffic in every:
        for slot in {*traffic.reads, *(traffic.guard or ())[:1]}:
            readers[slot].append(traffic)
    needed: dict[int, Bools] = {}
    for traffic in every:
        if traffic.prefix in ("ld", "ldu") and traffic.line in lines:
            needed[traffic.line] = np.array([_is_needed(slot, readers) for slot in traffic.writes])
        elif traffic.prefix in _COPIES:
            needed[traffic.line] = np.zeros(0 if traffic.prefix in _OBJECT else 1, np.bool_)
    return needed


def _is_needed(slot: int, readers: Mapping[int, list[Traffic]]) -> bool:
    """Whether an instruction computes with a register, or with a copy of it."""
    waiting, seen = [slot], {slot}
    while waiting:
        slot = waiting.pop()
        for traffic in readers.get(slot, ()):
            if is_copy(traffic):
                waiting += [each for each in traffic.writes if each not in seen]
                seen.update(traffic.writes)
            elif slot in (traffic.guard or ())[:1] or traffic.reads.count(slot) > traffic.stores.count(slot):
                return True
    return False


def is_padding(needed: Mapping[int, Bools], access: Access, empty: Bools) -> Bools:
    """Which of the empty parts of a load, `[lanes, parts of an access]`, are padding: other parts have been
    written, and the program doesn't need these.
    """
    elements = needed.get(access.line)
    if access.kind != "load" or elements is None:
        return np.zeros_like(empty)
    if not len(elements):
        return empty
    count = empty.shape[1]
    if count % len(elements):
        return np.zeros_like(empty)
    useful = np.repeat(elements, count // len(elements))
    padding: Bools = empty & ~empty.all(axis=1, keepdims=True) & ~useful
    return padding


def in_chunks(offsets: Index, empty: Bools) -> Bools:
    """Which of the empty parts of what a copy reads are padding: others of the same 16 bytes have been
    written.
    """
    chunks = offsets // CHUNK
    padding: Bools = empty & np.isin(chunks, chunks[~empty])
    return padding


class LocalMemory:
    """The checks of a wave's local memory, in kernels without `calls`, which may pass it on.

    Memory from `alloca` is in a segment of its own, which isn't checked.
    """

    def __init__(self, wave: Wave, findings: Findings, needed: Mapping[int, Bools], *, calls: bool) -> None:
        self.wave, self.findings, self._needed, self._calls = wave, findings, needed, calls
        self._written: Bools = np.zeros((0, 0), np.bool_)

    @property
    def written(self) -> Bools:
        """The bytes that were written, `[threads, bytes of each]`."""
        size = self.wave.memory.local_size
        if size != self._written.shape[1]:
            grown = np.zeros((32 * self.wave.warps, size), np.bool_)
            grown[: len(self._written), : self._written.shape[1]] = self._written
            self._written = grown
        return self._written

    def access(self, access: Access) -> None:
        """Threads access their local memory."""
        if self._calls:
            return
        lanes = access.lanes
        offsets = access.offsets.view(np.intp)
        chosen = offsets if lanes.mask is None else offsets[lanes.mask]
        every = chosen.reshape(-1, 1) + np.arange(access.width)
        flat = self.written.reshape(-1)
        if access.kind != "load":
            flat[every] = True
            return
        bad = ~flat[every].all(axis=1)
        if bad.any():
            empty = ~flat[every]
            bad = (empty & ~is_padding(self._needed, access, empty)).any(axis=1)
        if bad.any():
            what = "is read but was never written"
            self.findings.add_lanes("uninitialized-local", what, self.wave, access, bad)


COLUMN_BITS = 20
EVERYONE = "system"


class GlobalShadow(Granules):
    """The last write of each granule and the last reads of two CTAs: their owner (wave and column of its
    clocks), their time, 0 for never, and their line. `level` is the scope of the write, 0 if it was weak.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.owner: npt.NDArray[np.int64] = untouched.zeros((3, self.count), np.int64)
        self.time: Times = untouched.zeros((3, self.count), np.int32)
        self.line: Times = untouched.zeros((3, self.count), np.int32)
        self.level: npt.NDArray[np.int8] = untouched.zeros((self.count,), np.int8)
        self.is_written = False

    def repeat(self, times: int) -> None:
        used = untouched.used(self.time, self.level)
        for name in ("owner", "time", "line", "level"):
            setattr(self, name, untouched.repeated(getattr(self, name), times, used))

    def touched(self, since: int) -> tuple[Bools, Bools]:
        """The granules that waves from number `since` on have read, and written."""
        mine = (self.time > 0) & (self.owner >> COLUMN_BITS >= since)
        return mine[1] | mine[2], mine[0]


class GlobalMemory:
    """The shadows of buffers, and the releases at addresses, which all waves of a launch share."""

    def __init__(self) -> None:
        self.warps: list[int] = []
        """The number of warps of each wave; greater columns belong to asynchronous units."""
        self.ranks: list[int | None] = []
        """The GPU of each wave, where several run."""
        self.users: list[str] = []
        """The name of the launch of each wave, where several run."""
        self.locations: dict[tuple[object, Hashable], dict[int, Clocks]] = {}
        """By the GPU whose accesses acquire it, or EVERYONE, and the address."""
        self.shadows: dict[int, GlobalShadow] = {}
        """The shadows by the addresses of their buffers."""

    def shadow(self, segment: Segment) -> GlobalShadow:
        """The shadow of a buffer."""
        shadow = self.shadows.get(segment.base)
        if shadow is None:
            shadow = self.shadows[segment.base] = GlobalShadow(segment.size)
        return shadow
