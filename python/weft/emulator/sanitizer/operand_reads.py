"""The sanitizer's check and record of the operands that asynchronous units read in shared memory, for many
warps in one call of code of this host.
"""

from collections.abc import Sequence

import numpy as np

from weft.emulator.running.product_code import Numbers, Read
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.unit_code import Listed

_MOST_KNOWN = 4096


class OperandReads:
    """The reads of one wave's units."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer = sanitizer
        self._code = sanitizer.races.code
        self._known: dict[tuple[str, tuple[Read, ...]], tuple[Numbers, int, list[int]]] = {}

    def record(self, proxy: str, reads: tuple[Read, ...], line: int) -> bool:
        """Records what units read. False if that may break a rule; then it may have recorded a part, which
        doing all of it again doesn't change.
        """
        known = self._known.get((proxy, reads))
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            known = self._known[proxy, reads] = self._lists(proxy, reads)
        lists, address, columns = known
        times = self._sanitizer.clocks.times
        lists[:, Listed.TIME] = [times[column] + 1 for column in columns]
        return self._code.reads_each(address, len(columns), line)

    def _lists(self, proxy: str, reads: Sequence[Read]) -> tuple[Numbers, int, list[int]]:
        """The chunks of each matrix, and the column of the unit that reads it."""
        sanitizer, wave = self._sanitizer, self._sanitizer.wave
        readers = wave.launch.warps * wave.launch.cluster_size
        lists, columns = [], []
        for read in reads:
            column = sanitizer.column_of(proxy, read.row)
            slot, begin = sanitizer.races.slot(column), read.cta * wave.memory.shared_stride
            ranks = read.row // readers * readers
            for matrix in read.matrices:
                chunks = matrix.first, len(matrix.chunks)
                lists.append((*chunks, begin, column, 0, slot, read.row, ranks, matrix.used))
                columns.append(column)
        made = np.array(lists, np.int64)
        return made, made.ctypes.data, columns
