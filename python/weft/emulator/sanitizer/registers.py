"""The registers of a wave that the sanitizer watches, and the program that announces their uses."""

import copy
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.ends import collective
from weft.emulator.decoding.program import Program
from weft.emulator.decoding.table import Collective, End, Step
from weft.emulator.memory.access import Threads
from weft.emulator.reading.types import Bools
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Rows, VectorClocks
from weft.emulator.sanitizer.dataflow import LOAD, Watched, is_copy, real_reads, watched
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.watch import Traffic

Times = npt.NDArray[np.int32]
_MMA = "wgmma.mma_async"
_KEPT = 32
GUARD = "@"
"""The prefix of an announced read of a predicate that guards an instruction."""


@lru_cache(_KEPT)
def instrumented(program: Program) -> Program:
    """The program with an announcement before each instruction that touches a watched register; the program
    itself if none does.
    """
    what = watched(program)
    if not what:
        return program
    checked = copy.copy(program)
    checked.blocks = list(program.blocks)
    for at, block in enumerate(program.blocks):
        if block.function != program.entry.function.name or not any(map(what.touches, block.traffic)):
            continue
        steps: list[Step] = []
        numbers: list[int] = []
        end = block.end
        for number, traffic in enumerate(block.traffic):
            last = number == len(block.steps)
            if what.touches(traffic):
                announcement = _announcement(traffic)
                if last and end is not None and end.collective is not None:
                    end = _announced(end.collective, announcement, end.targets[0], traffic)
                else:
                    steps.append(announcement)
                    numbers.append(number)
            if not last:
                steps.append(block.steps[number])
                numbers.append(number)
        checked.blocks[at] = replace(block, steps=steps, numbers=numbers, end=end)
    return checked


def _announced(waiting: Collective, announcement: Step, after: int, registers: Traffic) -> End:
    """A collective instruction that is announced when it runs: until then, lanes that come late may still
    touch what it uses.
    """

    def both(lanes: Lanes) -> None:
        announcement(lanes)
        waiting.step(lanes)

    return collective(replace(waiting, step=both), after, registers.prefix, registers.line)


def _announcement(registers: Traffic) -> Step:
    """Announces to the observer the registers that an instruction is about to read and write."""
    guard = registers.guard
    guard_registers = Traffic(GUARD, registers.line, guard[:1] if guard else (), (), None)

    def run(lanes: Lanes) -> None:
        watch = lanes.wave.watch
        if watch is None:
            return
        if guard is not None:
            watch.instruction(guard_registers, lanes)
            mask, count = lanes.guarded(*guard)
            if not count:
                return
            lanes = lanes.narrowed(mask)
        watch.instruction(registers, lanes)

    return run


class RegisterState:
    """The state of each watched register, by its slot.

    `_written`: the threads that have written it. `_loads`: the time and the line of the tcgen05.ld that
    writes it, by slot and warp. For operands of wgmma, `_busy` is the time, in the column of
    the warpgroup's unit, until which it is an accumulator in use; `_read` is the time until which it is an A
    operand; `_changed`: the warps that have written it since their last wgmma.fence.
    """

    def __init__(self, wave: Wave, clocks: VectorClocks, findings: Findings, what: Watched) -> None:
        self.wave, self.clocks, self.findings, self.watched = wave, clocks, findings, what
        self._written: dict[int, Bools] = {}
        self._busy: dict[int, Times] = {}
        self._read: dict[int, Times] = {}
        self._changed: dict[int, Bools] = {}
        self._loads: dict[tuple[int, int], tuple[int, int]] = {}
        self._fenced: Bools = np.zeros(wave.warps, np.bool_)

    def instruction(self, registers: Traffic, lanes: Threads) -> None:
        """An announced instruction is about to run."""
        what = self.watched
        self._unwritten(lanes, registers, what.unwritten)
        if registers.prefix == GUARD:
            return
        if what.loaded:
            self._load(lanes, registers, what.loaded)
        if registers.prefix == _MMA:
            self._multiply(lanes, registers)
        elif what.matrix:
            self._touch(lanes, registers, what.matrix)

    def _unwritten(self, lanes: Threads, traffic: Traffic, slots: frozenset[int]) -> None:
        """Reads must follow writes of the same thread; a copy copies the state."""
        threads = lanes.threads()
        empty = np.zeros_like(threads)
        lacking = [
            threads & ~self._written.get(slot, empty) if slot in slots else empty
            for slot in real_reads(traffic)
        ]
        together = np.logical_and if is_copy(traffic) else np.logical_or
        missing = together.reduce(lacking) if lacking else empty
        if not is_copy(traffic):
            if missing.any():
                self._report(
                    "uninitialised-register", "reads a register that was never written", traffic, missing
                )
            missing = empty
        for slot in traffic.writes:
            if slot in slots:
                self._written[slot] = self._written.get(slot, empty) & ~missing | threads & ~missing

    # tcgen05.ld

    def _load(self, lanes: Threads, traffic: Traffic, slots: frozenset[int]) -> None:
        """A register that tcgen05.ld has loaded is used after tcgen05.wait::ld. Where a kernel leaves that
        to the hardware, a read waits for that load, and for those before it. LLVM copies registers before it
        waits, and ptxas omits these copies: they have the state of their source.
        """
        rows = lanes.row_numbers()
        if is_copy(traffic) and slots.intersection(traffic.reads):
            self._copy_loaded(rows, traffic)
            return
        self._use_loaded(rows, traffic, slots)
        if traffic.prefix != LOAD:
            return
        for row in rows.tolist():
            column = self._loading(row)
            self.clocks.times[column] += 1
            for slot in slots.intersection(traffic.writes):
                self._loads[slot, row] = self.clocks.times[column] + 1, traffic.line

    def _copy_loaded(self, rows: Rows, traffic: Traffic) -> None:
        for row in rows.tolist():
            latest = max(self._loads.get((slot, row), (0, 0)) for slot in traffic.reads)
            for slot in traffic.writes:
                self._loads[slot, row] = latest

    def _use_loaded(self, rows: Rows, traffic: Traffic, slots: frozenset[int]) -> None:
        """Reports the first use of what a load in flight writes, and forgets the warp's other loads: one
        missing wait is one finding.
        """
        late: dict[int, int] = {}
        for slot in slots.intersection((*traffic.reads, *traffic.writes)):
            for row in rows.tolist():
                time, line = self._loads.pop((slot, row), (0, 0))
                if not time or time <= self.clocks.known[row, self._loading(row)]:
                    continue
                if self.watched.loads_are_waited_for:
                    late[row] = line
                elif slot in traffic.reads:
                    self.clocks.learn(row, self._loading(row), time)
        if late:
            line = next(iter(late.values()))
            what = f"uses registers of the tcgen05.ld of line {line} before tcgen05.wait::ld"
            self._report_rows("tcgen05-in-flight", what, traffic, np.array(sorted(late), np.intp))
            self._loads = {at: load for at, load in self._loads.items() if at[1] not in late}

    def _loading(self, row: int) -> int:
        """The column of a warp's loads."""
        return self.clocks.column((LOAD, row), False)

    # wgmma

    def fence(self, rows: Rows) -> None:
        """`wgmma.fence` of these warps."""
        self._fenced[rows] = True
        for changed in self._changed.values():
            changed[rows] = False

    def _multiply(self, lanes: Threads, traffic: Traffic) -> None:
        """`wgmma.mma_async`: its registers are in use until the warp has waited."""
        rows = lanes.row_numbers()
        operands = [slot for slot in traffic.reads if slot in self.watched.operands]
        unfenced = ~self._fenced[rows]
        for slot in operands:
            if slot in self._changed:
                unfenced = unfenced | self._changed[slot][rows]
        if unfenced.any():
            self._report_rows(
                "wgmma-fence", "reads registers without a wgmma.fence before it", traffic, rows[unfenced]
            )
        self._report_use(rows, traffic, [s for s in operands if s not in traffic.writes], self._busy)
        columns = self._columns(rows)
        times = np.array([self.clocks.times[c] + 1 for c in columns.tolist()], np.int32)
        for slot in operands:
            until = self._busy if slot in traffic.writes else self._read
            if slot not in until:
                until[slot] = np.zeros(self.wave.warps, np.int32)
            until[slot][rows] = times

    def _touch(self, lanes: Threads, traffic: Traffic, slots: frozenset[int]) -> None:
        """Another instruction reads or writes registers that wgmma may be using."""
        rows = lanes.row_numbers()
        reads = [slot for slot in traffic.reads if slot in slots]
        writes = [slot for slot in traffic.writes if slot in slots]
        if is_copy(traffic):
            self._copy(rows, reads, writes)
            return
        self._report_use(rows, traffic, [*reads, *writes], self._busy)
        self._report_use(rows, traffic, writes, self._read)
        for slot in writes:
            if slot not in self._changed:
                self._changed[slot] = np.zeros(self.wave.warps, np.bool_)
            self._changed[slot][rows] = True

    def _copy(self, rows: Rows, reads: list[int], writes: list[int]) -> None:
        """A copy has the state of its source: compilers rename accumulators between instructions."""
        for slot in writes:
            if reads and reads[0] in self._busy:
                self._busy.setdefault(slot, np.zeros(self.wave.warps, np.int32))
                self._busy[slot][rows] = self._busy[reads[0]][rows]
            elif slot in self._busy:
                self._busy[slot][rows] = 0
            if reads and reads[0] in self._changed:
                self._changed.setdefault(slot, np.zeros(self.wave.warps, np.bool_))
                self._changed[slot][rows] = self._changed[reads[0]][rows]
            elif slot in self._changed:
                self._changed[slot][rows] = False

    def _columns(self, rows: Rows) -> Rows:
        units = rows - self.wave.warp_of_row[rows] % 4
        return np.array([self.clocks.column(("wgmma", unit), True) for unit in units.tolist()], np.intp)

    def _report_use(self, rows: Rows, traffic: Traffic, slots: list[int], until: dict[int, Times]) -> None:
        slots = [slot for slot in slots if slot in until]
        if not slots:
            return
        latest = np.max([until[slot][rows] for slot in slots], axis=0)
        late: Bools = latest > self.clocks.known[rows, self._columns(rows)]
        if late.any():
            what = "uses registers of a wgmma.mma_async that was not waited for"
            self._report_rows("wgmma-in-flight", what, traffic, rows[late])

    def _report_rows(self, rule: str, what: str, traffic: Traffic, rows: Rows) -> None:
        threads = np.zeros((self.wave.warps, 32), np.bool_)
        threads[rows] = True
        self._report(rule, what, traffic, threads)

    def _report(self, rule: str, what: str, traffic: Traffic, threads: Bools) -> None:
        row, lane = divmod(int(threads.argmax()), 32)
        count = int(np.count_nonzero(threads))
        thread = self.wave.thread(row, lane)
        self.findings.add(rule, f"{traffic.prefix} {what}", traffic.line, thread, None, count)
