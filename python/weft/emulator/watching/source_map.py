"""Where the instructions of a program come from: lines of the PTX, and lines of the source by its `.loc`."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from weft.emulator.decoding.program import Program
from weft.emulator.locations import Source, source_of_lines
from weft.emulator.reading.syntax import Instruction

Position = tuple[int, int]
"""An instruction: its block, and its index there."""


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
