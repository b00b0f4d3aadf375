"""Accesses to memory, as memory and observers see them: by which threads, where, in which order."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import Addresses, Segment
from weft.emulator.reading.types import Array, Bools

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
