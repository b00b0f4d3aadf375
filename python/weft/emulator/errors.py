"""What the emulator raises: for invalid PTX, for what a GPU faults on, for deadlocks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.emulator.locations import Source
from weft.errors import Diagnostic, Location, WeftError


class PtxError(WeftError):
    """Invalid or unsupported PTX; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        self.line, self.column = line, column
        super().__init__(Diagnostic(message, Location("<ptx>", line, column)))


def with_sources(message: str, sources: Mapping[int, Source]) -> str:
    """A message with the source line, file:line, after each line of the PTX for which `sources` has one, and
    that isn't followed by it.
    """

    def with_source(match: re.Match[str]) -> str:
        source = sources.get(int(match[1]))
        text = f" ({source})" if source else ""
        return match[0] if message.startswith(text, match.end()) else match[0] + text

    return re.sub(r"\bline (\d+)", with_source, message)


@dataclass(frozen=True)
class Thread:
    """One thread of a launch: the coordinates of its CTA, and its own in it. `rank` is its GPU's, where
    several run.
    """

    ctaid: tuple[int, int, int]
    tid: tuple[int, int, int]
    rank: int | None = None

    def __str__(self) -> str:
        gpu = "" if self.rank is None else f" on rank {self.rank}"
        return f"thread {self.tid} of block {self.ctaid}{gpu}"


class Fault(WeftError):
    """What a GPU would fault on, with the PTX line, the thread and the address, if there is one.

    `rule` is the sanitizer's name for it. `findings` are the sanitizer's findings, including this one.
    `printed` is what the kernel has printed.
    """

    printed = ""

    def __init__(
        self,
        message: str,
        line: int = 0,
        thread: Thread | None = None,
        address: int | None = None,
        rule: str = "fault",
    ) -> None:
        self.rule = rule
        self.line, self.thread, self.address = line, thread, address
        self.reason = message
        self.findings: tuple[object, ...] = ()
        self.say_sources({})

    def say_sources(self, sources: Mapping[int, Source]) -> None:
        """Puts the source location of the PTX line first, if `sources` has it."""
        where = f" in {self.thread}" if self.thread else ""
        location = Location("<ptx>", self.line, 1) if self.line else None
        if self.line in sources:
            where, location = f"{where} (line {self.line} of the PTX)", Location(*sources[self.line])
        super().__init__(Diagnostic(self.reason + where, location))


class TimeLimit(Fault):
    """A launch took longer than `max_seconds`."""


class Deadlock(WeftError):
    """No warp can continue. `waiting` has one line for every warp that waits, and for every mbarrier that a
    warp waits for. The message, `report`, groups those with the same state. `line` is that of the first.
    `printed` is what the kernel has printed. `lanes_apart` is whether lanes of a warp wait for each other at
    several instructions.
    """

    rule = "deadlock"
    printed = ""
    lanes_apart = False

    def __init__(self, waiting: Sequence[str], report: Sequence[str], line: int) -> None:
        self.findings: tuple[object, ...] = ()
        self.line = line
        self._compose(waiting, report)

    def say_sources(self, sources: Mapping[int, Source]) -> None:
        """Adds the source line, file:line, of each PTX line, if `sources` has it."""
        waiting, report = (
            [with_sources(line, sources) for line in lines] for lines in (self.waiting, self.report)
        )
        self._compose(waiting, report)

    def _compose(self, waiting: Sequence[str], report: Sequence[str]) -> None:
        self.waiting, self.report = tuple(waiting), tuple(report)
        super().__init__("deadlock: no warp can continue\n  " + "\n  ".join(report))


def advise(error: "Fault | Deadlock", note: str) -> None:
    """Adds a note to an error's message: what to do about it."""
    first = error.diagnostics[0]
    WeftError.__init__(error, replace(first, notes=(*first.notes, Diagnostic(note, severity="note"))))
