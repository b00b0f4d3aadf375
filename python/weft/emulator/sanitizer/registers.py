"""The registers of a wave that the sanitizer watches, and the program that announces their uses."""

import copy
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.program import Program, collective
from weft.emulator.decoding.table import Collective, End, Step
from weft.emulator.memory.segments import Threads
from weft.emulator.reading.syntax import Array, Bools
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Rows, VectorClocks
from weft.emulator.sanitizer.dataflow import LOAD, Watched, followed, is_copy, watched
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.undefined import Undefined
from weft.emulator.watch import Traffic

Times = npt.NDArray[np.int32]
Span = slice | list[int]
_MMA = "wgmma.mma_async"
_KEPT = 32
GUARD = "@"
"""The prefix of an announced read of a predicate that guards an instruction."""


@lru_cache(_KEPT)
def instrumented(program: Program, *, following: bool = False) -> Program:
    """The program with an announcement before each instruction that touches a `watched` register."""
    what = followed(program) if following else watched(program)
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
                announcement = Announcement(traffic, what)
                if last and end.collective is not None:
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

    return collective(replace(waiting, step=both, exchange=None), after, registers.prefix, registers.line)


class Announcement:
    """A step that announces to the observer the registers that an instruction is about to read and write."""

    def __init__(self, registers: Traffic, what: Watched) -> None:
        self.registers, self._watched = registers, what
        guard = registers.guard
        self._guard = Traffic(GUARD, registers.line, guard[:1] if guard else (), (), None)

    def __call__(self, lanes: Lanes) -> None:
        watch, guard = lanes.wave.watch, self.registers.guard
        if watch is None:
            return
        if guard is not None:
            watch.instruction(self._guard, lanes)
            mask, count = lanes.guarded(*guard)
            if not count:
                return
            lanes = lanes.narrowed(mask)
        watch.instruction(self.registers, lanes)

    def matrix(self) -> tuple[list[int], list[int]] | None:
        """The registers that it reads and writes, as `RegisterState` numbers them, if all that it announces
        is that an instruction without guard may touch what wgmma uses.
        """
        what, registers = self._watched, self.registers
        slots = (*registers.reads, *registers.writes)
        special = registers.guard is not None or registers.prefix in (_MMA, LOAD)
        if special or not (what.undefined | what.loaded).isdisjoint(slots):
            return None
        numbers = numbered(what)
        reads = [numbers[slot] for slot in registers.reads if slot in numbers]
        return reads, [numbers[slot] for slot in registers.writes if slot in numbers]


@lru_cache(_KEPT)
def numbered(what: Watched) -> dict[int, int]:
    """The numbers of the registers that wgmma may use."""
    return {slot: at for at, slot in enumerate(sorted(what.matrix))}


class _Uses(NamedTuple):
    """The watched registers of an instruction: `undefined`: whether it touches one of those that may be
    undefined. The others are rows of the arrays of operands of wgmma: `operands` are those of
    wgmma.mma_async itself, of which it writes `sums`, and only reads `factors`; `reads` and `writes` are
    those of other instructions.
    """

    traffic: Traffic
    undefined: bool
    operands: Span
    sums: Span
    factors: Span
    reads: Span
    writes: Span


class RegisterState:
    """The state of each watched register, by its slot.

    `undefined`: the threads whose value is undefined. `_loads`: the time and the line of the tcgen05.ld that
    writes it, by slot and warp. For operands of wgmma, `[registers, warps]`, `busy` is the time, in the
    column of the warpgroup's unit, until which it is an accumulator in use; `read` is the time until which
    it is an A operand; `changed`: the warps that have written it since their last wgmma.fence.
    `has_changed`: the warps that have written any.
    """

    def __init__(
        self, wave: Wave, clocks: VectorClocks, findings: Findings, what: Watched, undefined: Undefined
    ) -> None:
        self.wave, self.clocks, self.findings, self.watched = wave, clocks, findings, what
        self.undefined = undefined
        self._numbers = numbered(what)
        shape = len(self._numbers), wave.warps
        self.busy: Times = np.zeros(shape, np.int32)
        self.read: Times = np.zeros(shape, np.int32)
        self.changed: Bools = np.zeros(shape, np.bool_)
        self.has_changed: Bools = np.zeros(wave.warps, np.bool_)
        self._loads: dict[tuple[int, int], tuple[int, int]] = {}
        self._fenced: Bools = np.zeros(wave.warps, np.bool_)
        self._uses: dict[int, _Uses] = {}
        self._units: dict[bytes, Rows] = {}
        self.columns: npt.NDArray[np.int64] = np.zeros(wave.warps, np.int64)
        """The column of the warpgroup's unit of each warp, once it has one."""

    def watch(self, what: Watched) -> None:
        """Watches other registers from now on."""
        self.watched = what
        self._uses.clear()

    def instruction(self, registers: Traffic, lanes: Threads) -> None:
        """An announced instruction is about to run."""
        what, uses = self.watched, self._uses.get(id(registers))
        if uses is None or uses.traffic is not registers:
            uses = self._uses[id(registers)] = self._uses_of(registers)
        if uses.undefined:
            self.undefined.instruction(registers, lanes)
        if registers.prefix == GUARD:
            return
        if what.loaded:
            self._load(lanes, registers, what.loaded)
        if registers.prefix == _MMA:
            self.undefined.multiplying(registers, lanes)
            self._multiply(lanes.row_numbers(), uses)
        elif what.matrix:
            self._touch(lanes.row_numbers(), uses)

    def _uses_of(self, traffic: Traffic) -> _Uses:
        what = self.watched
        operands = [slot for slot in traffic.reads if slot in what.operands]
        groups = (
            operands,
            [slot for slot in operands if slot in traffic.writes],
            [slot for slot in operands if slot not in traffic.writes],
            [slot for slot in traffic.reads if slot in what.matrix],
            [slot for slot in traffic.writes if slot in what.matrix],
        )
        spans = (_span([self._numbers[slot] for slot in group]) for group in groups)
        touched = not what.undefined.isdisjoint((*traffic.reads, *traffic.writes))
        return _Uses(traffic, touched, *spans)

    # tcgen05.ld

    def _load(self, lanes: Threads, traffic: Traffic, slots: frozenset[int]) -> None:
        """A register that tcgen05.ld has loaded is used after tcgen05.wait::ld. Where a kernel leaves that
        to the hardware, a read waits for that load, and for those before it. LLVM copies registers before it
        waits, and ptxas omits these copies: they have the state of their source.
        """
        rows = lanes.row_numbers()
        if is_copy(traffic) and slots.intersection(traffic.reads):
            for row in rows.tolist():
                latest = max(self._loads.get((slot, row), (0, 0)) for slot in traffic.reads)
                for slot in traffic.writes:
                    self._loads[slot, row] = latest
            return
        self._use_loaded(rows, traffic, slots)
        if traffic.prefix != LOAD:
            return
        for row in rows.tolist():
            column = self._loading(row)
            self.clocks.times[column] += 1
            for slot in slots.intersection(traffic.writes):
                self._loads[slot, row] = self.clocks.times[column] + 1, traffic.line

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
        return self.clocks.column((LOAD, row), False)

    # wgmma

    def fence(self, rows: Rows) -> None:
        """`wgmma.fence` of these warps."""
        self._fenced[rows] = True
        if self.has_changed[rows].any():
            self.changed[:, rows] = False
            self.has_changed[rows] = False

    def _multiply(self, rows: Rows, uses: _Uses) -> None:
        """`wgmma.mma_async`: its registers are in use until the warp has waited."""
        unfenced: Bools = ~self._fenced[rows]
        if self.has_changed[rows].any():
            unfenced |= self.changed[uses.operands][:, rows].any(axis=0)
        if unfenced.any():
            what = "reads registers without a wgmma.fence before it"
            self._report_rows("wgmma-fence", what, uses.traffic, rows[unfenced])
        self._report_use(rows, uses.traffic, self.busy, uses.factors)
        columns = self._columns(rows)  # first: a new column may move the times
        times = (self.clocks.times[columns] + 1).astype(np.int32)
        at = _span(rows.tolist())
        _put(self.busy, uses.sums, at, times)
        _put(self.read, uses.factors, at, times)

    def _touch(self, rows: Rows, uses: _Uses) -> None:
        """Another instruction reads or writes registers that wgmma may be using."""
        at = _span(rows.tolist())
        if is_copy(uses.traffic):
            self._copy(rows, at, uses)
            return
        self._report_use(rows, uses.traffic, self.busy, uses.reads, uses.writes)
        self._report_use(rows, uses.traffic, self.read, uses.writes)
        for touched in (uses.reads, uses.writes):
            if _size(touched):
                _put(self.changed, touched, at, True)
                self.has_changed[rows] = True

    def _copy(self, numbers: Rows, rows: Span, uses: _Uses) -> None:
        """A copy has the state of its source: compilers rename accumulators between instructions. What isn't
        in use itself must not overwrite what is.
        """
        if not _size(uses.writes):
            return
        source = uses.reads[0] if isinstance(uses.reads, list) else uses.reads.start
        known = bool(_size(uses.reads))
        for until in (self.busy, self.read):
            self._report_use(numbers, uses.traffic, until, uses.writes, renamed=source if known else None)
        _put(self.busy, uses.writes, rows, self.busy[source, rows] if known else 0)
        changed = self.changed[source, rows] if known else False
        _put(self.changed, uses.writes, rows, changed)
        self.has_changed[rows] |= changed

    def _columns(self, rows: Rows) -> Rows:
        """The column of the warpgroup's unit of each warp."""
        key = rows.tobytes()
        columns = self._units.get(key)
        if columns is None:
            units = rows - self.wave.warp_of_row[rows] % 4
            found = [self.clocks.column(("wgmma", unit), True) for unit in units.tolist()]
            columns = self._units[key] = np.array(found, np.intp)
            self.columns[rows] = columns
        return columns

    def _report_use(
        self, rows: Rows, traffic: Traffic, until: Times, *registers: Span, renamed: int | None = None
    ) -> None:
        """Reports registers that are in use until later than warps know of, unless so is the one that gets
        another name.
        """
        used = [until[each] for each in registers if _size(each)]
        if not used:
            return
        latest = np.max([each.max(axis=0) for each in used], axis=0)[rows]
        if not latest.any():
            return
        known = self.clocks.known[rows, self._columns(rows)]
        late: Bools = latest > known
        if renamed is not None:
            late &= self.busy[renamed, rows] <= known
        if late.any():
            what = "uses registers of a wgmma.mma_async that was not waited for"
            self._report_rows("wgmma-in-flight", what, traffic, rows[late])

    def _report_rows(self, rule: str, what: str, traffic: Traffic, rows: Rows) -> None:
        thread, count = self.wave.thread(int(rows[0]), 0), 32 * len(rows)
        self.findings.add(rule, f"{traffic.prefix} {what}", traffic.line, thread, None, count)


def _span(numbers: list[int]) -> Span:
    """Numbers as an index, which is a slice if they are consecutive."""
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return slice(numbers[0], numbers[0] + len(numbers))
    return numbers or slice(0, 0)


def _size(span: Span) -> int:
    return span.stop - span.start if isinstance(span, slice) else len(span)


def _put(array: Array, registers: Span, rows: Span, value: npt.ArrayLike) -> None:
    if isinstance(registers, list) and isinstance(rows, list):
        array[np.ix_(registers, rows)] = value
    else:
        array[registers, rows] = value
