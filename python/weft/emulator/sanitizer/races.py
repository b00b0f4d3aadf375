"""Accesses to shared memory, each compared with the last ones to the same granules."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import Access
from weft.emulator.reading.syntax import Array, Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks, VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.global_memory import Checked, Observed, at_once, changes, in_chunks, is_padding
from weft.emulator.sanitizer.shadow import NEVER, NOWHERE, READ_BY_THREADS, READ_BY_UNITS, Index, Shadow
from weft.emulator.sanitizer.undefined import Undefined
from weft.emulator.watch import Chunks

Rows = npt.NDArray[np.intp]
Lines = npt.NDArray[np.int32]
_LANE_ROWS = 32
_ALLOC = "tcgen05.alloc"
_OWN_WAITS = ("cp.async", "wgmma")
"""Units whose operations end with the warp, so that it needn't wait for them before its end."""


class Races:
    """The checks of a wave's shared memory."""

    def __init__(
        self,
        wave: Wave,
        clocks: VectorClocks,
        findings: Findings,
        needed: Mapping[int, Bools],
        undefined: Undefined,
        *,
        strict: bool = False,
    ) -> None:
        self.wave, self.clocks, self.findings, self._strict = wave, clocks, findings, strict
        self._needed, self._undefined = needed, undefined
        self._per_cluster = wave.launch.warps * wave.launch.cluster_size
        memory = wave.memory
        stride, used = memory.shared_stride, memory.shared_size
        self.shadow = Shadow(len(memory.shared.data), self._per_cluster, stride, used)
        self._observed = Observed()
        rows = np.arange(wave.warps)
        self._rank: Rows = rows % self._per_cluster
        self._all: Rows = np.repeat(rows, _LANE_ROWS)

    # Accesses of threads

    def _of_lanes(self, access: Access) -> Checked:
        """The granules of an access, those of each lane together."""
        lanes = access.lanes
        offsets = access.offsets.view(np.intp)
        rows = self._all if lanes.rows is None else np.repeat(lanes.row_numbers(), _LANE_ROWS)
        if lanes.mask is None:
            offsets = offsets.reshape(-1)
        else:
            offsets, rows = offsets[lanes.mask], rows[lanes.mask.reshape(-1)]
        index, count = self.shadow.elements(offsets, access.width)
        return Checked(index, rows if count == 1 else np.repeat(rows, count), access.line, access, count)

    def load(self, access: Access) -> None:
        """Threads read: the last write must have happened before."""
        of = self._of_lanes(access)
        shadow, index, rows = self.shadow, of.index, of.rows
        bad = self._after_write(of)
        if bad is not None:
            self._report_unordered(of, bad, "read")
        shadow.reads[index, self._rank[rows]] = self.clocks.known[rows, rows]
        shadow.note_reads(index, READ_BY_THREADS)
        shadow.read_line[index] = access.line

    def store(self, access: Access, level: int) -> None:
        """Threads write: the last write and all reads must be before. `level`: the scope, 0 if it is weak."""
        undefined = self._undefined.stored(access)
        if undefined is not None:
            self.shadow.refine(access.width // undefined.shape[1])
        of = self._of_lanes(access)
        index, rows, count = of.index, of.rows, of.count
        order = self.wave.memory.order
        if access.kind == "atomic" and order is not None and not order.exchanges:
            never: Bools = self.shadow.written[index] == NEVER
            if never.any():
                self._report("uninitialized-shared", "is read but was never written", of, never)
        bad = self._after_write(of)
        if bad is not None:
            bad = bad & (self.shadow.written[index] != NEVER)
            if not level and bad.any():
                bad = bad & np.repeat(changes(access, self.wave), count)
            self._report_unordered(of, bad, "written")
        self._after_reads(of)
        shadow = self.shadow
        if self.wave.memory.by_unit:
            self._by_unit(index, rows)
        else:
            shadow.writer[index] = rows
            shadow.written[index] = self.clocks.known[rows, rows]
        shadow.write_line[index] = access.line
        if undefined is not None:
            parts = np.repeat(undefined, count // undefined.shape[1], axis=1).reshape(-1)
            index_of, lines = index[parts != 0], parts[parts != 0]
            shadow.written[index_of], shadow.write_line[index_of] = NEVER, lines
        if not self.wave.memory.by_unit and len(rows) and rows[0] != rows[-1]:
            what, mixed = at_once(of, self.wave, shadow.writer[index], level)
            self._report("shared-race", what, of, mixed)

    def _by_unit(self, index: Index, rows: Rows) -> None:
        """The unit that allocates tensor memory writes for warps, which continue after the write."""
        for row in np.unique(rows).tolist():
            column = self.clocks.column((_ALLOC, row), True)
            self.clocks.times[column] += 1
            time = self.clocks.times[column]
            self.clocks.learn(row, column, time)
            mine = index[rows == row]
            self.shadow.writer[mine], self.shadow.written[mine] = column, time

    def copy(self, access: Access) -> None:
        """`cp.async` writes, at any time before its group is awaited."""
        of = self._of_lanes(access)
        index, rows = of.index, of.rows
        bad = self._after_write(of)
        if bad is not None:
            self._report_unordered(of, bad & (self.shadow.written[index] != NEVER), "written")
        self._after_reads(of)
        present = np.unique(rows)
        columns = np.zeros(self.wave.warps, np.intp)
        times = np.zeros(self.wave.warps, np.int32)
        for row in present.tolist():
            columns[row] = column = self.clocks.column(("cp.async", row), False)
            times[row] = self.clocks.times[column] + 1
        shadow = self.shadow
        shadow.writer[index], shadow.written[index] = columns[rows], times[rows]
        shadow.write_line[index] = access.line

    def _late(self, of: Checked) -> Bools:
        writer = self.shadow.writer[of.index]
        late: Bools = self.shadow.written[of.index] > self.clocks.known[of.rows, writer]
        return late

    def _after_write(self, of: Checked) -> Bools | None:
        """The same for threads, which may have seen the write; None if there is no such element."""
        bad, shadow = self._late(of), self.shadow
        if not np.count_nonzero(bad):
            return None
        writes = shadow.writer[of.index].astype(np.int64), shadow.written[of.index]
        offsets = of.index * shadow.granule
        bad = self._observed.after(0, bad, offsets, of.rows, writes, self.clocks.known)
        return bad if bad.any() else None

    def observe(self, offset: int, rows: Index) -> None:
        """Warps see the last write at an offset, of which they may not know otherwise."""
        at = offset // self.shadow.granule
        writer, written = int(self.shadow.writer[at]), int(self.shadow.written[at])
        late = rows[written > self.clocks.known[rows, writer]]
        if len(late) and written != NEVER:
            self._observed.note(0, offset, late, self.clocks.known, (writer, written))

    def _after_reads(self, of: Checked) -> None:
        shadow, known, index, rows = self.shadow, self.clocks.known, of.index, of.rows
        first = rows - self._rank[rows]
        by = shadow.readers(index)
        if self._per_cluster > 1 and np.count_nonzero(by & READ_BY_THREADS):
            clusters = np.unique(first).tolist()
            for begin in clusters:
                mine = first == begin if len(clusters) > 1 else slice(None)
                seen = known[:, begin : begin + self._per_cluster]
                late = shadow.reads[index[mine]] > seen[rows[mine]]
                if np.count_nonzero(late):
                    bad = np.zeros(len(rows), np.bool_)
                    bad[mine] = late.any(axis=1)
                    who = " by another warp" if of.access is not None else ""
                    what = f"is written, and read{who} at line {{}}; nothing orders the two"
                    self._report("shared-race", what, of, bad, shadow.read_line)
        if np.count_nonzero(by & READ_BY_UNITS):
            held: Bools = np.logical_or.reduce(shadow.taken[:, index] > known[rows, shadow.unit[:, index]])
            what = "is written while the operation of line {} may still read it"
            self._report("async-source-overwritten", what, of, held, shadow.read_line)

    def _report_unordered(self, of: Checked, bad: Bools, verb: str) -> None:
        """Reports each kind of last write that the access isn't ordered after, where it is `bad`."""
        if not bad.any():
            return
        shadow, index = self.shadow, of.index
        never = bad & (shadow.written[index] == NEVER)
        by_unit = bad & ~never & (shadow.writer[index] >= self.wave.warps)
        by_warp = bad & ~never & ~by_unit
        if of.access is not None and never.any():
            every = shadow.written[index].reshape(-1, of.count) == NEVER
            padding = is_padding(self._needed, of.access, every).reshape(-1)
            never &= ~padding | (shadow.write_line[index] != NOWHERE)
            origins = np.where(never, shadow.write_line[index], 0).reshape(-1, of.count)
            if of.access.kind == "load" and never.any() and self._undefined.load(of.access, origins):
                never = np.zeros_like(never)
        self._report("uninitialized-shared", "is read but was never written", of, never)
        what = f"is {verb} before the asynchronous write of line {{}} was awaited"
        self._report("async-not-awaited", what, of, by_unit, shadow.write_line)
        what = f"is {verb}, and written by another warp at line {{}}; nothing orders the two"
        self._report("shared-race", what, of, by_warp, shadow.write_line)

    def _report(self, rule: str, what: str, of: Checked, bad: Bools, lines: Lines | None = None) -> None:
        """Reports what is `bad`, if anything; `lines` has the line of the other access, by granule."""
        if not bad.any():
            return
        granule = int(of.index[int(bad.argmax())])
        if lines is not None:
            what = what.format(int(lines[granule]))
        address = granule * self.shadow.granule % self.wave.memory.shared_stride
        of.report(self.findings, self.wave, rule, f"shared memory at 0x{address:x}", what, bad)

    def postpone(self, row: int, index: Index, *, reads: bool) -> None:
        """Dates the last reads or writes of granules by a warp to now."""
        shadow, now = self.shadow, self.clocks.known[row, row]
        if reads:
            shadow.reads[index, self._rank[row]] = now
        else:
            mine = index[(shadow.writer[index] == row) & (shadow.written[index] != NEVER)]
            shadow.written[mine] = now

    def never(self) -> Array:
        """The bytes of shared memory that nothing has written, `[CTAs, bytes of each]`, as 255."""
        every = np.where(self.shadow.written == NEVER, np.uint8(255), np.uint8(0))
        octets = np.repeat(every, self.shadow.granule)
        return octets.reshape(-1, self.wave.memory.shared_stride)

    # Accesses of asynchronous units

    def slot(self, column: int) -> int:
        """The row of the shadow with the reads of a unit. Clusters share rows: a unit's name has the rank of
        its warp, or of its mbarrier's CTA.
        """
        name = self.clocks.names[column]
        assert isinstance(name, tuple)
        kind, number, *offset = name
        ranks = self.wave.launch.cluster_size if kind == "mbarrier" else self._per_cluster
        return self.shadow.slot((kind, number % ranks, *offset))

    def _of_unit(self, row: int, offsets: Index | Chunks, line: int) -> Checked:
        index = self.shadow.covered(offsets)
        return Checked(index, np.full(len(index), row), line)

    def unit_reads(
        self, column: int, row: int, offsets: Index | Chunks, line: int, *, copies: bool = False
    ) -> None:
        """An asynchronous unit begins to read for a warp, which must know of the writes. `copies`: it doesn't
        compute with what it reads.
        """
        shadow, clocks, of = self.shadow, self.clocks, self._of_unit(row, offsets, line)
        index, late = of.index, self._late(of)
        if copies and late.any():
            never = shadow.written[index] == NEVER
            late &= ~in_chunks(index * shadow.granule, never)
            if (used := self.wave.memory.used) is not None:
                own = index % (self.wave.memory.shared_stride // shadow.granule)
                late &= np.isin(own, used // shadow.granule) | ~never
        elif late.any() and (never := late & (shadow.written[index] == NEVER)).any():
            address = int(index[int(never.argmax())]) * shadow.granule % self.wave.memory.shared_stride
            late &= ~never | (not self._undefined.multiplies(line, address))
        self._report_unordered(of, late, "read")
        self._hidden(of, late, "read")
        slot = self.slot(column)
        shadow.unit[slot, index], shadow.taken[slot, index] = column, clocks.times[column] + 1
        shadow.note_reads(index, 1 << slot)
        shadow.read_line[index] = line

    def _hidden(self, of: Checked, late: Bools, verb: str) -> None:
        """The asynchronous proxy may not see writes that the warp itself knows of."""
        shadow, clocks = self.shadow, self.clocks
        time, writer = shadow.written[of.index], shadow.writer[of.index]
        hidden: Bools = ~late & (time != NEVER) & ~clocks.through_proxy[writer]
        hidden &= time > clocks.fenced[of.rows, writer]
        what = f"is {verb} without a fence.proxy.async after its write at line {{}}"
        self._report("missing-proxy-fence", what, of, hidden, shadow.write_line)

    def unit_writes(
        self, column: int, row: int, offsets: Index | Chunks, line: int, through_proxy: bool
    ) -> None:
        """A unit begins to write for a warp; `through_proxy`: through the asynchronous proxy."""
        shadow, of = self.shadow, self._of_unit(row, offsets, line)
        index = of.index
        late = self._late(of) & (shadow.written[index] != NEVER)
        self._report_unordered(of, late, "written")
        if through_proxy:
            self._hidden(of, late, "overwritten")
        self._after_reads(of)
        if through_proxy:
            self._hidden_reads(of, row)
        shadow.writer[index], shadow.written[index] = column, self.clocks.times[column] + 1
        shadow.write_line[index] = line

    def _hidden_reads(self, of: Checked, row: int) -> None:
        """Before a write through the asynchronous proxy, each read of threads needs a fence: their data may
        not have arrived yet when the threads announce the reads.
        """
        begin = row // self._per_cluster * self._per_cluster
        mine, reads = slice(begin, begin + self._per_cluster), self.shadow.reads[of.index]
        hidden: Bools = np.logical_or.reduce(reads > self.clocks.fenced[row, mine], axis=1)
        hidden &= ~np.logical_or.reduce(reads > self.clocks.known[row, mine], axis=1)
        if hidden.any() and not self._strict:
            # What writes the addresses of tensor memory needs none.
            writers = [
                at for at, name in self.clocks.names.items() if isinstance(name, tuple) and name[0] == _ALLOC
            ]
            allowed = hidden & np.isin(self.shadow.writer[of.index], writers)
            self.shadow.reads[of.index[allowed]] = 0  # or the next write would find them, too
            hidden &= ~allowed
        what = "is overwritten without a fence.proxy.async after its read at line {}"
        self._report("missing-proxy-fence", what, of, hidden, self.shadow.read_line)

    # The end of a CTA

    def ended(self, cta: int, known: Clocks) -> None:
        """A CTA whose threads know `known` has ended: others and units must have finished with its memory."""
        shadow = self.shadow
        begin = cta * self.wave.memory.shared_stride // shadow.granule
        part = slice(begin, begin + -(-self.wave.memory.shared_size // shadow.granule))
        rows = self.wave.rows_of(cta)
        others = np.ones(self.clocks.width, np.bool_)
        others[rows] = False
        for column, name in self.clocks.names.items():
            others[column] = not (isinstance(name, tuple) and name[0] in _OWN_WAITS)
        written, writer = shadow.written[part], shadow.writer[part]
        late: Bools = (written != NEVER) & (written > known[0, writer]) & others[writer]
        self._unfinished(cta, late, writer, shadow.write_line[part], "written")
        by = shadow.readers(np.arange(part.start, part.stop))
        units = int(np.bitwise_or.reduce(by))
        for slot, (taken, unit) in enumerate(zip(shadow.taken, shadow.unit, strict=True)):
            if not units >> slot & 1:
                continue
            late = (taken[part] > known[0, unit[part]]) & others[unit[part]]
            self._unfinished(cta, late, unit[part], shadow.read_line[part], "read")
        near = np.flatnonzero(by & READ_BY_THREADS)
        if self._per_cluster > self.wave.launch.warps and len(near):
            first = rows.start // self._per_cluster * self._per_cluster
            ranks = np.flatnonzero(others[first : first + self._per_cluster])
            read = shadow.reads[near + begin][:, ranks] > known[0, first + ranks]
            if read.any():
                late = np.zeros(len(by), np.bool_)
                late[near] = read.any(axis=1)
                reader = first + ranks[read[int(late[near].argmax())].argmax()]
                self._unfinished(cta, late, np.full(len(late), reader), shadow.read_line[part], "read")

    def _unfinished(self, cta: int, late: Bools, column: Index, lines: Lines, verb: str) -> None:
        if not late.any():
            return
        first = int(late.argmax())
        by, line, address = int(column[first]), int(lines[first]), first * self.shadow.granule
        count = int(np.count_nonzero(late))
        rule, row = "async-at-exit", self.wave.rows_of(cta).start
        what = f"may still be {verb} by an asynchronous unit when its CTA ends"
        if by < self.wave.warps:
            rule, row = "cluster-exit", by
            what = f"is {verb} by another CTA, and nothing orders the end of its own CTA after that"
        message, thread = f"shared memory at 0x{address:x} {what}", self.wave.thread(row, 0)
        self.findings.add(rule, message, line, thread, address, count)
