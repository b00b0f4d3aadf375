"""The copies of `cp.async` that no thread has waited for."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import Piece, put
from weft.emulator.reading.types import Array, Bools


@dataclass(eq=False)
class Copy:
    """One `cp.async` of `threads`, `[all warps, 32]`; `group` is each thread's group, 0 before the commit.
    `whole`: none of its threads has waited.
    """

    threads: Bools
    rows: npt.NDArray[np.intp]
    pieces: list[Piece]
    value: Array
    group: npt.NDArray[np.int64]
    whole: bool = True


class CopyQueue:
    """The copies of a wave that no thread has waited for. They read their bytes when they are issued.

    They write shared memory only at the wait, so that a missing wait shows as stale data.
    """

    def __init__(self, warps: int) -> None:
        self.committed = np.zeros((warps, 32), np.int64)
        self.copies: list[Copy] = []

    def commit(self, threads: Bools) -> None:
        """Closes the current group of each of these threads, empty or not."""
        self.committed = self.committed + threads
        for copy in self.copies:
            new = copy.threads & threads & (copy.group == 0)
            if new.any():
                copy.group = np.where(new, self.committed, copy.group)

    def wait(self, threads: Bools, pending: int | None) -> None:
        """Completes the threads' copies except those of the newest `pending` groups; None: all, committed or
        not.
        """
        kept: list[Copy] = []
        for copy in self.copies:
            ripe = copy.threads & threads
            if pending is not None:
                ripe = ripe & (copy.group > 0) & (copy.group <= self.committed - pending)
            count = int(np.count_nonzero(ripe))
            if count:
                last = count == int(np.count_nonzero(copy.threads))
                _write(copy, None if last and copy.whole else ripe[copy.rows])
                if last:
                    continue
                copy.threads, copy.whole = copy.threads & ~ripe, False
            kept.append(copy)
        self.copies = kept


def _write(copy: Copy, mask: Bools | None) -> None:
    for piece in copy.pieces:
        chosen = piece.mask
        if mask is not None:
            chosen = mask if chosen is None else chosen & mask
        put(Piece(piece.view, piece.elements, chosen), copy.value)
