"""Runs the CTAs of a launch in waves."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.emulator.arguments import Progress
from weft.emulator.compiled.boxes import Boxes
from weft.emulator.compiled.mbarriers import MbarrierCalls
from weft.emulator.compiled.products import Products
from weft.emulator.compiled.tiers import Tier
from weft.emulator.decoding.program import Program
from weft.emulator.errors import Fault
from weft.emulator.machine import Machine
from weft.emulator.memory.device import Device
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.ctas import Grid, Launch
from weft.emulator.running.deadlock import Wait, stuck
from weft.emulator.running.totals import Totals
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.watch import Watch
from weft.emulator.watching.hooked_machine import HookedMachine
from weft.emulator.watching.hooks import Hooks
from weft.emulator.watching.observers import ObservedMachine

_WAVE_WARPS = 96
_MAX_WAVES = 160
_IDLE_TURNS = 20
Live = deque[tuple[Machine, Wave]]
"""The waves of a launch that run."""


@dataclass
class Waves:
    """How the CTAs of a launch run. `watch_of` returns the observer of a wave; `done` counts CTAs that have
    ended. With a seed, warps take turns at random, with `skew` also the lanes of a warp. `compiler` compiles
    the program; `compiled`: when the bulk unit's copies and tensor cores' products have code, at once, never,
    or if that is worth it (None). `ticks` is the length of a turn, in instructions. `hooks` are called.
    `trace_of` returns what else sees some blocks of a wave, and these.
    """

    program: Program
    launch: Launch
    device: Device
    totals: Totals
    watch_of: Callable[[Wave], Watch | None]
    progress: Progress | None = None
    seed: int | None = None
    skew: bool = False
    done: int = 0
    compiler: Tier | None = None
    compiled: bool | None = None
    ticks: int | None = None
    hooks: Hooks | None = None
    trace_of: Callable[[Wave], tuple[Watch, Bools] | None] | None = None

    _live: Live = field(default_factory=deque)
    _resumes: bool = False
    _before: tuple[int, int, int] = (0, 0, 0)
    _idle: int = 0

    @property
    def together(self) -> int:
        """The CTAs of a wave. All waves of a launch have about the same number."""
        size = self.launch.cluster_size
        most = max(1, _WAVE_WARPS // self.launch.warps // size)
        clusters = self.launch.total_ctas // size
        return -(-clusters // -(-clusters // most)) * size

    def begin_part(self) -> None:
        """Drops, in a process that runs a part, the waves that another one runs, and what was counted."""
        self._live.clear()
        self._resumes = False
        self.totals.limit -= self.totals.instructions
        self.totals.restart()
        self.done = 0

    def run(self, rest: Grid) -> bool:
        """Runs the CTAs that have not started. If a wave polls during its whole turn, later waves run, too:
        it may wait for them. False: `totals.pause` has passed before the end, and another call goes on.

        Raises Deadlock if no visible state has changed for many turns of all waves.
        """
        live = self._live
        while live or rest.begun < rest.end:
            if not self.step(rest):
                if self.totals.pauses():
                    self._resumes = True
                    return False
                now = self.state(rest)
                self._idle = self._idle + 1 if now == self._before else 0
                self._before = now
                if self._idle > _IDLE_TURNS * (len(live) + 9):
                    raise stuck(self.waiting())
            if self.totals.pauses() and rest.begun < rest.end:
                self._resumes = bool(live)
                return False
        return True

    def state(self, rest: Grid) -> tuple[int, int, int]:
        """Numbers that change whenever a wave does something that others may see."""
        return rest.begun, self.done, sum(wave.changes for _, wave in self._live)

    def waiting(self) -> list[Wait]:
        """What the warps of waves that have begun wait for."""
        return [wait for machine, _ in self._live for wait in machine.waiting()]

    def over(self, rest: Grid) -> bool:
        """Whether all waves have ended."""
        return not self._live and rest.begun == rest.end

    def step(self, rest: Grid) -> bool:
        """Runs a wave for a turn, one that has not started if there may be more. True: the wave has ended."""
        live = self._live
        more = rest.begun < rest.end and len(live) < _MAX_WAVES
        if not self._resumes and (not live or more):
            live.appendleft(self._begun(rest))
        self._resumes = False
        machine, wave = live[0]
        try:
            ended = machine.run()
        except Fault as error:
            # One without a thread is attributed to the first thread that ran last.
            if error.thread is None and machine.running is not None:
                error.thread = machine.running.first()
            raise
        if not ended:
            if not self.totals.pauses():
                live.rotate(-1)
            return False
        live.popleft()
        self.totals.bytes += wave.memory.bytes
        self.done += len(wave.cta_numbers)
        if self.progress is not None:
            self.progress(self.done + rest.canceled, self.launch.total_ctas)
        if self.hooks is None:  # functions may have kept what they were told
            machine.close()
        return True

    def _begun(self, rest: Grid) -> tuple[Machine, Wave]:
        wave = Wave(self.launch, self.program.slots, self.device, rest.take(self.together), rest)
        wave.watch = self.watch_of(wave)
        if self.compiled is not False:
            if self.seed is None and (wave.watch is None or isinstance(wave.watch, Sanitizer)):
                wave.jobs[Boxes] = Boxes(wave, at_once=bool(self.compiled))
            wave.jobs[Products] = Products(wave, at_once=bool(self.compiled))
        wave.jobs[MbarrierCalls] = MbarrierCalls(wave)
        return self._machine(wave), wave

    def _machine(self, wave: Wave) -> Machine:
        arguments = wave, self.program, self.totals, self.seed
        options: dict[str, Any] = {"skew": self.skew, "compiler": self.compiler}
        none = np.zeros(len(self.program.blocks), np.bool_)
        observer, observed = (self.trace_of and self.trace_of(wave)) or (None, none)
        if self.hooks is not None:
            machine: Machine = HookedMachine(self.hooks, observer, observed, *arguments, **options)
        elif observer is not None:
            machine = ObservedMachine(observer, observed, *arguments, **options)
        else:
            machine = Machine(*arguments, **options)
        if self.ticks is not None:
            machine.ticks = self.ticks
        return machine
