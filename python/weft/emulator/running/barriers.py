"""The barriers of the CTAs of a wave, numbered 0 to 15 in each, and `bar.warp.sync`.

The barrier of each cluster, at which a thread first arrives and then waits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.reading.syntax import Array, Bools
from weft.emulator.running.deadlock import Wait, waits_of
from weft.emulator.running.groups import Frame, Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave


@dataclass(eq=False)
class Reduction:
    """What `bar.red` writes to register `result`: popc, and, or of the predicates `value` of all threads."""

    operation: str
    result: int
    value: Bools

    def of(self, votes: int, voters: int) -> tuple[int, type[np.generic]]:
        if self.operation == "popc":
            return votes, np.uint32
        return int(votes == voters if self.operation == "and" else votes > 0), np.bool_


@dataclass(eq=False)
class Waiting:
    """Threads that wait at a barrier, each since its last arrival, and the block with which they continue."""

    threads: Bools
    frame: Frame
    after: int
    reduction: Reduction | None

    def of(self, threads: Bools) -> "Waiting":
        """Only these threads."""
        return replace(self, threads=self.threads & threads)


Counts = npt.NDArray[np.intp]


@dataclass(eq=False)
class Barrier:
    """A barrier at which threads have arrived. `needed` counts arrivals of whole warps, of which one may
    arrive repeatedly; None: as many as there are warps that have not exited.
    """

    needed: int | None
    line: int
    arrivals: Counts
    """How often each thread has arrived in this phase."""
    lines: Counts
    """The line from which each of the threads arrived last."""
    waiting: list[Waiting] = field(default_factory=list)
    absent: Bools | None = None
    """Live threads that hadn't arrived at an aligned barrier when others of their warps did."""

    def of_warps(self, live: Bools, more: Bools | None = None) -> Counts:
        """How often each warp of the CTA has arrived, or will have with `more`: all of its live threads."""
        arrivals = self.arrivals if more is None else self.arrivals + more
        most = arrivals.max(axis=1, keepdims=True)
        counts: Counts = np.where(live, arrivals, most).min(axis=1)
        return counts

    def wanted(self, live: Bools) -> int:
        """The arrivals of warps that complete this phase."""
        return int(np.count_nonzero(live.any(axis=1))) if self.needed is None else self.needed

    def complete(self, live: Bools) -> bool:
        return int(self.of_warps(live).sum()) >= self.wanted(live)

    def admitted(self, more: Bools, live: Bools) -> Bools:
        """The threads of `more` whose arrival belongs to this phase. Once it has the arrivals it needs, the
        others belong to the next phase.
        """
        before, after = self.of_warps(live), self.of_warps(live, more)
        room = self.wanted(live) - int(before.sum())
        new = after > before
        if np.count_nonzero(new) <= room:
            return more
        late = new & (np.cumsum(new) > room)
        mine: Bools = np.where(late[:, None], False, more)
        return mine

    def votes(self, rows: slice) -> tuple[int, int]:
        """How many threads that wait with a predicate have a true one, and how many wait with one."""
        asked = [(p.threads, p.reduction.value[rows]) for p in self.waiting if p.reduction is not None]
        yes = sum(int(np.count_nonzero(threads & value)) for threads, value in asked)
        return yes, sum(int(np.count_nonzero(threads)) for threads, _ in asked)


class Barriers:
    """`pending` holds the barriers at which threads have arrived and that are not complete, by CTA of the
    wave and number.

    `put` makes a group ready that a barrier releases.
    """

    def __init__(self, wave: Wave, put: Callable[[Group], None]) -> None:
        self.wave, self._put = wave, put
        self.pending: dict[tuple[int, int], Barrier] = {}

    def arrive(
        self,
        group: Group,
        number: int,
        needed: int | None,
        after: int,
        line: int,
        waits: bool = True,
        reduction: Reduction | None = None,
        aligned: bool = True,
    ) -> int:
        """All of `group` arrives. Returns the block to continue with, or -1 if the group waits.

        `aligned`: whole warps must arrive together.
        """
        lanes, wave = group.lanes, self.wave
        plain = needed is None and waits and reduction is None and not self.pending
        if plain and lanes.active == np.count_nonzero(wave.live):
            if wave.watch is not None:
                every = np.unique(wave.cta_of_row[lanes.row_numbers()]).tolist()
                wave.watch.barriers("bar.sync", wave.live, [wave.rows_of(cta) for cta in every], line)
            return after
        rows_here = lanes.row_numbers()
        ctas = list(dict.fromkeys(wave.cta_of_row[rows_here].tolist()))
        if waits and reduction is None and self._all_arrive(lanes, rows_here, ctas, number, needed):
            if wave.watch is not None:
                wave.watch.barriers("bar.sync", lanes.threads(), [wave.rows_of(cta) for cta in ctas], line)
            self._put(Group(after, group.frame, lanes))
            return -1
        threads = lanes.threads()
        for cta in ctas:
            rows = wave.rows_of(cta)
            rest = threads[rows]
            while rest.any():
                barrier = self._barrier(cta, number, needed, line)
                mine = barrier.admitted(rest, wave.live[rows])
                rest = rest & ~mine
                if wave.watch is not None and aligned:
                    self._notify_divergence(barrier, mine, rows, line)
                    absent = wave.live[rows] & ~mine & mine.any(axis=1, keepdims=True)
                    barrier.absent = absent if barrier.absent is None else barrier.absent | absent
                barrier.arrivals = barrier.arrivals + mine
                barrier.lines[mine] = line
                if waits:
                    barrier.waiting.append(Waiting(mine, group.frame, after, reduction))
                elif wave.watch is not None:
                    wave.watch.arrived(barrier, self._in_wave(mine, rows))
                self._check(cta, number)
        return -1 if waits else after

    def _all_arrive(
        self, lanes: Lanes, rows: "npt.NDArray[np.intp]", ctas: Sequence[int], number: int, needed: int | None
    ) -> bool:
        """Whether these threads alone complete the barrier of each of their CTAs."""
        wave = self.wave
        if any((cta, number) in self.pending for cta in ctas):
            return False
        live = lanes.chosen(wave.live)
        if not (live.all() if lanes.mask is None else np.array_equal(live, lanes.mask)):
            return False
        counts = np.bincount(wave.cta_of_row[rows])[ctas]
        if needed is not None:
            return bool((counts == needed).all())
        return bool((counts == np.bincount(wave.cta_of_row[wave.live.any(axis=1)])[ctas]).all())

    def _barrier(self, cta: int, number: int, needed: int | None, line: int) -> Barrier:
        """The current phase of a barrier. Fault if the threads already there expect another count."""
        wave = self.wave
        rows = wave.rows_of(cta)
        barrier = self.pending.get((cta, number))
        if barrier is None:
            none = np.zeros(wave.live[rows].shape, np.intp)
            barrier = self.pending[cta, number] = Barrier(needed, line, none, none.copy())
        elif barrier.needed != needed:
            everyone = {len(wave.live[rows]), int(np.count_nonzero(wave.live[rows].any(axis=1)))}
            here, there = (everyone if n is None else {n} for n in (needed, barrier.needed))
            if not here & there:
                mine, other = (32 * max(warps) for warps in (here, there))
                what = f"barrier {number} expects {mine} threads here, but {other} at line {barrier.line}"
                raise Fault(what, line)
        return barrier

    def _notify_divergence(self, barrier: Barrier, mine: Bools, rows: slice, line: int) -> None:
        """Reports threads that arrive from another line, or again, before others of their warps."""
        live = self.wave.live[rows]
        again = mine & (barrier.arrivals > barrier.of_warps(live)[:, None])
        most = np.where(mine, barrier.arrivals + 1, 0).max(axis=1, keepdims=True)
        elsewhere = ~mine & (barrier.arrivals == most) & (barrier.lines != line)
        warps = mine.any(axis=1) & (again | elsewhere).any(axis=1)
        watch = self.wave.watch
        if watch is not None and warps.any():
            watch.divergence("bar.sync", self._in_wave(mine & warps[:, None], rows), line)

    def recheck(self) -> None:
        """Checks all barriers again after threads have exited."""
        for cta, number in list(self.pending):
            self._check(cta, number)

    def _check(self, cta: int, number: int) -> None:
        """Releases the threads that wait at a barrier if it is complete."""
        wave, barrier = self.wave, self.pending[cta, number]
        rows = wave.rows_of(cta)
        if not barrier.complete(wave.live[rows]):
            return
        del self.pending[cta, number]
        self._leave_over(cta, number, barrier)
        if wave.watch is not None:
            if barrier.absent is not None:  # others of their warps may have exited without it
                arrived = barrier.arrivals == barrier.arrivals.max(axis=1, keepdims=True)
                threads = arrived & (barrier.absent & ~arrived).any(axis=1)[:, None]
                if threads.any():
                    first = int(barrier.lines[threads][0])
                    wave.watch.divergence("bar.sync", self._in_wave(threads, rows), first)
            released = np.zeros(barrier.arrivals.shape, np.bool_)
            for part in barrier.waiting:
                released = released | part.threads
            waited = self._in_wave(released, rows)
            wave.watch.barrier("bar.sync", waited, waited, barrier.line)
            wave.watch.passed(barrier, waited)
        for part in barrier.waiting:
            lanes = Lanes.of(wave, self._in_wave(part.threads, rows))
            if part.reduction is not None:
                value, kind = part.reduction.of(*barrier.votes(rows))
                full: Array = np.full((lanes.warps, 32), value, kind)
                lanes.write(part.reduction.result, full)
            self._put(Group(part.after, part.frame, lanes))

    def _leave_over(self, cta: int, number: int, barrier: Barrier) -> None:
        """Moves arrivals of threads whose warps haven't arrived as often to the next phase."""
        rows = self.wave.rows_of(cta)
        more = np.maximum(barrier.arrivals - barrier.of_warps(self.wave.live[rows])[:, None], 0)
        late = more > 0
        if not late.any():
            return
        after = self.pending[cta, number] = replace(barrier, arrivals=more, lines=barrier.lines.copy())
        after.waiting = [part.of(late) for part in barrier.waiting if (part.threads & late).any()]
        barrier.waiting = [part.of(~late) for part in barrier.waiting if (part.threads & ~late).any()]
        barrier.arrivals = barrier.arrivals - more
        waiting = np.logical_or.reduce([part.threads for part in after.waiting] or [np.zeros_like(late)])
        watch = self.wave.watch
        if watch is not None and (late & ~waiting).any():
            watch.arrived(after, self._in_wave(late & ~waiting, rows))

    def _in_wave(self, threads: Bools, rows: slice) -> Bools:
        full = np.zeros((self.wave.warps, 32), np.bool_)
        full[rows] = threads
        return full

    def waited_for(self) -> bool:
        """Whether a thread waits at a barrier. Arrivals without a wait (bar.arrive) don't count."""
        return any(barrier.waiting for barrier in self.pending.values())

    def describe(self) -> list[Wait]:
        """The warps that wait at a barrier."""
        waits: list[Wait] = []
        for (cta, number), barrier in self.pending.items():
            rows = self.wave.rows_of(cta)
            live = self.wave.live[rows]
            each, wanted = barrier.of_warps(live), barrier.wanted(live)
            parts = int(np.count_nonzero(barrier.arrivals.max(axis=1) > each))
            more = f", and some lanes of {parts} more" if parts else ""
            what = f"at barrier {number}: {each.sum()} of {wanted} warps have arrived{more}"
            for part in barrier.waiting:
                lanes = Lanes.of(self.wave, self._in_wave(part.threads, rows))
                line = int(barrier.lines[part.threads][0])
                waits += waits_of(lanes, line, f"at line {line}", what)
        return waits


class Phase:
    """One phase of a cluster's barrier."""


class ClusterBarriers:
    """The cluster barriers of a wave. A thread is in `arrived` from its arrival to the end of the phase, and
    in `open` from then to its wait. `waiting` has the threads that wait for a phase to end.
    """

    def __init__(self, wave: Wave, put: Callable[[Group], None]) -> None:
        self.wave, self._put = wave, put
        shape = wave.live.shape
        self.arrived: Bools = np.zeros(shape, np.bool_)
        self.open: Bools = np.zeros(shape, np.bool_)
        self._rows = wave.launch.warps * wave.launch.cluster_size
        clusters = wave.warps // self._rows
        self._phases = [Phase() for _ in range(clusters)]
        self._ended: dict[int, Phase] = {}
        self.waiting: list[tuple[Waiting, int]] = []

    def arrive(self, group: Group, line: int, relaxed: bool) -> None:
        """The threads of `group` arrive and continue."""
        threads = group.lanes.threads()
        twice = threads & (self.arrived | self.open)
        if twice.any():
            what = "barrier.cluster.arrive again before barrier.cluster.wait"
            raise Fault(what, line, self.wave.first(twice))
        self.arrived = self.arrived | threads
        watch = self.wave.watch
        if watch is not None:
            notify = watch.arrived_relaxed if relaxed else watch.arrived
            for cluster, mine in self._by_cluster(threads):
                notify(self._phases[cluster], mine)
        self._check(line)

    def wait(self, group: Group, after: int, line: int) -> int:
        """Returns the block to continue with, or -1 if threads of `group` must wait."""
        threads = group.lanes.threads()
        ready = threads & self.open
        self._pass(ready)
        waiting = threads & ~ready
        if not waiting.any():
            return after
        self.waiting.append((Waiting(waiting, group.frame, after, None), line))
        if ready.any():
            self._put(Group(after, group.frame, Lanes.of(self.wave, ready)))
        return -1

    def recheck(self) -> None:
        """Checks all clusters again after threads have exited."""
        self._check(0)

    def _check(self, line: int) -> None:
        """Ends the phase of each cluster in which all live threads have arrived."""
        wave, rows = self.wave, self._rows
        clusters = (wave.warps // rows, rows * 32)
        come = (self.arrived | ~wave.live).reshape(clusters).all(axis=1)
        come &= self.arrived.reshape(clusters).any(axis=1)
        if not come.any():
            return
        done = np.repeat(come, rows)[:, None] & self.arrived
        self.arrived = self.arrived & ~done
        self.open = (self.open | done) & wave.live
        for cluster, mine in self._by_cluster(done):
            self._ended[cluster], self._phases[cluster] = self._phases[cluster], Phase()
            if wave.watch is not None:
                wave.watch.barrier("barrier.cluster", np.zeros_like(mine), mine, line)
        self._release()

    def _by_cluster(self, threads: Bools) -> Iterator[tuple[int, Bools]]:
        """The threads of each cluster that has any of them."""
        number = np.arange(len(threads)) // self._rows
        for cluster in np.unique(number[threads.any(axis=1)]).tolist():
            yield cluster, threads & (number == cluster)[:, None]

    def _pass(self, ready: Bools) -> None:
        self.open = self.open & ~ready
        watch = self.wave.watch
        if watch is not None:
            for cluster, mine in self._by_cluster(ready):
                watch.passed(self._ended[cluster], mine)

    def _release(self) -> None:
        """Releases the threads that wait for a phase that has ended."""
        waiting, self.waiting = self.waiting, []
        for part, line in waiting:
            ready = part.threads & self.open
            self._pass(ready)
            staying = part.threads & ~ready
            if staying.any():
                self.waiting.append((Waiting(staying, part.frame, part.after, None), line))
            if ready.any():
                lanes = Lanes.of(self.wave, ready)
                self._put(Group(part.after, part.frame, lanes))

    def describe(self) -> list[Wait]:
        """The warps that wait, each with the number of threads of its cluster that have not arrived."""
        wave = self.wave
        waits: list[Wait] = []
        for part, line in self.waiting:
            for cluster, mine in self._by_cluster(part.threads):
                rows = slice(cluster * self._rows, (cluster + 1) * self._rows)
                missing = int(np.count_nonzero(wave.live[rows] & ~(self.arrived | self.open)[rows]))
                what = f"for its cluster: {missing} threads have not arrived"
                at = f"at line {line} (barrier.cluster.wait)"
                waits += waits_of(Lanes.of(wave, mine), line, at, what)
        return waits
