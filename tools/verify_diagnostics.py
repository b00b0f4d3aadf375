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
_CLASS = re.compile(r"\[:(\w+):\]")
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "space": r"\s",
    "punct": r"!-/:-@\[-`{-~",
}
"""Classes in brackets that POSIX's regular expressions have, but Python's don't."""


@dataclass(frozen=True)
class Expectation:
    """One announced diagnostic: `line` is where it must point, None for one without a location."""

    kind: str
    text: str
    pattern: re.Pattern[str]
    line: int | None
    written: Location

    def describes(self, diagnostic: Diagnostic) -> bool:
        """Whether the line and the text are those of `diagnostic`."""
        location = diagnostic.location
        pointed = None if location is None else (location.file, location.line)
        announced = None if self.line is None else (self.written.file, self.line)
        return pointed == announced and bool(self.pattern.search(diagnostic.message))


def expectations(text: str, name: str) -> Iterator[Expectation | Diagnostic]:
    """What the comments of `text` announce. A comment whose regular expression is invalid is an error itself.
    `@above` and `@below` skip lines that announce others.
    """
    lines = text.split("\n")
    matches = [(number, _ANNOUNCED.search(line.rstrip())) for number, line in enumerate(lines, 1)]
    announcing = {number for number, match in matches if match}
    for number, match in matches:
        if match:
            written = Location(name, number, match.start() + 1)
            try:
                pattern = _pattern(match["text"], bool(match["regex"]))
            except (re.error, OverflowError) as failure:
                yield Diagnostic(f"invalid regex: {str(failure).partition(' at position')[0]}", written)
                continue
            position = match["position"] or "@+0"
            if position == "@unknown":
                line = None
            elif position == "@above":
                line = next((n for n in range(number - 1, 0, -1) if n not in announcing), 0)
            elif position == "@below":
                line = next((n for n in range(number + 1, len(lines) + 1) if n not in announcing), 0)
            else:
                line = number + int(position[1:])
            yield Expectation(match["kind"], match["text"], pattern, line, written)


def _pattern(text: str, regex: bool) -> re.Pattern[str]:
    if not regex:
        return re.compile(re.escape(text))
    parts = _EMBEDDED.split(text)
    if any("{{" in part for part in parts[::2]):
        raise re.error("found start of regex with no end '}}'")
    for number, part in enumerate(parts):
        inside = _CLASS.sub(lambda name: _CLASSES.get(name[1], name[0]), part)
        parts[number] = f"(?:{inside})" if number % 2 else re.escape(part)
    return re.compile("".join(parts))


def _flat(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flat(diagnostic.notes)


def verify(
    diagnostics: Sequence[Diagnostic], text: str, name: str, unexpected: bool = True
) -> list[Diagnostic]:
    """What differs between the diagnostics that came and those that `text`, called `name`, announces.

    As in `mlir-opt`, a diagnostic meets the first announcement that describes it, and several may meet the
    same one. Every diagnostic must be announced, notes too, unless `unexpected` ones don't matter. `mlir-opt`
    has MLIR leave out the note that prints the operation.
    """
    announced = list(expectations(text, name))
    complaints = [each for each in announced if isinstance(each, Diagnostic)]
    expected = [each for each in announced if isinstance(each, Expectation)]
    met = set()
    for diagnostic in _flat(diagnostics):
        described = [each for each in expected if each.describes(diagnostic)]
        first = next((each for each in described if each.kind == diagnostic.severity), None)
        if first is not None:
            met.add(first)
        elif not unexpected or diagnostic.message.startswith("see current operation:"):
            continue
        elif described:
            what = f"'{diagnostic.severity}' diagnostic emitted when expecting a '{described[-1].kind}'"
            complaints.append(Diagnostic(what, described[-1].written))
        else:
            what = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            complaints.append(Diagnostic(what, diagnostic.location))
    for each in expected:
        if each not in met:
            complaints.append(
                Diagnostic(f'expected {each.kind} "{each.text}" was not produced', each.written)
            )
    return complaints
