"""Hovers and completions of MLIR."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weft.isa.chips import CHIPS
from weft.isa.family import Family
from weft.tools.language_server import forms, mlir_names, mlir_tokens
from weft.tools.language_server.answers import Completion, Hover, Span
from weft.tools.language_server.catalogue import OpFacts
from weft.tools.language_server.mlir_tokens import Operation, Token
from weft.tools.language_server.text import Text

_BACK = 20_000  # characters before an offset in which its operation is searched
_TARGET = re.compile(r'#nvvm\.target<[^<>\n]*?chip\s*=\s*"(sm_\w+)"')
_MOST_COMPLETIONS = 300
_BEFORE_OPERATIONS = frozenset({"=", "{", "}", ""})
Facts = Mapping[str, OpFacts]


@dataclass(frozen=True)
class _Place:
    """What is around an offset: the operation that it is in, as far as it is written, the attribute whose
    value it is in, whether it is within the attributes or within `#nvvm.target<…>`, and the token that ends
    there.
    """

    operation: Operation | None
    key: str | None
    in_attributes: bool
    in_target: bool
    token: Token | None
    before: Token | None
    first: bool


def _place(text: str, offset: int) -> _Place:
    whole = Text(text)
    start = whole.line_around(max(0, offset - _BACK))[0]
    seen: list[Token] = []
    stack: list[int] = []
    ops: dict[int, int] = {}
    for token in mlir_tokens.tokens(text, start, whole.line_around(offset)[1]):
        if token.start >= offset:
            break
        if token.kind == "mark" and token.text in "([{<":
            if token.text == "(" and seen and seen[-1].kind == "string":
                ops[len(stack)] = seen[-1].start
            stack.append(len(seen))
        elif token.kind == "mark" and token.text in ")]}>" and stack:
            stack.pop()
        seen.append(token)
    ended = seen[-1] if seen and seen[-1].end >= offset and seen[-1].kind != "mark" else None
    rest = seen[:-1] if ended else seen
    before = rest[-1] if rest else None
    first = before is None or "\n" in text[before.end : ended.start if ended else offset]
    depth = len(stack)
    inner = stack[-1] if stack else None
    in_attributes = in_target = False
    key = None
    op = ops.get(depth - 1, ops.get(depth - 2)) if depth else None
    if inner is not None:
        opening, previous = seen[inner].text, seen[inner - 1].text if inner else ""
        in_target = opening == "<" and previous == "#nvvm.target"
        in_attributes = opening == "{" and previous in (")", "<", "attributes", ">")
        key = _key(rest[inner + 1 :]) if in_attributes or in_target else None
    found = mlir_tokens.operation(text, op) if op is not None and in_attributes else None
    return _Place(found, key, in_attributes, in_target, ended, before, first)


def _key(tokens: list[Token]) -> str | None:
    """The name of the attribute whose value the last of some tokens of a dictionary belong to."""
    depth, entry = list[str](), list[Token]()
    for token in tokens:
        mlir_tokens.nest(depth, token)
        entry = [] if token.text == "," and not depth else [*entry, token]
    return entry[0].text.strip('"') if len(entry) > 1 and entry[1].text == "=" else None


def chip_at(text: str, offset: int) -> str | None:
    """The chip of the target that is named last before an offset."""
    end = text.find("\n", offset)
    last = None
    for match in _TARGET.finditer(text, 0, len(text) if end < 0 else end):
        last = match[1]
    return last if last in CHIPS else None


def hover(text: str, offset: int, chip: str | None, facts: Facts) -> Hover | None:
    """What is known of the word at an offset, on `chip` or on that of the target before it."""
    if (token := mlir_tokens.at(text, offset)) is None:
        return None
    name = token.text.strip('"')
    if name in CHIPS:
        return Hover(forms.chip_text(name), token.span)
    chip = chip or chip_at(text, offset)
    if token.kind in ("string", "word") and name in facts:
        written = mlir_tokens.operation(text, token.start) if token.kind == "string" else None
        return Hover(_operation_text(facts[name], written, text, chip), token.span)
    if token.kind in ("value", "symbol", "block", "alias"):
        where = mlir_names.names(text).definition(offset)
        return Hover(f"```mlir\n{mlir_names.first_line(text, where)}\n```", token.span) if where else None
    written = _place(text, offset).operation
    if written is None or (known := facts.get(written.name)) is None:
        return None
    for entry in written.entries.values():
        for span in (entry.key, entry.value):
            if span[0] <= offset <= span[1] and (
                about := _attribute_text(known, written, entry.name, text, chip)
            ):
                return Hover(about, span)
    return None


def _operation_text(known: OpFacts, written: Operation | None, text: str, chip: str | None) -> str:
    lines = [f'**"{known.name}"**' if known.operands or known.attributes else f"**{known.name}**", ""]
    lines += [known.doc, ""] if known.doc else []
    for what, names in (
        ("operands", known.operands),
        ("results", known.results),
        ("attributes", known.attributes),
    ):
        if names:
            lines.append(f"- {what}: {', '.join(f'`{name}`' for name in names)}")
    if known.optional:
        defaults = (f"`{name}`" + (f" ({value})" if value else "") for name, value in known.optional.items())
        lines.append(f"- attributes with defaults: {', '.join(defaults)}")
    family = forms.family_named(known.family)
    if family is not None:
        form = _form(family, known, written, text) if written else None
        about = forms.form_text(family, form, chip) if form else ""
        lines += ["", "---", "", about] if about else []
    return "\n".join(lines).strip()


def _attribute_text(known: OpFacts, written: Operation, name: str, text: str, chip: str | None) -> str:
    family = forms.family_named(known.family)
    if family is not None and name in family.axes:
        form = _form(family, known, written, text)
        return forms.axis_text(family, form, name, chip) if form else forms.values_text(family, name, chip)
    if name in known.optional or name in known.attributes:
        default = known.optional.get(name)
        return f"**{name}**: an attribute of `{known.name}`" + (f"; default {default}" if default else "")
    return ""


def _form(family: Family[Any], known: OpFacts, written: Operation, text: str) -> Any:
    """The form that the attributes of an operation spell, where the axes that follow from operands have any
    value that fits; None where an attribute is missing.
    """
    values: dict[str, Any] = {}
    for axis in family.axes:
        if axis in known.derived:
            values[axis] = next(iter(family.values(axis)))
        elif entry := written.entries.get(axis):
            values[axis] = _value(text[slice(*entry.value)])
        elif (value := forms.default_of(family, axis)) is not None:
            values[axis] = value
        else:
            return None
    form = family.form(**values)
    for axis in known.derived:
        fitting = family.alternatives(form, axis)
        if fitting and values[axis] not in fitting:
            values[axis] = fitting[0]
            form = family.form(**values)
    return form


def _value(written: str) -> object:
    """The value of an attribute's text: a string, a number or a truth value."""
    written = written.strip()
    if number := re.match(r"-?\d{1,18}\b", written):
        return int(number[0])
    return {"true": True, "false": False}.get(written, written.strip('"'))


def completions(text: str, offset: int, chip: str | None, facts: Facts) -> list[Completion]:
    """What may be written at an offset: operations, attributes, their values, and chips."""
    place = _place(text, offset)
    span = _replaced(place.token, offset)
    chip = chip or chip_at(text, offset)
    if place.in_target:
        is_chip = place.key == "chip"
        return [Completion(f'"{name}"', span, "value") for name in CHIPS] if is_chip else []
    if place.in_attributes:
        return list(_of_attributes(place, span, text, chip, facts)) if place.operation else []
    previous = place.before.text if place.before else ""
    typed = text[span[0] : offset]
    if not (place.first or previous in _BEFORE_OPERATIONS) or (not typed and previous != "="):
        return []
    return list(_of_operations(typed, span, facts))


def _replaced(token: Token | None, offset: int) -> Span:
    """What a completion replaces: the word at the offset, or a string to its end, if it has one."""
    if token is None or token.kind not in ("word", "string", "number"):
        return offset, offset
    whole = token.kind == "string" and len(token.text) > 1 and token.text.endswith('"')
    return token.start, token.end if whole else offset


def _of_operations(typed: str, span: Span, facts: Facts) -> Iterator[Completion]:
    begun, count = typed.strip('"'), 0
    for name, known in sorted(facts.items()):
        if not name.startswith(begun):
            continue
        ours = bool(known.operands or known.attributes or known.results or known.family)
        spelled = f'"{name}"' if ours or typed.startswith('"') else name
        doc = known.doc.partition("\n\n")[0]
        yield Completion(spelled, span, "operation", known.family, doc)
        count += 1
        if count == _MOST_COMPLETIONS:
            return


def _of_attributes(
    place: _Place, span: Span, text: str, chip: str | None, facts: Facts
) -> Iterator[Completion]:
    written = place.operation
    known = facts.get(written.name) if written else None
    if written is None or known is None:
        return
    family = forms.family_named(known.family)
    if place.key is None:
        for name in (*known.attributes, *known.optional):
            if name not in written.entries or written.entries[name].key == span:
                default = known.optional.get(name, "")
                yield Completion(name, span, "attribute", default, insert=f"{name} = {default}")
        return
    if family is None or place.key not in family.axes:
        if known.optional.get(place.key) in ("true", "false"):
            yield from (Completion(word, span, "value") for word in ("true", "false"))
        return
    form = _form(family, known, written, text)
    fitting = family.alternatives(form, place.key, chip) if form else ()
    for value in dict.fromkeys((*fitting, *family.values(place.key, chip))):
        label = f'"{value}"' if isinstance(value, str) else str(value).lower()
        detail = "" if not form or value in fitting else "with other attributes"
        yield Completion(label, span, "value", detail)
