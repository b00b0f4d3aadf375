"""The checks of asynchronous units in shared memory, as `sanitizer.races` defines them, for one granule, in
functions for the compiler of `plain_code`.
"""

from weft.emulator.compiled.box_state import Listed
from weft.emulator.compiled.plain_code import Value, set_bits
from weft.emulator.sanitizer.shadow import BLOCK_SHIFT, NEVER, READ_BY_THREADS, READ_BY_UNITS


def may_read(part: Value, known: Value, fenced: Value, granule: int) -> bool:
    """A read: there is a last write, which must be known, and the unit must see it."""
    return part.WRITTEN[granule] != NEVER and after_write(part, known, fenced, granule)


def after_write(part: Value, known: Value, fenced: Value, granule: int) -> bool:
    written, writer = part.WRITTEN[granule], part.WRITER[granule]
    return written <= known[writer] and (part.PROXIES[writer] != 0 or written <= fenced[writer])


def may_write(part: Value, call: Value, granule: int) -> bool:
    """A write: the last write and all reads must be known, and the unit must see that."""
    if part.WRITTEN[granule] != NEVER and not after_write(part, call.KNOWN, call.FENCED, granule):
        return False
    by = part.READ_BY[granule << part.SHIFT >> BLOCK_SHIFT]
    if by & READ_BY_THREADS:
        for reader in range(part.READERS):
            read = part.READS[granule * part.READERS + reader]
            if read > call.RANKS[reader] or read > call.SHOWN[reader]:
                return False
    for unit in set_bits(by & READ_BY_UNITS):
        at = unit * part.GRANULES + granule
        if part.TAKEN[at] > call.KNOWN[part.UNIT[at]]:
            return False
    return True


def record_read(part: Value, granule: int, column: int, time: int, line: int, slot: int) -> None:
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
