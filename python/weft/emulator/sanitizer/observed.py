"""Strong reads of writes. Whoever comes after such a read comes after the write, too, even if nothing was
released with it: a counter may be reset by a plain store once it has been seen.
"""

import numpy as np
import numpy.typing as npt

from weft.emulator.reading.types import Bools
from weft.emulator.sanitizer.clocks import Clocks
from weft.emulator.sanitizer.shadow import Index, Times

_WORD = 4
_Write = tuple[int, int]
"""The owner and the time of a write."""


class Observed:
    """By buffer and word: the warps that have read it, when that was last, and which write they saw."""

    def __init__(self) -> None:
        self._reads: dict[tuple[int, int], dict[int, tuple[int, _Write]]] = {}

    def note(self, base: int, offset: int, rows: Index, known: Clocks, write: _Write) -> None:
        """Warps read a word."""
        reads = self._reads.setdefault((base, offset // _WORD), {})
        reads.update((row, (int(known[row, row]), write)) for row in rows.tolist())

    def after(
        self,
        base: int,
        late: Bools,
        offsets: Index,
        rows: Index,
        writes: tuple[npt.NDArray[np.int64], Times],
        known: Clocks,
    ) -> Bools:
        """`late` without the accesses of warps that come after a read of the last write."""
        left: Bools = late.copy()
        for at in np.flatnonzero(late).tolist() if self._reads else ():
            reads = self._reads.get((base, int(offsets[at]) // _WORD), {})
            write, row = (int(writes[0][at]), int(writes[1][at])), int(rows[at])
            left[at] = not any(
                seen == write and (by == row or time <= known[row, by]) for by, (time, seen) in reads.items()
            )
        return left
