"""Reads instructions as compilers write them, by a few regular expressions instead of by their tokens: in a
third of the time.

What it doesn't know is left to the tokens, such as calls, comments within an instruction, and mistakes.
"""

import re

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
from weft.isa.text.identifiers import NAME

_BLANK = r"[^\S\n]*+"
_NAME = rf"(?:{NAME})(?:\.\w+(?:::\w+)*+)*+"
_DIGITS = r"(?:0|[1-9]\d{0,18})(?![\w.])"  # of 64 bits, and without a leading zero, which means octal
_INTEGER = rf"-?(?:0[xX][0-9a-fA-F]{{1,16}}(?![\w.])|{_DIGITS})"
_ELEMENT = rf"(?:{_NAME}|{_INTEGER}|_(?![\w$]))"
_HEAD = re.compile(
    rf"{_BLANK}(?:@(!?)({_NAME})[^\S\n]++)?+([A-Za-z][\w$]*+(?:\.\w+(?:::\w+)*+)*+)"
    rf"(?:[^\S\n]++(?!;)|(?=[;\n]))",
    re.ASCII,
)
_OPERAND = re.compile(
    rf"""(?:
      ({_NAME})
    | ({_INTEGER})
    | \[({_NAME})(?:\+(-?{_DIGITS}))?+\]
    | (\{{{_BLANK}{_ELEMENT}{_BLANK}(?:,{_BLANK}{_ELEMENT}{_BLANK})*+\}})
    | (0[fF][0-9a-fA-F]{{8}}(?!\w)|0[dD][0-9a-fA-F]{{16}}(?!\w))
    | ({_NAME})\|({_NAME})
    | !({_NAME})
    | (_)(?![\w$])
    ){_BLANK}(?:,{_BLANK}(?!;)|(?=;))""",
    re.ASCII | re.VERBOSE,
)
_NEWLINE = re.compile(rf"\n{_BLANK}(?!;)")
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
    """An element of a vector."""
    text, location = match[0], SourceLocation(line, match.start() - before)
    if text == "_":
        return Sink(location)
    return Integer(int(text, 0), location) if text[0] in "-0123456789" else Name(text, location)
