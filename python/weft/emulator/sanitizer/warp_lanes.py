"""What some lanes of a warp release or acquire for all: PTX requires a barrier of the warp besides.

The clocks count the lanes of a warp as one. The rules here add what that hides. Where some lanes release,
the accesses of the others since the last barrier are dated after the release. What some lanes acquire, the
others don't know before the next barrier.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import Access, Segment
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks, VectorClocks, rows_of
from weft.emulator.sanitizer.global_races import GlobalRaces
from weft.emulator.sanitizer.races import Races
from weft.emulator.sanitizer.shadow import Granules, Index

_KEPT = 64
"""The number of accesses of a warp that are kept; earlier ones count as ordered."""
_NOTHING = np.zeros(0, np.intp)
_UNLIMITED = (1 << 31) - 1
_Part = tuple[Index, int]


class WarpLanes:
    """The lanes of a wave's warps; nothing is recorded unless `strict`."""

    def __init__(
        self, wave: Wave, clocks: VectorClocks, races: Races, global_races: GlobalRaces, *, strict: bool
    ) -> None:
        self.wave, self.clocks, self.races, self.globals = wave, clocks, races, global_races
        self.strict = strict
        self._since: defaultdict[int, deque[tuple[Access, int]]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self.holding: Bools = np.zeros(wave.warps, np.bool_)
        """The warps of which some lanes don't know all that others have acquired."""
        self.knowing: npt.NDArray[np.uint32] = np.zeros(wave.warps, np.uint32)
        """The lanes of such a warp that know, as bits, and the clock of the others."""
        self.clock: Clocks = np.zeros((wave.warps, 0), np.int32)

    def _some(self, threads: Bools) -> list[int]:
        """The warps of which some, but not all lanes are among the threads."""
        rows = rows_of(threads)
        others = self.wave.live[rows] & ~threads[rows]
        some: list[int] = rows[others.any(axis=1)].tolist()
        return some

    def joined(self, threads: Bools) -> None:
        """Threads have met at a barrier, which orders their accesses."""
        holding = self.strict and bool(self.holding.any())
        if not holding and not self._since:
            return
        for row in rows_of(threads).tolist():
            self._since.pop(row, None)
            if holding:
                self._learn(row, threads[row])

    def _learn(self, row: int, lanes: Bools) -> None:
        """Lanes of a warp know what any of them has acquired."""
        if self.holding[row]:
            self.knowing[row] |= _bits(lanes)
            self.holding[row] = bool(_bits(self.wave.live[row]) & ~self.knowing[row])

    def fit(self) -> None:
        """Makes the clocks as wide as those of the warps."""
        lacking = self.clocks.all.shape[2] - self.clock.shape[1]
        if lacking:
            self.clock = np.pad(self.clock, ((0, 0), (0, lacking)), constant_values=_UNLIMITED)

    def nothing_since(self, rows: "npt.NDArray[np.intp]") -> bool:
        """Whether warps have not accessed memory since their last barrier or release."""
        return not self._since or self._since.keys().isdisjoint(rows.tolist())

    # Accesses

    def accessed(self, access: Access) -> None:
        """After a weak access."""
        if self.strict and self._granules(access.segment, access.space) is not None:
            for at, row in enumerate(access.lanes.row_numbers().tolist()):
                self._since[row].append((access, at))

    def _granules(self, segment: Segment, space: str) -> Granules | None:
        """The shadow of memory that threads share."""
        if segment is self.wave.memory.shared:
            return self.races.shadow
        if space == "global" and segment.writable:
            return self.globals.memory.shadow(segment)
        return None

    def unaware(self, access: Access) -> Iterator[Access]:
        """The part of an access by lanes that don't know what others of their warps have acquired; while it
        is in use, the clocks have what those lanes know.
        """
        if not np.count_nonzero(self.holding):
            return
        rows = [row for row in access.lanes.row_numbers().tolist() if self.holding[row]]
        if not rows:
            return
        self.fit()
        enabled = access.lanes.enabled().copy()
        for at, row in enumerate(access.lanes.row_numbers().tolist()):
            unaware = self.knowing[row] >> np.arange(32, dtype=np.uint32) & np.uint32(1) == 0
            enabled[at] &= unaware if self.holding[row] else False
        part = access.lanes.narrowed(enabled)
        if part.active:
            known, before = self.clocks.known, self.clocks.known[rows].copy()
            for row in rows:
                np.minimum(known[row], self.clock[row], out=known[row])
            yield replace(access, lanes=part)
            self.clocks.known[rows, : before.shape[1]] = before

    # Releases and acquires

    @contextmanager
    def acquiring(self, threads: Bools) -> Iterator[None]:
        """Within it, the clocks of these threads' warps receive what the threads acquire."""
        if not self.strict:
            yield
            return
        rows = self._some(threads)
        before = self.clocks.known[rows].copy()
        yield
        for row, known in zip(rows, before, strict=True):
            self._hold(row, threads[row], known)
        for row in np.flatnonzero(self.holding).tolist():
            if threads[row].any():
                self._learn(row, threads[row])

    def _hold(self, row: int, lanes: Bools, before: Clocks) -> None:
        now = self.clocks.known[row]
        known = before if len(now) == len(before) else np.pad(before, (0, len(now) - len(before)))
        if not (now > known).any():
            return
        self.fit()
        clock = np.where(now > known, known, _UNLIMITED)
        if self.holding[row]:
            np.minimum(self.clock[row], clock, out=self.clock[row])
            self.knowing[row] |= _bits(lanes)
        else:
            self.clock[row], self.knowing[row] = clock, _bits(lanes)
            self.holding[row] = True

    def released(self, threads: Bools) -> None:
        """Threads have released, and their warps have stepped their clocks."""
        if not self.strict:
            return
        for row in self._some(threads):
            if row in self._since:
                self._postpone(row, threads[row])
        for row in rows_of(threads).tolist():
            self._since.pop(row, None)

    def _postpone(self, row: int, lanes: Bools) -> None:
        """Dates the accesses of a warp's other lanes to now, where `lanes` have not accessed the same."""
        parts: dict[tuple[int, bool], tuple[Access, list[_Part], list[_Part]]] = {}
        for access, at in self._since[row]:
            enabled, offsets = access.lanes.enabled()[at], access.offsets[at].view(np.intp)
            key = access.segment.base, access.kind == "load"
            _, theirs, own = parts.setdefault(key, (access, [], []))
            theirs.append((offsets[enabled & ~lanes], access.width))
            own.append((offsets[enabled & lanes], access.width))
        for (_, reads), (access, theirs, own) in parts.items():
            shadow = self._granules(access.segment, access.space)
            assert shadow is not None
            for each in (*theirs, *own):
                shadow.fit(*each)
            index = np.setdiff1d(_covered(shadow, theirs), _covered(shadow, own))
            if shadow is self.races.shadow:
                self.races.postpone(row, index, reads=reads)
            else:
                self.globals.postpone(access.segment, row, index, reads=reads)


def _bits(lanes: Bools) -> np.uint32:
    """Lanes of a warp as bits."""
    bits: np.uint32 = np.packbits(lanes, bitorder="little").view(np.uint32)[0]
    return bits


def _covered(shadow: Granules, parts: list[_Part]) -> Index:
    """The granules of accesses that they are small enough for."""
    return np.concatenate([_NOTHING, *(shadow.fitted(offsets, width)[0] for offsets, width in parts)])
