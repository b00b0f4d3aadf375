"""The sanitizer's shadow of tensor memory: allocated columns, and the last write and read of each cell."""

from enum import IntEnum, auto

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.tensor_memory import COLUMN_MASK
from weft.emulator.reading.syntax import Bools
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


class Operation(IntEnum):
    """The numbers of an operation: its column of the clocks, its time there, its line, its warp, and the
    number of its use.
    """

    OWNER = 0
    TIME = auto()
    LINE = auto()
    ROW = auto()
    USE = auto()


_DONE = {"load": "read", "store": "written", "dealloc": "deallocated"}
Index = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]
Times = npt.NDArray[np.int32]


class Shadow:
    """The shadow of one CTA. The last write and the last read of the lanes of a granule in one column are
    numbers of operations. Granules have 32 lanes until an access divides them, and then one. `ending`: the
    line at which the other CTA of the pair deallocates a column that this CTA still has.
    """

    def __init__(self) -> None:
        self.allocated: npt.NDArray[np.int32] = np.zeros(COLUMNS, np.int32)
        self.ending: npt.NDArray[np.int32] = np.zeros(COLUMNS, np.int32)
        self.permit = 0
        self.granule = _COARSE
        shape = LANES // _COARSE, COLUMNS
        self.filled: Bools = np.zeros(shape, np.bool_)
        self.writes: Times = np.zeros(shape, np.int32)
        self.reads: Times = np.zeros(shape, np.int32)
        self.operations: Times = np.zeros((_ROOM, len(Operation)), np.int32)
        """The operations by their number."""
        self.used: npt.NDArray[np.int64] = np.ones(1, np.int64)
        """The numbers that exist. Number 0 is no operation."""

    def number(self, column: int, time: int, line: int, row: int, use: int) -> int:
        """The number of an operation: see `Operation`."""
        last, key = int(self.used[0]) - 1, (column, time, line, row, use)
        if last and tuple(self.operations[last].tolist()) == key:
            return last
        self.fit(1)
        self.operations[last + 1] = key
        self.used[0] = last + 2
        return last + 1

    def fit(self, more: int) -> None:
        """Makes room for more operations."""
        while int(self.used[0]) + more > len(self.operations):
            self.operations = np.concatenate([self.operations, np.zeros_like(self.operations)])

    def between(self, numbers: Times) -> tuple[int, Times]:
        """The lowest of some numbers, and the operations from it to the highest, `[fields, numbers]`."""
        first = int(numbers.min())
        return first, self.operations[first : int(numbers.max()) + 1].T

    def refine(self) -> None:
        """Makes granules of one lane."""
        if self.granule > 1:
            for name in ("filled", "writes", "reads"):
                setattr(self, name, np.repeat(getattr(self, name), self.granule, axis=0))
            self.granule = 1

    def fits(self, cells: Cells) -> bool:
        """Whether a rectangle consists of whole granules."""
        return not (cells.lane % self.granule or cells.lanes % self.granule)

    def index(self, cells: Cells) -> tuple[slice, slice]:
        """A rectangle in the arrays."""
        lanes = slice(cells.lane // self.granule, (cells.lane + cells.lanes) // self.granule)
        return lanes, slice(cells.column, cells.column + cells.columns)


class TensorMemory:
    """The shadows, by CTA of the wave."""

    def __init__(
        self, wave: Wave, clocks: VectorClocks, findings: Findings, fences: frozenset[str] = frozenset()
    ) -> None:
        self.wave, self.clocks, self.findings = wave, clocks, findings
        self.fences = fences
        self._of: dict[int, Shadow] = {}
        self._uses: dict[Use | None, int] = {}
        self._orders: npt.NDArray[np.uint8] = np.zeros((0, 0), np.uint8)

    def event(
        self, event: str, row: int, column: int, columns: int, line: int, ctas: tuple[int, ...]
    ) -> None:
        """A warp requests, allocates or deallocates columns, or relinquishes the permit to allocate."""
        cta = int(self.wave.cta_of_row[row])
        here = self._of.setdefault(cta, Shadow())
        for each in ctas:
            self._of.setdefault(each, Shadow())
        part = slice(column, column + columns)
        if event == "request":
            started = self.clocks.column(_STARTED)  # may make `known` another array
            known = self.clocks.known[row]
            for each in ctas:
                if each != cta and not known[started] and not known[self.wave.rows_of(each)].any():
                    what = "a CTA allocates for its pair, and nothing orders that after the start of its peer"
                    self.findings.add("tmem-pair", what, line, self.wave.thread(row, 0))
        elif event == "alloc":
            here.allocated[part], here.filled[:, part] = line, False
            here.permit = here.permit or line
        elif event == "dealloc":
            self._deallocate(here, part, row, line)
            here.allocated[part], here.filled[:, part], here.ending[part] = 0, False, 0
            for peer in (self._of.setdefault(each, Shadow()) for each in ctas if each != cta):
                # If the peer was first, its part of the columns may have another use by now.
                if peer.allocated[part].all():
                    self._deallocate(peer, part, row, line)
                    peer.ending[part] = line
        elif event == "relinquish":
            here.permit = 0

    def met(self, rows: Rows) -> None:
        """Warps have waited at a barrier of their cluster, whose CTAs have all started."""
        column = self.clocks.column(_STARTED)
        for row in rows.tolist():
            self.clocks.learn(row, column, 1)

    def _deallocate(self, shadow: Shadow, part: slice, row: int, line: int) -> None:
        """Everything that uses these columns must be complete."""
        late = False
        for before in (shadow.writes, shadow.reads):
            _, (owner, time, *_) = shadow.between(before[:, part])
            late |= bool((time > self.clocks.known[row, owner]).any())
        if not late:
            return
        shadow.refine()
        lane, freed = (each.reshape(-1) for each in np.mgrid[:LANES, part])
        flat = lane << LANE_SHIFT | freed
        access = UnitAccess("dealloc", "", 0, "tensor", flat, np.zeros((0, 0), np.bool_), line)
        self._order(shadow, access, (lane, freed), flat, row)

    def access(self, access: UnitAccess, row: int) -> None:
        """A warp, or an asynchronous unit on its behalf, reads or writes cells (lane << 16 | column)."""
        here, cells, line = self.of(access.cta), access.offsets, access.line
        if isinstance(cells, Cells):
            if here.fits(cells) and self._plain(here, access, here.index(cells), row):
                return
            cells = cells.each()
        assert not isinstance(cells, Chunks)
        flat = np.asarray(cells).reshape(-1)
        if not len(flat):
            return
        here.refine()
        index = flat >> LANE_SHIFT & LANES - 1, flat & COLUMN_MASK
        bad = here.allocated[index[1]] == 0
        if bad.any():
            self._report("tmem-unallocated", "is not allocated", flat[bad], row, line)
        ending = here.ending[index[1]]
        if ending.any():
            since = int(ending[int(ending.argmax())])
            what = f"is {_DONE[access.kind]} after line {since} of the other CTA of the pair deallocates it"
            self._report("tmem-race", what, flat[ending > 0], row, line)
        self._order(here, access, index, flat, row)
        empty: Bools = ~bad & ~here.filled[index]
        self._record(here, access, index, row)
        if access.kind == "load" and empty.any():
            self._report("uninitialized-tensor", "is read but was never written", flat[empty], row, line)

    def _plain(self, here: Shadow, access: UnitAccess, index: tuple[slice, slice], row: int) -> bool:
        """Records an access to a rectangle, if no earlier access to the cells, or to others between the first
        and the last of those, can break a rule. Otherwise returns False, and changes nothing.
        """
        if not here.allocated[index[1]].all() or here.ending[index[1]].any():
            return False
        if access.kind == "load" and not here.filled[index].all():
            return False
        for before in (here.writes, here.reads)[: 1 if access.kind == "load" else 2]:
            _, _, late, bare = self._late(here, before[index], access, row)
            if late.any() or bare.any():
                return False
        self._record(here, access, index, row)
        return True

    def _late(
        self, here: Shadow, numbers: Times, access: UnitAccess, row: int
    ) -> tuple[int, Times, Bools, Bools]:
        """The lowest of the numbers of earlier operations, and from it to the highest: the line of each,
        whether it may still run, and whether fences between it and the access are missing.
        """
        first, (owner, time, lines, rows, uses) = here.between(numbers)
        late: Bools = time > self.clocks.known[row, owner]
        if access.use is not None and late.any():
            late &= (owner != self.unit(access.proxy, row)) | ~self._in_order(access.use)[uses]
        # The next owner of deallocated columns is not a thread that could fence together with these.
        if not self.fences or access.kind == "dealloc":
            return first, lines, late, np.zeros_like(late)
        passed: Times = self.passed[row]
        return first, lines, late, (rows != row) & (time > passed[owner]) & ~late

    def _record(self, here: Shadow, access: UnitAccess, index: Index | tuple[slice, slice], row: int) -> None:
        column = self.unit(access.proxy, row)
        use = self.number(access.use)
        number = here.number(column, self.clocks.times[column] + 1, access.line, row, use)
        (here.writes if access.kind == "store" else here.reads)[index] = number
        if access.kind == "store":
            here.filled[index] = True

    def _order(
        self, here: Shadow, access: UnitAccess, cells: Index, flat: npt.NDArray[np.intp], row: int
    ) -> None:
        """The last write must be complete. Before a write or a deallocation, the last read must be complete,
        too.
        """
        done = _DONE[access.kind]
        for before, verb in ((here.writes, "writes"), (here.reads, "reads")):
            if verb == "reads" and access.kind == "load":
                continue
            numbers = before[cells]
            first, lines, late, bare = self._late(here, numbers, access, row)
            for rule, some, what in (
                ("tmem-race", late, "before anything waits for line {}, which {} it"),
                ("tcgen05-fence", bare, "after line {}, which {} it, without a tcgen05.fence on both sides"),
            ):
                if some.any() and (touched := some[numbers - first]).any():
                    since = int(lines[numbers[int(touched.argmax())] - first])
                    what = f"is {done} {what.format(since, verb)}"
                    self._report(rule, what, flat[touched], row, access.line)

    def number(self, use: Use | None) -> int:
        """The number of a use."""
        number = self._uses.get(use)
        if number is None:
            number = self._uses[use] = len(self._uses)
        return number

    def orders(self) -> npt.NDArray[np.uint8]:
        """By the numbers of a later and of an earlier use of the same thread: whether they take place in
        order.
        """
        if len(self._orders) < len(self._uses):
            rows = [
                self._in_order(use) if use is not None else np.zeros(len(self._uses)) for use in self._uses
            ]
            self._orders = np.array(rows, np.uint8)
        return self._orders

    def _in_order(self, use: Use) -> Bools:
        """By the number of an earlier use of the same thread: whether `use` takes place after it."""
        return np.array([first is not None and in_order(first, use) for first in self._uses], np.bool_)

    def of(self, cta: int) -> Shadow:
        """The shadow of a CTA."""
        return self._of.get(cta) or self._of.setdefault(cta, Shadow())

    def unit(self, proxy: str, row: int) -> int:
        """The column of the operations of a warp's unit."""
        return self.clocks.column((proxy, row), proxy == _UNIT)

    @property
    def passed(self) -> Times:
        """What warps know of by the fences that the kernel has."""
        return self.clocks.met if "after" in self.fences else self.clocks.published

    def _report(self, rule: str, what: str, cells: npt.NDArray[np.intp], row: int, line: int) -> None:
        address = int(cells[0])
        cell = f"column {address & COLUMN_MASK} of lane {address >> LANE_SHIFT} of tensor memory"
        self.findings.add(rule, f"{cell} {what}", line, self.wave.thread(row, 0), address, len(cells))

    def done(self) -> None:
        """The CTAs have ended."""
        for cta, here in self._of.items():
            columns = here.allocated
            for line in np.unique(columns[columns > 0]).tolist():
                message = f"{int(np.count_nonzero(columns == line))} columns are never deallocated"
                self._end("tmem-leaked", message, cta, line)
            if here.permit:
                self._end(
                    "tmem-permit-kept", "the permit to allocate is never relinquished", cta, here.permit
                )

    def _end(self, rule: str, message: str, cta: int, line: int) -> None:
        thread = self.wave.thread(self.wave.rows_of(cta).start, 0)
        self.findings.add(rule, message, line, thread)
