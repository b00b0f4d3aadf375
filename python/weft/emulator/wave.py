"""The CTAs that run side by side: their registers, memory, and who is who among their threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.emulator import special
from weft.emulator.errors import Thread
from weft.emulator.memory import Device, Memory
from weft.emulator.slots import Slots
from weft.emulator.types import STORAGE, Array, Bools

if TYPE_CHECKING:
    from weft.emulator.instructions.async_copy import CopyQueue

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """The shape of a launch. `shared_bytes` is a CTA's in all, `dynamic_shared` what the launch added."""

    grid: Dim3
    block: Dim3
    shared_bytes: int
    dynamic_shared: int
    arithmetic: str

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


def unflatten(flat: int, dims: Dim3) -> Dim3:
    """The coordinates of number `flat`, x fastest."""
    return flat % dims[0], flat // dims[0] % dims[1], flat // (dims[0] * dims[1])


class Wave:
    """CTAs `cta_numbers` of a launch.

    Row r of a register is warp `warp_of_row[r]` of the CTA that is number `cta_of_row[r]` in the wave.
    `live` are the threads that have not exited; `ticks` counts what the wave has executed, as its clock, and
    `polls` the times that it may have been looking for what others do.
    """

    def __init__(self, launch: Launch, slots: Slots, device: Device, cta_numbers: Sequence[int]) -> None:
        self.launch: Launch = launch
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
        self.ticks = self.polls = 0
        self.memory = Memory(device, len(cta_numbers), self.cta_of_row, launch.shared_bytes)
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
        return regs

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
