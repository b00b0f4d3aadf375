"""The problems of a PTX text, as `weft lint` finds them, with fixes."""

import re
from collections.abc import Iterator

from weft.errors import WeftError
from weft.isa import tables
from weft.isa.chips import CHIPS, NEWEST_PTX
from weft.isa.family import Verdict
from weft.isa.text import reader, written
from weft.isa.text.reader import Statement
from weft.tools import findings
from weft.tools.language_server import forms
from weft.tools.language_server.problem import Edit, Fix, Problem, preferring_one, problem, replacement
from weft.tools.language_server.text import Text

Span = tuple[int, int]

_OPCODE = re.compile(r"[\w$]+(?:\s*\.[\w:]+)*")
_MISSING = re.compile(r"\(is a ';' missing before (\S+?)\?\)")
_MEANT = re.compile(r"did you mean '([^']+)'\?")
_CHIP = re.compile(r"\.target\s+(?:\w+\s*,\s*)*?(sm_\w+)")
_VERSION = re.compile(r"\.version\s+(\d+\.\d+)")
_NAME = "-"  # no message shows it
_MOST = 1000
"""The most problems of a document; more are no help, and slow editors down."""


def problems(text: str, chip: str | None = None) -> list[Problem]:
    """The problems of a PTX text on `chip`, or on the one that it names."""
    if not text.strip():
        return []
    found = list[Problem]()
    try:
        judged = chip or findings.chip_of(text, _NAME)
    except WeftError as error:
        found.append(_of_target(error, text))
        judged = None
    try:
        findings.check_version(text, _NAME)
    except WeftError as error:
        found.append(_of_version(error, text))
    document = _Document(text, judged, configured=chip is not None)
    for each in document.problems():
        found.append(each)
        if len(found) == _MOST:
            found.append(problem((0, 0), f"only the first {_MOST} problems are shown", severity="remark"))
            break
    return found


def span_in(pattern: re.Pattern[str], text: str) -> Span | None:
    """Where the first match of a pattern's group is, outside of comments and strings."""
    match = pattern.search(reader.code(text))
    return match.span(1) if match else None


def _of_target(error: WeftError, text: str) -> Problem:
    span = span_in(_CHIP, text) or (0, 0)
    message, named = error.diagnostics[0].message, text[slice(*span)]
    hint = _MEANT.search(message)
    fixes = [replacement(f"Change to {hint[1]}", span, hint[1], preferred=True)] if hint else []
    if not hint and (digits := re.sub(r"\D", "", named)):
        near = min(CHIPS.values(), key=lambda each: abs(each.number - int(digits[:6])))
        fixes = [replacement(f"Change to {near.name}", span, near.name)]
    return problem(span, message, rule="target", fixes=fixes)


def _of_version(error: WeftError, text: str) -> Problem:
    span = span_in(_VERSION, text) or (0, 0)
    newest = ".".join(map(str, NEWEST_PTX))
    fixes = [replacement(f"Change to {newest}", span, newest, preferred=True)]
    return problem(span, error.diagnostics[0].message, rule="version", fixes=fixes)


class _Document:
    """A text that is judged."""

    def __init__(self, text: str, chip: str | None, *, configured: bool) -> None:
        self._text, self._shown, self._chip = Text(text), reader.code(text), chip
        self._version = reader.version(text)
        self._target = None if configured else span_in(_CHIP, text)
        self._version_span = span_in(_VERSION, text)

    def problems(self) -> Iterator[Problem]:
        """What is wrong with each instruction, and what there is to say of legal ones."""
        judge = written.Judge(self._chip, self._version)
        for statement in reader.statements(self._text.text, others=True):
            verdict = judge(statement)
            if verdict is not None:
                opcode, whole = self._spans(statement)
                fixes = preferring_one(self._fixes(statement, verdict, opcode, whole))
                message = f"'{statement.opcode}' {verdict}"
                notes = []
                if related := verdict.related:
                    start = self._text.of_columns(*related[:2])
                    notes = [problem((start, start + len("tcgen05")), related[2], severity="remark")]
                yield problem(opcode, message, rule=verdict.rule, fixes=fixes, notes=notes)
            elif remark := written.remark(statement.opcode, self._chip):
                span, _ = self._spans(statement)
                yield problem(span, f"'{statement.opcode}' {remark}", severity="remark")

    def _spans(self, statement: Statement) -> tuple[Span, Span]:
        """Where the opcode of a statement is, and the whole statement."""
        start = self._text.of_columns(statement.line, statement.column)
        match = _OPCODE.match(self._shown, start)
        end = match.end() if match else start + len(statement.opcode)
        whole = end + len(statement.rest)
        ended = self._shown[whole : whole + 1] == ";"
        return (start, end), (start, whole + 1 if ended else start + len(self._shown[start:whole].rstrip()))

    def _fixes(self, statement: Statement, verdict: Verdict, opcode: Span, whole: Span) -> Iterator[Fix]:
        if missing := _MISSING.search(verdict.reason):
            at = self._shown.find(missing[1], opcode[1], whole[1])
            if at > 0:
                at = len(self._shown[:at].rstrip())
                yield replacement(f"Insert ';' before {missing[1]}", (at, at), ";", preferred=True)
            return
        if verdict.rule == "instruction":
            if meant := _MEANT.search(verdict.reason):
                word = (opcode[0], opcode[0] + len(statement.opcode.partition(".")[0]))
                yield replacement(f"Change to {meant[1]}", word, meant[1])
            return
        if not statement.ended and verdict.reason == "must end with a semicolon":
            yield replacement("Insert ';'", (whole[1], whole[1]), ";", preferred=True)
            return
        yield from self._nearest(statement, verdict, opcode, whole)
        yield from self._of_the_text(statement, verdict)

    def _nearest(self, statement: Statement, verdict: Verdict, opcode: Span, whole: Span) -> Iterator[Fix]:
        """Replacements of the instruction by those that the verdict names."""
        given = statement.instruction()
        for near in verdict.nearest:
            match = _OPCODE.match(near)
            if match is None or not near.endswith(";"):
                continue
            operands = reader.split_operands(near[match.end() : -1])
            legal = given._replace(opcode=match[0], operands=operands, ended=True)
            # Another type or shape isn't what a text for another chip means.
            clean = verdict.rule not in ("chip", "ptx")
            clean = clean and written.complaint(legal, self._chip, self._version) is None
            if operands == given.operands:
                yield replacement(f"Change to {match[0]}", opcode, match[0], preferred=clean)
            else:
                yield replacement(f"Change to {near}", whole, near, preferred=clean)

    def _of_the_text(self, statement: Statement, verdict: Verdict) -> Iterator[Fix]:
        """Changes of `.target` and `.version` that make the instruction legal."""
        given = statement.instruction()
        spelled = tables.read(given.opcode, given.operands)
        support = spelled[0].table.get(spelled[1]) if spelled else None
        if support is None or verdict.rule not in ("chip", "ptx"):
            return
        chip, edits, title = self._chip, list[Edit](), ""
        if verdict.rule == "chip":
            chip = forms.nearest_chip(chip, support.chips)
            if self._target is None or chip is None:
                return
            edits, title = replacement("", self._target, chip)["edits"], f"Set .target to {chip}"
        needed = max(support.ptx, CHIPS[chip].ptx) if chip in CHIPS else support.ptx
        words = ".".join(map(str, needed))
        if self._version is not None and self._version < needed and self._version_span is not None:
            edits += replacement("", self._version_span, words)["edits"]
            title = f"{title} and .version to {words}" if title else f"Set .version to {words}"
        if edits:
            yield {"title": title, "edits": edits, "preferred": False}
