"""What the sanitizer keeps of tensor memory: allocated columns and written cells."""

import numpy as np
import numpy.typing as npt

from weft.emulator.sanitizer.findings import Findings
from weft.emulator.types import Bools
from weft.emulator.wave import Wave

_LANES = 128
_COLUMNS = 512
_LANE_SHIFT = 16
_COLUMN_MASK = (1 << _LANE_SHIFT) - 1


class TensorMemory:
    """By CTA of the wave; a CTA that has none costs nothing."""

    def __init__(self, wave: Wave, findings: Findings) -> None:
        self.wave, self.findings = wave, findings
        self._allocated: dict[int, npt.NDArray[np.int32]] = {}
        self._written: dict[int, Bools] = {}
        self._permit: dict[int, int] = {}

    def event(self, event: str, cta: int, column: int, columns: int, line: int) -> None:
        """Columns are allocated, given back, or the permit to allocate is given up."""
        here = self._allocated.setdefault(cta, np.zeros(_COLUMNS, np.int32))
        cells = self._written.setdefault(cta, np.zeros((_LANES, _COLUMNS), np.bool_))
        part = slice(column, column + columns)
        if event == "alloc":
            here[part], cells[:, part] = line, False
            self._permit.setdefault(cta, line)
        elif event == "dealloc":
            here[part], cells[:, part] = 0, False
        elif event == "relinquish":
            self._permit[cta] = 0

    def access(self, kind: str, cta: int, offsets: npt.NDArray[np.intp], threads: Bools, line: int) -> None:
        """Cells (lane << 16 | column) are read or written."""
        flat = np.asarray(offsets).reshape(-1)
        if not len(flat):
            return
        lanes, columns = flat >> _LANE_SHIFT & _LANES - 1, flat & _COLUMN_MASK
        here = self._allocated.setdefault(cta, np.zeros(_COLUMNS, np.int32))
        cells = self._written.setdefault(cta, np.zeros((_LANES, _COLUMNS), np.bool_))
        inside = columns < _COLUMNS
        bad = ~inside
        bad[inside] = here[columns[inside]] == 0
        if bad.any():
            self._tell("tmem-unallocated", "is not allocated", flat[bad], threads, line)
        if kind == "store":
            cells[lanes[inside], columns[inside]] = True
            return
        empty = ~bad
        empty[inside] &= ~cells[lanes[inside], columns[inside]]
        if empty.any():
            self._tell("uninitialised-tensor", "is read and was never written", flat[empty], threads, line)

    def _tell(self, rule: str, what: str, cells: npt.NDArray[np.intp], threads: Bools, line: int) -> None:
        row, lane = divmod(int(threads.argmax()), 32)
        address = int(cells[0])
        cell = f"column {address & _COLUMN_MASK} of lane {address >> _LANE_SHIFT} of tensor memory"
        self.findings.add(rule, f"{cell} {what}", line, self.wave.thread(row, lane), address, len(cells))

    def done(self) -> None:
        """The CTAs have ended."""
        for cta, columns in self._allocated.items():
            for line in np.unique(columns[columns > 0]).tolist():
                message = f"{int(np.count_nonzero(columns == line))} columns are never given back"
                self._end("tmem-leaked", message, cta, line)
            if self._permit.get(cta):
                message = "the permit to allocate is never given up"
                self._end("tmem-permit-kept", message, cta, self._permit[cta])

    def _end(self, rule: str, message: str, cta: int, line: int) -> None:
        thread = self.wave.thread(self.wave.rows_of(cta).start, 0)
        self.findings.add(rule, message, line, thread)
