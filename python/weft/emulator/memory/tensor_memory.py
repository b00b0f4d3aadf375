"""Tensor memory: 128 lanes x 512 columns of 32 bits in every CTA, and its allocator (PTX ISA, "Tensor
Memory").

An address is `lane << 16 | column`.
"""

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.memory.access import Waiter

LANES = 128
COLUMNS = 512
_LEAST = 32
"""The fewest columns of an allocation."""
LANE_SHIFT = 16
COLUMN_MASK = (1 << LANE_SHIFT) - 1

Cells = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.intp]


class TensorMemory:
    """The tensor memory of all CTAs of a wave, by their number."""

    def __init__(self) -> None:
        self._cells: dict[int, Cells] = {}
        self._blocks: dict[int, dict[int, int]] = {}
        self._relinquished: set[int] = set()
        self.waiting: list[Waiter] = []
        """The threads that wait for free columns."""

    def cells(self, cta: int) -> Cells:
        """A CTA's tensor memory, `[128, 512]`, for reading and writing."""
        return self._cells.setdefault(cta, np.zeros((LANES, COLUMNS), np.uint32))

    def allocate(self, cta: int, columns: int, line: int) -> int | None:
        """The first of `columns` free columns, aligned to a power of two; None while there are not enough.

        Raises Fault if the CTA has relinquished its permit to allocate.
        """
        if cta in self._relinquished:
            raise Fault("tcgen05.alloc after tcgen05.relinquish_alloc_permit", line, rule="tmem-access")
        blocks = self._blocks.setdefault(cta, {})
        step = columns if columns & (columns - 1) == 0 else _LEAST
        for column in range(0, COLUMNS - columns + 1, step):
            if all(begin + size <= column or column + columns <= begin for begin, size in blocks.items()):
                blocks[column] = columns
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
        at = int(np.broadcast_to(wrong, np.broadcast_shapes(lanes.shape, columns.shape)).argmax())
        lane = int(np.broadcast_to(lanes, wrong.shape).reshape(-1)[at])
        column = int(np.broadcast_to(columns, wrong.shape).reshape(-1)[at])
        raise Fault(
            f"tensor memory has lanes 0..{LANES - 1} and columns 0..{COLUMNS - 1}, "
            f"got lane {lane}, column {column}",
            line,
            address=lane << LANE_SHIFT | column,
            rule="tmem-access",
        )
