"""Checks and records accesses to rectangles of a wave's tensor memory in code of the host: the checks of
`sanitizer.tensor_memory` for the compiler of `plain_code`, and the numbers of 8 bytes that they share with
the wave. If a rule may be broken, they change nothing and return False.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from operator import is_

import numpy as np
import numpy.typing as npt

from weft.emulator import native
from weft.emulator.compiled import plain_code
from weft.emulator.compiled.plain_code import Value
from weft.emulator.memory.tensor_memory import Touch, Touches
from weft.emulator.reading.syntax import Array
from weft.emulator.records import Record
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.tensor_memory import Operation, Shadow
from weft.isa.tcgen05.tensor_layouts import COLUMNS


class Call(Record):
    """Some accesses that take place at once."""

    ACCESSES = "i8"
    COUNT = ""
    LINE = ""
    KNOWN = "i4"
    """What each warp knows, `[warps, WIDTH]`."""
    PASSED = "i4"
    """What each warp knows of by fences, if the kernel has `FENCES`."""
    WIDTH = ""
    FENCES = ""
    TIMES = "i8"
    ORDERS = "u1"
    """By the numbers of a later and of an earlier use: whether they take place in order, `[USES, USES]`."""
    USES = ""


class Part(Record):
    """The shadow of a CTA's tensor memory."""

    GRANULE = ""
    ALLOCATED = "i4"
    ENDING = "i4"
    FILLED = "u1"
    WRITES = "i4"
    READS = "i4"
    OPERATIONS = "i4"
    USED = "i8"


class Access(Record):
    """One access: to the cells of a rectangle, by a column of the clocks for a warp."""

    SHADOW = "i8"
    """`Part` of its CTA."""
    STORES = ""
    LANE = ""
    LANES = ""
    COLUMN = ""
    COLUMNS = ""
    UNIT = ""
    ROW = ""
    USE = ""


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


_WORTH = 200
"""The loads of a process after which code is made for them."""
_MOST_KNOWN = 4096
_Each = tuple[tuple[Touches, tuple[tuple[int, int], ...]], ...]
_asked = [0]


@cache
def _function() -> Callable[[int], int]:
    address = next(iter(library().addresses().values()))
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)


class _Part:
    """The shadow of a CTA, as numbers."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self.numbers: npt.NDArray[np.int64] = np.zeros(len(Part), np.int64)
        self.pointer: int = self.numbers.ctypes.data
        self._writes: Array | None = None
        self._operations: Array | None = None

    def refresh(self, more: int) -> None:
        """Makes room for more operations, and takes the addresses where the arrays are now."""
        shadow = self.shadow
        if shadow.used.item() + more > len(shadow.operations):
            shadow.fit(more)
        if shadow.writes is self._writes and shadow.operations is self._operations:
            return
        self._writes, self._operations = shadow.writes, shadow.operations
        arrays = (
            *(shadow.allocated, shadow.ending, shadow.filled, shadow.writes, shadow.reads),
            *(shadow.operations, shadow.used),
        )
        self.numbers[:] = shadow.granule, *(array.ctypes.data for array in arrays)


class _Accesses:
    """Accesses as numbers, and the shadows that they need."""

    def __init__(self, accesses: npt.NDArray[np.int64], parts: Sequence[_Part]) -> None:
        self.numbers, self.parts = accesses, parts
        self.pointer: int = accesses.ctypes.data
        self.count = len(accesses)


class TensorCalls:
    """The accesses of one wave: see `memory.tensor_memory.Calls`."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer, self._memory = sanitizer, sanitizer.tensor
        self._parts: dict[int, _Part] = {}
        self._known: dict[_Each, _Accesses] = {}
        self._call: npt.NDArray[np.int64] = np.zeros(len(Call), np.int64)
        self._pointer: int = self._call.ctypes.data
        self._seen: tuple[Array, ...] = ()

    def are_worth(self, count: int) -> bool:
        _asked[0] += count
        return _asked[0] >= _WORTH

    def prepared(self, touches: Sequence[Touch]) -> _Accesses:
        memory, numbers = self._memory, []
        for kind, proxy, cta, cells, row, use in touches:
            where = cells.lane, cells.lanes, cells.column, cells.columns
            unit = memory.unit(proxy, row), row, memory.number(use)
            numbers.append((self._part(cta).pointer, kind == "store", *where, *unit))
        parts = [self._part(cta) for cta in dict.fromkeys(touch.cta for touch in touches)]
        return _Accesses(np.array(numbers, np.int64).reshape(-1, len(Access)), parts)

    def prepared_each(self, of: _Each) -> _Accesses:
        known = self._known.get(of)
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            known = self._known[of] = self._accesses(of)
        return known

    def _accesses(self, of: _Each) -> _Accesses:
        every, parts = [], dict[_Part, None]()
        for touches, threads in of:
            memory, (proxy,) = self._memory, touches.proxies
            ranks = range(int(touches.ctas.max()) + 1)
            mine = [[self._part(first + rank) for rank in ranks] for first, _ in threads]
            parts |= dict.fromkeys(part for each in mine for part in each)
            pointers = np.array([[part.pointer for part in each] for each in mine])
            numbers = np.empty((len(threads), len(touches.uses), len(Access)), np.int64)
            numbers[:, :, Access.SHADOW] = pointers[:, touches.ctas]
            numbers[:, :, Access.STORES : Access.UNIT] = touches.cells
            units = [(memory.unit(proxy, row), row) for _, row in threads]
            numbers[:, :, Access.UNIT : Access.USE] = np.array(units)[:, None]
            numbers[:, :, Access.USE] = [memory.number(use) for use in touches.uses]
            every.append(numbers.reshape(-1, len(Access)))
        return _Accesses(every[0] if len(every) == 1 else np.concatenate(every), list(parts))

    def record(self, accesses: _Accesses, line: int) -> bool:
        for part in accesses.parts:
            part.refresh(accesses.count)
        self._refresh()
        self._call[: Call.KNOWN] = accesses.pointer, accesses.count, line
        return bool(_function()(self._pointer))

    def _part(self, cta: int) -> _Part:
        part = self._parts.get(cta)
        if part is None:
            part = self._parts[cta] = _Part(self._memory.of(cta))
        return part

    def _refresh(self) -> None:
        """Where the clocks are now."""
        clocks, memory = self._sanitizer.clocks, self._memory
        arrays: tuple[Array, ...] = clocks.all, clocks.met, clocks.times, memory.orders()
        if len(self._seen) == len(arrays) and all(map(is_, arrays, self._seen)):
            return
        self._seen = arrays
        orders, width = arrays[-1], clocks.all.shape[2]
        self._call[Call.KNOWN :] = (
            *(clocks.known.ctypes.data, memory.passed.ctypes.data, width, bool(memory.fences)),
            *(clocks.times.ctypes.data, orders.ctypes.data, len(orders)),
        )
