"""Several GPUs, and what they have executed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.emulator.arguments import seconds, whole_number
from weft.emulator.errors import Deadlock, Fault
from weft.emulator.launch import Report, counters_of
from weft.emulator.sanitizer import Finding, FoundList, ignored_rules, page
from weft.emulator.world.launched import How, Running
from weft.emulator.world.memory import WorldMemory, checked
from weft.emulator.world.schedule import Schedule
from weft.emulator.world.streams import Stream
from weft.errors import WeftError, shown

_MOST_RANKS = 64


@dataclass(frozen=True)
class WorldReport:
    """What the GPUs have executed: a report for each launch, in the order in which the launches began.
    `findings` are those of the sanitizer for all launches, copies and flags.
    """

    launches: tuple[Report, ...]
    findings: tuple[Finding, ...]

    def _repr_html_(self) -> str:
        return page.of_findings(self.findings)


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
        """The address of a shared array, which is the same on all GPUs. Raises WeftError for one that isn't
        shared.
        """
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
        return WorldReport(tuple(map(_report, schedule.launches)), _findings(schedule))

    def _rank(self, rank: int) -> int:
        return whole_number("rank", rank, self.ranks - 1)


def _findings(schedule: Schedule) -> FoundList:
    lists = [*schedule.findings, *(each.findings for each in schedule.launches)]
    return FoundList(dict.fromkeys(found for each in lists for found in each.all()))


def _report(running: Running) -> Report:
    totals = running.totals
    counters = counters_of(running.program, totals)
    return Report(totals.instructions, counters, running.findings.all(), "".join(running.device.printed))
