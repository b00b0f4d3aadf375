"""The sanitizer's shadow of tensor memory: allocated columns, and the last write and read of each cell."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.tensor_memory import COLUMN_MASK, Touch
from weft.emulator.reading.syntax import Bools
from weft.emulator.records import Record
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Rows, VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.watch import Cells, Chunks, UnitAccess
from weft.isa.tcgen05.pipelining import Use, in_order
from weft.isa.tcgen05.tensor_layouts import COLUMNS, LANE_SHIFT, LANES

_UNIT = "tcgen05"
"""The proxy of mma, cp and shift, of which one thread issues many without a wait."""

_STARTED = ("cluster.started", 0)
"""The column of what a warp knows after a barrier of its cluster, relaxed or not."""

_ROOM = 256
_COARSE = 32


class Operation(Record):
    """The numbers of an operation: its column of the clocks, its time there, its line, its warp, and the
    number of its use.
    """

    OWNER = TIME = LINE = ROW = USE = ""


_DONE = {"load": "read", "store": "written", "dealloc": "deallocated"}
Index = tuple[Rows, Any, Any]
"""Cells in the arrays of a shadow: arrays of lanes and columns of one CTA, or slices of them in some CTAs."""
Times = npt.NDArray[np.int32]


class Shadow:
    """The shadow of the CTAs of a wave. The last write and the last read of the lanes of a granule in one
    column are numbers of operations of the CTA. Granules have 32 lanes until an access divides them, and then
    one. `ending`: the line at which the other CTA of the pair deallocates a column that a CTA still has.
    """

    def __init__(self, ctas: int) -> None:
        self.allocated: Times = np.zeros((ctas, COLUMNS), np.int32)
        self.ending: Times = np.zeros((ctas, COLUMNS), np.int32)
        self.permits: Times = np.zeros(ctas, np.int32)
        self.granule = _COARSE
        shape = ctas, LANES // _COARSE, COLUMNS
        self.filled: Bools = np.zeros(shape, np.bool_)
        self.writes: Times = np.zeros(shape, np.int32)
        self.reads: Times = np.zeros(shape, np.int32)
        self.operations: Times = np.zeros((len(Operation), ctas, _ROOM), np.int32)
        """The operations of each CTA by their number. Number 0 is no operation."""
        self.last: Rows = np.zeros(ctas, np.intp)
        """The number of the last operation of each CTA."""

    def number(self, ctas: Rows, operations: Times) -> Rows:
        """The number of an operation in each of some CTAs."""
        last = self.last[ctas]
        numbers: Rows = last + (self.operations[:, ctas, last] != operations).any(axis=0)
        if int(numbers.max()) == self.operations.shape[2]:
            self.operations = np.concatenate([self.operations, np.zeros_like(self.operations)], axis=2)
        self.operations[:, ctas, numbers] = operations
        self.last[ctas] = numbers
        return numbers

    def refine(self) -> None:
        """Makes granules of one lane."""
        if self.granule > 1:
            for name in ("filled", "writes", "reads"):
                setattr(self, name, np.repeat(getattr(self, name), self.granule, axis=1))
            self.granule = 1

    def index(self, ctas: Rows, cells: Cells) -> Index | None:
        """A rectangle in some CTAs, if it consists of whole granules."""
        if cells.lane % self.granule or cells.lanes % self.granule:
            return None
        lanes = slice(cells.lane // self.granule, (cells.lane + cells.lanes) // self.granule)
        return ctas, lanes, slice(cells.column, cells.column + cells.columns)


class _Units(NamedTuple):
    """Units that access cells, one of each CTA: their columns of the clocks, for some warps."""

    kind: str
    ctas: Rows
    rows: Rows
    columns: Rows
    use: Use | None


class TensorMemory:
    """The shadow of a wave, and the checks of what accesses it."""

    def __init__(
        self, wave: Wave, clocks: VectorClocks, findings: Findings, fences: frozenset[str] = frozenset()
    ) -> None:
        self.wave, self.clocks, self.findings = wave, clocks, findings
        self.fences = fences
        self._uses: dict[Use | None, int] = {}
        self._orders: Bools = np.zeros((0, 0), np.bool_)

    @cached_property
    def shadow(self) -> Shadow:
        return Shadow(int(self.wave.cta_of_row[-1]) + 1)

    def event(
        self, event: str, row: int, column: int, columns: int, line: int, ctas: tuple[int, ...]
    ) -> None:
        """A warp requests, allocates or deallocates columns, or relinquishes the permit to allocate."""
        cta, here, part = int(self.wave.cta_of_row[row]), self.shadow, slice(column, column + columns)
        if event == "request":
            started = self.clocks.column(_STARTED)  # may make `known` another array
            known = self.clocks.known[row]
            for each in ctas:
                if each != cta and not known[started] and not known[self.wave.rows_of(each)].any():
                    what = "a CTA allocates for its pair, and nothing orders that after the start of its peer"
                    self.findings.add("tmem-pair", what, line, self.wave.thread(row, 0))
        elif event == "alloc":
            here.allocated[cta, part], here.filled[cta, :, part] = line, False
            here.permits[cta] = here.permits[cta] or line
        elif event == "dealloc":
            self._deallocate(cta, part, row, line)
            here.allocated[cta, part], here.filled[cta, :, part], here.ending[cta, part] = 0, False, 0
            for peer in (each for each in ctas if each != cta):
                # If the peer was first, its part of the columns may have another use by now.
                if here.allocated[peer, part].all():
                    self._deallocate(peer, part, row, line)
                    here.ending[peer, part] = line
        elif event == "relinquish":
            here.permits[cta] = 0

    def met(self, rows: Rows) -> None:
        """Warps have waited at a barrier of their cluster, whose CTAs have all started."""
        column = self.clocks.column(_STARTED)
        for row in rows.tolist():
            self.clocks.learn(row, column, 1)

    def _deallocate(self, cta: int, part: slice, row: int, line: int) -> None:
        """Everything that uses these columns must be complete."""
        here, units = self.shadow, self._units("dealloc", "", np.array([cta]), np.array([row]), None)
        if self._is_ordered(units, (units.ctas, slice(None), part)):
            return
        here.refine()
        lanes, columns = (each.reshape(-1) for each in np.mgrid[:LANES, part])
        self._order(units, (units.ctas, lanes, columns), line)

    def record(self, touches: Sequence[Touch], line: int) -> bool:
        """Records accesses that take place at once. False, and nothing has changed, if a rule may be broken.
        Stores must not overlap with other accesses, except one of the same thread with which it is in order.
        """
        each = []
        for kind, proxy, ctas, cells, rows, use in touches:
            units, index = self._units(kind, proxy, ctas, rows, use), self.shadow.index(ctas, cells)
            if index is None or not self._is_plain(units, index):
                return False
            each.append((units, index))
        for units, index in each:
            self._record(units, index, line)
        return True

    def access(self, access: UnitAccess, row: int) -> None:
        """A warp, or an asynchronous unit on its behalf, reads or writes cells (lane << 16 | column)."""
        here, cells, line = self.shadow, access.offsets, access.line
        ctas, rows = np.array([access.cta]), np.array([row])
        if isinstance(cells, Cells):
            if self.record([Touch(access.kind, access.proxy, ctas, cells, rows, access.use)], line):
                return
            cells = cells.each()
        assert not isinstance(cells, Chunks)
        flat = np.asarray(cells).reshape(-1)
        if not len(flat):
            return
        here.refine()
        units = self._units(access.kind, access.proxy, ctas, rows, access.use)
        index = ctas, flat >> LANE_SHIFT & LANES - 1, flat & COLUMN_MASK
        columns = ctas, index[2]
        bad = here.allocated[columns] == 0
        self._report("tmem-unallocated", "is not allocated", index, bad, row, line)
        if (ending := here.ending[columns]).any():
            since = int(ending[int(ending.argmax())])
            what = f"is {_DONE[access.kind]} after line {since} of the other CTA of the pair deallocates it"
            self._report("tmem-race", what, index, ending > 0, row, line)
        if not self._is_ordered(units, index):
            self._order(units, index, line)
        empty: Bools = ~bad & ~here.filled[index]
        self._record(units, index, line)
        if access.kind == "load":
            self._report("uninitialized-tensor", "is read but was never written", index, empty, row, line)

    def _units(self, kind: str, proxy: str, ctas: Rows, rows: Rows, use: Use | None) -> _Units:
        columns = [self.clocks.column((proxy, row), proxy == _UNIT) for row in rows.tolist()]
        return _Units(kind, ctas, rows, np.array(columns), use)

    def _is_plain(self, units: _Units, index: Index) -> bool:
        here, (ctas, _, columns) = self.shadow, index
        if not here.allocated[ctas, columns].all() or here.ending[ctas, columns].any():
            return False
        return (units.kind == "store" or bool(here.filled[index].all())) and self._is_ordered(units, index)

    def _is_ordered(self, units: _Units, index: Index) -> bool:
        """Whether each unit may access cells of its CTA after all that has accessed them before."""
        before = self._before(units, index).values()
        numbers = np.concatenate([each.reshape(len(units.ctas), -1) for each in before], axis=1)
        # Mostly, the operations between the first and the last of them are few, and all are complete.
        first, last = numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True)
        between = np.minimum(first + np.arange(int((last - first).max()) + 1), last)
        return any(not any(some.any() for some in self._late(units, each)) for each in (between, numbers))

    def _before(self, units: _Units, index: Index) -> dict[str, Times]:
        """What an access must follow: the last write, and before a write or deallocation the last read."""
        before = {"writes": self.shadow.writes[index]}
        return before if units.kind == "load" else before | {"reads": self.shadow.reads[index]}

    def _late(self, units: _Units, numbers: Times) -> tuple[Bools, Bools]:
        """Which of some earlier operations of each CTA may still run, and where fences are missing between
        them and the access.
        """
        ctas, rows, columns = (each[:, None] for each in units[1:4])
        owner, time, _, others, uses = self.shadow.operations[:, ctas, numbers]
        late: Bools = time > self.clocks.known[rows, owner]
        if units.use is not None and late.any():
            late &= (owner != columns) | ~self._in_order(units.use)[uses]
        # The next owner of deallocated columns is not a thread that could fence together with these.
        if not self.fences or units.kind == "dealloc":
            return late, np.zeros_like(late)
        # What warps know of by the fences that the kernel has.
        passed = self.clocks.met if "after" in self.fences else self.clocks.published
        return late, (others != rows) & (time > passed[rows, owner]) & ~late

    def _record(self, units: _Units, index: Index, line: int) -> None:
        operations = np.empty((len(Operation), len(units.ctas)), np.int32)
        operations[Operation.OWNER], operations[Operation.ROW] = units.columns, units.rows
        operations[Operation.TIME] = self.clocks.times[units.columns] + 1
        operations[Operation.LINE], operations[Operation.USE] = line, self._number(units.use)
        here, numbers = self.shadow, self.shadow.number(units.ctas, operations)
        if isinstance(index[1], slice):
            numbers = numbers[:, None, None]
        if units.kind != "store":
            here.reads[index] = numbers
        if units.kind != "load":
            here.writes[index], here.filled[index] = numbers, True

    def _order(self, units: _Units, index: Index, line: int) -> None:
        """Reports cells of one CTA whose last write, or read, isn't complete."""
        done, row = _DONE[units.kind], int(units.rows[0])
        for verb, numbers in self._before(units, index).items():
            (late,), (bare,) = self._late(units, numbers[None])
            for rule, touched, what in (
                ("tmem-race", late, "before anything waits for line {}, which {} it"),
                ("tcgen05-fence", bare, "after line {}, which {} it, without a tcgen05.fence on both sides"),
            ):
                operation = self.shadow.operations[:, units.ctas[0], numbers[int(touched.argmax())]]
                what = f"is {done} {what.format(int(operation[Operation.LINE]), verb)}"
                self._report(rule, what, index, touched, row, line)

    def _number(self, use: Use | None) -> int:
        return self._uses.setdefault(use, len(self._uses))

    def _in_order(self, use: Use) -> Bools:
        """By the number of an earlier use of the same thread: whether `use` takes place after it."""
        number = self._number(use)
        if len(self._orders) < len(self._uses):
            uses = self._uses
            self._orders = np.array([[None not in (a, b) and in_order(a, b) for a in uses] for b in uses])
        return self._orders[number]

    def _report(self, rule: str, what: str, index: Index, bad: Bools, row: int, line: int) -> None:
        """Reports the cells of one CTA that are `bad`, if any."""
        if not bad.any():
            return
        (lane, *_), (column, *_) = (each[bad].tolist() for each in index[1:])
        cell = f"column {column} of lane {lane} of tensor memory"
        thread, address = self.wave.thread(row, 0), lane << LANE_SHIFT | column
        self.findings.add(rule, f"{cell} {what}", line, thread, address, int(np.count_nonzero(bad)))

    def done(self) -> None:
        """The CTAs have ended."""
        if "shadow" not in vars(self):
            return
        here = self.shadow
        for cta, (columns, permit) in enumerate(zip(here.allocated, here.permits.tolist(), strict=True)):
            for line in np.unique(columns[columns > 0]).tolist():
                message = f"{int(np.count_nonzero(columns == line))} columns are never deallocated"
                self._end("tmem-leaked", message, cta, line)
            if permit:
                self._end("tmem-permit-kept", "the permit to allocate is never relinquished", cta, permit)

    def _end(self, rule: str, message: str, cta: int, line: int) -> None:
        thread = self.wave.thread(self.wave.rows_of(cta).start, 0)
        self.findings.add(rule, message, line, thread)
