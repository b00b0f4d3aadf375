"""Runs compiled code for the groups of one machine.

The registers that code uses are in one array, the register file, in which it changes them in place. The
interpreter's registers are views of the file, or arrays of their own that are copied into it when code needs
them.
"""

import ctypes
from collections.abc import Callable
from operator import is_, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.pieces import OCTETS, SCRATCH
from weft.emulator.compiled.plan import Plan
from weft.emulator.compiled.shadows import Shadows
from weft.emulator.compiled.state import MOST_LOGGED, Field
from weft.emulator.reading.syntax import STORAGE, Array
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave

_BYTES = {
    "global": Field.GLOBAL_BYTES,
    "shared": Field.SHARED_BYTES,
    "param": Field.PARAM_BYTES,
    "const": Field.CONST_BYTES,
    "local": Field.LOCAL_BYTES,
}
_ALL = np.uint32(0xFFFFFFFF)
_EVERY = slice(None)
Turn = tuple[int, bool, int, int, int]
"""When code stops for other groups: the clock at which it does, whether other groups are ready, the clock
until which they wait, the clock at which one of them takes its turn, and the lowest rank of their blocks.
"""
_Entry = tuple[Callable[[list[Array]], Any], tuple[int, ...], tuple[Array, ...]]
"""How to get the registers that code needs, their slots, and where they are in the file."""


class Runtime:
    """Compiled code of one wave. After `enter`, `place` is the step at which the interpreter goes on."""

    def __init__(self, plan: Plan, wave: Wave, limit: int) -> None:
        self.plan, self.wave, self.place = plan, wave, 0
        self.marks = np.zeros(len(plan.blocks), np.uint8)
        """The number of groups that are ready at each block."""
        self._state: npt.NDArray[np.int64] = np.zeros(len(Field), np.int64)
        self._file = np.zeros(max(1, wave.warps * plan.layout.size), np.uint8)
        self._scratch = np.zeros(wave.warps * SCRATCH, np.uint8)
        self._saved = np.zeros(max(1, plan.layout.size), np.uint8)
        self._runs = np.zeros(len(plan.blocks), np.int64)
        self._homes = {slot: self._home(slot) for slot in plan.layout.offsets}
        self._entries: dict[int, _Entry] = {}
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(plan.run)
        self._pointer = self._state.ctypes.data
        self._kept: list[object] = []
        self._lanes: Lanes | None = None
        self._warps: npt.NDArray[np.int32] = np.arange(wave.warps, dtype=np.int32)
        self._places = self._warps * np.int64(plan.layout.size) + self._file.ctypes.data
        """The address of the registers of each warp."""
        self._rows, self._masks = np.zeros_like(self._warps), np.zeros(wave.warps, np.uint32)
        self._registers = np.zeros_like(self._places)
        self._shadows = Shadows(wave, self._state)
        self._told: Callable[[int, npt.NDArray[np.intp], int], None] | None = None
        self._log = np.zeros((0, 2), np.int64)
        self._fill(limit)

    def tell(self, told: "Callable[[int, npt.NDArray[np.intp], int], None]") -> None:
        """Calls `told` with each block that code has run, the warps, and the clock after it."""
        self._told, self._log = told, np.zeros((MOST_LOGGED, 2), np.int64)
        self._state[Field.LOG] = self._address(self._log)

    def _home(self, slot: int) -> Array:
        layout, warps = self.plan.layout, self.wave.warps
        storage, begin = STORAGE[layout.bits[slot]], layout.offsets[slot]
        octets = self._file[: warps * layout.size].reshape(warps, layout.size)
        return octets[:, begin : begin + 32 * storage.itemsize].view(storage)

    def _address(self, array: Array) -> int:
        self._kept.append(array)
        return int(array.ctypes.data)

    def _fill(self, limit: int) -> None:
        state, plan, memory = self._state, self.plan, self.wave.memory
        arrays: dict[Field, Array] = {
            Field.SCRATCH: self._scratch,
            Field.SAVED: self._saved,
            Field.OCTETS: OCTETS,
            Field.OPS: plan.table,
            Field.BLOCKS: plan.blocks,
            Field.RUNS: self._runs,
            Field.MARKS: self.marks,
            Field.ROWS: self._rows,
            Field.MASKS: self._masks,
            Field.REGISTERS: self._registers,
            Field.SHARED: memory.shared.data,
            Field.SHARED_BASE: np.ascontiguousarray(memory.shared_base),
            Field.PARAMS: memory.device.params.data,
            Field.CONST: memory.device.const.data,
            Field.LOCAL: memory.local.data,
        }
        for which, array in arrays.items():
            state[which] = self._address(array)
        state[Field.LIMIT] = limit
        state[Field.SHARED_SIZE], state[Field.STRIDE] = memory.shared_size, memory.shared_stride
        state[Field.CLUSTER], state[Field.LOCAL_SIZE] = memory.cluster, memory.local_size
        state[Field.PARAMS_SIZE] = memory.device.params.size
        state[Field.CONST_SIZE] = memory.device.const.size

    def enter(self, group: Group, step: int, instructions: int, turn: Turn) -> int:
        """Runs code from a step of the group's block, if there is any, until the interpreter must go on, and
        returns the number of instructions so far; then the group's block and `place` say where. If `place` is
        negative, the group has just reached its block.
        """
        entry = self.plan.entries.get((group.block, step))
        self.place = step
        if entry is None:
            return instructions
        state, wave = self._state, self.wave
        self._prepare(entry)
        if self._lanes is not group.lanes:
            self._use(group.lanes)
        self._shadows.refresh()
        state[: Field.ARRIVED] = (entry, group.block, wave.ticks, instructions, wave.changes, *turn)
        self._run(self._pointer)
        op, group.block, wave.ticks, executed, wave.changes = state[: Field.STOP].tolist()
        self._shadows.changed()
        if self._told is not None:
            rows = group.lanes.row_numbers()
            for at, clock in self._log[: int(state[Field.LOGGED])].tolist():
                self._told(at, rows, clock)
            state[Field.LOGGED] = 0
        self.place = -1 if state[Field.ARRIVED] else self.plan.steps[op]
        return int(executed)

    def _prepare(self, entry: int) -> None:
        """Copies registers into the file that the interpreter has put elsewhere."""
        known = self._entries.get(entry)
        if known is None:
            slots = self.plan.needs[entry]
            get = itemgetter(*slots) if len(slots) > 1 else lambda regs: tuple(regs[s] for s in slots)
            known = self._entries[entry] = get, slots, tuple(self._homes[slot] for slot in slots)
        get, slots, homes = known
        regs = self.wave.regs
        if all(map(is_, get(regs), homes)):
            return
        for slot, home in zip(slots, homes, strict=True):
            if regs[slot] is not home:
                home[...] = regs[slot]
                regs[slot] = home

    def _use(self, lanes: Lanes) -> None:
        count, mask, masks = lanes.warps, lanes.mask, self._masks[: lanes.warps]
        rows = _EVERY if lanes.rows is None else lanes.rows
        self._lanes = lanes
        self._rows[:count], self._registers[:count] = self._warps[rows], self._places[rows]
        masks[:] = _ALL if mask is None else np.packbits(mask, 1, bitorder="little").view(np.uint32)[:, 0]
        whole = mask is None or bool((masks == _ALL).all())
        self._state[Field.COUNT : Field.SAVED] = count, whole

    def take_counts(self, runs: list[int]) -> None:
        """Adds to `runs` how often code has run each block, and to the wave's bytes those that it moved."""
        state, wave = self._state, self.wave
        for block in np.flatnonzero(self._runs).tolist():
            runs[block] += int(self._runs[block])
        self._runs[:] = 0
        for space, which in _BYTES.items():
            wave.memory.bytes[space] += int(state[which])
            state[which] = 0
