"""The CTAs that run at the same time, with their registers and their memory."""

import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from weft.emulator.memory.device import Device
from weft.emulator.memory.mbarrier import Key, Mbarriers
from weft.emulator.memory.segments import RANK_SHIFT, CopyQueue
from weft.emulator.memory.spaces import Memory
from weft.emulator.memory.tensor_memory import TensorMemory
from weft.emulator.reading.syntax import STORAGE, Array
from weft.emulator.running import special
from weft.emulator.running.ctas import Ctas, Grid, Launch, Slots
from weft.emulator.running.function_code import RegisterBlock
from weft.emulator.watch import Watch

_SPURIOUS = 0.1


class Wave(Ctas):
    """CTAs that run together.

    `ticks` counts the instructions that the wave has executed and is its clock; `polls` counts the times that
    it may have looked for what other waves do, `changes` those that it may have changed something that they
    see. `watch` observes the wave; None: nobody does.
    """

    def __init__(
        self, launch: Launch, slots: Slots, device: Device, cta_numbers: Sequence[int], grid: Grid
    ) -> None:
        super().__init__(launch, device, cta_numbers)
        self.grid = grid
        self.watch: Watch | None = None
        self.program: object = None
        """The program's form with which the interpreter goes on from the next block; None: as it does."""
        self.failed_waits: set[int] | None = None
        """The lines of waits that failed as if too early, though the phase is complete. None: none fails."""
        self.knows: Callable[[Key, int], bool] | None = None
        """Whether a warp knows that the last phase of an mbarrier is complete, so that no wait fails."""
        self.random: random.Random | None = None
        self.delayed: list[tuple[object, Callable[[], None]]] = []
        self.ticks = self.polls = self.changes = 0
        self.memory: Memory = Memory(
            *(self, device, len(cta_numbers), self.cta_of_row),
            *(launch.shared_bytes, launch.cluster_size, launch.lacks_dynamic),
        )
        self.mbarriers = Mbarriers(self.memory)
        self.tensor_memory = TensorMemory(len(cta_numbers))
        self.copies = CopyQueue(self.warps)
        self.regs = self._registers(slots)
        self.blocks: dict[tuple[int, ...], RegisterBlock] = {}
        """Registers that one instruction has written, by their slots."""
        self.jobs: dict[Hashable, Any] = {}
        """Code of the host by its class, where there is some, and what instructions have prepared for it."""

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

    def close(self) -> None:
        """After the end: drops what refers to this wave, whose memory is free as soon as nobody uses it."""
        self.watch = self.knows = None
        self.jobs.clear()
        del self.memory.host

    def later(self, function: Callable[[], None], queue: object = None) -> None:
        """Runs what a unit does in the end, now or with a seed at random; those of a queue in their order."""
        if self.random is None:
            function()
        else:
            self.delayed.append((object() if queue is None else queue, function))

    def deliver(self) -> None:
        """Runs one of the delayed functions."""
        assert self.random is not None
        queue = self.random.choice(self.delayed)[0]
        first = next(at for at, each in enumerate(self.delayed) if each[0] == queue)
        self.delayed.pop(first)[1]()

    def fails(self, line: int, phases: Iterable[tuple[Key, int]]) -> bool:
        """Whether a wait fails although the phases, one for each warp, are complete."""
        failed, knows = self.failed_waits, self.knows
        if failed is None or knows is None or (self.random is None and line in failed):
            return False
        if any(knows(*each) for each in phases):
            return False
        if line not in failed:
            failed.add(line)
            return True
        return self.random is not None and self.random.random() < _SPURIOUS
