"""Recognizes operands that differ from legal ones only in the numbers of registers."""

import re
from collections.abc import Sequence
from itertools import groupby

from weft.isa.text.scope import Scope

_REGISTER = r"(?<![\w$%.])[A-Za-z_$%][\w$%]*[0-9](?![\w$%.])"
_OFFSET = r"(?<=[\w$]\+)(?:0|[1-9][0-9]*)(?=\])"
_CHANGED = re.compile(rf"({_REGISTER}|{_OFFSET})", re.ASCII)
_ANY_OFFSET = "(?:0|[1-9][0-9]{0,17})"
# Compiling a pattern takes as long as judging about fifty statements.
_FIRST, _MOST = 32, 8
_MOST_UNROLLED = 8


class Alike:
    """Operands that are legal with one opcode in one scope, as patterns: they also match other registers of
    the same declared ranges, and other offsets in addresses.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope, self._patterns, self._missed = scope, list[re.Pattern[str]](), 0

    def __contains__(self, text: str) -> bool:
        for pattern in self._patterns:
            if match := pattern.fullmatch(text):
                lists = ("".join(operand.strip("{}").split()).split(",") for operand in match.groups())
                return all(len(set(words)) == len(words) for words in lists)
        return False

    def is_wanted(self) -> bool:
        """Whether legal operands that no pattern matched have become many: then they are worth another."""
        self._missed += 1
        return self._missed % _FIRST == 0 and len(self._patterns) < _MOST

    def add(self, text: str, operands: Sequence[str], distinct: Sequence[bool]) -> None:
        """Learns from legal operands, as `text` has them. In `distinct` ones no register may occur twice."""
        patterns, end = [], 0
        for operand, differ in zip(operands, distinct, strict=True):
            start = text.index(operand, end)
            pattern = self._pattern(operand)
            patterns += [re.escape(text[end:start]), f"({pattern})" if differ else pattern]
            end = start + len(operand)
        self._patterns.append(re.compile("".join((*patterns, re.escape(text[end:])))))

    def _pattern(self, operand: str) -> str:
        """What matches an operand: pairs of what stays and what may change, those that repeat as one."""
        parts = _CHANGED.split(operand)
        pairs = [
            (_ANY_OFFSET if word.isdecimal() else self._scope.alike(word)) + re.escape(after)
            for word, after in zip(parts[1::2], parts[2::2], strict=True)
        ]
        patterns = [re.escape(parts[0])]
        for one, several in groupby(pairs):
            number = len(list(several))
            patterns.append(one * number if number <= _MOST_UNROLLED else f"(?:{one}){{{number}}}")
        return "".join(patterns)
