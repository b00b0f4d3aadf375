"""The operations on mbarriers of one instruction, where nothing is wrong, for the compiler of `plain_code`.

Each function changes nothing and returns 0 if a rule may be broken, or in a case that it doesn't know: lanes
of a warp with several mbarriers, arrivals that complete more than one phase. `instructions.mbarrier` and the
sanitizer, which define the operations, then run them.
"""

from functools import cache

from weft.emulator import native
from weft.emulator.compiled import plain_code
from weft.emulator.compiled.mbarrier_state import Field
from weft.emulator.compiled.plain_code import Value, bit_count, set_bits
from weft.emulator.memory.mbarrier import PENDING_SHIFT, is_initialized, pending_of, settled, tx_of
from weft.emulator.memory.segments import RANK_SHIFT
from weft.isa.mbarriers import BYTES, MOST_ARRIVALS, MOST_TRANSACTION_BYTES

_LANES = 32
_LATEST = (1 << 31) - 1


@cache
def library() -> native.Library:
    """The functions, which get the address of a state."""
    functions = {each.__name__: each for each in (look, observe, arrive, commit)}
    return native.Library("mbarriers", lambda: plain_code.text(functions, Field), list(functions))


def look(s: Value) -> int:
    """Whether the phases that a wait names are complete. Changes nothing but the results."""
    total = 0
    for index in range(s.COUNT):
        if not _find(s, index):
            return 0
        phase = s.SHARED[s.WORDS[index]] >> 63 & 1
        for lane in set_bits(s.MASKS[index]):
            done = phase != s.ASKED[_LANES * index + lane] & 1
            s.READY[_LANES * index + lane] = done
            total += done
    s.RESULT = total
    return 1


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
        if s.WATCHED and not (_may_use(s, row, number, True) and _knows_phase(s, row, number)):
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


def _first_lane(mask: int) -> int:
    for lane in set_bits(mask):
        return lane
    return 0


def _inside(s: Value, index: int) -> int:
    """The shared address of a warp's mbarrier, of its first lane."""
    return s.ADDRESSES[_LANES * index + _first_lane(s.MASKS[index])] - s.WINDOW


def _find(s: Value, index: int) -> bool:
    """Finds the mbarrier of a warp, which must be alive, and the same for all of its lanes."""
    inside = _inside(s, index)
    for lane in set_bits(s.MASKS[index]):
        if s.ADDRESSES[_LANES * index + lane] - s.WINDOW != inside:
            return False
    rank, offset = inside >> RANK_SHIFT, inside & (1 << RANK_SHIFT) - 1
    if not 0 <= inside < 1 << 32 or rank >= s.CLUSTER or offset + BYTES > s.SHARED_SIZE or offset % BYTES:
        return False
    place = s.BASES[s.ROWS[index]] + offset + rank * s.STRIDE
    number = _number_at(s, place)
    s.NUMBERS[index], s.WORDS[index] = number, place // BYTES
    return number >= 0


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
    """Writes the new state after so many arrivals, and bytes that are expected, and begins the next phase if
    this one is complete.
    """
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
    inside = _inside(s, index)
    named = 1 << (inside >> RANK_SHIFT)
    if s.MULTICASTS:
        named = s.ASKED[_LANES * index + _first_lane(s.MASKS[index])]
        for lane in set_bits(s.MASKS[index]):
            if s.ASKED[_LANES * index + lane] != named:
                return -1
        if named >> s.CLUSTER:
            return -1
    first = s.BASES[s.ROWS[index]] + (inside & (1 << RANK_SHIFT) - 1)
    s.LEADERS[index], s.TOTALS[index] = named, first
    for rank in set_bits(named):
        number = _number_at(s, first + rank * s.STRIDE)
        if number < 0:
            return -1
        s.TALLY[number] = 0
    return first + (inside >> RANK_SHIFT) * s.STRIDE


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


def _knows_phase(s: Value, row: int, number: int) -> bool:
    """A warp must know that the phase before is complete; in clusters it needn't (`MbarrierUses.arrival`)."""
    column = s.COLUMNS[number]
    return s.CLUSTER != 1 or s.TIMES[column] <= _known(s, 0, row)[column]


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
