"""The barrier of each cluster, at which a thread first arrives and then waits."""

from collections.abc import Callable, Iterator

import numpy as np

from weft.emulator.errors import Fault
from weft.emulator.reading.types import Bools
from weft.emulator.running.barriers import Waiting
from weft.emulator.running.deadlock import Wait, waits_of
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave


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
            row, lane = divmod(int(twice.argmax()), 32)
            thread = self.wave.thread(row, lane)
            raise Fault("barrier.cluster.arrive again before barrier.cluster.wait", line, thread)
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
        """Threads continue after a phase that has ended."""
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
