"""Positions in a document: offsets into the text, LSP's lines and UTF-16 units, and the columns of MLIR."""

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
Position = tuple[int, int]
"""A line and UTF-16 units in it, both from 0."""


def line_around(text: str, offset: int) -> tuple[int, int]:
    """Where the line of an offset begins and ends."""
    end = text.find("\n", offset)
    return text.rfind("\n", 0, offset) + 1, len(text) if end < 0 else end


class Text:
    """An unchangeable text. Offsets count code points."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _starts(self) -> list[int]:
        """Where LSP's lines begin: after \\n, \\r\\n and \\r, and after nothing else."""
        if "\r" not in self.text:
            return [0, *accumulate(len(line) + 1 for line in self.text.split("\n"))][:-1]
        ends = (match.end() for match in _LINE.finditer(self.text) if match[0][-1:] in ("\r", "\n"))
        return [0, *(end for end in ends if end)]

    @cached_property
    def _newlines(self) -> list[int]:
        """Where MLIR's and PTX's lines begin: after \\n alone."""
        return [0, *accumulate(len(line) + 1 for line in self.text.split("\n"))][:-1]

    def position(self, offset: int) -> Position:
        """LSP's position of an offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset]
        return line, len(before) if before.isascii() else len(
            before.encode("utf-16-le", "surrogatepass")
        ) // 2

    def offset(self, position: Position) -> int:
        """The offset of LSP's position. One beyond a line's end is at its end, as LSP has it."""
        line, units = position
        if line >= len(self._starts):
            return len(self.text)
        start = self._starts[line]
        after = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        content = self.text[start:after].rstrip("\r\n")
        if content.isascii():
            return start + min(units, len(content))
        return start + len(
            content.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "surrogatepass")
        )

    def of_columns(self, line: int, column: int) -> int:
        """The offset of a line and a column of characters, both from 1."""
        start, end = self._line(line)
        return min(start + max(column - 1, 0), end)

    def of_bytes(self, line: int, column: int) -> int:
        """The offset of a line and a column of UTF-8 bytes, both from 1, as MLIR counts them."""
        start, end = self._line(line)
        content = self.text[start:end]
        if content.isascii():
            return min(start + max(column - 1, 0), end)
        return start + len(content.encode("utf-8", "replace")[: max(column - 1, 0)].decode("utf-8", "ignore"))

    def _line(self, line: int) -> tuple[int, int]:
        """Where a line begins and ends, of those that \\n separates."""
        if line > len(self._newlines):
            return len(self.text), len(self.text)
        start = self._newlines[max(line - 1, 0)]
        end = self.text.find("\n", start)
        return start, len(self.text) if end < 0 else end

    def edited(self, first: int, last: int, text: str) -> "Text":
        """The text with the part from `first` to `last` replaced."""
        return Text(self.text[:first] + text + self.text[max(first, last) :])
