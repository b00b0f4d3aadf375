"""The problems of an .mlir text: what the parser reports, or what `weft lint` reports of each operation.

It runs in a process of its own, since MLIR may crash.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from weft import mlir
from weft.dialects.op import judged_on
from weft.errors import Diagnostic, WeftError
from weft.ir import mlir_text
from weft.tools import cli, findings, opt
from weft.tools.language_server import mlir_fixes, mlir_tokens
from weft.tools.language_server.problem import Fix, Problem, preferring_one, problem, replacement
from weft.tools.language_server.text import Text, line_around

_NAME = cli.STDIN
_MOST = 500
"""The most problems of a document."""
_MOST_FIXED = 50
"""The most problems for which fixes are searched: each is tried on the operation."""
_LONGEST = 4000
"""The most characters of an operation in which a misspelled name is searched."""
_MEANT = re.compile(r"^(.*); did you mean '([^']+)'\?", re.DOTALL)
_QUOTES = re.compile(r"custom op '([\w.]+)' has no custom assembly format")
_NAMED = re.compile(r"^'[\w.]+' op (\w+) must be |(?:attribute|expects) '(\w+)'")
_CHIP = re.compile(r'#nvvm\.target<[^<>\n]*?chip\s*=\s*"([^"\n]*)"')


def problems(text: str, chip: str | None = None) -> list[Problem]:
    """The problems of an .mlir text on `chip`, or on the target around each operation."""
    whole = Text(text)
    found: dict[tuple[int, int, str], Problem] = {}
    for chunk in opt.chunks(mlir_tokens.without_locations(text)):
        if not chunk.strip():
            continue
        for each in _Chunk(whole, chunk, chip).problems():
            found.setdefault((each["start"], each["end"], each["message"]), each)
            if len(found) == _MOST:
                last = problem((0, 0), f"only the first {_MOST} problems are shown", severity="remark")
                return [*found.values(), last]
    return list(found.values())


class _Chunk:
    """A part of a document that is a module: all of it, or what `// -----` separates."""

    def __init__(self, whole: Text, chunk: str, chip: str | None) -> None:
        self._whole, self._text, self._chunk, self._chip = whole, whole.text, chunk, chip
        self._fixed = 0

    def problems(self) -> Iterator[Problem]:
        """What the parser reports, or what is wrong with each operation."""
        try:
            mlir_text.check(self._chunk, _NAME)
        except WeftError as error:
            for diagnostic in error.diagnostics:  # Weft's own, whose columns count characters
                location = diagnostic.location
                offset = self._whole.of_columns(location.line, location.column) if location else 0
                yield problem((offset, min(offset + 1, len(self._text))), diagnostic.message)
            return
        try:
            with findings.parsing(_NAME) as context:
                module = mlir.parse(self._chunk, context, _NAME)
        except WeftError as error:
            yield from map(self._said, error.diagnostics)
            return
        for finding, op in findings.lint_module(module, _NAME, self._chip):
            if finding.verdict is not None or finding.remark:
                yield self._found(finding, op)

    def _offset(self, line: int, column: int) -> int:
        return self._whole.of_bytes(line, column)

    def _word(self, offset: int) -> tuple[int, int]:
        """The token at an offset; at the end of a line, the last one before it."""
        token = mlir_tokens.at(self._text, offset)
        if token is not None and token.text == "(":  # where MLIR complains about the name before it
            named = mlir_tokens.at(self._text, offset - 1)
            token = named if named is not None and named.kind == "string" else token
            return token.span
        if token is not None:
            return token.start if token.start < offset else offset, token.end
        start, _ = line_around(self._text, offset)
        before = self._text[start:offset].rstrip()
        return (start + len(before), offset) if before else (offset, min(offset + 1, len(self._text)))

    def _said(self, diagnostic: Diagnostic) -> Problem:
        """A diagnostic of MLIR's."""
        location, message = diagnostic.location, diagnostic.message
        if location is None or location.file not in (_NAME, "-"):
            return problem((0, 0), str(diagnostic).removeprefix("error: "))
        if bare := _QUOTES.match(message):  # whose column counts characters
            offset = self._whole.of_columns(location.line, location.column)
            span = (offset, offset + len(bare[1]))
            return problem(
                span, message, fixes=[replacement("Write the name in quotes", span, f'"{bare[1]}"')]
            )
        offset = self._offset(location.line, location.column)
        span = self._narrowed(offset, message)
        notes = [self._said(note) for note in diagnostic.notes if not note.message.startswith("see current")]
        fixes = preferring_one(self._meant(offset, message))
        severity = diagnostic.severity if diagnostic.severity != "note" else "remark"
        return problem(span, message, severity=severity, fixes=fixes, notes=notes)

    def _found(self, finding: findings.Finding, op: Any) -> Problem:
        """A finding of the tables about an operation."""
        offset = self._offset(finding.line, finding.column)
        if finding.verdict is None:
            return problem(self._word(offset), f"{finding.subject} {finding.remark}", severity="remark")
        message, rule = f"{finding.subject} {finding.verdict}", finding.verdict.rule
        if rule == "target":
            return self._of_target(offset, finding.verdict.reason)
        fixes: list[Fix] = list(self._meant(offset, message))
        written = mlir_tokens.operation(self._text, offset)
        if op is not None and written is not None and written.name == op.operation.name:
            self._fixed += 1
            if self._fixed <= _MOST_FIXED:
                with judged_on(self._chip):
                    found = mlir_fixes.fixes(op, written, self._text, message)
                # Another type or shape isn't what a text for another chip means.
                fixes += [{**fix, "preferred": fix["preferred"] and rule != "chip"} for fix in found]
        if rule == "chip" and self._chip is None and op is not None:
            fixes += self._other_chip(op, offset)
        notes = []
        if related := finding.verdict.related:
            notes = [problem(self._word(self._offset(*related[:2])), related[2], severity="remark")]
        span = self._narrowed(offset, message, rule)
        return problem(span, message, rule=rule, fixes=preferring_one(fixes), notes=notes)

    def _narrowed(self, offset: int, message: str, rule: str = "") -> tuple[int, int]:
        """The attribute that a message is about, where the operation has it; otherwise the word there."""
        written = mlir_tokens.operation(self._text, offset)
        match = _NAMED.search(message)
        names = (rule, *(match.groups("") if match else ()))
        if written is None or message.startswith(f"'{written.name}' op expects the"):
            return self._word(offset)
        for name in names:
            if entry := written.entries.get(name):
                return entry.key if "has no attribute" in message else entry.value
        return self._word(offset)

    def _meant(self, offset: int, message: str) -> Iterator[Fix]:
        """The replacement that a message suggests for a name in the operation at an offset."""
        if (match := _MEANT.search(message)) is None:
            return
        before, right = match.groups()
        close = get_close_matches(right, re.findall(r"'([^']+)'", before), 1)
        start = min(offset, self._word(offset)[0])
        for token in mlir_tokens.tokens(self._text, start, start + _LONGEST):
            if token.text.strip('"') in close:
                start = token.start + (token.text[0] == '"')
                yield replacement(f"Change to {right}", (start, start + len(close[0])), right, preferred=True)
                return

    def _target_chip(self, offset: int) -> tuple[int, int] | None:
        """Where the target around an offset names its chip."""
        last = None
        for match in _CHIP.finditer(self._text[: self._text.find("\n", offset) % (len(self._text) + 1)]):
            last = match.span(1)
        return last

    def _of_target(self, offset: int, reason: str) -> Problem:
        """The complaint about the chip of a module, at the chip's name."""
        span = self._target_chip(offset) or self._word(offset)
        got = re.search(r"got '([^']*)'", reason)
        meant = re.search(r"did you mean '([^']+)'\?", reason)
        if not got or self._text[slice(*span)] != got[1]:
            return problem(self._word(offset), reason, rule="target")
        fixes = [replacement(f"Change to {meant[1]}", span, meant[1], preferred=True)] if meant else []
        return problem(span, reason, rule="target", fixes=fixes)

    def _other_chip(self, op: Any, offset: int) -> Iterator[Fix]:
        """The change of the module's chip to one that has the operation's form."""
        span = self._target_chip(offset)
        if span is not None and (chip := mlir_fixes.chip_with(op, self._text[slice(*span)])):
            yield replacement(f"Change the chip to {chip}", span, chip)
