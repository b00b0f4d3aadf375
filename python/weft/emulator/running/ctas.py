"""The shape of a launch, and which CTAs, warps and threads a part of it has.

Assigns the slots of a kernel's register file: registers, constants, special registers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Thread
from weft.emulator.memory.device import Device
from weft.emulator.reading.syntax import Array, Bools, Type

_Key = TypeVar("_Key")


class Slots:
    """`bits` has the width of each slot. Slot 0 is unused, so that 0 can mean "no register"."""

    def __init__(self) -> None:
        self.bits = [1]
        self.constants: dict[tuple[int, int], int] = {}
        self.specials: dict[tuple[str, int], int] = {}
        self.symbols: dict[tuple[int, int], int] = {}
        self._scrap: dict[int, int] = {}

    def new(self, kind: Type) -> int:
        self.bits.append(kind.bits)
        return len(self.bits) - 1

    def constant(self, value: int, kind: Type) -> int:
        """The slot that holds the bits of `value` in every lane."""
        return self._known(self.constants, (value, kind.bits), kind)

    def symbol(self, offset: int, kind: Type) -> int:
        """The slot of a shared address, which refers to the memory of each thread's own CTA."""
        return self._known(self.symbols, (offset & ((1 << kind.bits) - 1), kind.bits), kind)

    def special(self, name: str, kind: Type) -> int:
        """The slot of a special register whose value doesn't change, read as `kind`."""
        return self._known(self.specials, (name, kind.bits), kind)

    def scrap(self, kind: Type) -> int:
        """A slot that is written and never read, for `_`."""
        return self._known(self._scrap, kind.bits, kind)

    def _known(self, slots: dict[_Key, int], key: _Key, kind: Type) -> int:
        if key not in slots:
            slots[key] = self.new(kind)
        return slots[key]


Dim3 = tuple[int, int, int]
Numbers = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Launch:
    """The shape of a launch. `shared_bytes` is a CTA's shared memory, of which the launch
    added `dynamic_shared`.

    `cluster` is in CTAs; `explicit_cluster`: the launch or the kernel asks for clusters; `dependent`: the
    launch before may run on until griddepcontrol.wait; `lacks_dynamic`: the kernel leaves the size of
    shared memory to the launch, which adds none.
    """

    grid: Dim3
    block: Dim3
    shared_bytes: int
    dynamic_shared: int
    arithmetic: str
    cluster: Dim3 = (1, 1, 1)
    explicit_cluster: bool = False
    dependent: bool = False
    lacks_dynamic: bool = False

    @cached_property
    def threads(self) -> int:
        return prod(self.block)

    @cached_property
    def warps(self) -> int:
        return -(-self.threads // 32)

    @cached_property
    def total_ctas(self) -> int:
        return prod(self.grid)

    @cached_property
    def cluster_size(self) -> int:
        return prod(self.cluster)

    @property
    def clusters(self) -> Dim3:
        """How many clusters the grid has along each axis."""
        x, y, z = (g // c for g, c in zip(self.grid, self.cluster, strict=True))
        return x, y, z

    def cta_at(self, position: int) -> int:
        """The number in the grid of the CTA that begins at `position`: clusters begin one after the other."""
        if self.cluster_size == 1:
            return position
        number, rank = divmod(position, self.cluster_size)
        cluster, inside = unflatten(number, self.clusters), unflatten(rank, self.cluster)
        x, y, z = (c * n + i for c, n, i in zip(cluster, self.cluster, inside, strict=True))
        return x + self.grid[0] * (y + self.grid[1] * z)


class Grid:
    """CTAs that haven't started, in the order of `Launch.cta_at`, up to `end`, taken by clusters."""

    def __init__(self, launch: Launch, begin: int = 0, end: int | None = None) -> None:
        self.launch = launch
        self.begun, self.canceled = begin, 0
        self.end = launch.total_ctas if end is None else end

    def take(self, most: int) -> list[int]:
        """The numbers in the grid of the next CTAs, at most `most`; empty if all have started."""
        last = min(self.begun + most, self.end)
        taken = [self.launch.cta_at(at) for at in range(self.begun, last)]
        self.begun = last
        return taken

    def cancel(self) -> Dim3 | None:
        """Takes a cluster, which will not run, and returns the coordinates of its first CTA; None if none is
        left.
        """
        taken = self.take(self.launch.cluster_size)
        self.canceled += len(taken)
        return unflatten(taken[0], self.launch.grid) if taken else None


def unflatten(flat: int, dims: Dim3) -> Dim3:
    """The coordinates of number `flat`, x fastest."""
    return flat % dims[0], flat // dims[0] % dims[1], flat // (dims[0] * dims[1])


class Ctas:
    """CTAs `cta_numbers` of a launch: whole clusters, each in the order of its ranks.

    Row r is warp `warp_of_row[r]` of the CTA that is number `cta_of_row[r]` among these. `live` are the
    threads that have not exited.
    """

    def __init__(self, launch: Launch, device: Device, cta_numbers: Sequence[int]) -> None:
        self.launch: Launch = launch
        self.device: Device = device
        self.cta_numbers: Numbers = np.array(cta_numbers)
        self.warps = len(cta_numbers) * launch.warps
        self.cta_of_row: Numbers = np.repeat(np.arange(len(cta_numbers)), launch.warps)
        self.warp_of_row: Numbers = np.tile(np.arange(launch.warps), len(cta_numbers))
        thread = self.warp_of_row[:, None] * 32 + np.arange(32)
        self.live: Bools = thread < launch.threads
        self.tid: Numbers = _coordinates(np.where(self.live, thread, 0), launch.block)
        self.ntid: Numbers = np.array([*launch.block, 1])
        self.ctaid: Numbers = _coordinates(self.cta_numbers[self.cta_of_row][:, None], launch.grid)
        self.nctaid: Numbers = np.array([*launch.grid, 1])
        self.cluster_nctaid: Numbers = np.array([*launch.cluster, 1])

    def cluster_rank(self, cta: int) -> int:
        """The rank in its cluster of CTA number `cta`."""
        return cta % self.launch.cluster_size

    def cluster_ctas(self, cta: int) -> range:
        """The CTAs in the cluster of CTA number `cta`, by rank."""
        size = self.launch.cluster_size
        return range(cta // size * size, cta // size * size + size)

    def distances(self, rows: Numbers, others: Numbers) -> Array:
        """The distance between warps: 0 in the same CTA, 1 in the same cluster, 2 otherwise."""
        first, second = self.cta_of_row[rows], self.cta_of_row[others]
        size = self.launch.cluster_size
        far: Array = (first != second).astype(np.int8) + (first // size != second // size)
        return far

    def parts(self, split: bool) -> list[Bools]:
        """The threads that start together: all of them, or with `split` those of each warp."""
        if not split:
            return [self.live]
        rows = np.arange(self.warps)
        return [self.live & (rows == row)[:, None] for row in rows]

    def rows_of(self, cta: int) -> slice:
        """The rows of CTA number `cta`."""
        return slice(cta * self.launch.warps, (cta + 1) * self.launch.warps)

    def cta(self, row: int) -> Dim3:
        """The CTA of a row, by its coordinates in the grid."""
        return unflatten(int(self.cta_numbers[self.cta_of_row[row]]), self.launch.grid)

    def thread(self, row: int, lane: int) -> Thread:
        """The thread in a lane of a row."""
        x, y, z, _ = (int(v) for v in self.tid[row, lane])
        return Thread(self.cta(row), (x, y, z), self.device.rank)

    def first(self, threads: Bools) -> Thread:
        """The first of some threads, `[all warps, 32]`."""
        return self.thread(*divmod(int(threads.argmax()), 32))


def _coordinates(flat: Numbers, dims: Dim3) -> Numbers:
    """x, y, z and 0 along a new last axis."""
    x, y, _ = dims
    return np.stack([flat % x, flat // x % y, flat // (x * y), np.zeros_like(flat)], axis=-1)
