"""Tensor memory: 128 lanes x 512 columns of 32 bits in every CTA, and its allocator (PTX ISA, "Tensor
Memory").

An address is `lane << 16 | column`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.memory.segments import Waiter
from weft.emulator.watch import Cells as Rectangle
from weft.isa.tcgen05.pipelining import Use
from weft.isa.tcgen05.tensor_layouts import COLUMNS, LANE_SHIFT, LANES

_LEAST = 32
"""The fewest columns of an allocation."""
COLUMN_MASK = (1 << LANE_SHIFT) - 1

Cells = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Request:
    """A warp's tcgen05.alloc."""

    row: int
    columns: int
    line: int


class Touch(NamedTuple):
    """Loads or stores of a rectangle, or both (`kind`: load, store, reduce), in the tensor memory of each of
    some CTAs, by a warp's unit `proxy`.
    """

    kind: str
    proxy: str
    ctas: Numbers
    cells: Rectangle
    rows: Numbers
    use: Use | None = None


class TensorMemory:
    """The tensor memory of all CTAs of a wave, by their number."""

    def __init__(self, ctas: int) -> None:
        self._ctas = ctas
        self._blocks: dict[int, dict[int, int]] = {}
        self._relinquished: set[int] = set()
        self._requests: dict[int, list[Request]] = {}
        self.granted: dict[int, int] = {}
        """The first columns of allocations that a warp has not taken yet, by its row."""
        self.waiting: list[Waiter] = []
        """The threads that wait for free columns."""

    @cached_property
    def data(self) -> Cells:
        """`[CTAs, 128, 512]`, for reading and writing."""
        return np.zeros((self._ctas, LANES, COLUMNS), np.uint32)

    def cells(self, cta: int) -> Cells:
        """A CTA's tensor memory, `[128, 512]`, for reading and writing."""
        cells: Cells = self.data[cta]
        return cells

    def request(self, ctas: tuple[int, ...], cta: int, request: Request) -> dict[Request, int]:
        """A warp of `cta` requests columns in each of `ctas`: its own, or both of its pair, of which each has
        a warp that requests them.

        Returns the requests that can be granted now, with their first columns, aligned to a power of two;
        these are in `granted`, too. Raises Fault if the CTA has relinquished its permit to allocate, or if
        the two CTAs request different numbers of columns.
        """
        columns, line = request.columns, request.line
        if cta in self._relinquished:
            raise Fault("tcgen05.alloc after tcgen05.relinquish_alloc_permit", line, rule="tmem-access")
        queue = self._requests.setdefault(cta, [])
        if request not in queue:
            queue.append(request)
        others = [self._requests.get(each) for each in ctas if each != cta]
        if not all(others):
            return {}
        together = [request, *(other[0] for other in others if other)]
        if any(each.columns != columns for each in together):
            counts = " and ".join(str(each.columns) for each in together)
            what = f"the CTAs of a pair must allocate the same number of columns, got {counts}"
            raise Fault(what, line, rule="tmem-access")
        column = self._free(ctas, columns)
        if column is None:
            return {}
        for each in ctas:
            self._blocks[each][column] = columns
        for every in (queue, *others):
            assert every is not None
            every.remove(next(each for each in together if each in every))
        found = dict.fromkeys(together, column)
        self.granted |= {each.row: column for each in together}
        self._wake()
        return found

    def allocated(self, cta: int) -> dict[int, int]:
        """The number of columns of each allocation, by its first column."""
        return dict(self._blocks.get(cta, {}))

    def _free(self, ctas: tuple[int, ...], columns: int) -> int | None:
        """The first of `columns` columns that are free in each of these CTAs."""
        blocks = [each for cta in ctas for each in self._blocks.setdefault(cta, {}).items()]
        step = columns if columns & (columns - 1) == 0 else _LEAST
        for column in range(0, COLUMNS - columns + 1, step):
            if all(begin + size <= column or column + columns <= begin for begin, size in blocks):
                return column
        return None

    def deallocate(self, cta: int, address: int, columns: int, line: int) -> None:
        """Frees an allocation. Fault if it doesn't exist."""
        blocks = self._blocks.get(cta, {})
        if blocks.get(address) != columns:
            there = ", ".join(f"{size} at 0x{begin:x}" for begin, size in blocks.items()) or "none"
            what = f"tcgen05.dealloc of {columns} columns at 0x{address:x}: the allocations are {there}"
            raise Fault(what, line, address=address, rule="tmem-access")
        del blocks[address]
        self._wake()

    def _wake(self) -> None:
        for waiter in self.waiting:
            waiter.stalled = False
        self.waiting.clear()

    def relinquish(self, cta: int) -> None:
        """The CTA relinquishes its permit to allocate."""
        self._relinquished.add(cta)


def check(lanes: Numbers, columns: Numbers, line: int) -> None:
    """Raises Fault if a lane or a column is outside tensor memory."""
    wrong = (lanes < 0) | (lanes >= LANES) | (columns < 0) | (columns >= COLUMNS)
    if wrong.any():
        every = (np.broadcast_to(each, wrong.shape) for each in (lanes, columns))
        lane, column = (int(each.flat[wrong.argmax()]) for each in every)
        legal = f"lanes 0..{LANES - 1} and columns 0..{COLUMNS - 1}"
        what = f"tensor memory has {legal}, got lane {lane}, column {column}"
        raise Fault(what, line, address=lane << LANE_SHIFT | column, rule="tmem-access")
