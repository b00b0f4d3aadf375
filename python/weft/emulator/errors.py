"""What the emulator raises: for invalid PTX, for what a GPU faults on, for deadlocks.

Where the lines of a PTX text come from: lines of its source, by `.file` and `.loc`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from weft.errors import Diagnostic, Location, WeftError

_UNKNOWN = "<unknown>"
"""LLVM's name of the file of code without locations."""


class Source(NamedTuple):
    """A line of a source file; lines count from 1, columns from 0."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def source_of_lines(text: str) -> dict[int, Source]:
    """The source of every line of a PTX text after a `.loc` of its function, except of line 0 and of unknown
    files, which are code without a source.
    """
    rows = text.split("\n")
    files = dict(_files(rows))
    sources: dict[int, Source] = {}
    now: Source | None = None
    for number, row in enumerate(rows, 1):
        words = row.replace(",", " ").split()
        if len(words) > 2 and words[0] == ".loc":
            line, column = words[2], words[3] if len(words) > 3 else "0"
            known = line.isdigit() and int(line) and files.get(words[1]) != _UNKNOWN
            column = column if column.isdigit() else "0"
            now = Source(files.get(words[1], words[1]), int(line), int(column)) if known else None
        elif row.startswith("}"):
            now = None
        if now is not None:
            sources[number] = now
    return sources


class Inlined(NamedTuple):
    """A function that the compiler has put into another one, which called it at a line of the source."""

    function: str
    caller: Source


def inlined_of_lines(text: str) -> dict[int, list[Inlined]]:
    """The functions that the code of a PTX line is inlined from, the innermost first, by its `.loc`."""
    rows = text.split("\n")
    files, names = dict(_files(rows)), dict(_strings(rows))
    sites: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}
    found: dict[int, list[Inlined]] = {}
    now: list[Inlined] = []
    for number, row in enumerate(rows, 1):
        words = row.replace(",", " ").split()
        if words[:1] == [".loc"]:
            now, at = [], tuple(words[1:4])
            if len(words) == 10 and words[6] == "inlined_at":
                sites[at] = words[5], tuple(words[7:])
            while at in sites and len(now) < len(sites):
                name, at = sites[at]
                caller = Source(files.get(at[0], at[0]), *map(int, at[1:]))
                now.append(Inlined(names.get(name, name), caller))
        elif row.startswith("}"):
            now = []
        if now:
            found[number] = now
    return found


def _strings(rows: list[str]) -> Iterator[tuple[str, str]]:
    """The labels of texts in sections of debug information, and these texts."""
    for at, row in enumerate(rows):
        label, colon, _ = row.strip().partition(":")
        if colon and label.startswith("$L__info_string"):
            octets = bytearray()
            for data in rows[at + 1 :]:
                words = data.replace(",", " ").split()
                if words[:1] != [".b8"]:
                    break
                octets += bytes(map(int, words[1:]))
            yield label, octets.partition(b"\0")[0].decode("utf-8", "replace")


def _files(rows: list[str]) -> Iterator[tuple[str, str]]:
    """The numbers and the names of `.file`s."""
    for row in rows:
        words = row.split(None, 2)
        if len(words) == 3 and words[0] == ".file":
            parts = words[2].split('"')
            yield words[1], parts[1] if len(parts) > 2 else words[2]


class PtxError(WeftError):
    """Invalid or unsupported PTX; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        self.line, self.column = line, column
        super().__init__(Diagnostic(message, Location("<ptx>", line, column)))


def with_sources(message: str, sources: Mapping[int, Source]) -> str:
    """A message with file:line after each line of the PTX that has a source and isn't followed by it."""

    def with_source(match: re.Match[str]) -> str:
        source = sources.get(int(match[1]))
        text = f" ({source})" if source else ""
        return match[0] if message.startswith(text, match.end()) else match[0] + text

    return re.sub(r"\bline (\d+)", with_source, message)


@dataclass(frozen=True)
class Thread:
    """A thread: the coordinates of its CTA, and its own there. `rank`: its GPU, where several run."""

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
