"""Finds the tensor-core instructions in PTX text, whatever stands around them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_HEADS = ("wmma", "mma", "wgmma", "tcgen05", "ldmatrix", "stmatrix", "movmatrix")
# What a statement can't be read through: comments, and strings (file names, inline text).
_HIDDEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)
_STATEMENT = re.compile(rf"(?<![\w.%$])((?:{'|'.join(_HEADS)})(?:\s*\.[\w:]+)+)([^;]*);")
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Instruction:
    """One instruction in a text: where it stands (from 1), its opcode, and its operands as written."""

    line: int
    column: int
    opcode: str
    operands: tuple[str, ...]


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of the four families, and those that move their fragments, in the order of the text."""
    shown = _HIDDEN.sub(lambda hidden: re.sub(r"[^\n]", " ", hidden.group()), text)
    line, start = 1, 0
    for match in _STATEMENT.finditer(shown):
        line += shown.count("\n", start, match.start())
        start = match.start()
        column = start - shown.rfind("\n", 0, start)
        opcode = "".join(match.group(1).split())
        yield Instruction(line, column, opcode, split_operands(match.group(2)))


def split_operands(text: str) -> tuple[str, ...]:
    """Operands apart: `{%r1, %r2}, [%r3+4], 1` is three. Braces and brackets hold together what they enclose."""
    found, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return (*found, last) if last or found else ()


def listed(operand: str) -> Sequence[str]:
    """The registers of an operand in braces; a bare operand is its own only one."""
    if operand.startswith("{"):
        return [word.strip() for word in operand.strip("{} \t\n").split(",")]
    return [operand]


def target(text: str) -> str | None:
    """The chip that the text's `.target` names."""
    match = _TARGET.search(_HIDDEN.sub(" ", text))
    return match.group(1) if match else None
