"""Runs of bytes with an address, and how addresses are divided.

Generic addresses are flat 64-bit numbers. Buffers lie below the first window, with gaps between them; shared,
local, const and param space have a window each. In its own space, an address counts from 0. A shared address
has the CTA's rank in its cluster from bit 24 on, as on a GPU, so it can also refer to the shared memory of
the cluster's other CTAs.
"""

import copy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.reading.types import STORAGE, Array, Bools

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
        """The bytes as one array of `width`-byte elements; bytes at the end that don't fill an element are
        omitted.
        """
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
