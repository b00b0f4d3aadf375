"""A wave at a hook, as debuggers and notebooks show it (its threads, registers, memory and barriers), and
what hooks are told of a launch and of accesses to memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.display.html import Html
from weft.emulator.decoding.program import Program
from weft.emulator.errors import Source
from weft.emulator.machine import Machine
from weft.emulator.memory.device import Device
from weft.emulator.memory.mbarrier import State
from weft.emulator.reading.syntax import Array, Bools, Instruction, Register, Scope, Variable
from weft.emulator.running.ctas import Launch
from weft.emulator.running.deadlock import Stage, Wait, stages
from weft.emulator.running.groups import Frame, Group
from weft.emulator.running.lanes import lanes_in_words
from weft.emulator.watching.variables import Position, SourceMap
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean

_COLUMNS = (1 << 16) - 1


@dataclass(frozen=True)
class MemoryEvent:
    """Threads, or an asynchronous unit for them, access memory.

    `kind` is load, store, atomic or reduce. `unit` is empty for threads, otherwise bulk, wgmma, tcgen05, ….
    `addresses` are those of the first bytes, `width` the bytes of each: in shared memory of CTA `cta` of the
    wave (None: of each thread's own), in tensor memory lane << 16 | column of cells. `threads` are the
    threads, `[warps of the wave, 32]`.
    """

    kind: str
    unit: str
    space: str
    cta: int | None
    addresses: npt.NDArray[np.int64]
    width: int
    threads: Bools
    line: int

    def within(self, first: int, last: int) -> Bools:
        """The threads that access any of the bytes from `first` to `last`, or columns in tensor memory; all
        threads, if it isn't known which of them does.
        """
        begin = self.addresses & _COLUMNS if self.space == "tensor" else self.addresses
        chosen = (begin <= last) & (begin + self.width > first)
        if not chosen.any():
            return np.zeros_like(self.threads)
        places = np.argwhere(self.threads)
        if len(places) != len(chosen):
            return self.threads
        mine = np.zeros_like(self.threads)
        mine[tuple(places[chosen].T)] = True
        return mine


@dataclass(frozen=True)
class Launched:
    """A launch that is about to begin."""

    kernel: str
    text: str
    program: Program
    launch: Launch
    map: SourceMap
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """The arrays among the arguments, by their names or those of their parameters."""

    def address_of(self, device: Device, name: str) -> int:
        """The address of an array's first element. Raises WeftError if the launch uses a copy of it."""
        array = self.arrays[name]
        first = int(array.__array_interface__["data"][0])
        for segment in device.segments:
            begin = int(segment.data.__array_interface__["data"][0]) if segment.size else 0
            if segment.size and begin <= first < begin + segment.size:
                return segment.base + first - begin
        raise WeftError(f"the launch uses a copy of '{name}', whose memory isn't aligned to 16 bytes")


Cta = tuple[int, int, int]
_MOST_NAMES = 12


@dataclass(frozen=True)
class WarpState:
    """Lanes of a warp that are at the same instruction.

    `row` is the warp's number in the wave, `warp` that in its CTA. `lanes` has 32 values. `line` is that of
    the PTX instruction that they execute next, 0 if they have exited. `waits`: what they wait for.
    """

    row: int
    cta: Cta
    warp: int
    lanes: Bools
    line: int
    source: Source | None
    waits: str = ""


@dataclass(frozen=True)
class MbarrierState:
    """An mbarrier of a CTA's shared memory. `line` is that of its init; `stage` is the stage of a ring that
    it guards; `waiting` are the warps of the wave, by rows, that wait for it.
    """

    offset: int
    state: State
    line: int
    stage: Stage | None
    waiting: tuple[int, ...]


class Stopped:
    """What a hook sees. `threads`, `[warps of the wave, 32]`, are about to execute an instruction."""

    def __init__(
        self, machine: Machine, launched: Launched, group: Group | None, position: Position, threads: Bools
    ) -> None:
        self._machine, self._group = machine, group
        self.launched: Launched = launched
        self.position, self.threads = position, threads
        self.wave = machine.wave
        self.frame: Frame | None = None if group is None else group.frame
        """The call that threads are in."""

    @property
    def machine(self) -> Machine:
        """The machine that runs the wave."""
        return self._machine

    # Where

    @property
    def line(self) -> int:
        """The line of the PTX."""
        block, number = self.position
        traffic = self._machine.program.blocks[block].traffic
        return traffic[number].line if number < len(traffic) else self._machine.program.blocks[block].line

    @property
    def source(self) -> Source | None:
        """The line of the source; None for code that the compiler added, and without `.loc`."""
        return self.source_of(self.line)

    def source_of(self, line: int) -> Source | None:
        """The source of a line of the PTX."""
        return self.launched.map.sources.get(line)

    @property
    def opcode(self) -> str:
        """The opcode of the instruction, with its modifiers."""
        instruction = self.instruction
        return "" if instruction is None else instruction.opcode

    @property
    def instruction(self) -> Instruction | None:
        """The instruction in the syntax tree."""
        return self.instruction_at(self.position)

    def instruction_at(self, position: Position) -> Instruction | None:
        """The instruction at a position."""
        block, number = position
        code = self._machine.program.codes[self._machine.program.blocks[block].function]
        starts = {at: start for start, at in code.blocks.items()}
        body, at = code.function.body or [], starts[block] + number
        return body[at] if at < len(body) else None

    @property
    def function(self) -> str:
        """The function that threads are in."""
        return self._machine.program.blocks[self.position[0]].function

    # Threads

    def ctas(self) -> list[Cta]:
        """The CTAs of the wave, by their coordinates."""
        wave = self.wave
        return [wave.cta(wave.rows_of(cta).start) for cta in range(len(wave.cta_numbers))]

    def of(self, threads: Bools) -> "Stopped":
        """The same for other threads."""
        return Stopped(self._machine, self.launched, self._group, self.position, threads)

    def at_thread(self, row: int, lane: int) -> "Stopped":
        """The same where another thread is: what it executes next, or waits at."""
        machine, running = self._machine, self._group
        for group in machine.ready.values():
            if group.lanes.threads()[row, lane]:
                return Stopped(machine, self.launched, group, (group.block, 0), group.lanes.threads())
        for state, frame in self._barrier_states():
            if state.row == row and state.lanes[lane]:
                positions = self.launched.map.positions.get(state.line, [self.position])
                threads = np.zeros_like(self.threads)
                threads[row] = state.lanes
                there = Stopped(machine, self.launched, None, positions[0], threads)
                there.frame = frame
                return there
        if running is not None and running.block != self.position[0]:
            return Stopped(machine, self.launched, running, (running.block, 0), running.lanes.threads())
        return self

    def first(self) -> tuple[int, int]:
        """The first of the threads: its row, and its lane."""
        row, lane = divmod(int(self.threads.argmax()), 32)
        return row, lane

    def warps(self) -> list[WarpState]:
        """All warps of the wave; several entries for one whose lanes have diverged."""
        found = [*self._of_groups(), *(state for state, _ in self._barrier_states())]
        known = np.zeros_like(self.wave.live)
        for state in found:
            known[state.row] |= state.lanes
        threads = self.wave.warp_of_row[:, None] * 32 + np.arange(32)
        exited = (threads < self.wave.launch.threads) & ~known
        for row in np.flatnonzero(exited.any(axis=1)).tolist():
            found.append(self._state(row, exited[row], 0, "has exited"))
        return sorted(found, key=lambda state: (state.row, int(state.lanes.argmax())))

    def _state(self, row: int, lanes: Bools, line: int, waits: str = "") -> WarpState:
        wave = self.wave
        warp = int(wave.warp_of_row[row])
        return WarpState(row, wave.cta(row), warp, lanes, line, self.source_of(line), waits)

    def _of_groups(self) -> Iterator[WarpState]:
        machine = self._machine
        groups = [*machine.ready.values()]
        running = self._group
        if running is not None and running not in groups:
            threads = running.lanes.threads() & self.wave.live
            for other in groups:
                threads = threads & ~other.lanes.threads()
            here = self.line if running.block == self.position[0] else self._line_of(running.block)
            for row in np.flatnonzero(threads.any(axis=1)).tolist():
                if all(state.row != row for state, _ in self._barrier_states()):
                    yield self._state(row, threads[row], here)
        for group in groups:
            waits = self._waits_of(group)
            for row in group.lanes.row_numbers().tolist():
                lanes = group.lanes.threads()[row]
                yield self._state(row, lanes, self._line_of(group.block), waits)

    def _line_of(self, block: int) -> int:
        program = self._machine.program
        traffic = program.blocks[block].traffic
        return traffic[0].line if traffic else program.blocks[block].line

    def _waits_of(self, group: Group) -> str:
        if not group.stalled:
            return ""
        if group.awaits:
            names = dict.fromkeys(f"0x{offset:x}" for _, offset in group.awaits)
            return f"waits for the mbarrier{'s' if len(names) > 1 else ''} at {' and '.join(names)}"
        return f"waits for other threads ({self._machine.program.blocks[group.block].waits})"

    def _barrier_states(self) -> Iterator[tuple[WarpState, Frame]]:
        wave = self.wave
        for (cta, number), barrier in self._machine.barriers.pending.items():
            first = wave.rows_of(cta).start
            for part in barrier.waiting:
                for inside in np.flatnonzero(part.threads.any(axis=1)).tolist():
                    lanes = part.threads[inside]
                    line = int(barrier.lines[inside][lanes][0])
                    what = f"waits at barrier {number}"
                    yield self._state(first + inside, lanes, line, what), part.frame
        for part, line in self._machine.clusters.waiting:
            for row in np.flatnonzero(part.threads.any(axis=1)).tolist():
                yield self._state(row, part.threads[row], line, "waits for its cluster"), part.frame

    def barriers(self) -> list[Wait]:
        """What the warps wait for at barriers of their CTAs and clusters."""
        return [*self._machine.barriers.describe(), *self._machine.clusters.describe()]

    # Registers

    def registers(self) -> dict[str, Register]:
        """The registers of the function that have names here."""
        code = self._machine.program.codes[self.function]
        found = {register.name: register for register in code.function.scope.registers}
        instruction = self.instruction
        scope: Scope | None = None if instruction is None else instruction.scope
        inner: dict[str, Register] = {}
        while scope is not None:
            for name, entity in scope.names.items():
                if isinstance(entity, Register):
                    inner.setdefault(name, entity)
            scope = scope.parent
        return found | inner

    def slot(self, name: str) -> int:
        """The slot of a register in the register file of the wave. Raises WeftError for unknown names."""
        known = self.registers()
        register = known.get(name)
        if register is None:
            listed = ", ".join([*known][:_MOST_NAMES]) + (", …" if len(known) > _MOST_NAMES else "")
            hint = did_you_mean(str(name), known)
            raise WeftError(
                f"no register '{name}' is used in {self.function}: it has {listed or 'none'}{hint}"
            )
        return self._machine.program.codes[self.function].base + register.index

    def register(self, name: str) -> Array:
        """A register's bits in all threads, `[warps, 32]`. Raises WeftError for unknown names."""
        return self.wave.regs[self.slot(name)]

    # Memory

    def cta_number(self, cta: Sequence[int]) -> int:
        """The number in the wave of a CTA. Raises WeftError for one that doesn't run now."""
        x, y, z = (*map(int, cta), 0, 0)[:3]
        known = self.ctas()
        if (x, y, z) not in known:
            raise WeftError(
                f"CTA {(x, y, z)} doesn't run now: those from {known[0]} to {known[-1]} do, in the order in "
                "which they begin"
            )
        return known.index((x, y, z))

    def shared(self, cta: int) -> npt.NDArray[np.uint8]:
        """The shared memory of CTA number `cta` of the wave, as bytes. Don't change it."""
        return self.wave.memory.shared_of(cta)

    def tensor_memory(self, cta: int) -> npt.NDArray[np.uint32]:
        """The tensor memory of CTA number `cta` of the wave, `[128, 512]`."""
        return self.wave.tensor_memory.cells(cta)

    def tensor_allocations(self, cta: int) -> dict[int, int]:
        """A CTA's allocated columns of tensor memory: the first of each allocation, and their number."""
        return self.wave.tensor_memory.allocated(cta)

    def global_bytes(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """Bytes of global memory. Raises WeftError where nothing is mapped."""
        segment = self.wave.device.find(address)
        inside = 0 if segment is None else address - segment.base
        if segment is None or inside + size > segment.size:
            raise WeftError(f"no buffer has the {size} bytes at 0x{address:x} of global memory")
        return segment.data[inside : inside + size]

    def variables(self) -> dict[str, Variable]:
        """The variables of the module and the kernel that are in shared memory."""
        found: dict[str, Variable] = {}
        for code in self._machine.program.codes.values():
            scope: Scope | None = code.function.scope
            while scope is not None:
                for name, entity in scope.names.items():
                    if isinstance(entity, Variable) and entity.space == "shared":
                        found.setdefault(name, entity)
                scope = scope.parent
        return found

    def mbarriers(self, cta: int) -> list[MbarrierState]:
        """The mbarriers of CTA number `cta` of the wave, by their offsets."""
        mbarriers = self.wave.mbarriers
        inits = [(offset, line) for (owner, offset), line in mbarriers.alive.items() if owner == cta]
        rings, waiting = stages(inits), self._waiting()
        found = []
        for offset, line in sorted(inits):
            word = int(self.shared(cta)[offset : offset + 8].view(np.uint64)[0])
            who = tuple(sorted(waiting.get((cta, offset), ())))
            found.append(MbarrierState(offset, State.of(word), line, rings.get(offset), who))
        return found

    def _waiting(self) -> dict[tuple[int, int], set[int]]:
        """The rows that wait for each mbarrier."""
        wave, found = self.wave, dict[tuple[int, int], set[int]]()
        for group in self._machine.ready.values():
            if not group.stalled:
                continue
            rows = group.lanes.row_numbers().tolist()
            for cta, offset in group.awaits:
                # Warps wait for an mbarrier of their own CTA, or of their cluster.
                mine = [row for row in rows if cta in wave.cluster_ctas(int(wave.cta_of_row[row]))]
                found.setdefault((cta, offset), set()).update(mine)
        return found

    def _repr_html_(self) -> str:
        cta, source = int(self.wave.cta_of_row[self.first()[0]]), self.source
        page = Html(f"{self.function} has stopped", str(source) if source else f"PTX line {self.line}")
        rows: list[tuple[object, ...]] = []
        for state in self.warps():
            line = state.source or state.line or ""
            rows.append((state.cta, state.warp, lanes_in_words(state.lanes), line, state.waits))
        page.table(["CTA", "warp", "lanes", "line", "waits"], rows)
        mbarriers: list[tuple[object, ...]] = []
        for each in self.mbarriers(cta):
            arrived = f"{each.state.expected - each.state.pending} of {each.state.expected}"
            waiting = len(each.waiting)
            mbarriers.append((f"0x{each.offset:x}", each.state.parity, arrived, each.state.tx, waiting))
        if mbarriers:
            columns = ["mbarrier", "phase", "arrived", "bytes pending", "warps that wait"]
            page.table(columns, mbarriers)
        return page.text()
