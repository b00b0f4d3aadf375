"""The observers of a launch: the sanitizer, the trace, or both."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from weft.emulator.decoding.program import Program
from weft.emulator.errors import Deadlock, Fault, TimeLimit
from weft.emulator.reading.types import Bools
from weft.emulator.running.ctas import Launch
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
        """What records a wave that begins, and the blocks in which it must see everything; None without a
        trace.
        """
        recorder = self._recorder
        return None if recorder is None else (recorder.watch(wave), recorder.told)

    def watch(self, wave: Wave) -> Watch | None:
        """All observers of a wave that begins, in one; None if there is none."""
        traced = self.trace(wave)
        watches = [each for each in (self.sanitizer(wave), traced and traced[0]) if each is not None]
        return Several(watches) if len(watches) > 1 else watches[0] if watches else None

    def ended(self, error: Fault | Deadlock) -> tuple[Finding, ...]:
        """The findings of a launch that ended with an error, including the error itself, whose message gets
        the source lines.
        """
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
