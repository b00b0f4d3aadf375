"""The sanitizer's checks of accesses that break no rule, for one granule, in functions for the compiler of
`plain_code`: `sanitizer.races` and `sanitizer.global_races` define them.
"""

from weft.emulator.compiled.box_state import Listed
from weft.emulator.compiled.plain_code import Value, set_bits
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
    return knows_write(part, known, granule) and _is_seen(part, fenced, granule)


def _is_seen(part: Value, fenced: Value, granule: int) -> bool:
    writer = part.WRITER[granule]
    return part.PROXIES[writer] != 0 or part.WRITTEN[granule] <= fenced[writer]


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
    """Records a read of each list of chunks. Returns 0 if one of them may break a rule; those before it are
    recorded.
    """
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
