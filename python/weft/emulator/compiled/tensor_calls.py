"""Checks and records accesses to rectangles of a wave's tensor memory in code of the host."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from operator import is_

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.tensor_state import Access, Call, Part
from weft.emulator.memory.tensor_memory import Touch, Touches
from weft.emulator.reading.types import Array
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.tensor_memory import Shadow

_WORTH = 200
"""The loads of a process after which code is made for them."""
_MOST_KNOWN = 4096
_Each = tuple[tuple[Touches, tuple[tuple[int, int], ...]], ...]
_asked = [0]


@cache
def _function() -> Callable[[int], int]:
    from weft.emulator.compiled import tensor_code

    address = next(iter(tensor_code.library().addresses().values()))
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
