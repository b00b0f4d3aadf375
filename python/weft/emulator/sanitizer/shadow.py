"""The last accesses to each granule of shared memory: its last write, and the reads since.

A granule is as small as the smallest access so far. So a kernel that moves 16 bytes at a time needs one entry
where one that stores bytes needs 16.
"""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from weft.emulator.watch import Chunks

Index = npt.NDArray[np.intp]
Times = npt.NDArray[np.int32]
NEVER = (1 << 31) - 1
NOWHERE = -1
"""The line of a write, where there was none."""
_COARSEST = 16
_MOST_ENDS = 32
_MOST_UNITS = 16
READ_BY_THREADS = 1 << _MOST_UNITS
READ_BY_UNITS = READ_BY_THREADS - 1
BLOCK_SHIFT = 10
"""A block of `Shadow.read_by` has 1 KiB."""


class Granules:
    """Entries for granules of memory, each as small as the smallest access so far."""

    def __init__(self, size: int) -> None:
        self.granule = _COARSEST
        self.count = -(-size // _COARSEST)

    @property
    def granules(self) -> int:
        """The number of entries."""
        return self.count * (_COARSEST // self.granule)

    def repeat(self, times: int) -> None:
        """Replaces each entry by `times` copies."""
        raise NotImplementedError

    def refine(self, width: int) -> None:
        """Makes granules no larger than `width`, a power of two."""
        if width < self.granule:
            self.repeat(self.granule // width)
            self.granule = width

    def fit(self, offsets: Index, width: int) -> None:
        """Makes granules small enough for accesses of `width` bytes at these offsets."""
        self.refine(width)

    def elements(self, offsets: Index, width: int) -> tuple[Index, int]:
        """The granules of accesses of `width` bytes at these offsets, and the number of granules of each."""
        self.fit(offsets, width)
        return self.fitted(offsets, width)

    def fitted(self, offsets: Index, width: int) -> tuple[Index, int]:
        """The same for accesses that granules are small enough for."""
        first, count = offsets // self.granule, width // self.granule
        if count <= 1:
            return first, 1
        return (first[:, None] + np.arange(count)).reshape(-1), count

    def _in_chunks(self, offsets: Index) -> Index | None:
        """The granules of bytes in whole chunks of 16, as of tensor cores and TMA; None for others."""
        if len(offsets) % _COARSEST:
            return None
        chunks = offsets.reshape(-1, _COARSEST)
        first = chunks[:, 0]
        if (first % _COARSEST).any() or (np.diff(chunks[:, ::5], axis=1) != 5).any():
            return None
        return self.elements(first, _COARSEST)[0]

    def covered(self, offsets: Index | Chunks) -> Index:
        """The granules that single bytes cover, refined until they cover whole ones."""
        if isinstance(offsets, Chunks):
            return self.elements(offsets.first, _COARSEST)[0]
        whole = self._in_chunks(offsets)
        if whole is not None:
            return whole
        coarse, which = np.unique(offsets // _COARSEST, return_inverse=True)
        touched = np.zeros((len(coarse), _COARSEST), np.bool_)
        touched[which, offsets % _COARSEST] = True
        while True:
            parts = touched.reshape(-1, self.granule)
            some = parts.any(axis=1)
            if self.granule == 1 or (some == parts.all(axis=1)).all():
                found, count = np.flatnonzero(some), _COARSEST // self.granule
                index: Index = coarse[found // count] * count + found % count
                return index
            self.refine(self.granule // 2)


class Shadow(Granules):
    """`writer` is the clock column of the last write and `written` its time, NEVER if there is none.

    `reads` has the last time at which each warp of the cluster has read. `unit` and `taken` have the last
    read by each of some asynchronous units, one row for each unit of the cluster. `write_line` and
    `read_line` are lines of the PTX. `read_by` has for each block of memory who has ever read there: a bit
    for each row of `unit`, and READ_BY_THREADS. The checks of writes skip the others.

    Each CTA has `used` bytes in every `stride` bytes. An access to all that it has of its last granule covers
    the granule, so that the address of tensor memory, which kernels keep there, needs no smaller ones. That
    holds for the first such accesses only, because code of the host leaves them to the interpreter.
    """

    def __init__(self, size: int, readers: int, stride: int, used: int) -> None:
        super().__init__(size)
        self._stride, self._used, self._ends = stride, used, 0
        count = self.count
        self.writer: npt.NDArray[np.intp] = np.zeros(count, np.intp)
        self.written: Times = np.full(count, NEVER, np.int32)
        self.write_line: Times = np.full(count, NOWHERE, np.int32)
        self.read_line: Times = np.zeros(count, np.int32)
        self.reads: Times = np.zeros((count, readers), np.int32)
        self._unit: npt.NDArray[np.intp] = np.zeros((_MOST_UNITS, count), np.intp)
        self._taken: Times = np.zeros((_MOST_UNITS, count), np.int32)
        self.unit, self.taken = self._unit[:0], self._taken[:0]
        self.read_by: Times = np.zeros((size >> BLOCK_SHIFT) + 1, np.int32)
        self._slots: dict[Hashable, int] = {}

    def fit(self, offsets: Index, width: int) -> None:
        if width >= self.granule:
            return
        at_end = width == self._used % self.granule and self._ends < _MOST_ENDS
        self._ends += at_end
        if not (at_end and (offsets % self._stride == self._used - width).all()):
            self.refine(width)

    def slot(self, name: Hashable) -> int:
        """The row of `unit` and `taken` for a unit."""
        at = self._slots.get(name)
        if at is None:
            at = self._slots[name] = len(self._slots) % _MOST_UNITS
            if at == len(self.unit):
                self.unit, self.taken = self._unit[: at + 1], self._taken[: at + 1]
        return at

    def note_reads(self, index: Index, by: int) -> None:
        """Notes who reads these granules: a bit of `read_by`."""
        self.read_by[index * self.granule >> BLOCK_SHIFT] |= by

    def readers(self, index: Index) -> Times:
        """`read_by` of the blocks of granules."""
        found: Times = self.read_by[index * self.granule >> BLOCK_SHIFT]
        return found

    def repeat(self, times: int) -> None:
        self.writer, self.written = np.repeat(self.writer, times), np.repeat(self.written, times)
        used = len(self.unit)
        self._unit = np.zeros((_MOST_UNITS, times * self.unit.shape[1]), np.intp)
        self._taken = np.zeros(self._unit.shape, np.int32)
        for new, old in ((self._unit, self.unit), (self._taken, self.taken)):
            new[:used] = np.repeat(old, times, axis=1)
        self.unit, self.taken = self._unit[:used], self._taken[:used]
        self.write_line, self.read_line = np.repeat(self.write_line, times), np.repeat(self.read_line, times)
        self.reads = np.repeat(self.reads, times, axis=0)
