"""Tensor memory: 128 lanes x 512 columns of 32 bits in every CTA, and its allocator (PTX ISA, "Tensor
Memory").

An address is `lane << 16 | column`.
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault

LANES = 128
COLUMNS = 512
LANE_SHIFT = 16
COLUMN_MASK = (1 << LANE_SHIFT) - 1

if TYPE_CHECKING:
    from weft.emulator.groups import Group

Cells = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.intp]


class TensorMemory:
    """That of all CTAs of a wave, by their number; a CTA that uses none has none."""

    def __init__(self) -> None:
        self._cells: dict[int, Cells] = {}
        self._owner: dict[int, npt.NDArray[np.bool_]] = {}
        self._relinquished: set[int] = set()
        self.waiting: list[Group] = []
        """Who waits for free columns."""

    def cells(self, cta: int) -> Cells:
        """A CTA's tensor memory, `[128, 512]`, to read and to write."""
        return self._cells.setdefault(cta, np.zeros((LANES, COLUMNS), np.uint32))

    def _taken(self, cta: int) -> npt.NDArray[np.bool_]:
        return self._owner.setdefault(cta, np.zeros(COLUMNS, np.bool_))

    def allocate(self, cta: int, columns: int, line: int) -> int | None:
        """The first of `columns` free columns, aligned to their count; None while there is no room.

        Raises Fault when the CTA has given up its permit to allocate.
        """
        if cta in self._relinquished:
            raise Fault("tcgen05.alloc after tcgen05.relinquish_alloc_permit", line, rule="tmem-access")
        taken = self._taken(cta)
        for column in range(0, COLUMNS, columns):
            if not taken[column : column + columns].any():
                taken[column : column + columns] = True
                return column
        return None

    def deallocate(self, cta: int, address: int, columns: int, line: int) -> None:
        """Gives columns back; Fault when they are not an allocation's."""
        column = address & COLUMN_MASK
        taken = self._taken(cta)
        if address >> LANE_SHIFT or column + columns > COLUMNS or not taken[column : column + columns].all():
            raise Fault(
                f"tcgen05.dealloc of {columns} columns at 0x{address:x}, which are not all allocated",
                line,
                address=address,
                rule="tmem-access",
            )
        taken[column : column + columns] = False
        for group in self.waiting:
            group.stalled = False
        self.waiting.clear()

    def relinquish(self, cta: int) -> None:
        """The CTA gives up its permit to allocate."""
        self._relinquished.add(cta)


def check(lanes: Numbers, columns: Numbers, line: int) -> None:
    """Raises Fault when a lane or a column is outside of tensor memory."""
    wrong = (lanes < 0) | (lanes >= LANES) | (columns < 0) | (columns >= COLUMNS)
    if wrong.any():
        at = int(np.broadcast_to(wrong, np.broadcast_shapes(lanes.shape, columns.shape)).argmax())
        lane = int(np.broadcast_to(lanes, wrong.shape).reshape(-1)[at])
        column = int(np.broadcast_to(columns, wrong.shape).reshape(-1)[at])
        raise Fault(
            f"tensor memory has {LANES} lanes of {COLUMNS} columns, not lane {lane}, column {column}",
            line,
            address=lane << LANE_SHIFT | column,
            rule="tmem-access",
        )
