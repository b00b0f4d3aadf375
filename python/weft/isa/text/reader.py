"""Reads PTX text: finds its tensor-core instructions, and the declarations that each of them sees."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from weft.isa.tables import HEADS
from weft.isa.text.other_opcodes import OTHER
from weft.isa.text.scope import Scope

# What a statement can't be read through: comments, and strings (file names, inline text).
_HIDDEN = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"[^\"\n]*\"", re.DOTALL)
# Directives that no semicolon ends. A pattern that begins with its dot is found faster.
_UNENDED = re.compile(
    r"\.(?<![\w.%$]\.)(?:version\s+[\d.]+|address_size\s+\d+|target\s+\w+(?:\s*,\s*\w+)*"
    r"|file\s+\d+(?:\s*,\s*\d+)*"
    r"|loc\s+\d+\s+\d+\s+\d+(?:\s*,\s*function_name\s+[\w$]+(?:\s*\+\s*\d+)?"
    r"\s*,\s*inlined_at\s+\d+\s+\d+\s+\d+)?)"
)
# A dot ends no token and whitespace may stand before one: `mma.sync .aligned`.
_OPCODE = re.compile(rf"(?<![\w.%$])(?:{'|'.join(HEADS)})(?:\s*\.[\w:]+)+")
_DIRECTIVE = re.compile(
    r"\.(?<![\w.%$]\.)(?:version|target|address_size|entry|func|reg|shared|global|const|local|param|pragma)\b"
)
_TARGET = re.compile(r"(?<![\w.%$])\.target\s+(?:\w+\s*,\s*)*?(sm_\w+)")
_VERSION = re.compile(r"(?<![\w.%$])\.version\s+(\d+)\.(\d+)")

# A statement or the text before a block: labels and a guard, the first word and its modifiers, and the
# rest, in which braces hold no semicolon; then what ends it.
_STATEMENT = re.compile(
    r"""\s*+(?:[\w$%]++\s*+:(?!:)\s*+)*+ (?:@\s*+!?\s*+[\w$%.]++\s++)?+
    (?P<head>[A-Za-z_][\w$]*+)?+ (?P<modifiers>(?:\s*+\.[\w:]++)*+)
    (?P<rest>[^;{}]*+(?:\{[^;{}]*+\}[^;{}]*+)*+)
    (?P<end>[;{}]|\Z)""",
    re.VERBOSE,
)
# Every tensor-core opcode has one of these in it.
_MARKS = tuple(head for head in HEADS if not any(other != head and other in head for other in HEADS))
# What no statement, list or initializer begins with.
_NO_STATEMENT = re.compile(r"\s*[^\s\w{}(),=+.\[\]<>:|~%$@;-]")
_MOST_SHOWN = 60
# An operand without others in it; several of these with commas between them are all that most texts have.
_OPERAND = re.compile(r"\{[^][{}]*+\}|\[[^][{}]*+\]|[^][{},\s]++")
_SIMPLE = re.compile(rf"\s*+(?:{_OPERAND.pattern})\s*+(?:,\s*+(?:{_OPERAND.pattern})\s*+)*+")


class Instruction(NamedTuple):
    """One instruction in a text: its line and column (from 1), its opcode, and its operands as written.

    `ended` is whether a semicolon ends it, `scope` is what the text declares there.
    """

    line: int
    column: int
    opcode: str
    operands: tuple[str, ...]
    ended: bool = True
    scope: Scope | None = None


class Statement(NamedTuple):
    """An instruction whose operands aren't split yet: `rest` is the text after the opcode. `function` is the
    number of its function in the text, 0 outside of any.
    """

    line: int
    column: int
    opcode: str
    rest: str
    ended: bool
    scope: Scope
    function: int = 0

    def instruction(self) -> Instruction:
        """The instruction with its operands split."""
        return Instruction(*self[:3], split_operands(self.rest), self.ended, self.scope)


@lru_cache(maxsize=2)
def code(text: str) -> str:
    """The text with blanks for comments and strings; lines and columns stay."""
    return _HIDDEN.sub(_blank, text)


def _blank(hidden: re.Match[str]) -> str:
    text = hidden.group()
    return re.sub(r"[^\n]", " ", text) if "\n" in text else " " * len(text)


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of the four families, and those that move fragments, in the order of the text; and
    statements whose first word no PTX instruction has.
    """
    return map(Statement.instruction, statements(text))


def statements(text: str, *, others: bool = False) -> Iterator[Statement]:
    """As `instructions`, with the operands of each as one unsplit text; with all `others` of PTX, too."""
    shown = _UNENDED.sub(_blank, code(text))
    scope, outer = Scope.of(shown), list[Scope]()
    lines, opcodes = _Lines(shown), dict[tuple[str, str], str]()
    functions = 0
    for match in _STATEMENT.finditer(shown):
        head, modifiers, rest, end = match.groups("")
        if "." in rest and any(mark in rest for mark in _MARKS) and (inside := [*_inside(shown, match)]):
            for at, opcode, operands, ended in inside:
                yield Statement(*lines.at(at), opcode, operands, ended, scope, functions)
        elif head in HEADS or (others and head in OTHER):
            line, column = lines.at(match.start(1))
            if (spelled := opcodes.get((head, modifiers))) is None:
                spelled = opcodes[head, modifiers] = head + "".join(modifiers.split())
            yield Statement(line, column, spelled, rest, end == ";", scope, functions)
        elif head not in OTHER and (head or (not modifiers and _NO_STATEMENT.match(rest))):
            at = match.start("head") if head else match.start("rest")
            word = shown[at : match.end()].split(maxsplit=1)[0].rstrip(";")[:_MOST_SHOWN]
            yield Statement(*lines.at(at), word, "", True, scope)
        is_block = end == "{" and "=" not in rest  # not the values of a variable
        if is_block:
            functions += not outer
            outer.append(scope)
        if modifiers and not head and end != "}":
            scope = scope.declaring(f"{modifiers} {rest}".strip(), len(outer), opens=is_block)
        if end == "{" and not is_block:
            outer.append(scope)
        if end == "}" and outer:
            scope = outer.pop()


class _Lines:
    """The lines and columns of positions in a text; positions must not decrease from call to call."""

    def __init__(self, text: str) -> None:
        self.text, self.line, self.seen = text, 1, 0

    def at(self, position: int) -> tuple[int, int]:
        self.line += self.text.count("\n", self.seen, position)
        self.seen = position
        return self.line, position - self.text.rfind("\n", 0, position)


def _inside(shown: str, match: re.Match[str]) -> Iterator[tuple[int, str, str, bool]]:
    """The instructions in a statement that has several, none but the last ended: where each begins, its
    opcode, its operands, and whether it is ended. Nothing for a statement with one instruction.
    """
    start, stop = match.start("head") if match["head"] else match.start("rest"), match.end("rest")
    opcodes = list(_OPCODE.finditer(shown, start, stop))
    if not opcodes or (len(opcodes) == 1 and opcodes[0].start() == start):
        return
    for opcode, after in zip(opcodes, [*(m.start() for m in opcodes[1:]), stop], strict=True):
        ended = after == stop and match["end"] == ";"
        yield opcode.start(), "".join(opcode[0].split()), shown[opcode.end() : after], ended


def split_operands(text: str) -> tuple[str, ...]:
    """Splits a list of operands: `{%r1, %r2}, [%r3+4], 1` has three. Braces and brackets hold what they
    enclose.
    """
    if _SIMPLE.fullmatch(text):
        return tuple(_OPERAND.findall(text))
    operands, depth, start = [], 0, 0
    for match in re.finditer(r"[][{},]", text):
        character = match.group()
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            operands.append(text[start : match.start()].strip())
            start = match.end()
    last = text[start:].strip()
    return (*operands, last) if last or operands else ()


def listed(operand: str) -> Sequence[str]:
    """The registers of an operand in braces; a bare operand is a list of one."""
    if operand.startswith("{"):
        return [word.strip() for word in operand.removeprefix("{").removesuffix("}").split(",")]
    return [operand]


def is_ptx(text: str) -> bool:
    """Whether a text has a directive or an instruction of PTX."""
    shown = code(text)
    heads = (match["head"] for match in _STATEMENT.finditer(_UNENDED.sub(_blank, shown)))
    return _DIRECTIVE.search(shown) is not None or any(head in HEADS or head in OTHER for head in heads)


def target(text: str) -> str | None:
    """The chip that the text's first `.target` names."""
    match = _TARGET.search(code(text))
    return match.group(1) if match else None


def version(text: str) -> tuple[int, int] | None:
    """The PTX version that the text's first `.version` names."""
    match = _VERSION.search(code(text))
    return (int(match[1]), int(match[2])) if match else None
