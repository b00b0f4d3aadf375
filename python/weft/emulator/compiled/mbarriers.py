"""Runs the operations on the mbarriers of a wave as code of the host: the functions that `plain_code`
compiles, the state that they share with the wave, and the calls.

Each compiled function changes nothing and returns 0 if a rule may be broken, or in a case that it doesn't
know: lanes of a warp with several mbarriers, arrivals that complete more than one phase.
`instructions.mbarrier` and the sanitizer, which define the operations, then run them.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from operator import is_

import numpy as np
import numpy.typing as npt

from weft.emulator import native
from weft.emulator.compiled import plain_code
from weft.emulator.compiled.plain_code import Value, bit_count, set_bits
from weft.emulator.memory.mbarrier import PENDING_SHIFT, is_initialized, pending_of, settled, tx_of
from weft.emulator.memory.segments import Addresses, Threads
from weft.emulator.reading.syntax import Array
from weft.emulator.records import Record
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.mbarrier_uses import NONE
from weft.isa.mbarriers import BYTES, MOST_ARRIVALS, MOST_TRANSACTION_BYTES


class Field(Record):
    """Numbers and addresses, 8 bytes each."""

    PHASES = ""
    """The number of phases that an arrival has completed."""
    CHANGES = ""
    """How often it has changed the state of an mbarrier."""
    MULTICASTS = ""
    """Whether a commit names CTAs."""
    COUNT = ""
    """The warps that execute the instruction."""
    ROWS = "i8"
    MASKS = "u4"
    OFFSETS = "i8"
    """The offset of each lane's mbarrier in the wave's shared memory."""
    LINE = ""
    ASKED = "u4"
    """The number of arrivals of each lane, or the CTAs of a commit."""
    SIZES = "u4"
    """The bytes that each lane expects."""
    STATES = "i8"
    """The result of arrivals: the state before each lane's."""
    SHARED = "i8"
    STRIDE = CLUSTER = ""
    OWN = "i8"
    """The first byte of the CTA of each warp."""
    PLACES = "i4"
    NUMBERS = WORDS = "i8"
    """Scratch memory: the number of each warp's mbarrier, and the index of its word in shared memory."""
    LEADERS = TOTALS = BYTES = COMPLETED = "i8"
    """Scratch memory: the first warp with the same mbarrier, what all of them add, and whose phases ended."""
    TALLY = "i8"
    """Scratch memory: what a commit adds to each mbarrier."""
    INIT_FENCES = ""
    """Whether units need a fence after the init of an mbarrier of their own CTA."""
    TENSOR_FENCES = ""
    UNITS = ""
    UNIT_COLUMNS = "i8"
    """The columns of the units whose operations a commit ends, `[units, warps that execute it]`, -1 for
    none, and the number of units.
    """
    WATCHED = LAYERS = WARPS = WIDTH = ""
    KNOWN = "i4"
    TIMES = "i8"
    BY_LANE = ""
    LIVE = "u1"
    BEFORE = "i4"
    HOLDING = "u1"
    KNOWING = "u4"
    CLOCK = PENDING = DONE = "i4"
    COLUMNS = INIT_ROWS = INIT_TIMES = FENCED_COLUMNS = FENCED_TIMES = "i8"
    USE_TIMES = USE_LINES = USE_ORDERS = "i4"
    USES = "i8"


_LANES = 32
_LATEST = (1 << 31) - 1


@cache
def library() -> native.Library:
    """The functions, which get the address of a state."""
    functions = {each.__name__: each for each in (observe, arrive, commit)}
    return native.Library("mbarriers", lambda: plain_code.text(functions, Field), list(functions))


def observe(s: Value) -> int:
    """Threads have seen that the phase before the current one is complete."""
    for index in range(s.COUNT):
        if not _find(s, index) or not _may_use(s, s.ROWS[index], s.NUMBERS[index], True):
            return 0
    for index in range(s.COUNT):
        _acquire(s, s.ROWS[index], s.NUMBERS[index], s.MASKS[index])
    return 1


def arrive(s: Value) -> int:
    """Threads expect bytes, and arrive; a phase may become complete."""
    for index in range(s.COUNT):
        if not _find(s, index):
            return 0
        _add_up(s, index)
    for index in range(s.COUNT):
        word, total = s.SHARED[s.WORDS[index]], s.TOTALS[index]
        legal = 0 < total <= pending_of(word) and tx_of(word) + s.BYTES[index] <= MOST_TRANSACTION_BYTES
        if s.LEADERS[index] == index and not legal:
            return 0
        row, number = s.ROWS[index], s.NUMBERS[index]
        if s.WATCHED and not _may_use(s, row, number, True):
            return 0
        if s.WATCHED and s.CLUSTER == 1:  # in clusters, warps needn't know that the phase before is complete
            column = s.COLUMNS[number]
            if s.TIMES[column] > _known(s, 0, row)[column]:
                return 0
    _give_states(s)
    if s.WATCHED:
        for index in range(s.COUNT):
            row, number = s.ROWS[index], s.NUMBERS[index]
            _record_use(s, row, number, _known(s, 0, row)[row])
            _release(s, row, number)
    phases, changes = 0, 0
    for index in range(s.COUNT):
        if s.LEADERS[index] == index:
            number, size = s.NUMBERS[index], s.BYTES[index]
            changes += 1 + (size != 0)
            if _settle(s, number, s.WORDS[index], s.TOTALS[index], size):
                s.COMPLETED[phases] = number
                phases += 1
    s.PHASES, s.CHANGES = phases, changes
    return 1


def commit(s: Value) -> int:
    """Units arrive at mbarriers for warps, one warp after the other, in the order of the mbarriers."""
    last = -1
    for index in range(s.COUNT):
        if s.MASKS[index]:
            place = _find_targets(s, index)
            if place <= last:
                return 0
            last = place
    for index in range(s.COUNT):
        for rank in set_bits(s.LEADERS[index] if s.MASKS[index] else 0):
            s.TALLY[_number_at(s, s.TOTALS[index] + rank * s.STRIDE)] += bit_count(s.MASKS[index])
    for index in range(s.COUNT):
        for rank in set_bits(s.LEADERS[index] if s.MASKS[index] else 0):
            if not _may_commit(s, s.ROWS[index], s.TOTALS[index] + rank * s.STRIDE):
                return 0
    phases, changes = 0, 0
    for index in range(s.COUNT):
        for rank in set_bits(s.LEADERS[index] if s.MASKS[index] else 0):
            place = s.TOTALS[index] + rank * s.STRIDE
            number = _number_at(s, place)
            if s.WATCHED:
                _complete_units(s, index, number)
            if _settle(s, number, place // BYTES, bit_count(s.MASKS[index]), 0):
                s.COMPLETED[phases] = number
                phases += 1
            changes += 1
    s.PHASES, s.CHANGES = phases, changes
    return 1


# The mbarriers


def _find(s: Value, index: int) -> bool:
    """Finds the mbarrier of a warp, which must be alive, and the same for all of its lanes."""
    place = -1
    for lane in set_bits(s.MASKS[index]):
        if place >= 0 and s.OFFSETS[_LANES * index + lane] != place:
            return False
        place = s.OFFSETS[_LANES * index + lane]
    s.NUMBERS[index], s.WORDS[index] = _number_at(s, place), place // BYTES
    return s.NUMBERS[index] >= 0


def _number_at(s: Value, place: int) -> int:
    """The number of the mbarrier at a byte of shared memory; negative if none is alive."""
    return s.PLACES[place // BYTES] - 1 if is_initialized(s.SHARED[place // BYTES]) else -1


def _add_up(s: Value, index: int) -> None:
    """Adds a warp's arrivals and bytes to those of the first warp with the same mbarrier."""
    first = index
    for other in range(index):
        if s.NUMBERS[other] == s.NUMBERS[index]:
            first = s.LEADERS[other]
    s.LEADERS[index] = first
    if first == index:
        s.TOTALS[index], s.BYTES[index] = 0, 0
    for lane in set_bits(s.MASKS[index]):
        s.TOTALS[first] += s.ASKED[_LANES * index + lane]
        s.BYTES[first] += s.SIZES[_LANES * index + lane]


def _give_states(s: Value) -> None:
    """Each lane's result: the state before it arrives. The lanes arrive one after the other."""
    for index in range(s.COUNT):
        first, word = s.LEADERS[index], s.SHARED[s.WORDS[index]]
        if first == index:
            s.COMPLETED[first] = pending_of(word)
        for lane in set_bits(s.MASKS[index]):
            at, left = _LANES * index + lane, s.COMPLETED[first]
            s.STATES[at] = word & ~(MOST_ARRIVALS << PENDING_SHIFT) | left << PENDING_SHIFT
            s.COMPLETED[first] = left - s.ASKED[at]


def _settle(s: Value, number: int, at: int, count: int, size: int) -> bool:
    """Writes the state after arrivals and expected bytes; begins the next phase if this one is complete."""
    word = s.SHARED[at]
    new = settled(word, count, size)
    s.SHARED[at], complete = new, new >> 63 != word >> 63
    if complete and s.WATCHED:
        for layer in range(s.LAYERS):
            waiting = _clock(s, s.PENDING, number, layer)
            _join(s, _clock(s, s.DONE, number, layer), waiting)
            for column in range(s.WIDTH):
                waiting[column] = 0
        s.TIMES[s.COLUMNS[number]] += 1
    return complete


def _find_targets(s: Value, index: int) -> int:
    """Finds the mbarriers of a warp's commit: the first CTA's, and the ranks of the CTAs. Returns the first
    byte of the addressed one, or -1.
    """
    if not _find(s, index):
        return -1
    place = s.WORDS[index] * BYTES
    rank = place // s.STRIDE % s.CLUSTER
    named = 1 << rank
    if s.MULTICASTS:
        named = -1
        for lane in set_bits(s.MASKS[index]):
            if named >= 0 and s.ASKED[_LANES * index + lane] != named:
                return -1
            named = s.ASKED[_LANES * index + lane]
        if named >> s.CLUSTER:
            return -1
    first = place - rank * s.STRIDE
    s.LEADERS[index], s.TOTALS[index] = named, first
    for each in set_bits(named):
        number = _number_at(s, first + each * s.STRIDE)
        if number < 0:
            return -1
        s.TALLY[number] = 0
    return place


def _may_commit(s: Value, row: int, place: int) -> bool:
    """No phase must be complete before the last arrival, and uses must be ordered after the inits."""
    number = _number_at(s, place)
    if s.TALLY[number] > pending_of(s.SHARED[place // BYTES]):
        return False
    near = 0 <= place - s.OWN[row] < s.STRIDE and s.INIT_FENCES == 0
    return s.WATCHED == 0 or _may_use(s, row, number, near)


# The sanitizer


def _known(s: Value, layer: int, row: int) -> Value:
    """What a warp knows."""
    return s.KNOWN[(layer * s.WARPS + row) * s.WIDTH :]


def _clock(s: Value, clocks: Value, number: int, layer: int) -> Value:
    """A layer of an mbarrier's clock."""
    return clocks[(number * s.LAYERS + layer) * s.WIDTH :]


def _join(s: Value, target: Value, source: Value) -> None:
    """Makes a clock know what another one does."""
    for column in range(s.WIDTH):
        target[column] = max(target[column], source[column])


def _may_use(s: Value, row: int, number: int, near: bool) -> bool:
    """A warp's use must be ordered after the init, and the mbarrier must have a column. `near`: no fence is
    needed in between.
    """
    known, init, column = _known(s, 0, row), s.INIT_ROWS[number], s.FENCED_COLUMNS[number]
    if s.COLUMNS[number] < 0 or init < 0:
        return False
    if near and s.INIT_TIMES[number] <= known[init]:
        return True
    return column >= 0 and s.FENCED_TIMES[number] <= known[column]


def _record_use(s: Value, column: int, number: int, time: int) -> None:
    at = number * s.WIDTH + column
    s.USE_TIMES[at], s.USE_LINES[at] = time, s.LINE
    if s.USE_ORDERS[at] == 0:
        s.USES[0] += 1
        s.USE_ORDERS[at] = s.USES[0]


def _release(s: Value, row: int, number: int) -> None:
    """What a warp knows precedes the phase; what it does from here on is later."""
    for layer in range(s.LAYERS):
        _join(s, _clock(s, s.PENDING, number, layer), _known(s, layer, row))
    _known(s, 0, row)[row] += 1


def _acquire(s: Value, row: int, number: int, mask: int) -> None:
    """Lanes of a warp learn what precedes the end of the last phase."""
    known, live = _known(s, 0, row), 0
    _record_use(s, row, number, known[row])
    for lane in range(_LANES):
        live |= (s.LIVE[_LANES * row + lane] != 0) << lane
    some = s.BY_LANE != 0 and live & ~mask != 0
    if some:
        for column in range(s.WIDTH):
            s.BEFORE[column] = known[column]
    for layer in range(s.LAYERS):
        _join(s, _known(s, layer, row), _clock(s, s.DONE, number, layer))
    column = s.COLUMNS[number]
    known[column] = max(known[column], s.TIMES[column])
    if some:
        _hold(s, row, mask)
    if s.BY_LANE and s.HOLDING[row]:
        s.KNOWING[row] |= mask
        s.HOLDING[row] = live & ~s.KNOWING[row] != 0


def _hold(s: Value, row: int, mask: int) -> None:
    """The other lanes of a warp don't know what some have acquired (`WarpLanes._hold`)."""
    clock, known, learned = s.CLOCK[row * s.WIDTH :], _known(s, 0, row), False
    for column in range(s.WIDTH):
        learned |= known[column] > s.BEFORE[column]
    if not learned:
        return
    held = s.HOLDING[row] != 0
    for column in range(s.WIDTH):
        limit = s.BEFORE[column] if known[column] > s.BEFORE[column] else _LATEST
        clock[column] = min(limit, clock[column]) if held else limit
    s.KNOWING[row] = (s.KNOWING[row] if held else 0) | mask
    s.HOLDING[row] = 1


def _complete_units(s: Value, index: int, number: int) -> None:
    """What a warp knows, and what its units have done, precedes the phase (`Sanitizer._commit`)."""
    row = s.ROWS[index]
    _record_use(s, row, number, _known(s, 0, row)[row])
    if s.TENSOR_FENCES:
        _join(s, _known(s, 2, row), _known(s, 0, row))
    _release(s, row, number)
    for unit in range(s.UNITS):
        column = s.UNIT_COLUMNS[unit * s.COUNT + index]
        if column >= 0:
            s.TIMES[column] += 1
            for layer in range(s.LAYERS):
                if layer != 1:
                    _clock(s, s.PENDING, number, layer)[column] = s.TIMES[column]
            _record_use(s, column, number, s.TIMES[column])


_WORTH = 200
"""The operations of a process after which they are compiled."""
_UNITS = ("cp.async", "tcgen05")
"""The units whose operations a commit ends."""
_asked = [0]
_NONE: Array = np.zeros(0)
_WAVE = slice(Field.SHARED, Field.COMPLETED)
_CLOCKS = slice(Field.WATCHED, None)


@cache
def _function(name: str) -> Callable[[int], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(library().addresses()[name])


class MbarrierCalls:
    """The operations of one wave: those of an instruction on mbarriers at `offsets` in the wave's shared
    memory, `[warps, 32]`. They change nothing and return None or False where something may be wrong, or for a
    case that they don't know.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave, warps = wave, wave.warps
        watch = wave.watch
        self._sanitizer = watch if isinstance(watch, Sanitizer) else None
        self._fits = watch is None or self._sanitizer is not None
        self._state: npt.NDArray[np.int64] = np.zeros(len(Field), np.int64)
        self._pointer = self._state.ctypes.data
        self._scratch: npt.NDArray[np.int64] = np.zeros((5, max(1, warps)), np.int64)
        self._by_number: npt.NDArray[np.int64] = np.zeros((2, 0), np.int64)
        self._lanes: Threads | None = None
        self._rows: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        self._masks: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._whole = False
        """Whether each of these warps has an active lane."""
        self._arrays: tuple[Array, ...] = ()
        self._before: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        memory = wave.memory
        self._own = (wave.cta_of_row * memory.shared_stride).astype(np.int64)
        self._units: npt.NDArray[np.int64] = np.zeros((len(_UNITS), 0), np.int64)
        self._units_of: tuple[object, ...] = ()
        self._state[_WAVE] = (
            *(memory.shared.data.ctypes.data, memory.shared_stride, memory.cluster),
            *(self._own.ctypes.data, wave.mbarriers.places.ctypes.data),
            *(row.ctypes.data for row in self._scratch),
        )

    def observe(self, lanes: Threads, offsets: Addresses, line: int) -> bool:
        """All active lanes have seen that their phase is complete."""
        sanitizer = self._sanitizer
        if sanitizer is None or sanitizer.tracks_waits(line) or not self._begin(lanes):
            return False
        return self._run("observe", offsets, line)

    def arrive(
        self, lanes: Threads, offsets: Addresses, counts: Array, sizes: Array, line: int
    ) -> Array | None:
        """The active lanes expect `sizes` bytes and arrive `counts` times; returns the states from before."""
        if not self._begin(lanes):
            return None
        sanitizer = self._sanitizer
        if sanitizer is not None and not sanitizer.lanes.nothing_since(self._rows):
            return None
        states = np.zeros((lanes.warps, 32), np.uint64)
        if not self._run("arrive", offsets, line, counts, sizes, states):
            return None
        self._continue()
        return states

    def commit(self, lanes: Threads, offsets: Addresses, masks: Array | None, line: int) -> bool:
        """The lanes' units are done and arrive at mbarriers of CTAs in `masks`; None: at `offsets` alone."""
        if not self._begin(lanes, whole=False):
            return False
        if self._sanitizer is not None:
            self._take_units(self._sanitizer)
        self._state[Field.MULTICASTS] = masks is not None
        if not self._run("commit", offsets, line, _NONE if masks is None else masks.astype(np.uint32)):
            return False
        self._continue()
        return True

    def _take_units(self, sanitizer: Sanitizer) -> None:
        clocks = sanitizer.clocks
        key = self._lanes, clocks.width
        if self._units_of == key:
            return
        names = [[(unit, row) for row in self._rows.tolist()] for unit in _UNITS]
        found = [[clocks.find(name) for name in each] for each in names]
        columns = [[NONE if column is None else column for column in each] for each in found]
        self._units, self._units_of = np.array(columns, np.int64), key
        self._state[Field.INIT_FENCES : Field.WATCHED] = (
            *(sanitizer.mbarriers.init_fences, clocks.tensor_fences, len(_UNITS), self._units.ctypes.data),
        )

    def _continue(self) -> None:
        """After arrivals: those who wait for phases that are complete now continue."""
        wave, state = self.wave, self._state
        wave.changes += int(state[Field.CHANGES])
        for number in self._by_number[0, : state[Field.PHASES]].tolist():
            wave.mbarriers.completed_phase(wave.mbarriers.keys[number])

    def _begin(self, lanes: Threads, *, whole: bool = True) -> bool:
        """Prepares for an instruction of these lanes; False if the interpreter must run it. `whole`: each
        warp must have an active one.
        """
        _asked[0] += 1
        if not self._fits or _asked[0] < _WORTH:
            return False
        if self._sanitizer is not None:
            if self._sanitizer.some_ended:
                return False
            self._refresh(self._sanitizer)
        least = max(self.wave.warps, len(self.wave.mbarriers.keys))
        if self._by_number.shape[1] < least:
            self._by_number = np.zeros((2, 2 * least), np.int64)
            completed, tally = self._by_number
            self._state[Field.COMPLETED : Field.INIT_FENCES] = completed.ctypes.data, tally.ctypes.data
        if lanes is not self._lanes:
            self._lanes = lanes
            self._rows = lanes.row_numbers()
            enabled = np.packbits(lanes.enabled(), axis=1, bitorder="little")
            self._masks = enabled.view(np.uint32).reshape(-1)
            state = self._state
            state[Field.COUNT], state[Field.ROWS] = len(self._rows), self._rows.ctypes.data
            state[Field.MASKS] = self._masks.ctypes.data
            self._whole = bool(self._masks.all())
        return self._whole or not whole

    def _run(
        self,
        name: str,
        offsets: Addresses,
        line: int,
        asked: Array = _NONE,
        sizes: Array = _NONE,
        states: Array = _NONE,
    ) -> bool:
        operands = [np.ascontiguousarray(each) for each in (offsets, asked, sizes)]
        at, wanted, expected = (each.ctypes.data for each in operands)
        self._state[Field.OFFSETS : Field.SHARED] = at, line, wanted, expected, states.ctypes.data
        return bool(_function(name)(self._pointer))

    def _refresh(self, sanitizer: Sanitizer) -> None:
        clocks, table, lanes = sanitizer.clocks, sanitizer.table, sanitizer.lanes
        table.fit()
        lanes.fit()
        held = self.wave.live, lanes.holding, lanes.knowing, lanes.clock
        arrays: tuple[Array, ...] = clocks.all, clocks.times, *held, *table.arrays()
        if len(arrays) == len(self._arrays) and all(map(is_, arrays, self._arrays)):
            return
        self._arrays = arrays
        layers, warps, width = clocks.all.shape
        if len(self._before) != width:
            self._before = np.zeros(width, np.int32)
        known, times, live_, *rest = (array.ctypes.data for array in arrays)
        self._state[_CLOCKS] = (
            *(1, layers, warps, width, known, times, lanes.strict, live_, self._before.ctypes.data),
            *rest,
        )
