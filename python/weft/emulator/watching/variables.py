"""The variables of a kernel's source, and the registers that hold them: what comments of its PTX specify.

`// weft.variable f.x|scalar|f32|%r1`: from here on, `x` of function `f` is in this register, until another
instruction writes it. `weft.language` writes these comments for debuggers.

Where the instructions of a program come from: lines of the PTX, and lines of the source by its `.loc`.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from weft.emulator.decoding.program import Program
from weft.emulator.errors import Source, source_of_lines
from weft.emulator.reading.syntax import Instruction, Label, Register, Scope

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
        for target in program.blocks[at].end.targets:
            if not after <= before[target]:
                before[target] |= after
                waiting.append(target)
    return before


_MARK = re.compile(r"^\s*// weft\.variable (.*)$")
_PARTS = {"constant": 4, "pending": 4, "scalar": 4, "fragment": 6, "shared": 6, "tensor": 6}
_State = frozenset[int] | None
"""The numbers of the variables that are known; None: the code hasn't been reached."""


@dataclass(frozen=True)
class Variable:
    """A variable, from a line of the PTX on.

    `kind` is constant, scalar, fragment (a tile in registers), shared or tensor (a buffer, whose address is
    in the register), or pending (a product that isn't waited for). `text` is the value of a constant, or what
    is pending. `layout` is in the notation of `weft.layout`.
    """

    function: str
    name: str
    kind: str
    line: int
    text: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    layout: str = ""
    slots: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The function and the name."""
        return self.function, self.name


class Variables:
    """The variables of one program."""

    def __init__(self, text: str, program: Program) -> None:
        self.all = list(_parsed(text, program))
        self._program = program
        self._gen = self._placed()
        self._users: defaultdict[int, set[int]] = defaultdict(set)
        self._same: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for number, variable in enumerate(self.all):
            self._same[variable.key].add(number)
            for slot in variable.slots:
                self._users[slot].add(number)
        self._before = self._solved()

    def at(self, position: Position) -> dict[tuple[str, str], Variable]:
        """The variables that are known before an instruction, by function and name."""
        block, number = position
        state = self._before[block] or frozenset()
        for at in range(number):
            state = self._after(state, block, at)
        state = self._named(state, (block, number, False))
        return {self.all[each].key: self.all[each] for each in sorted(state)}

    def _placed(self) -> dict[tuple[int, int, bool], list[int]]:
        """The variables that begin before (False) or after (True) an instruction."""
        program = self._program
        lines = sorted(
            (traffic.line, at, number)
            for at, block in enumerate(program.blocks)
            for number, traffic in enumerate(block.traffic)
        )
        labels = sorted(_labels(program))
        placed: defaultdict[tuple[int, int, bool], list[int]] = defaultdict(list)
        for number, variable in enumerate(self.all):
            before = [each for each in lines if each[0] < variable.line]
            after = next((each for each in lines if each[0] > variable.line), None)
            apart = before and any(before[-1][0] < label < variable.line for label in labels)
            if before and not apart:
                placed[before[-1][1], before[-1][2], True].append(number)
            elif after is not None:
                placed[after[1], after[2], False].append(number)
        return placed

    def _named(self, state: frozenset[int], where: tuple[int, int, bool]) -> frozenset[int]:
        for number in self._gen.get(where, ()):
            state = state - self._same[self.all[number].key] | {number}
        return state

    def _after(self, state: frozenset[int], block: int, at: int) -> frozenset[int]:
        state = self._named(state, (block, at, False))
        for slot in self._program.blocks[block].traffic[at].writes:
            if slot in self._users:
                state = state - self._users[slot]
        return self._named(state, (block, at, True))

    def _solved(self) -> list[_State]:
        """The variables that are known at the beginning of each block, on every path to it."""
        program = self._program
        before: list[_State] = [None] * len(program.blocks)
        first = program.entry.entry_block
        before[first] = frozenset()
        waiting = [first]
        while waiting:
            block = waiting.pop()
            state = before[block] or frozenset()
            for at in range(len(program.blocks[block].traffic)):
                state = self._after(state, block, at)
            for target in program.blocks[block].end.targets:
                old = before[target]
                new = state if old is None else old & state
                if new != old:
                    before[target] = new
                    waiting.append(target)
        return before


def _parsed(text: str, program: Program) -> Iterator[Variable]:
    if "weft.variable" not in text:
        return
    code = program.entry
    for line, row in enumerate(text.split("\n"), 1):
        match = _MARK.match(row)
        if match is None:
            continue
        name, kind, *rest = match[1].split("|")
        function, _, own = name.partition(".")
        if len(rest) + 2 != _PARTS.get(kind):
            continue
        if kind in ("constant", "pending"):
            yield Variable(function, own, kind, line, text=rest[0])
            continue
        registers = [code.function.scope.names.get(each) for each in rest[-1].split()]
        if not registers or not all(isinstance(each, Register) for each in registers):
            continue
        slots = tuple(code.base + each.index for each in registers if isinstance(each, Register))
        if kind == "scalar":
            yield Variable(function, own, kind, line, dtype=rest[0], slots=slots)
            continue
        shape = tuple(map(int, rest[1].split("x")))
        yield Variable(function, own, kind, line, "", rest[0], shape, rest[2], slots)


def _labels(program: Program) -> Iterator[int]:
    """The lines of the labels of the program's functions."""
    for code in program.codes.values():
        scopes: dict[int, Scope] = {id(code.function.scope): code.function.scope}
        scopes |= {id(each.scope): each.scope for each in code.function.body or ()}
        for scope in scopes.values():
            yield from (each.location.line for each in scope.names.values() if isinstance(each, Label))
