"""The CTAs that run side by side: their registers, memory, and who is who among their threads."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding import special
from weft.emulator.decoding.slots import Slots
from weft.emulator.errors import Thread
from weft.emulator.memory.mbarrier import Mbarriers
from weft.emulator.memory.spaces import RANK_SHIFT, Device, Memory
from weft.emulator.memory.tensor_memory import TensorMemory
from weft.emulator.reading.types import STORAGE, Array, Bools

if TYPE_CHECKING:
    from weft.emulator.instructions.cp_async import CopyQueue
    from weft.emulator.sanitizer.registers import RegisterState
    from weft.emulator.watching.watch import Watch

_SPURIOUS = 0.1
Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """The shape of a launch. `shared_bytes` is a CTA's in all, `dynamic_shared` what the launch added.

    `cluster` is in CTAs; `explicit_cluster` says that someone asked for clusters; `dependent` that the launch
    before may go on until griddepcontrol.wait.
    """

    grid: Dim3
    block: Dim3
    shared_bytes: int
    dynamic_shared: int
    arithmetic: str
    cluster: Dim3 = (1, 1, 1)
    explicit_cluster: bool = False
    dependent: bool = False

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def warps(self) -> int:
        return -(-self.threads // 32)

    @property
    def total_ctas(self) -> int:
        x, y, z = self.grid
        return x * y * z

    @property
    def cluster_size(self) -> int:
        x, y, z = self.cluster
        return x * y * z

    @property
    def clusters(self) -> Dim3:
        """How many clusters the grid has along each axis."""
        x, y, z = (g // c for g, c in zip(self.grid, self.cluster, strict=True))
        return x, y, z

    def cta_at(self, position: int) -> int:
        """The number in the grid of the CTA at a place of the order in which they begin: by clusters."""
        if self.cluster_size == 1:
            return position
        number, rank = divmod(position, self.cluster_size)
        cluster, inside = unflatten(number, self.clusters), unflatten(rank, self.cluster)
        x, y, z = (c * n + i for c, n, i in zip(cluster, self.cluster, inside, strict=True))
        return x + self.grid[0] * (y + self.grid[1] * z)


class Grid:
    """A launch's CTAs that have not begun, in the order of `Launch.cta_at`; whole clusters are taken."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.begun = self.cancelled = 0

    def take(self, most: int) -> list[int]:
        """The numbers in the grid of the next CTAs, at most `most`; empty when all have begun."""
        last = min(self.begun + most, self.launch.total_ctas)
        taken = [self.launch.cta_at(at) for at in range(self.begun, last)]
        self.begun = last
        return taken

    def cancel(self) -> Dim3 | None:
        """Takes a cluster that will not run; returns the coordinates of its first CTA."""
        taken = self.take(self.launch.cluster_size)
        self.cancelled += len(taken)
        return unflatten(taken[0], self.launch.grid) if taken else None


def unflatten(flat: int, dims: Dim3) -> Dim3:
    """The coordinates of number `flat`, x fastest."""
    return flat % dims[0], flat // dims[0] % dims[1], flat // (dims[0] * dims[1])


class Wave:
    """CTAs `cta_numbers` of a launch: whole clusters, each in the order of its ranks.

    Row r of a register is warp `warp_of_row[r]` of the CTA that is number `cta_of_row[r]` in the wave.
    `live` are the threads that have not exited; `ticks` counts what the wave has executed, as its clock, and
    `polls` the times that it may have been looking for what others do, and `changes` those that it may have
    changed something that others see. `watch` hears what happens.
    """

    def __init__(
        self,
        launch: Launch,
        slots: Slots,
        device: Device,
        cta_numbers: Sequence[int],
        grid: Grid,
    ) -> None:
        self.launch: Launch = launch
        self.grid = grid
        self.watch: Watch | None = None
        self.registers: RegisterState | None = None
        """What the sanitizer knows of registers."""
        self.failed_waits: set[tuple[int, bool]] | None = None
        """The lines of waits for mbarriers that have failed for no reason, as they may, each for a fresh one
        and for one that has completed a phase; None: none shall.
        """
        self.random: random.Random | None = None
        self.delayed: list[tuple[object, Callable[[], None]]] = []
        self.cta_numbers: npt.NDArray[np.intp] = np.array(cta_numbers)
        self.warps = len(cta_numbers) * launch.warps
        self.cta_of_row: npt.NDArray[np.intp] = np.repeat(np.arange(len(cta_numbers)), launch.warps)
        self.warp_of_row: npt.NDArray[np.intp] = np.tile(np.arange(launch.warps), len(cta_numbers))
        thread = self.warp_of_row[:, None] * 32 + np.arange(32)
        self.live: Bools = thread < launch.threads
        self.tid: npt.NDArray[np.intp] = _coordinates(np.where(self.live, thread, 0), launch.block)
        self.ntid: npt.NDArray[np.intp] = np.array([*launch.block, 1])
        self.ctaid: npt.NDArray[np.intp] = _coordinates(
            self.cta_numbers[self.cta_of_row][:, None], launch.grid
        )
        self.nctaid: npt.NDArray[np.intp] = np.array([*launch.grid, 1])
        self.cluster_nctaid: npt.NDArray[np.intp] = np.array([*launch.cluster, 1])
        self.ticks = self.polls = self.changes = 0
        self.memory: Memory = Memory(
            device, len(cta_numbers), self.cta_of_row, launch.shared_bytes, launch.cluster_size
        )
        self.mbarriers = Mbarriers(self)
        self.tensor_memory = TensorMemory()
        self.copies: CopyQueue | None = None
        self.regs = self._registers(slots)

    def _registers(self, slots: Slots) -> list[Array]:
        shape = (self.warps, 32)
        zeros = {bits: np.zeros(shape, STORAGE[bits]) for bits in set(slots.bits)}
        regs: list[Array] = [zeros[bits] for bits in slots.bits]
        for (value, bits), slot in slots.constants.items():
            element = np.frombuffer(value.to_bytes(max(1, bits // 8), "little"), STORAGE[bits])
            regs[slot] = np.full(shape, element)
        for (name, bits), slot in slots.specials.items():
            regs[slot] = special.fixed(self, name, bits)
        rank = (self.cta_of_row % self.launch.cluster_size << RANK_SHIFT).astype(np.uint64)
        base = np.repeat(rank[:, None], 32, axis=1)
        for (offset, bits), slot in slots.symbols.items():
            regs[slot] = (base + np.uint64(offset)).astype(STORAGE[bits])
        return regs

    def later(self, function: Callable[[], None], queue: object = None) -> None:
        """What an asynchronous unit does when it has finished: now, with a seed at a random later turn. What
        is in the same queue keeps its order.
        """
        if self.random is None:
            function()
        else:
            self.delayed.append((object() if queue is None else queue, function))

    def deliver(self) -> None:
        """Lets one operation that was put off take effect."""
        assert self.random is not None
        queue = self.random.choice(self.delayed)[0]
        first = next(at for at, each in enumerate(self.delayed) if each[0] == queue)
        self.delayed.pop(first)[1]()

    def fails(self, line: int, turned: bool) -> bool:
        """Whether a wait for an mbarrier fails although its phase is complete."""
        if self.failed_waits is None:
            return False
        if (line, turned) not in self.failed_waits:
            self.failed_waits.add((line, turned))
            return True
        return self.random is not None and self.random.random() < _SPURIOUS

    def cluster_rank(self, cta: int) -> int:
        """The rank in its cluster of the wave's CTA number `cta`."""
        return cta % self.launch.cluster_size

    def cluster_ctas(self, cta: int) -> range:
        """The CTAs of the wave that are in the cluster of CTA number `cta`, by rank."""
        size = self.launch.cluster_size
        return range(cta // size * size, cta // size * size + size)

    def distances(self, rows: "npt.NDArray[np.intp]", others: "npt.NDArray[np.intp]") -> Array:
        """How far warps are from others: 0 in the same CTA, 1 in the same cluster, 2 elsewhere."""
        first, second = self.cta_of_row[rows], self.cta_of_row[others]
        size = self.launch.cluster_size
        far: Array = (first != second).astype(np.int8) + (first // size != second // size)
        return far

    def parts(self, split: bool) -> list[Bools]:
        """The threads that begin together: all of them, or those of each warp."""
        if not split:
            return [self.live]
        rows = np.arange(self.warps)
        return [self.live & (rows == row)[:, None] for row in rows]

    def rows_of(self, cta: int) -> slice:
        """The rows of the wave's CTA number `cta`."""
        return slice(cta * self.launch.warps, (cta + 1) * self.launch.warps)

    def cta(self, row: int) -> Dim3:
        """The CTA of a row, by its coordinates in the grid."""
        return unflatten(int(self.cta_numbers[self.cta_of_row[row]]), self.launch.grid)

    def thread(self, row: int, lane: int) -> Thread:
        """The thread in a lane of a row."""
        x, y, z, _ = (int(v) for v in self.tid[row, lane])
        return Thread(self.cta(row), (x, y, z))


def _coordinates(flat: npt.NDArray[np.intp], dims: Dim3) -> npt.NDArray[np.intp]:
    """x, y, z and 0 along a new last axis."""
    x, y, _ = dims
    return np.stack([flat % x, flat // x % y, flat // (x * y), np.zeros_like(flat)], axis=-1)
