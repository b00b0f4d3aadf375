"""Vector clocks: what every warp of a wave knows to have happened."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import CLUSTER, CTA, GPU, LEVELS, SYSTEM
from weft.emulator.reading.syntax import Bools

Rows = npt.NDArray[np.intp]
Clocks = npt.NDArray[np.int32]
_ROOM = 16
DATA, MAPS = 1, 2
"""What a bulk copy reads from global memory."""


def rows_of(threads: Bools) -> Rows:
    """The warps of `[all warps, 32]` threads."""
    return np.flatnonzero(threads.any(axis=1))


class VectorClocks:
    """`known[r, c]` is the last time of column c that happened before what warp r does next. `fenced` is the
    same for what is also visible to the asynchronous proxy in shared memory.

    The first columns are the warps'. Each asynchronous operation whose completion is awaited separately has a
    column of its own. Besides `known` and `fenced` there are more layers; all of them are joined wherever
    threads synchronize. With `tensor_fences`, one layer has what precedes a
    tcgen05.fence::before_thread_sync; `met` is the part of it that a warp has received before a
    tcgen05.fence::after_thread_sync. With `global_copies`, two layers have what bulk copies see of global
    memory: as data, and as tensor maps. With `levels`, the scopes of accesses and fences, one layer for each
    scope (one for all if they are the GPU's) has what a warp has read by relaxed accesses, which a fence of
    that scope acquires.
    """

    def __init__(
        self,
        warps: int,
        tensor_fences: frozenset[str] = frozenset(),
        global_copies: bool = False,
        levels: frozenset[int] = frozenset(LEVELS.values()),
    ) -> None:
        self.warps = warps
        self.width = warps
        self.tensor_fences = bool(tensor_fences)
        self.layers = 2 + self.tensor_fences + 2 * global_copies
        self._published = 2 if "before" in tensor_fences else 0
        self.seen_layers = (0, self.layers - 2, self.layers - 1) if global_copies else (0, 0, 0)
        """The layers of what is known, and of what `seen` returns for DATA and for MAPS."""
        self._not_read = self.layers
        several = (CTA, CLUSTER, GPU, SYSTEM) if SYSTEM in levels else (CTA, CLUSTER, GPU)
        self.levels = tuple(levels) if len(levels) < 2 and levels <= {GPU, SYSTEM} else several
        """The scopes that differ in what fences acquire."""
        self._read = {level: self.layers + at for at, level in enumerate(self.levels)}
        self.layers += len(self.levels)
        self._set(np.zeros((self.layers, warps, warps + _ROOM), np.int32))
        self.met: Clocks = np.zeros((warps, warps + _ROOM), np.int32)
        every = np.arange(warps)
        self.known[every, every] = 1
        self._columns: dict[Hashable, int] = {}
        self.names: dict[int, Hashable] = {}
        self.times: npt.NDArray[np.int64] = np.zeros(warps + _ROOM, np.int64)
        """The time of an asynchronous column's next operation, less one."""
        self.through_proxy: npt.NDArray[np.bool_] = np.zeros(warps + _ROOM, np.bool_)
        """Whether a column's unit writes through the asynchronous proxy, so that no fence is needed."""

    def _set(self, clocks: Clocks) -> None:
        self.all = clocks
        """All layers, that of `known` first; another array once there are more columns."""
        self.known: Clocks = clocks[0]
        self.fenced: Clocks = clocks[1]
        self.published: Clocks = clocks[self._published]
        """What precedes a tcgen05.fence::before_thread_sync; in a kernel without them, everything."""

    def column(self, name: Hashable, through_proxy: bool = True) -> int:
        """The column of an asynchronous unit."""
        at = self._columns.get(name)
        if at is None:
            at = self._columns[name] = self.width
            self.width += 1
            if self.width > self.all.shape[2]:
                more = np.zeros((self.layers, self.warps, self.width), np.int32)
                self._set(np.concatenate([self.all, more], axis=2))
                self.met = np.concatenate([self.met, more[0]], axis=1)
                self.through_proxy = np.concatenate([self.through_proxy, np.zeros(self.width, np.bool_)])
                self.times = np.concatenate([self.times, np.zeros(self.width, np.int64)])
            self.names[at] = name
            self.through_proxy[at] = through_proxy
        return at

    def find(self, name: Hashable) -> int | None:
        """The column of a unit, if it has done anything."""
        return self._columns.get(name)

    def empty(self) -> Clocks:
        """A clock that knows nothing, for `release` and `acquire`."""
        return np.zeros((self.layers, self.all.shape[2]), np.int32)

    def of(self, rows: Rows) -> Clocks:
        """What any of the warps knows, as a new clock."""
        joined: Clocks = self.all[:, rows].max(axis=1)
        return joined

    def release(self, rows: Rows, clock: Clocks) -> Clocks:
        """`clock` joined with what the warps know; what they do from here on is later."""
        joined = self.fitted(clock)
        np.maximum(joined, self.all[:, rows].max(axis=1), out=joined)
        self.step(rows)
        return joined

    def acquire(self, rows: Rows, clock: Clocks) -> None:
        """The warps learn what `clock` knows."""
        self.all[:, rows] = np.maximum(self.all[:, rows], self.fitted(clock)[:, None])

    def read(self, rows: Rows, level: int, clock: Clocks) -> None:
        """Warps have read, relaxed, what was released with `clock`; fences of at least `level` acquire it."""
        new = self.fitted(clock)
        self.all[1 : self._not_read, rows] = np.maximum(
            self.all[1 : self._not_read, rows], new[1 : self._not_read, None]
        )
        for to in self.levels:
            if to >= level:
                layer = self._read[to]
                self.all[layer, rows] = np.maximum(self.all[layer, rows], np.maximum(new[0], new[layer]))

    def with_read(self, rows: Rows, level: int) -> Clocks:
        """What warps will know after a fence of that scope has acquired what they have read relaxed."""
        known: Clocks = self.known[rows]
        if self.levels:
            np.maximum(known, self.all[self._read[level], rows], out=known)
        return known

    def join(self, arrived: Rows, released: Rows) -> None:
        """What `arrived` did happens before what `released` do next."""
        joined = self.all[:, arrived].max(axis=1, keepdims=True)
        self.all[:, released] = np.maximum(self.all[:, released], joined)
        self.step(arrived)

    def join_each(self, sets: Rows) -> None:
        """The same for warps that meet: those of each of some sets of the same size, `[sets, warps]`."""
        self.all[:, sets] = self.all[:, sets].max(axis=2, keepdims=True)
        self.step(sets.reshape(-1))

    def step(self, rows: Rows) -> None:
        """Starts a new time of the warps."""
        self.known[rows, rows] += 1

    def fence(self, rows: Rows, in_shared: bool = True, in_global: bool = False, maps: bool = False) -> None:
        """Makes what the warps know visible to the asynchronous proxy in these spaces, or as tensor maps."""
        layers = [1] * in_shared + [self.seen_layers[DATA]] * in_global + [self.seen_layers[MAPS]] * maps
        for layer in layers:
            self.all[layer, rows] = self.known[rows]
        self.step(rows)

    def seen(self, how: int) -> Clocks:
        """What bulk copies see of global memory as DATA or MAPS; without `global_copies`, everything."""
        seen: Clocks = self.all[self.seen_layers[how]]
        return seen

    def of_global(self, clock: Clocks) -> Clocks:
        """What a clock knows, and the parts of it that bulk copies see of global memory as DATA and
        as MAPS.
        """
        return clock[list(self.seen_layers)]

    def fence_tensor(self, rows: Rows, before: bool) -> None:
        """tcgen05.fence::before_thread_sync or ::after_thread_sync of these warps."""
        if before:
            self.all[2, rows] = np.maximum(self.all[2, rows], self.known[rows])
        else:
            self.met[rows] = np.maximum(self.met[rows], self.published[rows])

    def learn(self, row: int, column: int, time: int) -> None:
        """A warp learns that a unit has completed its operations up to a time."""
        self.known[row, column] = max(int(self.known[row, column]), time)

    def joined(self, first: Clocks, second: Clocks) -> Clocks:
        """What either of two clocks knows, as a new clock."""
        joined: Clocks = np.maximum(self.fitted(first), self.fitted(second))
        return joined

    def fitted(self, clock: Clocks) -> Clocks:
        """A clock, extended to the current number of columns."""
        width = self.all.shape[2]
        if clock.shape[1] == width:
            return clock
        fitted: Clocks = np.zeros((len(clock), width), clock.dtype)  # np.pad takes ten times as long
        fitted[:, : clock.shape[1]] = clock
        return fitted
