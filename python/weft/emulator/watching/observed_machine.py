"""A machine of which an observer sees some blocks only: these run in the interpreter, and compiled code stops
there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.emulator.machine import Machine
from weft.emulator.reading.types import Bools
from weft.emulator.running.code import Compiler, Turn
from weft.emulator.running.groups import Group
from weft.emulator.watch import Watch
from weft.emulator.watching.observers import Several

_NEVER = 1 << 62


class ObservedMachine(Machine):
    """As `Machine`. `observer` sees what happens in the blocks of `observed`, and each block that has
    run.
    """

    def __init__(self, observer: Watch | None, observed: Bools, *args: Any, **named: Any) -> None:
        self._observer = observer
        self._blocks: Bools = observed
        """The blocks that the interpreter runs."""
        self._marked: Bools = np.zeros_like(observed)
        super().__init__(*args, **named)

    def run(self) -> bool:
        over = super().run()
        if over and self._observer is not None:
            self._observer.done()
        return over

    def _turn(self, stop: int) -> Turn:
        turn = super()._turn(stop)
        if turn[1] or not self._blocks.any():
            return turn
        return stop, True, _NEVER, *turn[3:]  # stops at marked blocks only

    def _compile(self, compiler: Compiler) -> None:
        super()._compile(compiler)
        self._marked = np.zeros_like(self._marked)
        self._mark()
        if self._observer is not None and self._code is not None:
            self._code.tell(self._observer.executed)

    def _mark(self) -> None:
        """Makes compiled code stop at the blocks that are observed now."""
        if self._code is not None:
            self._code.marks[self._blocks & ~self._marked] += 1
            self._code.marks[self._marked & ~self._blocks] -= 1
            self._marked = self._blocks

    def _execute(self, group: Group, stop: int) -> bool:
        if not self._blocks[group.block]:
            return super()._execute(group, stop)
        self.running = group.lanes
        self._steps(group)
        if self._compiler is not None:
            steps = len(self.program.blocks[group.block].steps)
            if self._compiler.interpreted(group.block, steps + 1):
                self._compile(self._compiler)
        return False

    def _steps(self, group: Group) -> None:
        """Runs the steps of an observed block."""
        with self._seen():
            for step in self.program.blocks[group.block].steps:
                step(group.lanes)

    def _ended(self, group: Group) -> bool:
        if self._blocks[group.block]:
            with self._seen():
                return super()._ended(group)
        if self._observer is not None:
            length = len(self.program.blocks[group.block].opcodes)
            self._observer.executed(group.block, group.lanes.row_numbers(), self.wave.ticks + length + 1)
        return super()._ended(group)

    def _extra(self) -> Watch | None:
        """Who sees what happens in the current block, beside the sanitizer."""
        return self._observer

    @contextmanager
    def _seen(self) -> Iterator[None]:
        """In the block, the interpreter makes all accesses, and the observer sees them."""
        extra = self._extra()
        if extra is None:
            yield
            return
        wave = self.wave
        watch, products, copies = wave.watch, wave.products, wave.box_copies
        calls = wave.mbarriers.calls, wave.tensor_memory.calls
        wave.watch = extra if watch is None else Several([watch, extra])
        wave.products = wave.box_copies = wave.mbarriers.calls = wave.tensor_memory.calls = None
        try:
            yield
        finally:
            wave.watch, wave.products, wave.box_copies = watch, products, copies
            wave.mbarriers.calls, wave.tensor_memory.calls = calls
