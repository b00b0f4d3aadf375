"""Whether uses of mbarriers are ordered after their init and before their inval.

What the sanitizer knows of the mbarriers of a wave, in arrays that code of the host changes, too.
"""

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.mbarrier import Key, Mbarriers
from weft.emulator.reading.syntax import Array
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks, Rows, VectorClocks
from weft.emulator.sanitizer.findings import Findings

_ROOM = 16
NONE = -1


def _extended(old: Array, more: int, wider: int, fill: int) -> Array:
    """An array with more rows and wider ones. `np.pad` takes longer, and writes all zeros."""
    rows, *others = old.shape
    if others:
        others[-1] += wider
    shape = rows + more, *others
    new = np.full(shape, fill, old.dtype) if fill else np.zeros(shape, old.dtype)
    new[tuple(map(slice, old.shape))] = old
    return new


class MbarrierTable:
    """Arrays by the numbers of the mbarriers, and by clock columns where that is said.

    `pending` is what precedes the arrivals of this phase, `done` those of completed phases, `[mbarriers,
    layers, columns]`. `columns` has each mbarrier's own column. `init_rows` and `init_times` have the warp
    and time of the init. Warps that know `fenced_times` of `fenced_columns` are ordered after a fence after
    the init. `use_times`, `use_lines` and `use_orders` have the last use by each column, and the number of
    its first one (0: none).
    """

    def __init__(self, mbarriers: Mbarriers, clocks: VectorClocks) -> None:
        self._mbarriers, self._clocks = mbarriers, clocks
        self._size = self._width = 0
        self.pending: Clocks = np.zeros((0, clocks.layers, 0), np.int32)
        self.done = self.pending
        self.columns: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.init_rows, self.init_times = self.columns, self.columns
        self.fenced_columns, self.fenced_times = self.columns, self.columns
        self.use_times: Clocks = np.zeros((0, 0), np.int32)
        self.use_lines, self.use_orders = self.use_times, self.use_times
        self.uses: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        """The number of first uses."""

    def fit(self) -> None:
        """Makes the arrays large enough for all mbarriers and columns."""
        count, width = len(self._mbarriers.keys), self._clocks.all.shape[2]
        if count <= self._size and width == self._width:
            return
        more = max(2 * count, _ROOM) - self._size if count > self._size else 0
        wider = width - self._width
        self._size, self._width = self._size + more, width
        for name in ("columns", "init_rows", "init_times", "fenced_columns", "fenced_times"):
            setattr(self, name, _extended(getattr(self, name), more, 0, NONE))
        for name in ("use_times", "use_lines", "use_orders", "pending", "done"):
            setattr(self, name, _extended(getattr(self, name), more, wider, 0))

    def arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        """All arrays, in the order of `compiled.mbarrier_state.Field`."""
        return (
            *(self.pending, self.done, self.columns, self.init_rows, self.init_times),
            *(self.fenced_columns, self.fenced_times, self.use_times, self.use_lines, self.use_orders),
            self.uses,
        )

    def number(self, key: Key) -> int:
        """The number of an mbarrier, which the arrays have."""
        at = self._mbarriers.number(key)
        self.fit()
        return at

    def clocks(self, key: Key) -> tuple[Clocks, Clocks]:
        """Its `pending` and `done`, to be changed in place."""
        at = self.number(key)
        return self.pending[at], self.done[at]

    def phase_known(self, key: Key, row: int) -> bool:
        """Whether something orders what a warp does next after the end of an mbarrier's last phase."""
        at, column = self.number(key), self.column(key)
        known, signaled = self._clocks.known[row], self.use_orders[at, column]
        if signaled and known[column] < self.use_times[at, column]:
            return False
        return bool((self.done[at, 0] <= known).all())

    def column(self, key: Key) -> int:
        """Its own column."""
        column = self._clocks.column(("mbarrier", *key))
        at = self.number(key)
        self.columns[at] = column
        return column

    def begin(self, key: Key, row: int) -> int:
        """A warp initializes an mbarrier; its uses begin anew. Returns its number."""
        self.column(key)
        at = self.number(key)
        self.init_rows[at], self.init_times[at] = row, self._clocks.known[row, row]
        self.fenced_columns[at], self.use_orders[at] = NONE, 0
        return at

    def use(self, at: int, column: int, time: int, line: int) -> None:
        """The last use by a column."""
        self.use_times[at, column], self.use_lines[at, column] = time, line
        if not self.use_orders[at, column]:
            self.uses[0] += 1
            self.use_orders[at, column] = self.uses[0]

    def used(self, at: int) -> list[tuple[int, int, int]]:
        """Column, time and line of the uses, in the order of the first ones."""
        orders = self.use_orders[at]
        columns = np.flatnonzero(orders)
        columns = columns[np.argsort(orders[columns])]
        times, lines = self.use_times[at, columns], self.use_lines[at, columns]
        return list(zip(columns.tolist(), times.tolist(), lines.tolist(), strict=True))


_NEED_FENCE = ("bulk", "tcgen05")
"""Units that need a fence before they use an mbarrier of another CTA; threads need only a barrier.

CUDA's guide and CUTLASS fence before units of the same CTA use it, too. The kernels of Triton don't.
"""
_UNITS = ("bulk", "st.async")
"""Units whose use ends with the mbarrier's phase."""


class MbarrierUses:
    """The mbarriers of a wave. Every operation is a use, except a wait that fails. `init_fences`:
    units need a fence within a CTA, too.
    """

    def __init__(
        self,
        wave: Wave,
        clocks: VectorClocks,
        findings: Findings,
        table: MbarrierTable,
        *,
        init_fences: bool = False,
    ) -> None:
        self.wave, self.clocks, self.findings, self.init_fences = wave, clocks, findings, init_fences
        self.table = table
        self._lines: dict[Key, int] = {}
        """Those of the inits of mbarriers that are in use."""
        self._unfenced: dict[int, list[tuple[Key, int]]] = {}
        """The mbarriers that each warp has initialized since its last fence, with the times."""

    def init(self, key: Key, row: int, line: int) -> None:
        """A warp initializes an mbarrier."""
        if key in self._lines:
            message = f"the mbarrier at 0x{key[1]:x} is in use since its init at line {self._lines[key]}"
            self.findings.add("mbarrier-init-twice", message, line, self.wave.thread(row, 0), key[1])
        self._lines[key] = line
        at = self.table.begin(key, row)
        self._unfenced.setdefault(row, []).append((key, self.table.init_times.item(at)))

    def inval(self, key: Key, row: int, line: int) -> None:
        """A warp invalidates an mbarrier; all uses must have happened before."""
        if self._lines.pop(key, None) is None:
            return
        known = self.clocks.known[row]
        at = self.table.number(key)
        late = [line for column, time, line in self.table.used(at) if time > known[column]]
        if late:
            since = late[0]
            what = f"is invalidated, and used at line {since}; nothing orders the two"
            self._report("mbarrier-race", key, what, row, line)

    def use(self, key: Key, rows: Rows, line: int, proxy: str = "") -> None:
        """Warps use an mbarrier, or the asynchronous unit `proxy` does on their behalf."""
        if key not in self._lines:
            return
        known = self.clocks.known
        table = self.table
        at = self.table.number(key)
        for row in rows.tolist():
            if wrong := self._complaint(key, at, row, proxy):
                self._report(*wrong, row, line)
            if proxy not in _UNITS:
                table.use(at, row, int(known[row, row]), line)

    def _complaint(self, key: Key, at: int, row: int, proxy: str) -> tuple[str, Key, str] | None:
        """What is wrong with a use by a warp or a unit: rule, mbarrier and the rest of a sentence."""
        known, table = self.clocks.known, self.table
        column = table.fenced_columns.item(at)
        if column != NONE and known.item(row, column) >= table.fenced_times.item(at):
            return None
        if table.init_times.item(at) > known.item(row, table.init_rows.item(at)):
            what = f"is used, and initialized at line {self._lines[key]}; nothing orders the two"
            return "mbarrier-race", key, what
        far = self.wave.cta_of_row.item(row) != key[0]
        if proxy in _NEED_FENCE and (self.init_fences or far):
            of = "of another CTA " if far else ""
            what = f"{of}is used without a fence.mbarrier_init after its init at line {self._lines[key]}"
            return "mbarrier-init-fence", key, what
        return None

    def arrival(self, key: Key, rows: Rows, line: int) -> None:
        """Warps arrive, and must know that the phase before is complete: otherwise their arrival may count in
        that one. In clusters they may know it by bulk copies, which order no threads.
        """
        if self.wave.launch.cluster_size > 1 or key not in self.wave.mbarriers.advanced:
            return
        known, column, done = self.clocks.known, self.table.column(key), self.table.clocks(key)[1]
        for row in rows[known[rows, column] < self.clocks.times[column]].tolist():
            before = done[0, : self.wave.warps] <= known[row, : self.wave.warps]
            if not before.all():
                other = int(before.argmin())
                what = f"gets an arrival that nothing orders after that of warp {other} in the phase before"
                self._report("mbarrier-count", key, what, row, line)

    def part(self, key: Key, rows: Rows, line: int) -> None:
        """Of threads that arrive together, some complete a phase, and the others arrive in the next one."""
        what = "counts some arrivals of an instruction in one phase, the others in the next"
        self._report("mbarrier-count", key, what, int(rows[0]), line)

    def unit_may_use(self, key: Key, row: int) -> bool:
        """Whether `use` by the bulk unit for a warp finds nothing."""
        if key not in self._lines:
            return True
        return self._complaint(key, self.wave.mbarriers.number(key), row, "bulk") is None

    def unit_uses(self, key: Key, column: int, time: int, line: int) -> None:
        """An asynchronous unit will arrive at an mbarrier, at a time of its own column."""
        if key in self._lines:
            self.table.use(self.table.number(key), column, time, line)

    def fence(self, rows: Rows) -> None:
        """Warps have made their inits visible to the cluster."""
        table = self.table
        for row in rows.tolist():
            inits = self._unfenced.pop(row, None)
            if inits:
                column = self.clocks.column(("mbarrier.init", row), True)
                self.clocks.times[column] += 1
                time = self.clocks.times[column]
                self.clocks.learn(row, column, time)
                for key, begun in inits:
                    at = table.number(key)
                    if key in self._lines and (table.init_rows[at], table.init_times[at]) == (row, begun):
                        table.fenced_columns[at], table.fenced_times[at] = column, time

    def inits(self, row: int, clock: Clocks) -> Clocks:
        """`clock` with what a fence.mbarrier_init of the warp has made visible."""
        column = self.clocks.find(("mbarrier.init", row))
        visible = self.clocks.fitted(clock).copy()
        if column is not None:
            visible[0, column] = self.clocks.known[row, column]
        return visible

    def ended(self, cta: int, known: Clocks) -> None:
        """A CTA whose threads know `known` has ended."""
        rows, table = self.wave.rows_of(cta), self.table
        mine = {key: table.number(key) for key in self._lines if key[0] == cta}
        if not mine:
            return
        table.fit()
        numbers = list(mine.values())
        late = (table.use_orders[numbers] > 0) & (table.use_times[numbers] > known[0])
        late[:, rows] = False
        for at in np.flatnonzero(late.any(axis=1)).tolist():
            key = list(mine)[at]
            for column, time, line in table.used(numbers[at]):
                inside = rows.start <= column < rows.stop
                if not inside and time > known[0, column]:
                    by_warp = column < self.wave.warps
                    user = "used by another CTA" if by_warp else "signaled by an asynchronous unit"
                    what = f"is {user}, and nothing orders the end of its own CTA after that"
                    row = column if by_warp else rows.start
                    self._report("cluster-exit", key, what, row, line)

    def _report(self, rule: str, key: Key, what: str, row: int, line: int) -> None:
        message = f"the mbarrier at 0x{key[1]:x} {what}"
        self.findings.add(rule, message, line, self.wave.thread(row, 0), key[1])
