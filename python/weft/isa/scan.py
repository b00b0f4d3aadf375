"""Finds the tensor-core instructions in PTX text, whatever stands around them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.isa.tables import HEADS

# What a statement can't be read through: comments, and strings (file names, inline text).
_HIDDEN = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"[^\"\n]*\"", re.DOTALL)
# A dot ends no token and whitespace may stand before one: `mma.sync .aligned`.
_OPCODE = re.compile(rf"(?<![\w.%$])(?:{'|'.join(HEADS)})(?:\s*\.[\w:]+)+")
_TARGET = re.compile(r"(?<![\w.%$])\.target\s+(?:\w+\s*,\s*)*?(sm_\w+)")
_VERSION = re.compile(r"(?<![\w.%$])\.version\s+(\d+)\.(\d+)")


@dataclass(frozen=True)
class Instruction:
    """One instruction in a text: where it stands (from 1), its opcode, and its operands as written; `ended`
    tells whether a semicolon ends it.
    """

    line: int
    column: int
    opcode: str
    operands: tuple[str, ...]
    ended: bool = True


def _shown(text: str) -> str:
    """The text with blanks for what isn't code; lines and columns stay."""
    return _HIDDEN.sub(lambda hidden: re.sub(r"[^\n]", " ", hidden.group()), text)


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of the four families, and those that move fragments, in the order of the text."""
    shown = _shown(text)
    line, start = 1, 0
    found = list(_OPCODE.finditer(shown))
    for match, after in zip(found, [*(m.start() for m in found[1:]), len(shown)], strict=False):
        line += shown.count("\n", start, match.start())
        start = match.start()
        column = start - shown.rfind("\n", 0, start)
        opcode = "".join(match.group().split())
        operands, end, _ = shown[match.end() : after].partition(";")
        yield Instruction(line, column, opcode, split_operands(operands), bool(end))


def split_operands(text: str) -> tuple[str, ...]:
    """Operands apart: `{%r1, %r2}, [%r3+4], 1` is three. Braces and brackets hold what they enclose."""
    found, depth, start = [], 0, 0
    for match in re.finditer(r"[][{},]", text):
        character = match.group()
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            found.append(text[start : match.start()].strip())
            start = match.end()
    last = text[start:].strip()
    return (*found, last) if last or found else ()


def listed(operand: str) -> Sequence[str]:
    """The registers of an operand in braces; a bare operand is its own only one."""
    if operand.startswith("{"):
        return [word.strip() for word in operand.removeprefix("{").removesuffix("}").split(",")]
    return [operand]


def target(text: str) -> str | None:
    """The chip that the text's first `.target` names."""
    match = _TARGET.search(_shown(text))
    return match.group(1) if match else None


def version(text: str) -> tuple[int, int] | None:
    """The PTX version that the text's first `.version` names."""
    match = _VERSION.search(_shown(text))
    return (int(match[1]), int(match[2])) if match else None
