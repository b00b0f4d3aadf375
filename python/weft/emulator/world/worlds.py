"""Several GPUs, and what they have executed.

Runs the streams of all GPUs, in turns or at random.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.emulator.arguments import seconds, whole_number
from weft.emulator.errors import Deadlock, Fault, TimeLimit
from weft.emulator.launch import Report, counters_of
from weft.emulator.memory.device import Device
from weft.emulator.sanitizer import Finding, Findings, FoundList, GlobalMemory, ignored_rules
from weft.emulator.world.engine import Engine
from weft.emulator.world.launched import How, Running
from weft.emulator.world.memory import WorldMemory, checked
from weft.emulator.world.streams import Stream
from weft.errors import WeftError, shown

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
            _Turns(each, Engine(memory.device(each.rank, each.name, Device()), found, checks))
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
        if operations[0].waits():
            return False
        operation = operations.popleft()
        if operation.start is not None:
            turns.engine.release(turns.stream)
            turns.running = operation.start(self._how, self._known, self._ignored)
            self.launches.append(turns.running)
        elif operation.act is not None:
            operation.act(turns.engine)
        return True

    def _stuck(self, left: "Sequence[_Turns]") -> Deadlock:
        errors = [each.running.stuck() for each in left if each.running is not None]
        streams = [each.stream for each in left if each.running is None]
        waits = [f"{stream.name} waits {stream.operations[0].waits()}" for stream in streams]
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


_MOST_RANKS = 64


@dataclass(frozen=True)
class WorldReport:
    """What the GPUs have executed: a report for each launch, in the order in which the launches began.
    `findings` are those of the sanitizer for all launches, copies and flags.
    """

    launches: tuple[Report, ...]
    findings: tuple[Finding, ...]

    def _repr_html_(self) -> str:
        return FoundList(self.findings)._repr_html_()


class World:
    """Several emulated GPUs, with ranks from 0 on. Each has its own memory, and memory that all of them can
    access.

    The host adds operations to streams, and `run` executes all of them on all GPUs. Kernels on different GPUs
    and streams run at the same time, so a kernel may wait for a flag that another kernel sets. The sanitizer
    reports races between GPUs: only operations and fences with the scope .sys order accesses of different
    GPUs.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = whole_number("ranks", ranks, _MOST_RANKS)
        if not self.ranks:
            raise WeftError("ranks must be at least 1, got 0")
        self._memory = WorldMemory()
        self._streams: list[Stream] = []

    def share(self, array: object, rank: int) -> None:
        """Makes an array, with all memory that it is a view of, memory of GPU `rank` that all GPUs can
        access, like memory of cuMemCreate that all have mapped. Raises WeftError if a GPU has it already.
        """
        self._memory.share(checked(array, "array"), self._rank(rank))

    def address(self, array: object) -> int:
        """A shared array's address, the same on all GPUs. Raises WeftError for others."""
        return self._memory.shared_address(checked(array, "array"))

    def stream(self, rank: int) -> Stream:
        """A new stream of GPU `rank`."""
        rank = self._rank(rank)
        number = sum(each.rank == rank for each in self._streams)
        self._streams.append(Stream(rank, number, self._memory))
        return self._streams[-1]

    def run(
        self,
        *,
        sanitize: bool = True,
        seed: int | None = None,
        ignore: Sequence[str] = (),
        max_instructions: int | None = None,
        max_seconds: float | None = None,
        strict: bool = False,
    ) -> WorldReport:
        """Runs the operations of all streams and returns after all have ended, as a host that waits for every
        GPU. The options are those of `Module.launch`, and hold for each launch, `max_seconds` for all.

        Raises Fault, Deadlock and TimeLimit; operations that have not begun by then are dropped.
        """
        for name, flag in (("sanitize", sanitize), ("strict", strict)):
            if not isinstance(flag, bool | np.bool_):
                raise WeftError(f"{name} must be True or False, got {shown(flag)}")
        limit = None if max_instructions is None else whole_number("max_instructions", max_instructions)
        how = How(None if seed is None else whole_number("seed", seed), limit, bool(strict), bool(sanitize))
        schedule = Schedule(self._streams, self._memory, how, ignored_rules(ignore))
        try:
            with np.errstate(all="ignore"):
                schedule.run(seconds(max_seconds))
        except (Fault, Deadlock) as error:
            if isinstance(error, Deadlock) and sanitize:
                schedule.findings[-1].add("deadlock", str(error), error.line)
            error.findings = _findings(schedule)
            raise
        finally:
            for stream in self._streams:
                stream.operations.clear()
            self._memory.write_back()
        reports = []
        for each in schedule.launches:
            counters, printed = counters_of(each.program, each.totals), "".join(each.device.printed)
            reports.append(Report(each.totals.instructions, counters, each.findings.all(), printed))
        return WorldReport(tuple(reports), _findings(schedule))

    def _rank(self, rank: int) -> int:
        return whole_number("rank", rank, self.ranks - 1)


def _findings(schedule: Schedule) -> FoundList:
    lists = [*schedule.findings, *(each.findings for each in schedule.launches)]
    return FoundList(dict.fromkeys(found for each in lists for found in each.all()))
