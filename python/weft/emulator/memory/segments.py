"""Runs of bytes with an address, how addresses are divided, accesses as memory and observers see them, and
the copies of `cp.async` that no thread has waited for.

Generic addresses are flat 64-bit numbers. Buffers lie below the first window, with gaps between them; shared,
local, const and param space have a window each. In its own space, an address counts from 0. A shared address
has the CTA's rank in its cluster from bit 24 on, as on a GPU, so it can also refer to the shared memory of
the cluster's other CTAs.
"""

import copy
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from weft.emulator.reading.syntax import STORAGE, Array, Bools

WINDOW_SHIFT = 44
WINDOWS = {"shared": 1 << 44, "local": 2 << 44, "const": 3 << 44, "param": 4 << 44}
FRAME_PARAM = 1 << 28
"""Param-space addresses from here on are parameters of a `.func`, which are in its local frame."""
STACK = 1 << 27
"""Local addresses from here on come from `alloca`."""
RANK_SHIFT = 24
"""The bit of a shared address at which the rank of its CTA in the cluster begins."""
GAP = 1 << 16
"""The least number of bytes between two buffers."""
_MASK64 = (1 << 64) - 1

Addresses = npt.NDArray[np.uint64]


class Segment:
    """A run of bytes with an address. `view` shows the bytes as elements of a power-of-two width.

    `of_others`: other launches may write it, too.
    """

    def __init__(
        self, name: str, base: int, data: npt.NDArray[np.uint8], writable: bool = True, of_others: bool = True
    ) -> None:
        self.name, self.base, self.data, self.writable = name, base, data, writable
        self.of_others = of_others and writable
        self.size = len(data)
        self.filled: Bools | None = None
        """The bytes that a kernel has written, if it must write before it reads; None: all are
        initialized.
        """
        self._views: dict[int, Array] = {}

    def again(self) -> "Segment":
        """The same bytes at the same address, as one launch has them: `replace` doesn't affect others."""
        other = copy.copy(self)
        other._views = {}
        return other

    def replace(self, data: npt.NDArray[np.uint8]) -> None:
        """Puts the bytes elsewhere: from now on they are `data`."""
        self.data, self._views = data, {}

    def view(self, width: int) -> Array:
        """The bytes as one array of `width`-byte elements, without those that don't fill one."""
        if width not in self._views:
            self._views[width] = self.data[: self.size // width * width].view(STORAGE[8 * width])
        return self._views[width]


class Multicast(Segment):
    """A multicast object: addresses that only `multimem` instructions access, in all of the `members`, which
    are the addresses of `extent` bytes each. Other accesses find no bytes here.
    """

    def __init__(self, name: str, base: int, members: tuple[int, ...], extent: int) -> None:
        super().__init__(name, base, np.zeros(0, np.uint8), writable=False)
        self.members, self.extent = members, extent


class Piece(NamedTuple):
    """The lanes of `mask` (None: all active ones), and the index in `view` of the element of each; those of
    other lanes are undefined.
    """

    view: Array
    elements: npt.NDArray[np.intp]
    mask: Bools | None


def put(piece: Piece, value: Array) -> None:
    """Writes the lanes' elements of `value`."""
    if piece.mask is None:
        piece.view[piece.elements] = value
    else:
        piece.view[piece.elements[piece.mask]] = value[piece.mask]


def wrap(value: int) -> np.uint64:
    """`value` modulo 2**64."""
    return np.uint64(value & _MASK64)


Rows = slice | npt.NDArray[np.intp]


class Threads(Protocol):
    """The threads that execute an instruction together: `active` lanes of `warps` warps, those of `mask`
    (None: all of their lanes). `rows` are the warps among the wave's (None: all).
    """

    @property
    def rows(self) -> Rows | None: ...
    @property
    def warps(self) -> int: ...
    @property
    def mask(self) -> Bools | None: ...
    @property
    def active(self) -> int: ...

    def narrowed(self, mask: Bools) -> "Threads":
        """The same warps with only the lanes of `mask`, which must be active already."""

    def enabled(self) -> Bools:
        """The active lanes, `[warps, 32]`."""

    def threads(self) -> Bools:
        """The active threads among all of the wave, `[all warps, 32]`."""

    def row_numbers(self) -> npt.NDArray[np.intp]:
        """The warps as indices into the wave."""

    def chosen(self, per_row: Array) -> Array:
        """The rows of these warps of an array over all warps of the wave."""


class Waiter(Protocol):
    """Threads that wait for memory to change: they run again when `stalled` is cleared."""

    stalled: bool


@dataclass(eq=False, slots=True)  # not frozen, which takes four times as long to make
class Access:
    """One access: `kind` is load, store, atomic or async; `address` is `[warps, 32]`, in `space`.

    `offsets` are those of the first bytes in the data of `segment`. The data of shared memory are those of
    all CTAs of the wave, one after the other; the data of local memory are those of all threads.
    """

    kind: str
    space: str
    address: Addresses
    width: int
    lanes: Threads
    line: int
    segment: Segment
    offsets: Addresses


CTA, CLUSTER, GPU, SYSTEM = 1, 2, 3, 4
LEVELS = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU}
"""The scopes, smallest first, where one GPU is the whole system."""
WORLD_LEVELS = LEVELS | {"sys": SYSTEM}
"""The scopes where several GPUs run."""


class Order(NamedTuple):
    """The order of an access that isn't weak; a relaxed one neither acquires nor releases. `level` is its
    scope. `exchanges`: the old value doesn't matter.
    """

    acquires: bool
    releases: bool
    level: int
    exchanges: bool = False


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
        for issued in self.copies:
            new = issued.threads & threads & (issued.group == 0)
            if new.any():
                issued.group = np.where(new, self.committed, issued.group)

    def wait(self, threads: Bools, pending: int | None) -> None:
        """Completes the threads' copies except the newest `pending` groups; None: all, committed or not."""
        kept: list[Copy] = []
        for issued in self.copies:
            ripe = issued.threads & threads
            if pending is not None:
                ripe = ripe & (issued.group > 0) & (issued.group <= self.committed - pending)
            count = int(np.count_nonzero(ripe))
            if count:
                last = count == int(np.count_nonzero(issued.threads))
                mask = None if last and issued.whole else ripe[issued.rows]
                for piece in issued.pieces:
                    chosen = piece.mask
                    if mask is not None:
                        chosen = mask if chosen is None else chosen & mask
                    put(piece._replace(mask=chosen), issued.value)
                if last:
                    continue
                issued.threads, issued.whole = issued.threads & ~ripe, False
            kept.append(issued)
        self.copies = kept
