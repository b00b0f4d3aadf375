"""Accesses to global memory, each compared with the last ones to the same granules, over a whole launch."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import GPU, SYSTEM, Access, Segment
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import DATA, MAPS, Clocks, VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.global_memory import (
    COLUMN_BITS,
    EVERYONE,
    Checked,
    GlobalMemory,
    GlobalShadow,
    Observed,
    at_once,
    changes,
    in_chunks,
    is_padding,
)
from weft.emulator.sanitizer.kernel_properties import Kernel
from weft.emulator.sanitizer.shadow import Index, Times
from weft.emulator.watch import Chunks, Offsets
from weft.isa.tensor_map import BYTES as MAP_BYTES

_COLUMN = (1 << COLUMN_BITS) - 1


class GlobalRaces:
    """The checks of one wave. The wave keeps numbered snapshots of the clocks of other waves; each snapshot
    includes the ones before it. What a warp knows of another wave is the number of a snapshot, in a column of
    its clock. A snapshot has three layers: what is known, and the parts of it that bulk copies see as DATA
    and as MAPS.
    """

    def __init__(
        self, wave: Wave, clocks: VectorClocks, findings: Findings, memory: GlobalMemory, kernel: Kernel
    ) -> None:
        self.wave, self.clocks, self.findings, self.memory = wave, clocks, findings, memory
        self._discarding, self._needed, self._constant = kernel.discarding, kernel.needed, kernel.constant
        self._observed = Observed()
        self.number = len(memory.warps)
        """That of the wave, among those of the launch."""
        self.rank = wave.device.rank
        memory.warps.append(wave.warps)
        memory.ranks.append(self.rank)
        memory.users.append(wave.device.user)
        self._snapshots: dict[int, list[Clocks]] = {}

    # What orders

    def published(self, key: Hashable, level: int = GPU) -> Clocks | None:
        """A clock of what accesses of scope `level` acquire of what other waves have released at an address;
        None if that is nothing.
        """
        joined: Clocks | None = None
        locations = self.memory.locations
        found = list(locations.get((self.rank, key), {}).items())
        if level == SYSTEM:
            found += locations.get((EVERYONE, key), {}).items()
        for other, clock in found:
            if other == self.number:
                continue
            column = self.clocks.column(("wave", other))
            taken = self._snapshots.setdefault(other, [])
            if not taken:
                taken.append(clock)
            elif taken[-1].shape != clock.shape or (clock > taken[-1]).any():
                taken.append(_joined(taken[-1], clock))
            joined = self.clocks.fitted(self.clocks.empty() if joined is None else joined)
            joined[0, column] = len(taken)
        return joined

    def publish(self, key: Hashable, clock: Clocks, level: int = GPU) -> None:
        """Warps of this wave have released a clock at an address, with what it knows of other waves, to their
        GPU or to the system.
        """
        here = self.memory.locations.setdefault((EVERYONE if level == SYSTEM else self.rank, key), {})
        here[self.number] = self.clocks.of_global(clock)
        for other, taken in self._snapshots.items():
            column = self.clocks.find(("wave", other))
            if column is None or column >= clock.shape[1]:
                continue
            number, *fenced = self.clocks.of_global(clock)[:, column].tolist()
            if number:
                known = here.get(other)
                now = taken[number - 1]
                for how, fence in zip((DATA, MAPS), fenced, strict=True):
                    if fence:
                        visible = np.zeros_like(taken[fence - 1])
                        visible[how] = taken[fence - 1][0]
                        now = _joined(now, visible)
                here[other] = now if known is None else _joined(known, now)

    # Accesses of threads

    def access(self, access: Access, level: int) -> None:
        """Threads access global memory; `level` is the scope of the access, 0 if it is weak."""
        shadow = self.memory.shadow(access.segment)
        used = self._used_lanes(access)
        lanes = access.lanes.mask if used is None else used
        offsets, rows = access.offsets.view(np.intp), np.repeat(access.lanes.row_numbers(), 32)
        if lanes is None:
            offsets = offsets.reshape(-1)
        else:
            offsets, rows = offsets[lanes], rows[lanes.reshape(-1)]
        if access.segment.filled is not None:
            self._fill(access, access.segment.filled, offsets)
        index, count = shadow.elements(offsets, access.width)
        rows = rows if count == 1 else np.repeat(rows, count)
        of = Checked(index, rows, access.line, access, count, used)
        if access.kind == "load":
            if shadow.is_written:
                self._after(shadow, 0, of, access, level)
                if access.line in self._constant:
                    self._check_constant(shadow, of)
            if access.segment.writable and not level:
                self._read_by(shadow, index, rows, access.line)
            return
        for slot in range(1 if level else 3):
            if slot or shadow.is_written:
                self._after(shadow, slot, of, access, level)
        owner = self._owners(rows)
        shadow.owner[0, index], shadow.time[0, index] = owner, self.clocks.known[rows, rows]
        shadow.line[0, index], shadow.level[index], shadow.is_written = access.line, level, True
        if level < GPU and len(rows) and rows[0] != rows[-1]:
            writers = shadow.owner[0, index] - (self.number << COLUMN_BITS)
            what, mixed = at_once(of, self.wave, writers, level)
            self._report("global-race", what, shadow, access.segment, of, mixed)

    def _check_constant(self, shadow: GlobalShadow, of: Checked) -> None:
        """The launch must not have written what its loads cache like constants."""
        stale: Bools = shadow.time[0, of.index] > 0
        waves = shadow.owner[0, of.index] >> COLUMN_BITS
        for wave in np.unique(waves[stale]).tolist():
            if self.memory.users[wave] != self.wave.device.user:
                stale &= waves != wave
        assert of.access is not None
        if stale.any():
            at = self._access_at(shadow, 0, int(of.index[int(stale.argmax())]))
            what = f"is read by ld.global.nc, but the kernel writes it {at}"
            self._report("global-race", what, shadow, of.access.segment, of, stale)

    def _report(
        self, rule: str, what: str, shadow: GlobalShadow, segment: Segment, of: Checked, bad: Bools
    ) -> None:
        if bad.any():
            address = segment.base + int(of.index[int(bad.argmax())]) * shadow.granule
            of.report(self.findings, self.wave, rule, f"global memory at 0x{address:x}", what, bad)

    def _read_by(self, shadow: GlobalShadow, index: Index, rows: Index, line: int) -> None:
        """Threads read, or let cp.async read until they have waited."""
        times = self.clocks.known[rows, rows]
        if self.wave.memory.by_unit:
            columns = np.zeros(self.wave.warps, np.intp)
            for row in np.unique(rows).tolist():
                columns[row] = self.clocks.column(("cp.async", row), False)
            rows = columns[rows]
            times = (self.clocks.times[rows] + 1).astype(np.int32)
        self._read(shadow, index, self._owners(rows), times, line)

    def _used_lanes(self, access: Access) -> Bools | None:
        """The lanes of a load that use what it loads; None for all that are active."""
        use = self._discarding.get(access.line) if access.kind == "load" else None
        if use is None:
            return None
        held: Bools = access.lanes.chosen(self.wave.regs[use.predicate]) == use.value
        return held if access.lanes.mask is None else held & access.lanes.mask

    def _fill(self, access: Access, filled: Bools, offsets: Index) -> None:
        """Reads must follow writes."""
        every = offsets[:, None] + np.arange(access.width)
        order = self.wave.memory.order
        if access.kind != "store" and not (order is not None and order.exchanges):
            missing = ~filled[every]
            if missing.any():
                missing &= ~is_padding(self._needed, access, missing)
            empty: Bools = missing.any(axis=1)
            if empty.any():
                used, what = self._used_lanes(access), "is read but was never written"
                self.findings.add_lanes("uninitialized-global", what, self.wave, access, empty, 1, used)
        if access.kind != "load":
            filled[every] = True

    def _owners(self, rows: Index) -> npt.NDArray[np.int64]:
        return rows | self.number << COLUMN_BITS

    def _read(
        self,
        shadow: GlobalShadow,
        index: Index,
        owner: npt.NDArray[np.int64],
        time: Times | np.int32,
        line: int,
    ) -> None:
        """Records reads; the last reads of two CTAs are kept."""
        other = shadow.time[1, index] > 0
        if np.count_nonzero(other):
            other &= shadow.owner[1, index] != owner
        if np.count_nonzero(other):
            moved = index[other]
            for part in (shadow.owner, shadow.time, shadow.line):
                part[2, moved] = part[1, moved]
        shadow.owner[1, index], shadow.time[1, index], shadow.line[1, index] = owner, time, line

    def _late(self, shadow: GlobalShadow, slot: int, index: Index, rows: Index) -> Bools | None:
        """Where the warps don't know of an earlier access; None if there is no such element."""
        time = shadow.time[slot, index]
        if not np.count_nonzero(time):
            return None
        owner = shadow.owner[slot, index]
        wave, column = owner >> COLUMN_BITS, owner & _COLUMN
        mine = wave == self.number
        if np.count_nonzero(mine) == len(mine):
            late: Bools = time > self.clocks.known[rows, column]
            return late if np.count_nonzero(late) else None
        late = mine & (time > self.clocks.known[rows, np.where(mine, column, 0)])
        foreign = ~mine & (time > 0)
        for other in np.unique(wave[foreign]).tolist() if np.count_nonzero(foreign) else ():
            here = foreign & (wave == other)
            late[here] = time[here] > self._known_of(other, rows[here], column[here])
        return late if np.count_nonzero(late) else None

    def _known_of(
        self, other: int, rows: Index, columns: Index, fenced_here: int = 0, fenced_there: int = 0
    ) -> Times:
        """The times of columns of another wave's clocks that the warps know. With `fenced_here` or
        `fenced_there` (DATA, MAPS), only what a fence of this wave or of the other has made visible to bulk
        copies.
        """
        known = np.zeros(len(rows), np.int32)
        mine = self.clocks.find(("wave", other))
        if mine is None:
            return known
        numbers = (self.clocks.seen(fenced_here) if fenced_here else self.clocks.known)[rows, mine]
        for number in np.unique(numbers[numbers > 0]).tolist():
            snapshot = self._snapshots[other][number - 1][fenced_there]
            here = (numbers == number) & (columns < len(snapshot))
            known[here] = snapshot[columns[here]]
        return known

    def _after(self, shadow: GlobalShadow, slot: int, of: Checked, access: Access, level: int) -> None:
        late = self._late(shadow, slot, of.index, of.rows)
        if late is None:
            return
        if level:
            late &= ~self._may_meet(shadow, of.index, of.rows, level)
        elif access.kind != "load":
            late &= np.repeat(changes(access, self.wave), of.count)
        base, known = access.segment.base, self.clocks.known
        if late.any() and not slot:
            writes = shadow.owner[0, of.index], shadow.time[0, of.index]
            late = self._observed.after(base, late, of.index * shadow.granule, of.rows, writes, known)
        if late.any():
            what = self._unordered(shadow, slot, access.kind, int(of.index[int(late.argmax())]))
            self._report("global-race", what, shadow, access.segment, of, late)

    def observe(self, segment: Segment, offset: int, rows: Index) -> None:
        """Warps see the last write at an offset of a buffer, of which they may not know otherwise."""
        shadow = self.memory.shadow(segment)
        index = np.full(len(rows), offset // shadow.granule)
        late = self._late(shadow, 0, index, rows)
        if late is not None:
            write = int(shadow.owner[0, index[0]]), int(shadow.time[0, index[0]])
            self._observed.note(segment.base, offset, rows[late], self.clocks.known, write)

    def _unordered(self, shadow: GlobalShadow, slot: int, kind: str, granule: int) -> str:
        done, before = "read" if kind == "load" else "written", "read" if slot else "written"
        at = self._access_at(shadow, slot, granule)
        return f"is {done}, and {before} {at}; nothing orders the two"

    def _access_at(self, shadow: GlobalShadow, slot: int, granule: int) -> str:
        """Where an earlier access is in the PTX, or what has made it."""
        line = int(shadow.line[slot, granule])
        user = self.memory.users[int(shadow.owner[slot, granule]) >> COLUMN_BITS]
        if not line:
            return f"by {user}"
        return f"at line {line}" + (f" of {user}" if user != self.wave.device.user else "")

    def _may_meet(self, shadow: GlobalShadow, index: Index, rows: Index, level: int) -> Bools:
        """Where the scopes of an access and of the last write include each other's threads."""
        common = np.minimum(shadow.level[index], level)
        far = np.zeros(len(index), np.int8)
        small = np.flatnonzero(common < (GPU if self.rank is None else SYSTEM))
        if len(small):
            wave, column = (
                shadow.owner[0, index[small]] >> COLUMN_BITS,
                shadow.owner[0, index[small]] & _COLUMN,
            )
            here = (wave == self.number) & (column < self.wave.warps)
            apart = self.wave.distances(rows[small], np.where(here, column, 0))
            far[small] = np.where(here, apart, 2 * (wave != self.number))
            if self.rank is not None:
                elsewhere = [other for other, rank in enumerate(self.memory.ranks) if rank != self.rank]
                far[small[np.isin(wave, elsewhere)]] = GPU
        meet: Bools = common > far
        return meet

    def postpone(self, segment: Segment, row: int, index: Index, *, reads: bool) -> None:
        """Dates the last reads or writes of granules by a warp to now."""
        shadow = self.memory.shadow(segment)
        for slot in (1, 2) if reads else (0,):
            mine = (shadow.owner[slot, index] == self._owners(np.array(row))) & (shadow.time[slot, index] > 0)
            shadow.time[slot, index[mine]] = self.clocks.known[row, row]

    # Accesses of asynchronous units

    def unit(
        self, kind: str, column: int, row: int, addresses: Offsets | Chunks, line: int, awaited: bool = True
    ) -> None:
        """An asynchronous unit reads, writes or reduces bytes for a warp, until a time of its column. If not
        `awaited`, nothing signals its completion.
        """
        if not len(addresses):
            return
        begins = addresses.first if isinstance(addresses, Chunks) else addresses
        segment = self.wave.memory.device.find(int(begins[0]))
        if segment is None or not segment.writable:
            return
        if segment.filled is not None:
            octets = addresses.octets() if isinstance(addresses, Chunks) else addresses
            every = octets.astype(np.intp) - segment.base
            empty = ~segment.filled[every]
            if empty.any():
                empty &= ~in_chunks(every, empty)
            if kind != "store" and empty.any():
                first, what = int(octets[int(empty.argmax())]), "is read but was never written"
                name, octet = f"global memory at 0x{first:x}", Checked(every, np.full(len(every), row), line)
                octet.report(self.findings, self.wave, "uninitialized-global", name, what, empty)
            segment.filled[every] |= kind != "load"
        shadow = self.memory.shadow(segment)
        if isinstance(addresses, Chunks):
            index = shadow.covered(addresses.moved(-segment.base))
        else:
            index = shadow.covered(addresses.astype(np.intp) - segment.base)
        rows = np.full(len(index), row)
        of = Checked(index, rows, line)
        if shadow.is_written:
            self._check_hidden(kind, segment, shadow, of, DATA)
        for slot in range(1 if kind != "store" else 3):
            if not (slot or shadow.is_written):
                continue
            late = self._late(shadow, slot, index, rows)
            if late is None:
                continue
            # The lanes of a warp may all issue the same copy.
            late &= shadow.owner[slot, index] != column | self.number << COLUMN_BITS
            if kind == "store" and late.any():
                late &= self._moved(segment, shadow, addresses, index)
            if kind == "reduce":
                late &= (shadow.level[index] < GPU) | ~self._may_meet(shadow, index, rows, GPU)
            if late.any():
                what = self._unordered(shadow, slot, kind, int(index[int(late.argmax())]))
                self._report("global-race", what, shadow, segment, of, late)
        owner, time = column | self.number << COLUMN_BITS, self.clocks.times[column] + 1
        if kind == "load":
            if awaited:
                self._read(shadow, index, np.full(len(index), owner), np.int32(time), line)
            return
        shadow.owner[0, index], shadow.time[0, index] = owner, time
        shadow.line[0, index], shadow.is_written = line, True
        shadow.level[index] = GPU if kind == "reduce" else 0

    def _moved(
        self, segment: Segment, shadow: GlobalShadow, addresses: Offsets | Chunks, index: Index
    ) -> Bools:
        """The granules that a unit's store changes, as `changes` of a thread's."""
        moving = self.wave.memory.moving
        if moving is None:
            return np.ones(len(index), np.bool_)
        octets = addresses.octets() if isinstance(addresses, Chunks) else addresses
        offsets = octets.astype(np.intp) - segment.base
        differ = segment.data[offsets] != moving.reshape(-1)
        moved: Bools = np.isin(index, offsets[differ] // shadow.granule)
        return moved

    def map(self, row: int, address: int, line: int) -> None:
        """The unit reads a tensor map for a warp."""
        segment = self.wave.memory.device.find(address)
        if segment is None or not segment.writable:
            return
        shadow = self.memory.shadow(segment)
        if shadow.is_written:
            index = shadow.covered(np.arange(MAP_BYTES) + (address - segment.base))
            of = Checked(index, np.full(len(index), row), line)
            self._check_hidden("map", segment, shadow, of, MAPS)

    def _check_hidden(self, kind: str, segment: Segment, shadow: GlobalShadow, of: Checked, how: int) -> None:
        """The unit may not see writes that the warps know of."""
        time, owner = shadow.time[0, of.index], shadow.owner[0, of.index]
        wave, column = owner >> COLUMN_BITS, owner & _COLUMN
        hidden: Bools = np.zeros(len(of.index), np.bool_)
        for other in np.unique(wave[time > 0]).tolist():
            here: Bools = (wave == other) & (time > 0) & (column < self.memory.warps[other])
            rows, columns = of.rows[here], column[here]
            if other == self.number:
                known = self.clocks.known[rows, columns]
                seen = self.clocks.seen(how)[rows, columns]
            else:
                known = self._known_of(other, rows, columns)
                seen = self._known_of(other, rows, columns, fenced_there=how)
                np.maximum(seen, self._known_of(other, rows, columns, fenced_here=how), out=seen)
            hidden[here] = (time[here] <= known) & (time[here] > seen)
        if hidden.any():
            since = self._access_at(shadow, 0, int(of.index[hidden.argmax()]))
            done = {"load": "read", "map": "read as a tensor map"}.get(kind, "overwritten")
            fence = "fence.proxy.tensormap::generic.acquire" if kind == "map" else "fence.proxy.async"
            what = f"is {done} without a {fence} after its write {since}"
            self._report("missing-proxy-fence", what, shadow, segment, of, hidden)


def _joined(a: Clocks, b: Clocks) -> Clocks:
    """What either of two clocks knows."""
    narrow, wide = (a, b) if a.shape[1] < b.shape[1] else (b, a)
    joined: Clocks = wide.copy()
    part = joined[:, : narrow.shape[1]]
    np.maximum(part, narrow, out=part)
    return joined
