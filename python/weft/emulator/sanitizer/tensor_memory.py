"""What the sanitizer keeps of tensor memory: allocated columns, and who wrote and read a cell last."""

import numpy as np
import numpy.typing as npt

from weft.emulator.sanitizer.clocks import VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.tensor_memory import COLUMN_MASK, COLUMNS, LANE_SHIFT, LANES
from weft.emulator.types import Bools
from weft.emulator.wave import Wave

_UNIT = "tcgen05"
"""The proxy of mma, cp and shift, which one thread issues and which are done in their order."""

Index = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]
Times = npt.NDArray[np.int32]


class Shadow:
    """Of one CTA. The last write and the last read of a cell are known by the column of the clocks that tells
    of their end, the time in it, the line, and the warp.
    """

    def __init__(self) -> None:
        self.allocated: npt.NDArray[np.int32] = np.zeros(COLUMNS, np.int32)
        self.filled: Bools = np.zeros((LANES, COLUMNS), np.bool_)
        self.permit = 0
        self.writes: Times = np.zeros((4, LANES, COLUMNS), np.int32)
        self.reads: Times = np.zeros((4, LANES, COLUMNS), np.int32)


class TensorMemory:
    """By CTA of the wave; a CTA that has none costs nothing."""

    def __init__(
        self, wave: Wave, clocks: VectorClocks, findings: Findings, fences: frozenset[str] = frozenset()
    ) -> None:
        self.wave, self.clocks, self.findings = wave, clocks, findings
        self._fences = fences
        self._of: dict[int, Shadow] = {}

    def event(self, event: str, cta: int, column: int, columns: int, line: int) -> None:
        """Columns are allocated, given back, or the permit to allocate is given up."""
        here = self._of.setdefault(cta, Shadow())
        part = slice(column, column + columns)
        if event == "alloc":
            here.allocated[part], here.filled[:, part] = line, False
            here.permit = here.permit or line
        elif event == "dealloc":
            here.allocated[part], here.filled[:, part] = 0, False
        elif event == "relinquish":
            here.permit = 0

    def access(
        self, kind: str, proxy: str, cta: int, offsets: npt.NDArray[np.intp], row: int, line: int
    ) -> None:
        """A warp, or an asynchronous unit for it, reads or writes cells (lane << 16 | column)."""
        flat = np.asarray(offsets).reshape(-1)
        if not len(flat):
            return
        here = self._of.setdefault(cta, Shadow())
        cells = flat >> LANE_SHIFT & LANES - 1, flat & COLUMN_MASK
        bad = here.allocated[cells[1]] == 0
        if bad.any():
            self._tell("tmem-unallocated", "is not allocated", flat[bad], row, line)
        self._order(here, kind, proxy, cells, flat, row, line)
        if kind == "store":
            here.filled[cells] = True
            return
        empty: Bools = ~bad & ~here.filled[cells]
        if empty.any():
            self._tell("uninitialised-tensor", "is read and was never written", flat[empty], row, line)

    def _order(
        self,
        here: Shadow,
        kind: str,
        proxy: str,
        cells: Index,
        flat: npt.NDArray[np.intp],
        row: int,
        line: int,
    ) -> None:
        """The last write must be known to be done, and before a write the last read too."""
        column = self.clocks.column((proxy, row), proxy == _UNIT)
        for before, verb in ((here.writes, "written"), (here.reads, "read")):
            if verb == "read" and kind == "load":
                continue
            owner, time = before[0][cells], before[1][cells]
            late: Bools = time > self.clocks.known[row, owner]
            if proxy == _UNIT:
                late &= owner != column
            if late.any():
                since = int(before[2][cells][int(late.argmax())])
                done = "read" if kind == "load" else "written"
                what = f"is {done} before line {since}, where it is {verb}, was waited for"
                self._tell("tmem-race", what, flat[late], row, line)
            if self._fences:
                self._fenced(before, cells, flat, row, line, late)
        last = here.writes if kind == "store" else here.reads
        last[0][cells], last[1][cells] = column, self.clocks.times[column] + 1
        last[2][cells], last[3][cells] = line, row

    def _fenced(
        self,
        before: Times,
        cells: Index,
        flat: npt.NDArray[np.intp],
        row: int,
        line: int,
        late: Bools,
    ) -> None:
        """What another warp did has passed both fences, as far as the kernel has them."""
        clocks = self.clocks
        owner, time = before[0][cells], before[1][cells]
        passed = clocks.met[row] if "after" in self._fences else clocks.published[row]
        bare: Bools = ~late & (before[3][cells] != row) & (time > passed[owner])
        if bare.any():
            since = int(before[2][cells][int(bare.argmax())])
            what = f"is touched after line {since}, with no tcgen05.fence before and after what orders them"
            self._tell("tcgen05-fence", what, flat[bare], row, line)

    def _tell(self, rule: str, what: str, cells: npt.NDArray[np.intp], row: int, line: int) -> None:
        address = int(cells[0])
        cell = f"column {address & COLUMN_MASK} of lane {address >> LANE_SHIFT} of tensor memory"
        self.findings.add(rule, f"{cell} {what}", line, self.wave.thread(row, 0), address, len(cells))

    def done(self) -> None:
        """The CTAs have ended."""
        for cta, here in self._of.items():
            columns = here.allocated
            for line in np.unique(columns[columns > 0]).tolist():
                message = f"{int(np.count_nonzero(columns == line))} columns are never given back"
                self._end("tmem-leaked", message, cta, line)
            if here.permit:
                self._end("tmem-permit-kept", "the permit to allocate is never given up", cta, here.permit)

    def _end(self, rule: str, message: str, cta: int, line: int) -> None:
        thread = self.wave.thread(self.wave.rows_of(cta).start, 0)
        self.findings.add(rule, message, line, thread)
