"""What accesses and fences order: atomic, acquire, release, relaxed and volatile, each with its scope.

An acquire receives what a release at the same address passed on. A relaxed access orders nothing by itself:
it passes on what a fence before it released, and a fence after it acquires what it read. Two such accesses
order threads, and may conflict without a race, if the scope of each includes the other's thread.
"""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import CTA, GPU, SYSTEM, Access, Order
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks, Rows, VectorClocks
from weft.emulator.sanitizer.global_races import GlobalRaces
from weft.emulator.sanitizer.races import Races

Times = npt.NDArray[np.intp]

_FEW = 8
_MANY = "many"
"""The key of all addresses of an access that has more than a few."""


class _Location:
    """What was released at an address: to the GPU and to the system by scopes that include them, and by each
    CTA at each level.
    """

    def __init__(self) -> None:
        self.far: dict[int, Clocks] = {}
        self.near: dict[int, dict[int, Clocks]] = {}


class Orders:
    """The orders of one wave."""

    def __init__(self, wave: Wave, clocks: VectorClocks, races: Races, global_races: GlobalRaces) -> None:
        self.wave, self.clocks, self.races, self.globals = wave, clocks, races, global_races
        self._levels = clocks.levels
        self._scoped = len(clocks.levels) > 1
        self._locations: dict[Hashable, _Location] = {}
        self._met: dict[Hashable, tuple[Times, Times]] = {}
        self._released: dict[int, dict[int, Clocks]] = {level: {} for level in range(CTA, SYSTEM + 1)}

    # Fences

    def release(self, rows: Rows, level: int) -> None:
        """A fence: relaxed accesses and arrivals after it pass on what the warps know now."""
        for row in rows.tolist():
            known = self.clocks.of(np.array([row]))
            for to in range(CTA, level + 1):
                self._released[to][row] = known
        self.clocks.step(rows)

    def join(self, arrived: Rows, released: Rows) -> None:
        """A barrier: a fence before it also counts for the warps after it.

        CUDA programs often fence in every thread, wait at a barrier, and then let one thread count (as
        PyTorch's reductions do). PTX requires a fence of that thread, hardware doesn't.
        """
        for known in filter(None, self._released.values()):
            each = (known[row] for row in arrived.tolist() if row in known)
            clocks = {id(clock): clock for clock in each}
            if clocks:
                together = reduce(self.clocks.joined, clocks.values())
                known.update(dict.fromkeys(released.tolist(), together))

    def join_each(self, sets: Rows) -> None:
        """The same for warps that meet: those of each of some sets, `[sets, warps]`."""
        for known in filter(None, self._released.values()):
            for mine in sets.tolist():
                if len(set(map(id, map(known.get, mine)))) > 1:
                    met = np.array(mine)
                    self.join(met, met)

    def show(self, row: int, level: int, clock: Clocks) -> None:
        """Adds to what relaxed arrivals of a warp pass on to those of a scope."""
        self._released[level][row] = clock

    def released(self, row: int, level: int) -> Clocks | None:
        """What relaxed operations of a warp pass on to warps that are as far away as `level`."""
        return self._released[level].get(row)

    # Accesses

    def reads(self, access: Access, order: Order) -> None:
        """Before an access: receives what was released at the addresses that it reads."""
        if access.kind == "store":
            return
        for key, rows in self._keys(access):
            names = [key, _MANY] if key != _MANY else list(self._locations)
            # With smaller scopes, each warp sees something different.
            for part in rows[:, None] if self._scoped else (rows,):
                for level in self._fences_after(order):
                    scope = min(level, order.level)
                    for clock in self._seen(names, part, scope):
                        self._take(part, level, order, clock)
                    if scope >= GPU and access.space == "global":
                        # Other waves may have released at addresses that this one hasn't accessed.
                        released = dict.fromkeys(at for _, at in self.globals.memory.locations)
                        for name in names if key != _MANY else released:
                            if (foreign := self.globals.published(name, scope)) is not None:
                                self._take(part, level, order, foreign)
            if access.kind == "atomic" and len(rows) > 1:
                self._one_after_the_other(rows, order)

    def _fences_after(self, order: Order) -> Iterable[int]:
        """The scopes of fences that may acquire what an access reads; an acquire needs only its own."""
        return (order.level,) if order.acquires else self._levels

    def _seen(self, names: Iterable[Hashable], rows: Rows, level: int) -> Iterator[Clocks]:
        """What accesses of a scope read of releases at addresses; with smaller scopes, `rows` is one warp."""
        for name in names:
            if (location := self._locations.get(name)) is None:
                continue
            if level >= GPU and GPU in location.far:
                yield location.far[GPU]
            if self._scoped:
                own = int(self.wave.cta_of_row[rows[0]])
                # Releases of a scope below the GPU's come from the CTA and maybe from others of its cluster.
                for cta in self.wave.cluster_ctas(own) if level > CTA else (own,):
                    distance = int(cta != own)
                    for of, clock in location.near.get(cta, {}).items():
                        if of > distance and min(level, of) < GPU:
                            yield clock

    def _take(self, rows: Rows, level: int, order: Order, clock: Clocks) -> None:
        if order.acquires:
            self.clocks.acquire(rows, clock)
        else:
            self.clocks.read(rows, level, clock)

    def _one_after_the_other(self, rows: Rows, order: Order) -> None:
        """Warps whose atomic operations of one instruction access the same address: each reads what those
        before it have released.
        """
        released: dict[tuple[int, int], Clocks] = {}
        for row in rows.tolist():
            here, cta = np.array([row]), int(self.wave.cta_of_row[row])
            for level in self._fences_after(order):
                for (of, other), clock in released.items():
                    first = self.wave.rows_of(other).start
                    if min(of, level) > int(self.wave.distances(here, np.array([first]))[0]):
                        self._take(here, level, order, clock)
            for of, clock in self._passed_on(here, order):
                key = of, cta if self._scoped else 0
                released[key] = clock if key not in released else self.clocks.joined(released[key], clock)

    def _passed_on(self, rows: Rows, order: Order) -> Iterator[tuple[int, Clocks]]:
        """What an access of warps releases, and to which scope."""
        if order.releases:
            yield order.level, self.clocks.of(rows)
            return
        for level in self._levels:
            for row in rows.tolist():
                if (clock := self._released[level].get(row)) is not None:
                    yield min(level, order.level), clock

    def writes(self, access: Access, order: Order) -> None:
        """After an access: releases at the addresses that it writes."""
        if access.kind == "load":
            return
        for key, rows in self._keys(access):
            ctas = self.wave.cta_of_row[rows]
            for cta in dict.fromkeys(ctas.tolist()) if self._scoped else (0,):
                part = rows[ctas == cta] if self._scoped else rows
                for level, clock in self._passed_on(part, order):
                    self._add(access, key, cta, level, clock)
            if order.releases:
                self.clocks.step(rows)

    def _add(self, access: Access, key: Hashable, cta: int, level: int, clock: Clocks) -> None:
        location = self._locations.setdefault(key, _Location())
        far = location.far
        for scope in (GPU, SYSTEM):
            if level >= scope:
                far[scope] = self.clocks.joined(far[scope], clock) if scope in far else clock
                if access.space == "global":
                    self.globals.publish(key, far[scope], scope)
        if self._scoped:
            near = location.near.setdefault(cta, {})
            near[level] = clock if level not in near else self.clocks.joined(near[level], clock)

    @contextmanager
    def meeting(self, access: Access, order: Order) -> Iterator[None]:
        """While an access is compared with earlier ones, its warps know what they have read relaxed, because
        the access bypasses their caches; in shared memory they also know the accesses with which it may
        conflict without a race.
        """
        if access.kind != "store":
            for key, rows in self._keys(access):  # they see writes of which they may not know otherwise
                if isinstance(key, tuple) and access.space == "global":
                    self.globals.observe(access.segment, key[1], rows)
                elif isinstance(key, tuple):
                    self.races.observe(key[1], rows)
        known, every = self.clocks.known, access.lanes.row_numbers()
        before = known[every]
        known[every] = self.clocks.with_read(every, order.level)
        if access.space == "shared":
            self._meet(access, order)
        yield
        known[every] = before

    def _meet(self, access: Access, order: Order) -> None:
        known, keys, all_warps = self.clocks.known, self._keys(access), np.arange(self.wave.warps)
        for key, rows in keys:
            for name in (key, _MANY) if key != _MANY else list(self._met):
                if name in self._met:
                    times, levels = self._met[name]
                    far = self.wave.distances(rows[:, None], all_warps[None])
                    seen = np.where(np.minimum(levels, order.level) > far, times, 0)
                    known[rows, : self.wave.warps] = np.maximum(known[rows, : self.wave.warps], seen)
        for key, rows in keys:
            times, levels = self._met.setdefault(key, (np.zeros_like(all_warps), np.zeros_like(all_warps)))
            times[rows], levels[rows] = known[rows, rows], order.level

    def _keys(self, access: Access) -> list[tuple[Hashable, Rows]]:
        """The addresses of an access with the warps at each; one key for all if there are many."""
        lanes = access.lanes
        rows = np.repeat(lanes.row_numbers()[:, None], 32, axis=1)
        offsets = access.offsets
        if lanes.mask is not None:
            rows, offsets = rows[lanes.mask], offsets[lanes.mask]
        distinct = np.unique(offsets)
        if len(distinct) > _FEW:
            return [(_MANY, np.unique(rows))]
        name = access.segment.base
        return [((name, int(location)), np.unique(rows[offsets == location])) for location in distinct]
