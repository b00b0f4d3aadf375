"""The sanitizer's checks of rectangles of tensor memory, as `sanitizer.tensor_memory` defines them, for the
compiler of `plain_code`. If a rule may be broken, they change nothing and return False.
"""

from functools import cache

from weft.emulator import native
from weft.emulator.compiled import plain_code
from weft.emulator.compiled.plain_code import Value
from weft.emulator.compiled.tensor_state import Access, Call, Part
from weft.emulator.sanitizer.tensor_memory import Operation
from weft.isa.tcgen05.tensor_layouts import COLUMNS

NAME = "tensor_accesses"


@cache
def library() -> native.Library:
    """The function, which gets the address of the numbers of `Call`."""
    return native.Library(NAME, lambda: plain_code.text({NAME: record}, Call), [NAME])


def record(call: Value) -> int:
    """Checks and records all accesses."""
    for index in range(call.COUNT):
        if not _may_access(call, Access(call.ACCESSES[len(Access) * index :])):
            return 0
    for index in range(call.COUNT):
        _record(call, Access(call.ACCESSES[len(Access) * index :]))
    return 1


def _may_access(call: Value, one: Value) -> bool:
    part: Value = Part(one.SHADOW)
    if (one.LANE | one.LANES) % part.GRANULE:
        return False
    for column in range(one.COLUMN, one.COLUMN + one.COLUMNS):
        if part.ALLOCATED[column] == 0 or part.ENDING[column] != 0:
            return False
    written, read = 0, 0
    for row in range(one.LANE // part.GRANULE, (one.LANE + one.LANES) // part.GRANULE):
        for column in range(one.COLUMN, one.COLUMN + one.COLUMNS):
            cell = row * COLUMNS + column
            if part.FILLED[cell] == 0 and not one.STORES:
                return False
            # Most cells have the operation of the one before.
            if part.WRITES[cell] != written:
                written = part.WRITES[cell]
                if not _is_after(call, one, part.OPERATIONS[len(Operation) * written :]):
                    return False
            if one.STORES and part.READS[cell] != read:
                read = part.READS[cell]
                if not _is_after(call, one, part.OPERATIONS[len(Operation) * read :]):
                    return False
    return True


def _is_after(call: Value, one: Value, before: Value) -> bool:
    """An earlier operation must be known, or one of the same thread that takes place before. If it is of
    another warp, fences must be in between.
    """
    owner, time = before[Operation.OWNER], before[Operation.TIME]
    known = one.ROW * call.WIDTH + owner
    if time > call.KNOWN[known]:
        ordered = call.ORDERS[one.USE * call.USES + before[Operation.USE]] != 0
        if owner != one.UNIT or not ordered:
            return False
    return not call.FENCES or before[Operation.ROW] == one.ROW or time <= call.PASSED[known]


def _record(call: Value, one: Value) -> None:
    part: Value = Part(one.SHADOW)
    number, numbers = _numbered(call, one, part), part.WRITES if one.STORES else part.READS
    for row in range(one.LANE // part.GRANULE, (one.LANE + one.LANES) // part.GRANULE):
        for column in range(one.COLUMN, one.COLUMN + one.COLUMNS):
            numbers[row * COLUMNS + column] = number
            if one.STORES:
                part.FILLED[row * COLUMNS + column] = 1


def _numbered(call: Value, one: Value, part: Value) -> int:
    """The number of the operation, which is the last one's if that is the same."""
    number, time = part.USED[0] - 1, call.TIMES[one.UNIT] + 1
    last = part.OPERATIONS[len(Operation) * number :]
    same = last[Operation.OWNER] == one.UNIT and last[Operation.TIME] == time
    same = same and last[Operation.LINE] == call.LINE and last[Operation.ROW] == one.ROW
    if same and last[Operation.USE] == one.USE:
        return number
    new = last[len(Operation) :]
    new[Operation.OWNER], new[Operation.TIME], new[Operation.LINE] = one.UNIT, time, call.LINE
    new[Operation.ROW], new[Operation.USE] = one.ROW, one.USE
    part.USED[0] += 1
    return number + 1
