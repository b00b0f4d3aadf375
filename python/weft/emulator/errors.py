"""What the emulator raises: for text that is no PTX, for what a GPU faults on, for waits without end."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import Diagnostic, Location, WeftError


class PtxError(WeftError):
    """PTX that can't be read or isn't supported; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        self.line, self.column = line, column
        super().__init__(Diagnostic(message, Location("<ptx>", line, column)))


@dataclass(frozen=True)
class Thread:
    """One thread of a launch: its CTA and its place in it."""

    ctaid: tuple[int, int, int]
    tid: tuple[int, int, int]

    def __str__(self) -> str:
        return f"thread {self.tid} of block {self.ctaid}"


class Fault(WeftError):
    """What a GPU would fault on, with the PTX line, the thread and the address where there is one.

    `rule` is the sanitizer's name for it; `findings` are what the sanitizer has found, this among them.
    """

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

    def say_sources(self, sources: Mapping[int, str]) -> None:
        """Says which line of its source, file:line, the PTX line comes from, where `sources` has it."""
        where = f" in {self.thread}" if self.thread else ""
        source = f" ({sources[self.line]})" if self.line in sources else ""
        place = Location("<ptx>", self.line, 1) if self.line else None
        super().__init__(Diagnostic(self.reason + where + source, place))


class TimeLimit(Fault):
    """A launch took longer than it was given."""


class Deadlock(WeftError):
    """No warp can go on; `waiting` has one line for every warp that waits, and for every mbarrier that one
    waits for. The message, `report`, tells likes together. `line` is that of the first.
    """

    def __init__(self, waiting: Sequence[str], report: Sequence[str], line: int) -> None:
        self.findings: tuple[object, ...] = ()
        self.line = line
        self._tell(waiting, report)

    def say_sources(self, sources: Mapping[int, str]) -> None:
        """Says which line of its source, file:line, each PTX line comes from, where `sources` has it."""

        def placed(found: re.Match[str]) -> str:
            source = sources.get(int(found[1]))
            return f"{found[0]} ({source})" if source else found[0]

        told = [
            [re.sub(r"\bline (\d+)", placed, line) for line in lines] for lines in (self.waiting, self.report)
        ]
        self._tell(*told)

    def _tell(self, waiting: Sequence[str], report: Sequence[str]) -> None:
        self.waiting, self.report = tuple(waiting), tuple(report)
        super().__init__("deadlock: no warp can continue\n  " + "\n  ".join(report))
