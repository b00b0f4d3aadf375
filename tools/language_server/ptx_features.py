"""Hovers, completions, definitions and the outline of PTX."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache

from weft.isa import tables
from weft.isa.chips import CHIPS, PTX_VERSIONS
from weft.isa.text import lenient_spelling, reader, written
from weft.isa.text.other_opcodes import OTHER
from weft.tools.language_server import forms
from weft.tools.language_server.answers import Completion, Hover, Span, Symbol
from weft.tools.language_server.catalog import Facts
from weft.tools.language_server.text import line_around

_OPCODE = re.compile(r"(?<![\w.%$])[A-Za-z_]\w*(?:\s*\.[\w:]+)*")
_PREFIX = re.compile(r"(?<![\w.%$@])[A-Za-z_]\w*(?:\.[\w:]*)*$")
_NAME = re.compile(r"[%$]?[A-Za-z_$][\w$]*|%\d[\w$]*")
_DIRECTIVE_VALUE = re.compile(r"\.(target|version)\s+(?:[\w.]+\s*,\s*)*([\w.]*)$")
_FUNCTION = re.compile(r"\.(entry|func)\b(?:\s*\([^()]*\))?\s*([A-Za-z_$%][\w$]*)")
_VARIABLE = re.compile(
    r"^[ \t]*(?:\.(?:extern|visible|weak|common)\s+)*\.(?:global|const|shared)\b"
    r"[^;={}()]{0,2000}?\s([A-Za-z_$%][\w$]*)\s*(?=[\[;=])",
    re.MULTILINE,
)
DIRECTIVES = (
    *(".version", ".target", ".address_size", ".visible", ".extern", ".weak", ".entry", ".func", ".reg"),
    *(".shared", ".global", ".const", ".local", ".param", ".align", ".maxntid", ".reqntid", ".minnctapersm"),
    *(".maxnreg", ".pragma", ".loc", ".file", ".explicitcluster", ".reqnctapercluster", ".maxclusterrank"),
)
"""Those that texts of compilers have (PTX ISA, "Directives")."""
_MOST_COMPLETIONS = 200
_LONGEST = 4000  # characters of an instruction's operands


def hover(text: str, offset: int, chip: str | None, facts: Facts) -> Hover | None:
    """What is known of the word at an offset, on `chip` or on the chip that the text names."""
    shown = reader.code(text)
    chip = chip or _known(reader.target(text))
    for match in _OPCODE.finditer(shown, *line_around(shown, offset)):
        if match.start() <= offset <= match.end():
            return _of_opcode(shown, match, offset, chip)
    if (named := _name_at(shown, offset)) and (where := definition(text, offset)) is not None:
        line = text[text.rfind("\n", 0, where[0]) + 1 :].partition("\n")[0]
        return Hover(f"```ptx\n{line.strip()[:300]}\n```", named[1])
    return None


def _known(chip: str | None) -> str | None:
    return chip if chip in CHIPS else None


def _of_opcode(shown: str, match: re.Match[str], offset: int, chip: str | None) -> Hover | None:
    """The hover over an opcode, one of its modifiers, or another word."""
    spelled = "".join(match[0].split())
    head = spelled.partition(".")[0]
    if spelled in CHIPS:
        return Hover(forms.chip_text(spelled), match.span())
    if head not in tables.HEADS:
        if head in OTHER and "." in spelled:
            return Hover(f"`{spelled}`: an instruction that `weft lint` doesn't check", match.span())
        return None
    stop = shown.find(";", match.end(), match.end() + _LONGEST)
    operands = reader.split_operands(shown[match.end() : max(stop, match.end())])
    read = tables.read(lenient_spelling.once(spelled), operands)
    if read is None:
        verdict = written.unread(spelled, chip)
        return Hover(f"**{head}**\n\n`{spelled}` {verdict}", match.span())
    family, form = read
    before = shown[match.start() : offset]
    start = match.start() + before.rfind(".") + 1 if "." in before else match.start()
    word = re.compile(r"[\w:]*").match(shown, start)
    token = word[0] if word else ""
    axes = [axis for axis in family.axes if _is_spelled(getattr(form, axis), token)]
    if start == match.start() or not axes:
        return Hover(forms.form_text(family, form, chip), match.span())
    texts = [forms.axis_text(family, form, axis, chip) for axis in axes]
    return Hover("\n\n---\n\n".join(texts), (start, start + len(token)))


def _is_spelled(value: object, token: str) -> bool:
    if isinstance(value, str):
        return bool(value) and token in (value, *value.split("."), f"kind::{value}")
    return not isinstance(value, bool) and isinstance(value, int) and token == f"x{value}"


@cache
def _opcodes(head: str, chip: str | None) -> tuple[str, ...]:
    return tuple(sorted({form.ptx for family in tables.HEADS[head] for form in family.forms(chip)}))


def completions(text: str, offset: int, chip: str | None, facts: Facts) -> list[Completion]:
    """What may be written at an offset: chips, versions, opcodes and their modifiers."""
    begin = text.rfind("\n", 0, offset) + 1
    line = reader.code(text)[begin:offset]
    if value := _DIRECTIVE_VALUE.search(line):
        span = (begin + value.start(2), offset)
        names = CHIPS if value[1] == "target" else [f"{a}.{b}" for a, b in sorted(PTX_VERSIONS, reverse=True)]
        return [Completion(name, span, "value") for name in names if name.startswith(value[2])]
    if dotted := re.search(r"(?<![\w.\])}])\.\w*$", line):
        span = (begin + dotted.start(), offset)
        return [Completion(name, span, "keyword") for name in DIRECTIVES if name.startswith(dotted[0])]
    if (prefix := _PREFIX.search(line)) is None or not re.search(
        r"(?:^|[;{}:]|@!?[%\w]+)\s*$", line[: prefix.start()]
    ):
        return []
    return list(_of_prefix(prefix[0], (begin + prefix.start(), offset), chip or _known(reader.target(text))))


def _of_prefix(prefix: str, span: Span, chip: str | None) -> Iterator[Completion]:
    """The words that begin an instruction, or the next modifiers of one."""
    head, dot, _ = prefix.partition(".")
    if not dot:
        for name in sorted({*tables.HEADS, *OTHER}):
            if name.startswith(head):
                detail = "checked by weft lint" if name in tables.HEADS else ""
                yield Completion(name, span, "operation", detail)
        return
    if head not in tables.HEADS:
        return
    done, _, begun = prefix.rpartition(".")
    opcodes = _opcodes(head, chip) or _opcodes(head, None)
    start, seen = bisect_left(opcodes, prefix), set[str]()
    at = (span[1] - len(begun), span[1])
    for opcode in opcodes[start:]:
        if not opcode.startswith(prefix) or len(seen) == _MOST_COMPLETIONS:
            break
        word = opcode[len(done) + 1 :].partition(".")[0]
        if word not in seen:
            seen.add(word)
            yield Completion(word, at, "value", f"{done}.{word}")


def _name_at(shown: str, offset: int) -> tuple[str, Span] | None:
    """The name at an offset, and where it is."""
    for match in _NAME.finditer(shown, *line_around(shown, offset)):
        if match.start() <= offset <= match.end():
            return match[0], match.span()
    return None


def definition(text: str, offset: int) -> Span | None:
    """Where the name at an offset is declared: a register, label, variable or function."""
    shown = reader.code(text)
    if (named := _name_at(shown, offset)) is None:
        return None
    name, span = named
    candidates = list(_declarations(shown, name))
    before = [each for each in candidates if each[0] <= span[0]]
    return before[-1] if before else candidates[0] if candidates else None


def _declarations(shown: str, name: str) -> Iterator[Span]:
    quoted = re.escape(name)
    patterns = [
        rf"^[ \t]*({quoted})[ \t]*:(?!:)",
        rf"\.(?:entry|func)\b(?:\s*\([^()]*\))?\s*({quoted})(?![\w$])",
    ]
    patterns.append(
        rf"\.(?:reg|shared|global|const|local|param)\b[^;{{}}()=]{{0,2000}}?(?<![\w$%])({quoted})(?![\w$])(?!\s*<)"
    )
    spans = [match.span(1) for pattern in patterns for match in re.finditer(pattern, shown, re.MULTILINE)]
    if numbered := re.fullmatch(r"(.*?)(\d+)", name):  # %r5 of %r<10>
        pattern = rf"\.reg\b[^;]{{0,2000}}?(?<![\w$%])({re.escape(numbered[1])})\s*<\s*(\d+)\s*>"
        ranges = re.finditer(pattern, shown)
        spans += [m.span(1) for m in ranges if int(numbered[2][:9]) < int(m[2][:9])]
    yield from sorted(spans)


def references(text: str, offset: int) -> list[Span]:
    """Every place where the name at an offset occurs; of a register or a label, those in its function."""
    shown = reader.code(text)
    if (named := _name_at(shown, offset)) is None:
        return []
    name, span = named
    first, last = 0, len(shown)
    if name[0] in "%$":
        bodies = [symbol.span for symbol in symbols(text) if symbol.kind == "function"]
        first, last = next((body for body in bodies if body[0] <= span[0] < body[1]), (0, len(shown)))
    pattern = re.compile(rf"(?<![\w$%]){re.escape(name)}(?![\w$])")
    return [match.span() for match in pattern.finditer(shown, first, last)]


def symbols(text: str) -> list[Symbol]:
    """The functions and the variables of modules."""
    shown = reader.code(text)
    found = []
    for match in _FUNCTION.finditer(shown):
        found.append(
            Symbol(match[2], "function", (match.start(), _body_end(shown, match.end())), match.span(2))
        )
    inside = [symbol.span for symbol in found]
    for match in _VARIABLE.finditer(shown):
        if not any(start <= match.start() < end for start, end in inside):
            found.append(Symbol(match[1], "variable", match.span(), match.span(1)))
    return sorted(found, key=lambda symbol: symbol.span)


def _body_end(shown: str, start: int) -> int:
    """Where the body of a function ends, or its declaration."""
    depth = 0
    for match in re.compile(r"[{};]").finditer(shown, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
        if depth == 0:
            return match.end()
    return len(shown)
