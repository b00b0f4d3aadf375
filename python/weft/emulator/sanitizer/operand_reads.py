"""The sanitizer's check and record of the operands that asynchronous units read in shared memory, for many
warps in one call of code of this host.
"""

from collections.abc import Sequence

import numpy as np

from weft.emulator.running.product_code import Numbers, Read
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.clocks import Rows
from weft.emulator.sanitizer.unit_code import Listed

_MOST_KNOWN = 4096


class Lists:
    """Lists of chunks as numbers, and the columns of the units that read them."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.times: Numbers = numbers[:, Listed.TIME]
        self.columns: Rows = numbers[:, Listed.COLUMN].copy()
        self.address: int = numbers.ctypes.data


class OperandReads:
    """The reads of one wave's units."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer = sanitizer
        self._code = sanitizer.races.code
        self._known: dict[tuple[str, tuple[Read, ...]], Lists] = {}
        self._units: dict[tuple[str, int], tuple[int, int, int]] = {}

    def prepared(self, proxy: str, reads: tuple[Read, ...]) -> Lists:
        """What `record` needs of some reads; it doesn't keep the matrices."""
        known = self._known.get((proxy, reads))
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            known = self._known[proxy, reads] = self._lists(proxy, reads)
        return known

    def record(self, lists: Lists, line: int) -> bool:
        """Records what units read. False if that may break a rule; then it may have recorded a part, which
        doing all of it again doesn't change.
        """
        np.add(self._sanitizer.clocks.times[lists.columns], 1, out=lists.times)
        return self._code.reads_each(lists.address, len(lists.columns), line)

    def _lists(self, proxy: str, reads: Sequence[Read]) -> Lists:
        """The chunks of each matrix, and the column of the unit that reads it."""
        stride, lists = self._sanitizer.wave.memory.shared_stride, []
        for row, cta, matrices in reads:
            column, slot, ranks = self._units.get((proxy, row)) or self._unit(proxy, row)
            for matrix in matrices:
                chunks = matrix.first, len(matrix.chunks)
                lists.append((*chunks, cta * stride, column, 0, slot, row, ranks, matrix.used))
        return Lists(np.array(lists, np.int64))

    def _unit(self, proxy: str, row: int) -> tuple[int, int, int]:
        """The column of a warp's unit, its row of the shadow, and the first warp of the cluster."""
        sanitizer, launch = self._sanitizer, self._sanitizer.wave.launch
        column, readers = sanitizer.column_of(proxy, row), launch.warps * launch.cluster_size
        made = self._units[proxy, row] = column, sanitizer.races.slot(column), row // readers * readers
        return made
