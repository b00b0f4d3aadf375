"""A launch on one of several GPUs."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from weft.emulator.decoding.program import Program
from weft.emulator.errors import Deadlock, Fault
from weft.emulator.memory.device import Device
from weft.emulator.running.ctas import Grid, Launch
from weft.emulator.running.deadlock import stuck
from weft.emulator.running.totals import Totals
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer import Findings, GlobalMemory, Kernel, Sanitizer, instrumented
from weft.emulator.watch import Watch
from weft.emulator.waves import Waves
from weft.emulator.world.engine import begin, end

_TICKS = 500
"""The instructions of a turn: other GPUs get theirs soon."""


@dataclass(frozen=True)
class How:
    """How launches run: their order (None: in turns), the limit of each in warp instructions, and whether
    the sanitizer watches, and also reports what hardware is known not to need.
    """

    seed: int | None
    limit: int | None
    strict: bool
    sanitize: bool


class Running:
    """A kernel that runs. `key` orders it after what is before it in its stream, and before what follows."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        device: Device,
        how: How,
        findings: Findings,
        memory: GlobalMemory,
        key: Hashable,
    ) -> None:
        self.findings, self._memory, self._key = findings, memory, key
        # Copies of other kernels may read what this one writes.
        self._kernel = replace(Kernel.of(program, strict=how.strict), global_copies=True)
        self._checkers: list[Sanitizer] = []
        self.totals = Totals(len(program.blocks), how.limit)
        self.device = device
        watched = instrumented(program) if how.sanitize else program
        watch = self._watch if how.sanitize else lambda wave: None
        self._waves = Waves(
            watched, launch, device, self.totals, watch, seed=how.seed, skew=how.strict, ticks=_TICKS
        )
        self.program, self._rest = program, Grid(launch)

    def step(self) -> bool:
        """Runs a wave for a turn. True: the kernel has ended."""
        try:
            self._waves.step(self._rest)
        except Fault as error:
            error.say_sources(self.findings.sources)
            self.findings.add(error.rule, error.reason, error.line, error.thread, error.address)
            raise
        except Deadlock as error:
            raise self.stuck(error) from None
        if not self._waves.over(self._rest):
            return False
        for checker in self._checkers:
            end(checker, self._key)
        return True

    def progress(self) -> tuple[int, ...]:
        """Numbers that change whenever the kernel does something that others may see."""
        return self._waves.state(self._rest)

    def stuck(self, error: Deadlock | None = None) -> Deadlock:
        """A deadlock of its warps, which names its GPU."""
        error = stuck(self._waves.waiting()) if error is None else error
        error.say_sources(self.findings.sources)
        user = self.device.user
        return Deadlock(
            [f"{user}: {line}" for line in error.waiting],
            [f"{user}:", *(f"  {line}" for line in error.report)],
            error.line,
        )

    def _watch(self, wave: Wave) -> Watch | None:
        checker = Sanitizer(wave, self.findings, self._kernel, self._memory)
        begin(checker, self._key)
        self._checkers.append(checker)
        return checker
