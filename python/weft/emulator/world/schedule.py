"""Runs the streams of all GPUs, in turns or at random."""

import random
import time
from collections.abc import Sequence

from weft.emulator.errors import Deadlock, TimeLimit
from weft.emulator.sanitizer import Findings, GlobalMemory
from weft.emulator.world.engine import Engine
from weft.emulator.world.launched import How, Running
from weft.emulator.world.memory import WorldMemory
from weft.emulator.world.operations import Launched
from weft.emulator.world.streams import Stream

_IDLE_TURNS = 40


class Schedule:
    """One run of the operations of streams; `launches` are the kernels that have begun."""

    def __init__(
        self, streams: Sequence[Stream], memory: WorldMemory, how: How, ignored: frozenset[str]
    ) -> None:
        self._how, self._ignored = how, ignored
        self._known = GlobalMemory()
        self.findings = [Findings("", ignored, name) for name in (*(each.name for each in streams), "")]
        """Those of the copies and flags of each stream, and those of none."""
        self.launches: list[Running] = []
        checks = self._known if how.sanitize else None
        self._turns = [
            _Turns(each, Engine(memory.stream(each.rank, each.name), found, checks))
            for each, found in zip(streams, self.findings, strict=False)
        ]
        self._random = None if how.seed is None else random.Random(how.seed)

    def run(self, limit: float | None) -> None:
        """Runs everything. Raises Fault, Deadlock if nothing can continue, and TimeLimit after `limit`
        seconds.
        """
        end = None if limit is None else time.monotonic() + limit
        at = idle = done = 0
        before: tuple[object, ...] = ()
        while left := [each for each in self._turns if not each.over]:
            at += 1
            turns = left[at % len(left)] if self._random is None else self._random.choice(left)
            done += self._turn(turns)
            now = done, *(each.running.progress() for each in left if each.running is not None)
            idle, before = (idle + 1 if now == before else 0), now
            if idle > _IDLE_TURNS * len(left):
                raise self._stuck(left)
            if end is not None and time.monotonic() > end:
                raise TimeLimit(f"reached the time limit of {limit:.4g} s")

    def _turn(self, turns: "_Turns") -> bool:
        """Gives a stream a turn. Whether an operation has begun or ended."""
        if turns.running is not None:
            if not turns.running.step():
                return False
            turns.running = None
            turns.engine.acquire(turns.stream)
            return True
        operations = turns.stream.operations
        if operations[0].waits:
            return False
        operation = operations.popleft()
        if isinstance(operation, Launched):
            turns.engine.release(turns.stream)
            turns.running = operation.start(self._how, self._known, self._ignored)
            self.launches.append(turns.running)
        else:
            operation.act(turns.engine)
        return True

    def _stuck(self, left: "Sequence[_Turns]") -> Deadlock:
        errors = [each.running.stuck() for each in left if each.running is not None]
        waits = [f"{each.stream.name} waits {each.waits}" for each in left if each.running is None]
        return Deadlock(
            [*(line for error in errors for line in error.waiting), *waits],
            [*(line for error in errors for line in error.report), *waits],
            min((error.line for error in errors if error.line), default=0),
        )


class _Turns:
    """A stream, and the kernel of it that runs."""

    def __init__(self, stream: Stream, engine: Engine) -> None:
        self.stream, self.engine = stream, engine
        self.running: Running | None = None

    @property
    def over(self) -> bool:
        """Whether all has ended."""
        return self.running is None and not self.stream.operations

    @property
    def waits(self) -> str:
        """What its next operation waits for."""
        return self.stream.operations[0].waits
