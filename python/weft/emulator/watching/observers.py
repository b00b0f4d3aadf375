"""The observers of a launch: the sanitizer, the trace, or both.

A machine of which an observer sees some blocks only: these run in the interpreter, and compiled code
stops there.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.emulator.compiled.runtime import Turn
from weft.emulator.compiled.tiers import Tier
from weft.emulator.decoding.program import Program
from weft.emulator.errors import Deadlock, Fault, TimeLimit
from weft.emulator.machine import Machine
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.ctas import Launch
from weft.emulator.running.groups import Group
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer import Finding, Findings, GlobalMemory, Kernel, Sanitizer, instrumented
from weft.emulator.watch import Watch
from weft.emulator.watching.trace import Recorder
from weft.errors import WeftError, warn


class Observers:
    """Makes the observer of each wave and gathers the findings; `trace` is the file to write, if any."""

    def __init__(
        self,
        text: str,
        program: Program,
        launch: Launch,
        sanitize: bool,
        trace: "str | os.PathLike[str] | None",
        ignored: frozenset[str] = frozenset(),
        *,
        strict: bool = False,
    ) -> None:
        self._found = Findings(text, ignored)
        self._sanitize = sanitize
        self.program = instrumented(program) if sanitize else program
        """The program to run, which announces the registers that are watched."""
        self._kernel, self.memory = Kernel.of(program, strict=strict), GlobalMemory()
        self._failed = False
        self._recorder = None if trace is None else Recorder(trace, program, launch)

    def tell(self, told: "Callable[[Finding], None]") -> None:
        """Calls `told` with each finding when it is found."""
        self._found.told = told

    @property
    def traces(self) -> bool:
        """Whether a timeline is written."""
        return self._recorder is not None

    def sanitizer(self, wave: Wave) -> Watch | None:
        """The sanitizer of a wave that begins; None if there is none."""
        return Sanitizer(wave, self._found, self._kernel, self.memory) if self._sanitize else None

    def trace(self, wave: Wave) -> tuple[Watch, Bools] | None:
        """What records a wave, and the blocks in which it must see everything; None without a trace."""
        recorder = self._recorder
        return None if recorder is None else (recorder.watch(wave), recorder.told)

    def watch(self, wave: Wave) -> Watch | None:
        """All observers of a wave that begins, in one; None if there is none."""
        traced = self.trace(wave)
        watches = [each for each in (self.sanitizer(wave), traced and traced[0]) if each is not None]
        return Several(watches) if len(watches) > 1 else watches[0] if watches else None

    def ended(self, error: Fault | Deadlock) -> tuple[Finding, ...]:
        """The findings of a launch that failed, and the error itself, which gets source lines."""
        self._failed = True
        self._found.told = None
        error.say_sources(self._found.sources)
        if not self._sanitize:
            return ()
        if isinstance(error, TimeLimit):
            return self.findings()
        if isinstance(error, Fault):
            self._found.add(error.rule, error.reason, error.line, error.thread, error.address)
        else:
            self._found.add("deadlock", str(error), error.line)
        return self.findings()

    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return self._found.all()

    def counters(self) -> dict[str, int]:
        """The trace's counters."""
        return self._recorder.counters() if self._recorder is not None else {}

    def close(self) -> None:
        """Writes the trace. Raises WeftError if it can't, or warns if the launch has failed itself."""
        if self._recorder is None:
            return
        try:
            self._recorder.write()
        except WeftError as error:
            if not self._failed:
                raise
            warn(error.diagnostics[0].message)


class Several(Watch):
    """Passes every event on to several observers."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self.watches = tuple(watches)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "watches":
            return super().__getattribute__(name)
        methods = [getattr(watch, name) for watch in self.watches]

        def notify(*args: Any, **named: Any) -> None:
            for method in methods:
                method(*args, **named)

        return notify


_NEVER = 1 << 62


class ObservedMachine(Machine):
    """As `Machine`. `observer` sees what happens in blocks of `observed`, and which blocks have run."""

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

    def _compile(self, compiler: Tier) -> None:
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
        watch, jobs = wave.watch, wave.jobs
        wave.watch = extra if watch is None else Several([watch, extra])
        wave.jobs = {}
        try:
            yield
        finally:
            wave.watch, wave.jobs = watch, jobs
