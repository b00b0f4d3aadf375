"""A machine that calls hooks, in blocks that the interpreter runs.

Accesses to memory, as hooks learn of them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft.emulator.decoding.blocks import Block
from weft.emulator.decoding.program import Program
from weft.emulator.errors import Deadlock, Fault
from weft.emulator.memory.segments import Access
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.watch import CHUNK, Cells, Chunks, UnitAccess, Watch
from weft.emulator.watching.hooks import Hook, Hooks
from weft.emulator.watching.observers import ObservedMachine, Several
from weft.emulator.watching.stopped import Launched, MemoryEvent, Stopped
from weft.emulator.watching.variables import Position
from weft.isa.mbarriers import BYTES

_MBARRIERS = {"init": "store", "inval": "store", "arrive": "atomic", "expect_tx": "atomic", "observe": "load"}


class AccessWatch(Watch):
    """Calls hooks for the accesses of one wave. `stopped` returns its state for some threads."""

    def __init__(self, wave: Wave, hooks: Sequence[Hook], stopped: Callable[[Bools], Stopped]) -> None:
        self._wave, self._hooks, self._stopped = wave, hooks, stopped

    def access(self, access: Access) -> None:
        threads, enabled = access.lanes.threads(), access.lanes.enabled()
        event = partial(MemoryEvent, access.kind, "", access.space, width=access.width, line=access.line)
        if access.space != "shared":
            addresses = access.address[enabled].astype(np.int64)
            self._tell(event(cta=None, addresses=addresses, threads=threads))
            return
        stride = max(1, self._wave.memory.shared_stride)
        offsets = access.offsets[enabled].astype(np.int64)
        places = np.argwhere(threads)
        for cta in np.unique(offsets // stride).tolist():
            chosen = offsets // stride == cta
            mine = np.zeros_like(threads)
            mine[tuple(places[chosen].T)] = True
            self._tell(event(cta=cta, addresses=offsets[chosen] % stride, threads=mine))

    def async_access(self, access: UnitAccess) -> None:
        offsets, width = access.offsets, 1
        if isinstance(offsets, Chunks):
            offsets, width = offsets.first, CHUNK
        elif isinstance(offsets, Cells):
            offsets = offsets.each()
        cta, addresses = (
            None if access.space == "global" else access.cta,
            offsets.astype(np.int64).reshape(-1),
        )
        unit = access.kind, access.proxy, access.space
        self._tell(MemoryEvent(*unit, cta, addresses, width, access.threads, access.line))

    def mbarrier(self, event: str, cta: int, offset: int, threads: Bools | None, line: int) -> None:
        kind = _MBARRIERS.get(event.removesuffix("_relaxed"))
        if kind is not None:
            some = np.zeros((self._wave.warps, 32), np.bool_) if threads is None else threads
            self._tell(MemoryEvent(kind, "", "shared", cta, np.array([offset]), BYTES, some, line))

    def _tell(self, event: MemoryEvent) -> None:
        for hook in self._hooks:
            if event.space in hook.spaces:
                hook.call(self._stopped(event.threads), event)


_NOWHERE = -1


class HookedMachine(ObservedMachine):
    """As `ObservedMachine`; `hooks` are called as `Hooks` describes."""

    def __init__(
        self,
        hooks: Hooks,
        observer: Watch | None,
        observed: Bools,
        wave: Wave,
        program: Program,
        *args: Any,
        **named: Any,
    ) -> None:
        self._hooks, self._traced = hooks, observed
        self._plan = hooks.plan(program)
        self._again = np.full((wave.warps, 32), _NOWHERE)
        """The block at which each thread waits: when it runs again there, it isn't there anew."""
        self.group: Group | None = None
        """The group that runs, at `position`."""
        self.position: Position = (0, 0)
        super().__init__(observer, observed | self._plan.blocks, wave, program, *args, **named)

    @property
    def launched(self) -> Launched:
        """The launch that runs."""
        assert self._hooks.launched is not None
        return self._hooks.launched

    def stopped(self, threads: Bools | None = None) -> Stopped:
        """The state, of some threads of the running group."""
        if threads is None:
            none = np.zeros((self.wave.warps, 32), np.bool_)
            threads = none if self.running is None else self.running.threads()
        return Stopped(self, self.launched, self.group, self.position, threads)

    def stopped_at(self, line: int) -> Stopped:
        """The state, of the running group at a line of the PTX."""
        group, found = self.group, self.launched.map.positions.get(line, [])
        here = [position for position in found if group is None or position[0] == group.block]
        if found and (here or self.position not in found):
            self.position = (here or found)[0]
        return self.stopped()

    def run(self) -> bool:
        self._hooks.current = self
        try:
            return super().run()
        except (Fault, Deadlock) as error:
            self._hooks.failed(self.stopped_at(error.line), error)
            raise

    def _refreshed(self) -> None:
        plan = self._hooks.plan(self.program)
        if plan is not self._plan:
            self._plan, self._blocks = plan, plan.blocks | self._traced
            self._mark()

    # Blocks

    def _execute(self, group: Group, stop: int) -> bool:
        self.group, self.position, self.running = group, (group.block, 0), group.lanes
        for hook in self._hooks.of_kind("block"):
            hook.call(self.stopped())
        self._refreshed()
        return super()._execute(group, stop)

    def _steps(self, group: Group) -> None:
        block = self.program.blocks[group.block]
        last = len(block.steps)
        for at, step in enumerate(block.steps):
            number = block.instruction(at)
            if not at or number != block.instruction(at - 1):
                self._before(group, number)
            with self._seen():
                step(group.lanes)
            ends = number == _last(block) and block.waits  # the rest of the instruction ends the block
            if not ends and (at + 1 == last or block.instruction(at + 1) != number):
                self._after(group.block, number, group.lanes)

    def _ended(self, group: Group) -> bool:
        at, lanes = group.block, group.lanes
        block = self.program.blocks[at]
        hooked = bool(self._plan.blocks[at]) and bool(block.waits)
        number = _last(block)
        if hooked and not (block.steps and block.instruction(len(block.steps) - 1) == number):
            self._before(group, number)
        threads = lanes.threads()
        arrived = super()._ended(group)
        if not hooked:
            return arrived
        if arrived:
            self._again[threads] = _NOWHERE
            self._after(at, number, lanes)
        else:
            for other in self.ready.values():
                if other.block == at:
                    self._again[other.lanes.threads() & threads] = at
        return arrived

    def put(self, group: Group) -> None:
        threads = group.lanes.threads()
        self._again[threads & (self._again != group.block)] = _NOWHERE
        super().put(group)

    # Instructions

    def _before(self, group: Group, number: int) -> None:
        """Calls the hooks before an instruction, for the threads that haven't been there before."""
        at = group.block
        self.group, self.position = group, (at, number)
        hooks = self._of(self.position, after=False)
        if not hooks:
            return
        threads = group.lanes.threads() & (self._again != at)
        if threads.any():
            self._call(hooks, group.lanes, threads)

    def _after(self, at: int, number: int, lanes: Lanes) -> None:
        hooks = self._of((at, number), after=True)
        if hooks:
            self.position = at, number
            self._call(hooks, lanes, lanes.threads())

    def _of(self, position: Position, *, after: bool) -> list[Hook]:
        self._refreshed()
        here = [*self._plan.at.get(position, ()), *self._plan.everywhere]
        return [hook for hook in here if (hook.kind == "after") == after]

    def _call(self, hooks: list[Hook], lanes: Lanes, threads: Bools) -> None:
        guard = self.program.blocks[self.position[0]].traffic[self.position[1]].guard
        executing = threads
        if guard is not None and any(hook.opcode for hook in hooks):
            values = lanes.regs[guard[0]].astype(np.bool_)
            executing = threads & (values ^ guard[1])
        for hook in hooks:
            mine = executing if hook.opcode else threads
            if mine.any():
                hook.call(self.stopped(mine))
        self._refreshed()

    def _extra(self) -> Watch | None:
        if not self._plan.accesses:
            return self._observer
        mine = AccessWatch(self.wave, self._plan.accesses, self.stopped)
        return mine if self._observer is None else Several([self._observer, mine])


def _last(block: Block) -> int:
    return len(block.traffic) - 1
