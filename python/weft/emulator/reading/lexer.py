"""Splits PTX text into tokens.

Reads instructions as compilers write them, by a few regular expressions instead of by their tokens: in a
third of the time.

What it doesn't know is left to the tokens, such as calls, comments within an instruction, and mistakes.
"""

import re
from typing import NamedTuple

from weft.emulator.errors import PtxError
from weft.emulator.reading.syntax import (
    Address,
    Float,
    Instruction,
    Integer,
    Name,
    Negated,
    Operand,
    Pair,
    Scope,
    Sink,
    SourceLocation,
    Vector,
)
from weft.errors import BEGINS_WITH_MARK, BYTE_ORDER_MARK
from weft.isa.text.identifiers import NAME

_SPACES = r"[^\S\n]*+"
_NAME = rf"(?:{NAME})(?:\.\w+(?:::\w+)*+)*+"
_DIGITS = r"(?:0|[1-9]\d{0,18})(?![\w.])"  # of 64 bits, and without a leading zero, which means octal
_INTEGER = rf"-?(?:0[xX][0-9a-fA-F]{{1,16}}(?![\w.])|{_DIGITS})"
_ELEMENT = rf"(?:{_NAME}|{_INTEGER}|_(?![\w$]))"
_HEAD = re.compile(
    rf"{_SPACES}(?:@(!?)({_NAME})[^\S\n]++)?+([A-Za-z][\w$]*+(?:\.\w+(?:::\w+)*+)*+)"
    rf"(?:[^\S\n]++(?!;)|(?=[;\n]))",
    re.ASCII,
)
_OPERAND = re.compile(
    rf"""(?:
      ({_NAME})
    | ({_INTEGER})
    | \[({_NAME})(?:\+(-?{_DIGITS}))?+\]
    | (\{{{_SPACES}{_ELEMENT}{_SPACES}(?:,{_SPACES}{_ELEMENT}{_SPACES})*+\}})
    | (0[fF][0-9a-fA-F]{{8}}(?!\w)|0[dD][0-9a-fA-F]{{16}}(?!\w))
    | ({_NAME})\|({_NAME})
    | !({_NAME})
    | (_)(?![\w$])
    ){_SPACES}(?:,{_SPACES}(?!;)|(?=;))""",
    re.ASCII | re.VERBOSE,
)
_NEWLINE = re.compile(rf"\n{_SPACES}(?!;)")
_EACH = re.compile(_ELEMENT, re.ASCII)
# The last group of `_OPERAND` that matches.
_A_NAME, _AN_INTEGER, _AN_ADDRESS, _WITH_OFFSET, _A_VECTOR, _A_FLOAT, _, _A_PAIR, _NEGATED, _ = range(1, 11)


Read = tuple[Instruction, int, int, int]
"""An instruction, where it ends, and the number and the beginning of the line on which it ends."""


def instruction(text: str, at: int, line: int, begin: int, scope: Scope) -> Read | None:
    """The instruction at an index of the text, on a line with this number and beginning. None for anything
    else.
    """
    head = _HEAD.match(text, at)
    if head is None:
        return None
    at, before = head.end(), begin - 1  # columns count from 1
    negated, guard, opcode = head.groups()
    predicate = Name(guard, SourceLocation(line, head.start(2) - before)) if guard else None
    location = SourceLocation(line, head.start(3) - before)
    operands: list[Operand] = []
    while text[at : at + 1] != ";":
        match = _OPERAND.match(text, at)
        if match is not None:
            operands.append(_operand(match, line, before))
            at = match.end()
        elif (newline := _NEWLINE.match(text, at)) is not None:
            line, before, at = line + 1, at, newline.end()
        else:
            return None
    read = Instruction(location, opcode, tuple(operands), predicate, bool(negated), scope)
    return read, at + 1, line, before + 1


def _operand(match: re.Match[str], line: int, before: int) -> Operand:
    group = match.lastindex
    location = SourceLocation(line, match.start() - before)
    if group == _A_NAME:
        return Name(match[_A_NAME], location)
    if group == _AN_INTEGER:
        return Integer(int(match[_AN_INTEGER], 0), location)
    if group in (_AN_ADDRESS, _WITH_OFFSET):
        base = Name(match[_AN_ADDRESS], SourceLocation(line, location.column + 1))
        return Address(base, int(match[_WITH_OFFSET] or 0), (), location)
    if group == _A_VECTOR:
        found = _EACH.finditer(match.string, *match.span(_A_VECTOR))
        return Vector(tuple(_element(each, line, before) for each in found), location)
    if group == _A_FLOAT:
        digits = match[_A_FLOAT]
        return Float(int(digits[2:], 16), digits[1] in "fF", location)
    if group == _A_PAIR:
        first, second = match[_A_PAIR - 1], match[_A_PAIR]
        return Pair(
            Name(first, location), Name(second, SourceLocation(line, match.start(_A_PAIR) - before)), location
        )
    if group == _NEGATED:
        return Negated(Name(match[_NEGATED], SourceLocation(line, location.column + 1)), location)
    return Sink(location)


def _element(match: re.Match[str], line: int, before: int) -> Operand:
    text, location = match[0], SourceLocation(line, match.start() - before)
    if text == "_":
        return Sink(location)
    return Integer(int(text, 0), location) if text[0] in "-0123456789" else Name(text, location)


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
            if (read := instruction(text, end, line, begin, scope)) is not None:
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
