"""`--verify-diagnostics`: the diagnostics that `expected-…` comments announce, against those that came."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.errors import Diagnostic, Location

_ANNOUNCED = re.compile(
    r"expected-(?P<kind>error|warning|note|remark)(?P<regex>-re)?\s*(?P<position>@(?:[+-]\d+|above|below|unknown))?\s*"
    r"\{\{(?P<text>.*)\}\}$"
)
_EMBEDDED = re.compile(r"\{\{(.*?)\}\}")


@dataclass(frozen=True)
class Expectation:
    """One announced diagnostic: `line` is where it must point, None for one without a location."""

    kind: str
    text: str
    pattern: re.Pattern[str]
    line: int | None
    written: Location

    def met_by(self, diagnostic: Diagnostic, name: str) -> bool:
        """Whether `diagnostic` is the one; locations in other files than `name` count as none."""
        location = diagnostic.location
        line = location.line if location is not None and location.file == name else None
        return (
            diagnostic.severity == self.kind
            and line == self.line
            and bool(self.pattern.search(diagnostic.message))
        )


def expectations(text: str, name: str) -> list[Expectation]:
    """What the comments of `text` announce. `@above` and `@below` skip lines that announce others."""
    lines = text.split("\n")
    matches = [(number, _ANNOUNCED.search(line.rstrip())) for number, line in enumerate(lines, 1)]
    announcing = {number for number, match in matches if match}
    return [_expectation(match, number, announcing, len(lines), name) for number, match in matches if match]


def _expectation(
    match: re.Match[str], number: int, announcing: set[int], count: int, name: str
) -> Expectation:
    position = match["position"] or "@+0"
    line: int | None
    if position == "@unknown":
        line = None
    elif position == "@above":
        line = next((n for n in range(number - 1, 0, -1) if n not in announcing), 0)
    elif position == "@below":
        line = next((n for n in range(number + 1, count + 1) if n not in announcing), 0)
    else:
        line = number + int(position[1:])
    written = Location(name, number, match.start() + 1)
    return Expectation(
        match["kind"], match["text"], _pattern(match["text"], bool(match["regex"])), line, written
    )


def _pattern(text: str, regex: bool) -> re.Pattern[str]:
    if not regex:
        return re.compile(re.escape(text))
    parts = _EMBEDDED.split(text)
    return re.compile("".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))


def _flat(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flat(diagnostic.notes)


def verify(
    diagnostics: Sequence[Diagnostic], text: str, name: str, unexpected: bool = True
) -> list[Diagnostic]:
    """What differs between the diagnostics that came and those that `text`, called `name`, announces.

    Each announcement takes the first diagnostic that meets it. Every diagnostic must be announced, notes too,
    unless `unexpected` ones don't matter. `mlir-opt` has MLIR leave out the note that prints the operation.
    """
    open_ = expectations(text, name)
    complaints = []
    for diagnostic in _flat(diagnostics):
        met = next((e for e in open_ if e.met_by(diagnostic, name)), None)
        if met is not None:
            open_.remove(met)
            continue
        if not unexpected or diagnostic.message.startswith("see current operation:"):
            continue
        complaints.append(
            Diagnostic(f"unexpected {diagnostic.severity}: {diagnostic.message}", diagnostic.location)
        )
    complaints += [Diagnostic(f'expected {e.kind} "{e.text}" was not produced', e.written) for e in open_]
    return complaints
