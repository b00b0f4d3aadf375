"""Accesses to memory in code of this host, with the sanitizer's checks of accesses that break no rule, in
functions for the compiler of `plain_code`.

A function gets the state of a machine and an operation. It returns 0, and has changed nothing, if the
interpreter must make the access: because it faults, breaks a rule of the sanitizer, or isn't plain.
Addresses, values and active lanes are in the scratch memory of each warp.

The sanitizer's checks of accesses that break no rule, for one granule, in functions for the compiler of
`plain_code`: `sanitizer.races` and `sanitizer.global_races` define them.
"""

from collections.abc import Callable
from functools import partial

from weft.emulator.compiled.box_state import Buffer, Listed, Part
from weft.emulator.compiled.pieces import LOADED, MASK, SCRATCH, STORED
from weft.emulator.compiled.plain_code import Value, bit_count, copy, memory, octet_bits, set_bits, view
from weft.emulator.memory.segments import RANK_SHIFT
from weft.emulator.sanitizer.global_memory import COLUMN_BITS
from weft.emulator.sanitizer.shadow import BLOCK_SHIFT, NEVER, READ_BY_THREADS, READ_BY_UNITS

COLUMN = (1 << COLUMN_BITS) - 1


# Shared memory


def knows_write(part: Value, known: Value, granule: int) -> bool:
    """Whether the last write is known. NEVER is later than all that is."""
    return part.WRITTEN[granule] <= known[part.WRITER[granule]]


def knows_reads(part: Value, known: Value, ranks: Value, granule: int) -> bool:
    """Whether all reads are known: those by threads of the cluster, whose times are `ranks`, and by units."""
    by = _readers(part, granule)
    if by & READ_BY_THREADS and not _knows_threads(part, ranks, granule):
        return False
    for unit in set_bits(by & READ_BY_UNITS):
        at = unit * part.GRANULES + granule
        if part.TAKEN[at] > known[part.UNIT[at]]:
            return False
    return True


def _readers(part: Value, granule: int) -> int:
    return part.READ_BY[granule << part.SHIFT >> BLOCK_SHIFT]


def _knows_threads(part: Value, ranks: Value, granule: int) -> bool:
    late = False
    for reader in range(part.READERS):
        late |= part.READS[granule * part.READERS + reader] > ranks[reader]
    return not late


def may_read(part: Value, known: Value, fenced: Value, granule: int) -> bool:
    """A unit's read: there is a last write, which must be known, and the unit must see it."""
    writer = part.WRITER[granule]
    is_seen = part.PROXIES[writer] != 0 or part.WRITTEN[granule] <= fenced[writer]
    return knows_write(part, known, granule) and is_seen


def may_write(part: Value, call: Value, granule: int) -> bool:
    """A unit's write: the last write and all reads must be known, and the unit must see that."""
    if part.WRITTEN[granule] != NEVER and not may_read(part, call.KNOWN, call.FENCED, granule):
        return False
    if _readers(part, granule) & READ_BY_THREADS and not _knows_threads(part, call.SHOWN, granule):
        return False
    return knows_reads(part, call.KNOWN, call.RANKS, granule)


def record_read(part: Value, granule: int, column: int, time: int, line: int, slot: int) -> None:
    """A unit's read."""
    at = slot * part.GRANULES + granule
    part.UNIT[at], part.TAKEN[at], part.READ_LINE[granule] = column, time, line
    part.READ_BY[granule << part.SHIFT >> BLOCK_SHIFT] |= 1 << slot


def record_write(part: Value, granule: int, column: int, time: int, line: int) -> None:
    part.WRITER[granule], part.WRITTEN[granule], part.WRITE_LINE[granule] = column, time, line


def read_each(call: Value, part: Value) -> int:
    """Records a read of each list of chunks, up to one that may break a rule: then it returns 0."""
    for index in range(call.COUNT):
        each: Value = Listed(call.LISTS[len(Listed) * index :])
        if each.USED & (1 << part.SHIFT) - 1 or not _may_read_list(call, part, each):
            return 0
        for at in range(each.COUNT):
            begin = each.BEGIN + each.FIRST[at]
            for granule in range(begin >> part.SHIFT, begin + each.USED >> part.SHIFT):
                record_read(part, granule, each.COLUMN, each.TIME, call.LINE, each.SLOT)
    return 1


def _may_read_list(call: Value, part: Value, each: Value) -> bool:
    known, fenced = call.KNOWN[each.ROW * call.WIDTH :], call.FENCED[each.ROW * call.WIDTH :]
    for at in range(each.COUNT):
        if each.FIRST[at] < 0 or each.FIRST[at] > call.END:
            return False
        begin = each.BEGIN + each.FIRST[at]
        for granule in range(begin >> part.SHIFT, begin + each.USED >> part.SHIFT):
            if not may_read(part, known, fenced, granule):
                return False
    return True


# Global memory


def knows(buffer: Value, at: int, wave: int, known: Value, unit: int) -> bool:
    """Whether an earlier access is known, or by the same unit; those of other waves are left to the
    interpreter.
    """
    time, owner = buffer.TIME[at], buffer.OWNER[at]
    if time == 0:
        return True
    return owner >> COLUMN_BITS == wave and (time <= known[owner & COLUMN] or owner == unit)


def keep(buffer: Value, at: int, owner: int) -> None:
    """Keeps the last read, at `at`, if somebody else made it."""
    if buffer.OWNER[at] != owner and buffer.TIME[at] > 0:
        record(buffer, at + buffer.GRANULES, buffer.OWNER[at], buffer.TIME[at], buffer.LINE[at])


def record(buffer: Value, at: int, owner: int, time: int, line: int) -> None:
    buffer.OWNER[at], buffer.TIME[at], buffer.LINE[at] = owner, time, line


USED, RUN = MASK + 4, MASK + 8
"""Where a warp's scratch memory has the lanes that are checked, and whether its accesses are a run: all lanes
access adjacent elements. Then only the first address counts.
"""
LANES = 32
_ALL = (1 << LANES) - 1
_NO_UNIT = -1


# The lanes of warps


def _warp(s: Value, index: int) -> Value:
    """The scratch memory of a warp of the group."""
    return s.SCRATCH[index * SCRATCH :]


def _lanes(s: Value, index: int, mask: int) -> int:
    """The lanes of a warp whose addresses count: the first of a run, otherwise those at `mask`."""
    return 1 if _word(s, index, RUN) else _word(s, index, mask)


def _word(s: Value, index: int, at: int) -> int:
    return view(s.SCRATCH[index * SCRATCH + at :], "u4")[0]


def _elements(s: Value, index: int) -> int:
    """The elements from an address that counts on."""
    return LANES if _word(s, index, RUN) else 1


def _find_run(s: Value, index: int, width: int) -> None:
    """Finds whether all lanes of a warp access adjacent elements."""
    addresses, same = view(_warp(s, index), "i8"), _word(s, index, MASK) == _ALL
    first = addresses[0]
    for lane in range(LANES):
        same &= addresses[lane] == first + lane * width
    _set_run(s, index, same)


def _set_run(s: Value, index: int, run: bool) -> None:
    view(s.SCRATCH[index * SCRATCH + RUN :], "u4")[0] = run


def _fits(offset: int, width: int, count: int, size: int) -> bool:
    """Whether accesses are inside `size` bytes, and aligned."""
    return offset >= 0 and offset + width * count <= size and offset & width - 1 == 0


def _move(s: Value, width: int, data: Value, loads: bool) -> None:
    """Copies the elements between memory and scratch memory."""
    place = LOADED if loads else STORED
    for index in range(s.COUNT):
        values, addresses = s.SCRATCH[index * SCRATCH + place :], view(_warp(s, index), "i8")
        if _word(s, index, RUN):
            _copy(values, data[addresses[0] :], LANES * width, loads)
        else:
            for lane in set_bits(_word(s, index, MASK)):
                near, far = values[lane * width :], data[addresses[lane] :]
                if width == 4:
                    _copy(near, far, 4, loads)
                elif width == 8:
                    _copy(near, far, 8, loads)
                elif width == 16:
                    _copy(near, far, 16, loads)
                elif width == 2:
                    _copy(near, far, 2, loads)
                else:
                    _copy(near, far, 1, loads)


def _copy(near: Value, far: Value, size: int, loads: bool) -> None:
    if loads:
        copy(near, far, size)
    else:
        copy(far, near, size)


# What all checks need of a warp


def _clock(s: Value, index: int) -> Value:
    """What a warp knows."""
    return s.KNOWN[s.ROWS[index] * s.KNOWN_WIDTH :]


def _first(s: Value, index: int, lane: int, granule: int) -> int:
    """The first granule of a lane."""
    return view(_warp(s, index), "i8")[lane] >> granule


def _is_alone(s: Value, width: int, stamps: Value, granule: int) -> bool:
    """Whether no two warps store to one granule. A granule's stamp is a number of the store and the warp."""
    if s.COUNT < 2:
        return True
    epoch = s.EPOCH
    s.EPOCH = epoch + s.COUNT
    for index in range(s.COUNT):
        for lane in set_bits(_lanes(s, index, MASK)):
            first, mine = _first(s, index, lane, granule), epoch + index
            for at in range(first, first + (width * _elements(s, index) >> granule)):
                if stamps[at] >= epoch and stamps[at] != mine:
                    return False
                stamps[at] = mine
    return True


# Global memory


def _access_global(s: Value, op: Value, loads: bool) -> int:
    width, found, total = 1 << op.WIDTH, -1, 0
    for index in range(s.COUNT):
        _find_run(s, index, width)
        addresses, count = view(_warp(s, index), "i8"), _elements(s, index)
        for lane in set_bits(_lanes(s, index, MASK)):
            found = _segment(s, found, addresses[lane])
            if found < 0 or addresses[lane] & width - 1:
                return False
            each: Value = Buffer(s.SEGMENTS[len(Buffer) * found :])
            if not _fits(addresses[lane] - each.BASE, width, count, each.SIZE):
                return False
            total += count
    if total == 0:
        return True
    part: Value = Buffer(s.SEGMENTS[len(Buffer) * found :])
    if part.BLOCKED or (not loads and not part.WRITABLE):
        return False
    for index in range(s.COUNT):  # the interpreter computes its own addresses
        for lane in set_bits(_lanes(s, index, MASK)):
            view(_warp(s, index), "i8")[lane] -= part.BASE
    if s.CHECKED and op.WIDTH < part.SHIFT:  # the interpreter divides granules
        return False
    if s.CHECKED and not (_may_load_global(s, op, part) if loads else _may_store_global(s, op, part)):
        return False
    _move(s, width, part.DATA, loads)
    s.GLOBAL_BYTES += total * width
    if not loads:
        s.CHANGES += 1
    return True


def _segment(s: Value, found: int, address: int) -> int:
    """The buffer that has an address, unless one is known already; -1 for none."""
    if found >= 0:
        return found
    for number in range(s.SEGMENT_COUNT):
        each: Value = Buffer(s.SEGMENTS[len(Buffer) * number :])
        if 0 <= address - each.BASE < each.SIZE:
            return number
    return -1


def _may_load_global(s: Value, op: Value, part: Value) -> bool:
    """The checks of `GlobalRaces.access` for loads, by the lanes that use what they load."""
    width, constant = 1 << op.WIDTH, op.CONSTANT != 0
    _use_lanes(s, op, width)
    if part.IS_WRITTEN and not _knows_all(s, part, width, 1, USED, constant):
        return False
    if not part.WRITABLE:
        return True
    for index in range(s.COUNT):
        owner = s.ROWS[index] | s.WAVE << COLUMN_BITS
        run = _word(s, index, RUN) != 0
        for lane in set_bits(_lanes(s, index, USED)):
            first = _first(s, index, lane, part.SHIFT)
            if not (run and width >> part.SHIFT == 1 and _is_own(part, 1, owner, first)):
                for at in range(first, first + (width * _elements(s, index) >> part.SHIFT)):
                    keep(part, part.GRANULES + at, owner)
    for index in range(s.COUNT):
        owner = s.ROWS[index] | s.WAVE << COLUMN_BITS
        now = _clock(s, index)[s.ROWS[index]]
        for lane in set_bits(_lanes(s, index, USED)):
            first = part.GRANULES + _first(s, index, lane, part.SHIFT)
            for at in range(first, first + (width * _elements(s, index) >> part.SHIFT)):
                record(part, at, owner, now, op.LINE)
    return True


def _may_store_global(s: Value, op: Value, part: Value) -> bool:
    """The checks of `GlobalRaces.access` for weak stores."""
    width = 1 << op.WIDTH
    if not _knows_all(s, part, width, 3, MASK, False) or not _is_alone(s, width, part.STAMPS, part.SHIFT):
        return False
    for index in range(s.COUNT):
        owner = s.ROWS[index] | s.WAVE << COLUMN_BITS
        now = _clock(s, index)[s.ROWS[index]]
        for lane in set_bits(_lanes(s, index, MASK)):
            first = _first(s, index, lane, part.SHIFT)
            for at in range(first, first + (width * _elements(s, index) >> part.SHIFT)):
                record(part, at, owner, now, op.LINE)
                part.LEVEL[at] = 0
    part.IS_WRITTEN = 1
    return True


def _knows_all(s: Value, part: Value, width: int, slots: int, mask: int, constant: bool) -> bool:
    """Whether warps know of the last write, and of reads in `slots` - 1 rows. There must be no write to
    what is `constant`.
    """
    for index in range(s.COUNT):
        owner = s.ROWS[index] | s.WAVE << COLUMN_BITS
        clock = _clock(s, index)
        run = _word(s, index, RUN) != 0 and width >> part.SHIFT == 1 and not constant
        for lane in set_bits(_lanes(s, index, mask)):
            first = _first(s, index, lane, part.SHIFT)
            for slot in range(slots):
                if not (run and _is_own(part, slot, owner, first)):
                    for at in range(first, first + (width * _elements(s, index) >> part.SHIFT)):
                        earlier = slot * part.GRANULES + at
                        if constant and part.TIME[earlier] != 0:
                            return False
                        if not knows(part, earlier, s.WAVE, clock, _NO_UNIT):
                            return False
    return True


def _is_own(part: Value, slot: int, owner: int, first: int) -> bool:
    """Whether nobody else made the earlier accesses to the granules of a run."""
    owners, times, own = part.OWNER[slot * part.GRANULES :], part.TIME[slot * part.GRANULES :], True
    for at in range(first, first + LANES):
        own &= (owners[at] == owner) | (times[at] == 0)
    return own


def _use_lanes(s: Value, op: Value, width: int) -> None:
    """Notes the lanes that use what they load, in the scratch memory of each warp."""
    for index in range(s.COUNT):
        mask = _word(s, index, MASK)
        used = mask
        if op.DISCARDS:
            used &= octet_bits(memory(s.REGISTERS[index] + op.PREDICATE)) ^ (_ALL if op.NEGATED else 0)
        view(s.SCRATCH[index * SCRATCH + USED :], "u4")[0] = used
        if used != mask and _word(s, index, RUN):  # each lane of the run gets its own offset
            _set_run(s, index, False)
            addresses = view(_warp(s, index), "i8")
            for lane in range(1, LANES):
                addresses[lane] = addresses[0] + lane * width


# Shared memory


def _access_shared(s: Value, op: Value, loads: bool) -> int:
    width, total = 1 << op.WIDTH, 0
    for index in range(s.COUNT):
        _find_run(s, index, width)
        addresses, count = view(_warp(s, index), "i8"), _elements(s, index)
        for lane in set_bits(_lanes(s, index, MASK)):
            rank, offset = addresses[lane] >> RANK_SHIFT, addresses[lane] & (1 << RANK_SHIFT) - 1
            if not 0 <= rank < s.CLUSTER or not _fits(offset, width, count, s.SHARED_SIZE):
                return False
            addresses[lane] = s.SHARED_BASE[s.ROWS[index]] + rank * s.STRIDE + offset
            total += count
    if total == 0:
        return True
    if s.BLOCKED or (s.CHECKED and not _may_access_shared(s, op, width, loads)):
        return False
    _move(s, width, s.SHARED, loads)
    s.SHARED_BYTES += total * width
    if not loads:
        s.CHANGES += 1
    return True


def _may_access_shared(s: Value, op: Value, width: int, loads: bool) -> bool:
    """The checks of `Races.load`, and of `Races.store` for weak stores."""
    part: Value = Part(s.PART)
    if op.WIDTH < part.SHIFT:
        return False
    for index in range(s.COUNT):
        row = s.ROWS[index]
        clock = _clock(s, index)
        ranks = clock[row - row % part.READERS :]
        for lane in set_bits(_lanes(s, index, MASK)):
            first = _first(s, index, lane, part.SHIFT)
            for at in range(first, first + (width * _elements(s, index) >> part.SHIFT)):
                is_first = not loads and part.WRITTEN[at] == NEVER
                if not is_first and not knows_write(part, clock, at):
                    return False
                if not loads and not knows_reads(part, clock, ranks, at):
                    return False
    if not loads and not _is_alone(s, width, s.STAMPS, part.SHIFT):
        return False
    for index in range(s.COUNT):
        row, now = s.ROWS[index], _clock(s, index)[s.ROWS[index]]
        for lane in set_bits(_lanes(s, index, MASK)):
            first = _first(s, index, lane, part.SHIFT)
            for at in range(first, first + (width * _elements(s, index) >> part.SHIFT)):
                if loads:
                    part.READS[at * part.READERS + row % part.READERS] = now
                    part.READ_LINE[at] = op.LINE
                    part.READ_BY[at << part.SHIFT >> BLOCK_SHIFT] |= READ_BY_THREADS
                else:
                    record_write(part, at, row, now, op.LINE)
    return True


# Memory that no other thread writes


def _load_plain(s: Value, op: Value, const: bool) -> int:
    """A load from parameters or constant memory."""
    if not _are_inside(s, 1 << op.WIDTH, s.CONST_SIZE if const else s.PARAMS_SIZE):
        return False
    _move(s, 1 << op.WIDTH, s.CONST if const else s.PARAMS, True)
    if const:
        s.CONST_BYTES += _active(s) << op.WIDTH
    else:
        s.PARAM_BYTES += _active(s) << op.WIDTH
    return True


def _are_inside(s: Value, width: int, size: int) -> bool:
    for index in range(s.COUNT):
        _set_run(s, index, False)
        for lane in set_bits(_word(s, index, MASK)):
            if not _fits(view(_warp(s, index), "i8")[lane], width, 1, size):
                return False
    return True


def _active(s: Value) -> int:
    total = 0
    for index in range(s.COUNT):
        total += bit_count(_word(s, index, MASK))
    return total


def _access_local(s: Value, op: Value, loads: bool) -> int:
    width = 1 << op.WIDTH
    if not _are_inside(s, width, s.LOCAL_SIZE):
        return False
    for index in range(s.COUNT):
        for lane in set_bits(_word(s, index, MASK)):
            view(_warp(s, index), "i8")[lane] += (s.ROWS[index] * LANES + lane) * s.LOCAL_SIZE
    if s.CHECKED and not _is_filled(s, width, loads):
        return False
    _move(s, width, s.LOCAL, loads)
    s.LOCAL_BYTES += _active(s) * width
    return True


def _is_filled(s: Value, width: int, loads: bool) -> bool:
    """Whether all bytes that are loaded have been written; those that are stored are from now on."""
    for index in range(s.COUNT):
        for lane in set_bits(_word(s, index, MASK)):
            begin = view(_warp(s, index), "i8")[lane]
            for at in range(begin, begin + width):
                if loads and not s.FILLED[at]:
                    return False
                s.FILLED[at] = 1
    return True


# Registers that wgmma may be using: see `RegisterState`


def _known(s: Value, row: int) -> int:
    """The time of its unit that a warp knows of."""
    return s.KNOWN[row * s.KNOWN_WIDTH + s.COLUMNS[row]]


def _set_changed(s: Value, register: int, row: int, changed: int) -> None:
    s.CHANGED[register * s.WARPS + row] = changed
    s.HAS_CHANGED[row] |= changed


def touch(s: Value, op: Value) -> int:
    """Announces what instructions read and write. 0 if a register is in use: the interpreter reports it."""
    if not s.CHECKED:
        return 1
    both = op.READS + op.WRITES
    for index in range(s.COUNT):
        row = s.ROWS[index]
        for at in range(both):
            register = op.OFFSETS[at] * s.WARPS + row
            held = at >= op.READS and s.HELD[register] > _known(s, row)
            if s.BUSY[register] > _known(s, row) or held:
                return 0
    for index in range(s.COUNT):
        for at in range(both):
            _set_changed(s, op.OFFSETS[at], s.ROWS[index], 1)
    return 1


def copied(s: Value, op: Value) -> int:
    """Announces a move, likewise."""
    if not s.CHECKED:
        return 1
    for index in range(s.COUNT):
        row = s.ROWS[index]
        time = 0
        state = 0
        if op.READS:
            source = op.OFFSETS[0] * s.WARPS + row
            time, state = s.BUSY[source], s.CHANGED[source]
        known = _known(s, row)
        for at in range(op.READS, op.READS + op.WRITES):
            register = op.OFFSETS[at] * s.WARPS + row
            if time <= known and (s.BUSY[register] > known or s.HELD[register] > known):
                return 0
        for at in range(op.READS, op.READS + op.WRITES):
            s.BUSY[op.OFFSETS[at] * s.WARPS + row] = time
            _set_changed(s, op.OFFSETS[at], row, state)
    return 1


_SPACES = {"global": _access_global, "shared": _access_shared, "local": _access_local}
FUNCTIONS: dict[str, Callable[..., int]] = {
    **{
        f"{'load' if loads else 'store'}_{name}": partial(function, loads=loads)
        for name, function in _SPACES.items()
        for loads in (True, False)
    },
    "load_param": partial(_load_plain, const=False),
    "load_const": partial(_load_plain, const=True),
    "touch": touch,
    "copy": copied,
}
"""By the names in a plan."""
