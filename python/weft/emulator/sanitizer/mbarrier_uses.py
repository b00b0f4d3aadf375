"""Whether uses of mbarriers are ordered after their init and before their inval."""

from dataclasses import dataclass

import numpy as np

from weft.emulator.memory.mbarrier import Key
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks, Rows, VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.mbarrier_table import NONE, MbarrierTable

_NEED_FENCE = ("bulk", "tcgen05")
"""Units that need a fence before they use an mbarrier of another CTA; threads need only a barrier.

CUDA's guide and CUTLASS fence before units of the same CTA use it, too. The kernels of Triton don't.
"""
_UNITS = ("bulk", "st.async")
"""Units whose use ends with the mbarrier's phase."""


@dataclass(eq=False)
class _Life:
    """An mbarrier from its init on: the line and the warp of that, and its number."""

    line: int
    row: int
    number: int


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
        self._lives: dict[Key, _Life] = {}
        self._unfenced: dict[int, list[_Life]] = {}

    def init(self, key: Key, row: int, line: int) -> None:
        """A warp initializes an mbarrier."""
        known = self._lives.get(key)
        if known is not None:
            message = f"the mbarrier at 0x{key[1]:x} is in use since its init at line {known.line}"
            self.findings.add("mbarrier-init-twice", message, line, self.wave.thread(row, 0), key[1])
        self._begin([key], np.array([row]), line)

    def init_each(self, keys: list[Key], rows: Rows, line: int) -> bool:
        """Warps initialize different mbarriers. False, and nothing has changed, if one is in use."""
        if not self._lives.keys().isdisjoint(keys):
            return False
        self._begin(keys, rows, line)
        return True

    def _begin(self, keys: list[Key], rows: Rows, line: int) -> None:
        numbers = self.table.begin(keys, rows, self.clocks.known[rows, rows])
        for key, row, number in zip(keys, rows.tolist(), numbers, strict=True):
            life = self._lives[key] = _Life(line, row, number)
            self._unfenced.setdefault(row, []).append(life)

    def inval(self, key: Key, row: int, line: int) -> None:
        """A warp invalidates an mbarrier; all uses must have happened before."""
        life = self._lives.pop(key, None)
        if life is None:
            return
        known = self.clocks.known[row]
        late = [line for column, time, line in self.table.used(life.number) if time > known[column]]
        if late:
            since = late[0]
            what = f"is invalidated, and used at line {since}; nothing orders the two"
            self._report("mbarrier-race", key, what, row, line)

    def use(self, key: Key, rows: Rows, line: int, proxy: str = "") -> None:
        """Warps use an mbarrier, or the asynchronous unit `proxy` does on their behalf."""
        life = self._lives.get(key)
        if life is None:
            return
        known, table, at = self.clocks.known, self.table, life.number
        table.fit()
        column, time = int(table.fenced_columns[at]), int(table.fenced_times[at])
        for row in rows.tolist():
            if column == NONE or known[row, column] < time:
                self._unordered(key, life, row, line, proxy)
            if proxy not in _UNITS:
                table.use(at, row, int(known[row, row]), line)

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
        life = self._lives.get(key)
        if life is None:
            return True
        known, table, at = self.clocks.known, self.table, life.number
        column = table.fenced_columns.item(at)
        if column != NONE and known.item(row, column) >= table.fenced_times.item(at):
            return True
        if table.init_times.item(at) > known.item(row, life.row):
            return False
        return not self.init_fences and self.wave.cta_of_row.item(row) == key[0]

    def unit_uses(self, key: Key, column: int, time: int, line: int) -> None:
        """An asynchronous unit will arrive at an mbarrier, at a time of its own column."""
        if (life := self._lives.get(key)) is not None:
            self.table.fit()
            self.table.use(life.number, column, time, line)

    def _unordered(self, key: Key, life: _Life, row: int, line: int, proxy: str) -> None:
        if self.table.init_times[life.number] > self.clocks.known[row, life.row]:
            what = f"is used, and initialized at line {life.line}; nothing orders the two"
            self._report("mbarrier-race", key, what, row, line)
        elif proxy in _NEED_FENCE and (self.init_fences or self.wave.cta_of_row[row] != key[0]):
            of = "of another CTA " if self.wave.cta_of_row[row] != key[0] else ""
            what = f"{of}is used without a fence.mbarrier_init after its init at line {life.line}"
            self._report("mbarrier-init-fence", key, what, row, line)

    def fence(self, rows: Rows) -> None:
        """Warps have made their inits visible to the cluster."""
        table = self.table
        for row in rows.tolist():
            lives = self._unfenced.pop(row, None)
            if lives:
                column = self.clocks.column(("mbarrier.init", row), True)
                self.clocks.times[column] += 1
                time = self.clocks.times[column]
                self.clocks.learn(row, column, time)
                alive = {id(life) for life in self._lives.values()}
                for life in lives:
                    if id(life) in alive:
                        table.fenced_columns[life.number], table.fenced_times[life.number] = column, time

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
        mine = {key: life.number for key, life in self._lives.items() if key[0] == cta}
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
