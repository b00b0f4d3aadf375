"""Where the lines of a PTX text come from: lines of its source, by `.file` and `.loc`."""

from collections.abc import Iterator
from typing import NamedTuple

_UNKNOWN = "<unknown>"
"""LLVM's name of the file of code without locations."""


class Source(NamedTuple):
    """A line of a source file; lines count from 1, columns from 0."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def source_of_lines(text: str) -> dict[int, Source]:
    """The source of every line of a PTX text after a `.loc` of its function, except of line 0 and of unknown
    files, which are code without a source.
    """
    rows = text.split("\n")
    files = dict(_files(rows))
    sources: dict[int, Source] = {}
    now: Source | None = None
    for number, row in enumerate(rows, 1):
        words = row.replace(",", " ").split()
        if len(words) > 2 and words[0] == ".loc":
            line, column = words[2], words[3] if len(words) > 3 else "0"
            known = line.isdigit() and int(line) and files.get(words[1]) != _UNKNOWN
            column = column if column.isdigit() else "0"
            now = Source(files.get(words[1], words[1]), int(line), int(column)) if known else None
        elif row.startswith("}"):
            now = None
        if now is not None:
            sources[number] = now
    return sources


class Inlined(NamedTuple):
    """A function that the compiler has put into another one, which called it at a line of the source."""

    function: str
    caller: Source


def inlined_of_lines(text: str) -> dict[int, list[Inlined]]:
    """The functions that the code of a PTX line is inlined from, the innermost first, by its `.loc`."""
    rows = text.split("\n")
    files, names = dict(_files(rows)), dict(_strings(rows))
    sites: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}
    found: dict[int, list[Inlined]] = {}
    now: list[Inlined] = []
    for number, row in enumerate(rows, 1):
        words = row.replace(",", " ").split()
        if words[:1] == [".loc"]:
            now, at = [], tuple(words[1:4])
            if len(words) == 10 and words[6] == "inlined_at":
                sites[at] = words[5], tuple(words[7:])
            while at in sites and len(now) < len(sites):
                name, at = sites[at]
                caller = Source(files.get(at[0], at[0]), *map(int, at[1:]))
                now.append(Inlined(names.get(name, name), caller))
        elif row.startswith("}"):
            now = []
        if now:
            found[number] = now
    return found


def _strings(rows: list[str]) -> Iterator[tuple[str, str]]:
    """The labels of texts in sections of debug information, and these texts."""
    for at, row in enumerate(rows):
        label, colon, _ = row.strip().partition(":")
        if colon and label.startswith("$L__info_string"):
            octets = bytearray()
            for data in rows[at + 1 :]:
                words = data.replace(",", " ").split()
                if words[:1] != [".b8"]:
                    break
                octets += bytes(map(int, words[1:]))
            yield label, octets.partition(b"\0")[0].decode("utf-8", "replace")


def _files(rows: list[str]) -> Iterator[tuple[str, str]]:
    """The numbers and the names of `.file`s."""
    for row in rows:
        words = row.split(None, 2)
        if len(words) == 3 and words[0] == ".file":
            parts = words[2].split('"')
            yield words[1], parts[1] if len(parts) > 2 else words[2]
