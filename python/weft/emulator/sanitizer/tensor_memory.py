"""The sanitizer's shadow of tensor memory: allocated columns, and the last write and read of each cell."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.tensor_memory import COLUMN_MASK
from weft.emulator.reading.types import Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Rows, VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.watch import Cells
from weft.isa.tcgen05.pipelining import Use, in_order
from weft.isa.tcgen05.tensor_layouts import COLUMNS, LANE_SHIFT, LANES

_UNIT = "tcgen05"
"""The proxy of mma, cp and shift, of which one thread issues many without a wait."""

_STARTED = ("cluster.started", 0)
"""The column of what a warp knows after a barrier of its cluster, relaxed or not."""

_ROOM = 256
_DONE = {"load": "read", "store": "written", "dealloc": "deallocated"}
Index = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]
Times = npt.NDArray[np.int32]
Operation = tuple[int, int, int, int, int]


@dataclass
class Whole:
    """The last write of all cells of a rectangle, and their last read (None: they differ). `changed`: the
    shadow's arrays don't have them yet.
    """

    write: int
    read: int | None
    changed: bool = False


class Shadow:
    """The shadow of one CTA. The last write and the last read of a cell are numbers of operations. `ending`:
    the line at which the other CTA of the pair deallocates a column that this CTA still has.
    """

    def __init__(self) -> None:
        self.allocated: npt.NDArray[np.int32] = np.zeros(COLUMNS, np.int32)
        self.ending: npt.NDArray[np.int32] = np.zeros(COLUMNS, np.int32)
        self.filled: Bools = np.zeros((LANES, COLUMNS), np.bool_)
        self.permit = 0
        self.writes: Times = np.zeros((LANES, COLUMNS), np.int32)
        self.reads: Times = np.zeros((LANES, COLUMNS), np.int32)
        self._numbers: dict[Operation, int] = {}
        self._operations: Times = np.zeros((5, _ROOM), np.int32)
        self.listed: list[Operation] = [(0, 0, 0, 0, 0)]
        """The operations by their number."""
        self.whole: dict[Cells, Whole] = {}
        """Rectangles that don't overlap, whose cells have been written together."""

    def number(self, column: int, time: int, line: int, row: int, use: int) -> int:
        """The number of an operation: its column of the clocks, its time there, its line, its warp, and the
        number of its use.
        """
        key = column, time, line, row, use
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers) + 1
            self.listed.append(key)
            if number == self._operations.shape[1]:
                self._operations = np.concatenate([self._operations, np.zeros_like(self._operations)], axis=1)
            self._operations[:, number] = key
        return number

    def between(self, numbers: Times) -> tuple[int, Times]:
        """The lowest of some numbers, and the operations from it to the highest."""
        first = int(numbers.min())
        return first, self._operations[:, first : int(numbers.max()) + 1]

    def settle(self, begin: int = 0, end: int = COLUMNS) -> None:
        """Brings `writes` and `reads` of these columns up to date, and forgets the rectangles there."""
        for cells in [
            each for each in self.whole if each.column < end and begin < each.column + each.columns
        ]:
            whole = self.whole.pop(cells)
            if whole.changed:
                self.writes[cells.index] = whole.write
                if whole.read is not None:
                    self.reads[cells.index] = whole.read


class TensorMemory:
    """The shadows, by CTA of the wave."""

    def __init__(
        self, wave: Wave, clocks: VectorClocks, findings: Findings, fences: frozenset[str] = frozenset()
    ) -> None:
        self.wave, self.clocks, self.findings = wave, clocks, findings
        self._fences = fences
        self._of: dict[int, Shadow] = {}
        self._uses: dict[Use | None, int] = {}
        self._listed: list[Use | None] = []

    def event(
        self, event: str, row: int, column: int, columns: int, line: int, ctas: tuple[int, ...]
    ) -> None:
        """A warp requests, allocates or deallocates columns, or relinquishes the permit to allocate."""
        cta = int(self.wave.cta_of_row[row])
        here = self._of.setdefault(cta, Shadow())
        for each in {cta, *ctas}:
            self._of.setdefault(each, Shadow()).settle()
        part = slice(column, column + columns)
        if event == "request":
            self._peer_runs(row, cta, line, ctas)
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

    def _peer_runs(self, row: int, cta: int, line: int, ctas: tuple[int, ...]) -> None:
        """A CTA of a pair must know that its peer has started."""
        met = self.clocks.known[row, self.clocks.column(_STARTED)]
        for peer in ctas:
            if peer != cta and not met and not self.clocks.known[row, self.wave.rows_of(peer)].any():
                what = "a CTA allocates for its pair, and nothing orders that after the start of its peer"
                self.findings.add("tmem-pair", what, line, self.wave.thread(row, 0))

    def _deallocate(self, shadow: Shadow, part: slice, row: int, line: int) -> None:
        """Everything that uses these columns must be complete."""
        late = False
        for before in (shadow.writes, shadow.reads):
            _, (owner, time, *_) = shadow.between(before[:, part])
            late |= bool((time > self.clocks.known[row, owner]).any())
        if not late:
            return
        lane, freed = (each.reshape(-1) for each in np.mgrid[:LANES, part])
        self._order(shadow, "dealloc", "", (lane, freed), lane << LANE_SHIFT | freed, row, line)

    def access(
        self,
        kind: str,
        proxy: str,
        cta: int,
        offsets: npt.NDArray[np.intp] | Cells,
        row: int,
        line: int,
        use: Use | None = None,
    ) -> None:
        """A warp, or an asynchronous unit on its behalf, reads or writes cells (lane << 16 | column)."""
        here = self._of.get(cta) or self._of.setdefault(cta, Shadow())
        if isinstance(offsets, Cells):
            if self._again(here, kind, proxy, offsets, row, line, use):
                return
            here.settle(offsets.column, offsets.column + offsets.columns)
            if self._plain(here, kind, proxy, offsets, row, line, use):
                return
            offsets = offsets.each()
        flat = np.asarray(offsets).reshape(-1)
        if not len(flat):
            return
        here.settle()
        cells = flat >> LANE_SHIFT & LANES - 1, flat & COLUMN_MASK
        bad = here.allocated[cells[1]] == 0
        if bad.any():
            self._report("tmem-unallocated", "is not allocated", flat[bad], row, line)
        ending = here.ending[cells[1]]
        if ending.any():
            since = int(ending[int(ending.argmax())])
            what = f"is {_DONE[kind]} after line {since} of the other CTA of the pair deallocates it"
            self._report("tmem-race", what, flat[ending > 0], row, line)
        self._order(here, kind, proxy, cells, flat, row, line, use)
        if kind == "store":
            here.filled[cells] = True
            return
        empty: Bools = ~bad & ~here.filled[cells]
        if empty.any():
            self._report("uninitialised-tensor", "is read but was never written", flat[empty], row, line)

    def _again(
        self, here: Shadow, kind: str, proxy: str, cells: Cells, row: int, line: int, use: Use | None
    ) -> bool:
        """Records an access to a rectangle whose cells were written together, if that breaks no rule.
        Otherwise returns False, and changes nothing.
        """
        whole = here.whole.get(cells)
        if whole is None or (kind == "store" and whole.read is None):
            return False
        column, known = self.clocks.column((proxy, row), proxy == _UNIT), self.clocks.known
        for number in (whole.write, whole.read or 0)[: 1 if kind == "load" else 2]:
            owner, time, _, other, before = here.listed[number]
            if time > known[row, owner]:
                first = self._listed[before]
                if use is None or first is None or owner != column or not in_order(first, use):
                    return False
            if self._fences and other != row and time > self._passed(row)[owner]:
                return False
        number = here.number(column, self.clocks.times[column] + 1, line, row, self._number(use))
        whole.changed = True
        if kind == "store":
            whole.write = number
        else:
            whole.read = number
        return True

    def _plain(
        self, here: Shadow, kind: str, proxy: str, cells: Cells, row: int, line: int, use: Use | None
    ) -> bool:
        """Records an access to a rectangle, if no earlier access to the cells, or to others between the first
        and the last of those, can break a rule. Otherwise returns False, and changes nothing.
        """
        index, column = cells.index, self.clocks.column((proxy, row), proxy == _UNIT)
        if not here.allocated[index[1]].all() or here.ending[index[1]].any():
            return False
        if kind == "load" and not here.filled[index].all():
            return False
        first = 0
        for before in (here.writes, here.reads)[: 1 if kind == "load" else 2]:
            first, operations = here.between(before[index])
            owner, time, _, rows, uses = operations
            late: Bools = time > self.clocks.known[row, owner]
            if use is not None and late.any():
                late &= (owner != column) | ~self._in_order(use)[uses]
            if late.any() or (self._fences and self._bare(row, owner, time, rows).any()):
                return False
        number = here.number(column, self.clocks.times[column] + 1, line, row, self._number(use))
        (here.writes if kind == "store" else here.reads)[index] = number
        if kind == "store":
            here.filled[index] = True
            here.whole[cells] = Whole(number, first if operations.shape[1] == 1 else None)
        return True

    def _order(
        self,
        here: Shadow,
        kind: str,
        proxy: str,
        cells: Index,
        flat: npt.NDArray[np.intp],
        row: int,
        line: int,
        use: Use | None = None,
    ) -> None:
        """The last write must be complete. Before a write or a deallocation, the last read must be complete,
        too.
        """
        # The next owner of deallocated columns is not a thread that could fence together with these.
        fences = bool(self._fences) and kind != "dealloc"
        column = self.clocks.column((proxy, row), proxy == _UNIT)
        for before, verb in ((here.writes, "writes"), (here.reads, "reads")):
            if verb == "reads" and kind == "load":
                continue
            numbers = before[cells]
            first, (owner, time, lines, rows, uses) = here.between(numbers)
            late: Bools = time > self.clocks.known[row, owner]
            if use is not None and late.any():
                late &= (owner != column) | ~self._in_order(use)[uses]
            bare = self._bare(row, owner, time, rows) & ~late if fences else late
            done = _DONE[kind]
            if late.any() and (touched := late[numbers - first]).any():
                since = int(lines[numbers[int(touched.argmax())] - first])
                what = f"is {done} before anything waits for line {since}, which {verb} it"
                self._report("tmem-race", what, flat[touched], row, line)
            if fences and bare.any() and (touched := bare[numbers - first]).any():
                since = int(lines[numbers[int(touched.argmax())] - first])
                what = f"is {done} after line {since}, which {verb} it, without a tcgen05.fence on both sides"
                self._report("tcgen05-fence", what, flat[touched], row, line)
        if kind == "dealloc":
            return
        number = here.number(column, self.clocks.times[column] + 1, line, row, self._number(use))
        (here.writes if kind == "store" else here.reads)[cells] = number

    def _number(self, use: Use | None) -> int:
        number = self._uses.get(use)
        if number is None:
            number = self._uses[use] = len(self._uses)
            self._listed.append(use)
        return number

    def _in_order(self, use: Use) -> Bools:
        """By the number of an earlier use of the same thread: whether `use` takes place after it."""
        return np.array([first is not None and in_order(first, use) for first in self._uses], np.bool_)

    def _bare(self, row: int, owner: Times, time: Times, rows: Times) -> Bools:
        """The operations of other warps that have not passed the fences that the kernel has."""
        bare: Bools = (rows != row) & (time > self._passed(row)[owner])
        return bare

    def _passed(self, row: int) -> Times:
        """What a warp knows of by the fences that the kernel has."""
        clocks = self.clocks
        passed: Times = clocks.met[row] if "after" in self._fences else clocks.published[row]
        return passed

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
