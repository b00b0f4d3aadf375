"""Where the instructions of a program come from: lines of the PTX, and lines of the source by its `.loc`."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from weft.emulator.decoding.program import Program
from weft.emulator.reading.syntax import Instruction

_UNKNOWN = "<unknown>"
"""LLVM's name of the file of code without locations."""
Position = tuple[int, int]
"""An instruction: its block, and its index there."""


class Source(NamedTuple):
    """A line of a source file; lines count from 1, columns from 0."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Line(NamedTuple):
    """A line of a source file, without the column."""

    file: str
    line: int


@dataclass(frozen=True)
class SourceMap:
    """The source of each PTX line that has one, and the positions at which lines begin.

    `positions` has the instructions of each PTX line. `begins` has, for each source line, the instructions
    with which it begins: those that follow an instruction of another line.
    """

    sources: dict[int, Source]
    positions: dict[int, list[Position]]
    begins: dict[Line, list[Position]]

    @classmethod
    def of(cls, text: str, program: Program) -> "SourceMap":
        sources = source_of_lines(text)
        positions: defaultdict[int, list[Position]] = defaultdict(list)
        for at, block in enumerate(program.blocks):
            for number, traffic in enumerate(block.traffic):
                positions[traffic.line].append((at, number))
        return cls(sources, dict(positions), _begins(program, sources))

    @property
    def files(self) -> list[str]:
        """The source files of the program's instructions."""
        return sorted({line.file for line in self.begins})

    def lines_of(self, file: str) -> list[int]:
        """The lines of a file that have code, ascending."""
        return sorted(line.line for line in self.begins if line.file == file)


def instructions(program: Program) -> Iterator[tuple[Position, Instruction]]:
    """Every instruction of a program, with its position."""
    for code in program.codes.values():
        body = code.function.body or []
        for start, block in code.blocks.items():
            for number in range(len(program.blocks[block].traffic)):
                yield (block, number), body[start + number]


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


def _begins(program: Program, sources: dict[int, Source]) -> dict[Line, list[Position]]:
    """The instructions with which each line begins. A loop of one line begins once, before it."""
    own: list[list[Line | None]] = []
    for block in program.blocks:
        found = [sources.get(traffic.line) for traffic in block.traffic]
        own.append([None if each is None else Line(each.file, each.line) for each in found])
    before = _before(program, own)
    begins: defaultdict[Line, list[Position]] = defaultdict(list)
    for at, lines in enumerate(own):
        now = before[at]
        for number, line in enumerate(lines):
            if line is None:
                continue
            if now != {line}:
                begins[line].append((at, number))
            now = {line}
    return dict(begins)


def _before(program: Program, own: list[list[Line | None]]) -> list[set[Line]]:
    """The lines of the instructions that may run before each block; code without a line doesn't count."""
    before: list[set[Line]] = [set() for _ in program.blocks]
    waiting = list(range(len(program.blocks)))
    while waiting:
        at = waiting.pop()
        last = next((line for line in reversed(own[at]) if line is not None), None)
        after = before[at] if last is None else {last}
        end = program.blocks[at].end
        for target in end.targets if end is not None else ():
            if not after <= before[target]:
                before[target] |= after
                waiting.append(target)
    return before
