"""The sanitizer's check and record of the operands that asynchronous units read in shared memory, for many
warps in one call of code of this host.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from weft.emulator import native
from weft.emulator.compiled.box_state import Listed, Part, Reads
from weft.emulator.compiled.shadows import SharedPart
from weft.emulator.running.product_code import Numbers, Read
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.clocks import Clocks, Rows
from weft.emulator.watch import CHUNK

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
        self._part = SharedPart(sanitizer.wave, sanitizer)
        self._call: npt.NDArray[np.int64] = np.zeros(len(Reads), np.int64)
        self._call[Reads.END] = sanitizer.wave.memory.shared_size - CHUNK
        self._clocks: Clocks | None = None
        self._known: dict[tuple[str, tuple[Read, ...]], Lists] = {}
        self._units: dict[tuple[str, int], tuple[int, int]] = {}

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
        clocks = self._sanitizer.clocks
        np.add(clocks.times[lists.columns], 1, out=lists.times)
        self._part.refresh()
        if clocks.all is not self._clocks:
            self._clocks = clocks.all
            arrays = clocks.known.ctypes.data, clocks.fenced.ctypes.data
            self._call[Reads.KNOWN :] = *arrays, clocks.all.shape[2]
        self._call[: Reads.END] = lists.address, len(lists.columns), line
        return bool(_function()(self._call.ctypes.data, self._part.pointer))

    def _lists(self, proxy: str, reads: Sequence[Read]) -> Lists:
        """The chunks of each matrix, and the column of the unit that reads it."""
        stride, lists = self._sanitizer.wave.memory.shared_stride, []
        for row, cta, matrices in reads:
            column, slot = self._units.get((proxy, row)) or self._unit(proxy, row)
            for matrix in matrices:
                chunks = matrix.first, len(matrix.chunks)
                lists.append((*chunks, cta * stride, column, 0, slot, row, matrix.used))
        return Lists(np.array(lists, np.int64))

    def _unit(self, proxy: str, row: int) -> tuple[int, int]:
        """The column of a warp's unit, and its row of the shadow."""
        column = self._sanitizer.column_of(proxy, row)
        made = self._units[proxy, row] = column, self._sanitizer.races.slot(column)
        return made


@cache
def _function() -> Callable[[int, int], int]:
    from weft.emulator.compiled import granule_checks, plain_code

    text = lambda: plain_code.text({"reads": granule_checks.read_each}, Reads, Part)  # noqa: E731
    address = native.Library("operand reads", text, ["reads"]).addresses()["reads"]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)
