"""Lines of PTX that cover the instructions outside of the tensor-core tables: data/instructions.txt.

A row is an opcode and its operands, and `{a,b}` is either. An operand is a register, a list (`{R.R}`) or an
address. H has 16 bits, R 32, D 64, Q 128 and B 8; P is a predicate; X has the width of the first type of the
opcode, and Y that of its last one.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROWS = Path(__file__).parent / "data" / "instructions.txt"
DECLARATIONS = (
    ".reg .pred %p<9>; .reg .b8 %b<9>; .reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %d<16>;"
    " .shared .align 128 .b8 symbol[1024];"
)
WIDE = ".reg .b128 %q<9>;"
"""Only PTX 8.3 and later have these registers."""

_WIDTHS = {"8": "R", "16": "H", "32": "R", "64": "D"}
_TYPE = r"(?:b|u|s|f|bf|tf)\d+(?:x\d)?"


def instruction_lines() -> list[tuple[str, tuple[str, ...]]]:
    """Each opcode with its operands."""
    found = {}
    for row in ROWS.read_text("utf-8").splitlines():
        opcodes, _, operands = row.partition(" : ")
        for opcode in _expanded(opcodes):
            for one in _expanded(operands) if "%" in operands else [operands]:
                found[opcode, tuple(_named(opcode, one))] = None
    return list(found)


def _expanded(text: str) -> list[str]:
    if (match := re.search(r"\{([^{}]*)\}", text)) is None:
        return [text]
    before, after = text[: match.start()], text[match.end() :]
    return [whole for part in match[1].split(",") for whole in _expanded(f"{before}{part}{after}")]


def _named(opcode: str, operands: str) -> Iterator[str]:
    types = [word for word in opcode.split(".") if re.fullmatch(_TYPE, word)]
    number = 0

    def register(kind: re.Match[str]) -> str:
        nonlocal number
        number += 1
        letter = _width(types[0 if kind[0] == "X" else -1]) if kind[0] in "XY" else kind[0]
        return f"%{letter.lower()}{number}"

    for operand in filter(None, operands.split(",")):
        if operand.startswith("%"):
            yield operand
        else:
            named = re.sub(r"(?<![\w%])[HRDQBPXY](?!\w)", register, operand)
            inner = re.sub(r"\{([^}]*)\}", lambda listed: "{" + listed[1].replace(".", ", ") + "}", named)
            yield re.sub(r"^\[(%d\d+)\.", r"[\1, ", inner)


def _width(name: str) -> str:
    return "R" if "x" in name else _WIDTHS[re.sub(r"\D", "", name.removeprefix("bf"))]
