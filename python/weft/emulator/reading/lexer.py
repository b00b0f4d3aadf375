"""Splits PTX text into tokens."""

import re
from typing import NamedTuple

from weft.emulator.errors import PtxError
from weft.emulator.reading import statements
from weft.emulator.reading.syntax import Instruction, Scope
from weft.errors import BEGINS_WITH_MARK, BYTE_ORDER_MARK
from weft.isa.text.identifiers import NAME

# An opcode or a special register is one token with its modifiers (`ld.global.L1::no_allocate.v4.b32`,
# `%tid.x`); those after blanks or comments are tokens like directives, which the parser joins.
_BLANK = r"(?:[^\S\n]++|//[^\n]*+|(?<![^\n])\#[^\S\n]*+\d[^\n]*+)*+"  # also cpp's `# 5 "file"`
_TOKEN = re.compile(
    rf"""{_BLANK}(?:
      (?P<newline>\n)
    | (?P<comment>/\*(?:[^*]|\*(?!/))*\*/)
    | (?P<float>0[fF][0-9a-fA-F]{{8}}(?!\w)|0[dD][0-9a-fA-F]{{16}}(?!\w)
        |\d+\.\d*(?:[eE][-+]?\d+)?(?![\w.])|\d+[eE][-+]?\d+(?!\w)
        |\.\d+(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<integer>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?(?!\w))
    | (?P<name>(?:{NAME})(?:\.\w+(?:::\w+)*)*)
    | (?P<directive>\.\w+(?:::\w+)*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<punctuation>[][(){{}}<>,;:|=!@+*/%&^?_~-])
    )""",
    re.VERBOSE | re.ASCII,
)
_BLANKS = re.compile(_BLANK, re.ASCII)


# A `.loc` with its arguments is one token where instructions are.
_LOCATION = re.compile(
    r"[^\S\n]*+(\.loc)(?:[^\S\n]++\d++){3}"
    r"(?:,[^\S\n]*+function_name [\w$]++,[^\S\n]*+inlined_at(?:[^\S\n]++\d++){3})?+[^\S\n]*+(?=\n)",
    re.ASCII,
)
_BEFORE_STATEMENTS = frozenset(";{}:")


class Token(NamedTuple):
    """`kind` is a group of the pattern above, `end`, or `instruction` for a whole one, with its `;`."""

    kind: str
    text: str
    line: int
    column: int
    instruction: Instruction | None = None


def tokens(text: str, scope: Scope | None = None) -> list[Token]:
    """All tokens of `text`, followed by an `end` token. Raises PtxError for text that is no token.

    With a scope, which instructions then have, those that `statements` knows are one token each, and so are
    lines of `.loc`.
    """
    tokens: list[Token] = []
    end, line, begin = 0, 1, 0
    begins = False  # whether a statement may begin here
    while True:
        if scope and begins:
            if (read := statements.instruction(text, end, line, begin, scope)) is not None:
                whole, end, line, begin = read
                tokens.append(Token("instruction", whole.opcode, *whole.location, whole))
                continue
            if (match := _LOCATION.match(text, end)) is not None:
                tokens.append(Token("directive", match[1], line, match.start(1) - begin + 1))
                end = match.end()
                continue
        if (match := _TOKEN.match(text, end)) is None:
            break
        kind, end = match.lastgroup, match.end()
        assert kind is not None
        if kind == "newline":
            line, begin = line + 1, end
        elif kind == "comment":
            inside = match[kind]
            if "\n" in inside:
                line += inside.count("\n")
                begin = match.start(kind) + inside.rindex("\n") + 1
        else:
            tokens.append(Token(kind, match[kind], line, match.start(kind) - begin + 1))
            begins = match[kind] in _BEFORE_STATEMENTS
    blanks = _BLANKS.match(text, end)
    assert blanks is not None
    if text.startswith(BYTE_ORDER_MARK):
        raise PtxError(BEGINS_WITH_MARK, 1, 1)
    if (position := blanks.end()) < len(text):
        raise PtxError(f"unexpected {text[position]!r}", line, position - begin + 1)
    tokens.append(Token("end", "", line, position - begin + 1))
    return tokens
