"""Hovers and completions of MLIR."""

import re
from collections.abc import Iterator
from typing import Any

from weft.isa.chips import CHIPS
from weft.isa.family import Family
from weft.tools.language_server import forms, mlir_names, mlir_tokens
from weft.tools.language_server.answers import Completion, Hover, Span, Symbol
from weft.tools.language_server.catalog import Facts, OpFacts
from weft.tools.language_server.mlir_places import Place, place
from weft.tools.language_server.mlir_tokens import Operation
from weft.tools.language_server.text import line_around

_TARGET = re.compile(r'#nvvm\.target<[^<>\n]*?chip\s*=\s*"(sm_\w+)"')
_MOST_COMPLETIONS = 300
_BEFORE_OPERATIONS = frozenset({"=", "{", "}", ""})


def chip_at(text: str, offset: int) -> str | None:
    """The chip of the target that is named last before an offset."""
    last = None
    for match in _TARGET.finditer(text, 0, line_around(text, offset)[1]):
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
    around = place(text, offset)
    written = around.operation if around.kind == "attributes" else None
    if written is None or (known := facts.get(written.name)) is None:
        return None
    for entry in written.entries.values():
        for span in (entry.key, entry.value):
            if span[0] <= offset <= span[1] and (
                about := _attribute_text(known, written, entry.name, text, chip)
            ):
                return Hover(about, span)
    return None


def definition(text: str, offset: int) -> Span | None:
    """Where the name at an offset is defined."""
    return mlir_names.names(text).definition(offset)


def references(text: str, offset: int) -> list[Span]:
    """Every occurrence of what the name at an offset means, its definition included."""
    return mlir_names.names(text).references(offset)


def symbols(text: str) -> list[Symbol]:
    """The outline: modules, functions and variables."""
    return mlir_names.names(text).symbols()


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


def _form(family: Family[Any], known: OpFacts, written: Operation, text: str, asked: str = "") -> Any:
    """The form that the attributes of an operation spell, where the axes that follow from operands have any
    value that fits, and the axis `asked` any value; None where an attribute is missing.
    """
    values: dict[str, Any] = {}
    for axis in family.axes:
        if axis in known.derived or axis == asked:
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
    around = place(text, offset)
    token, span = around.token, (offset, offset)
    if token is not None and token.kind in ("word", "string", "number"):
        whole = token.kind == "string" and len(token.text) > 1 and token.text.endswith('"')
        span = token.start, token.end if whole else offset
    chip = chip or chip_at(text, offset)
    if around.kind == "target":
        is_chip = around.key == "chip"
        return [Completion(f'"{name}"', span, "value") for name in CHIPS] if is_chip else []
    if around.kind == "field":
        return list(_of_schedules(around, span, facts))
    if around.kind == "attributes":
        return list(_of_attributes(around, span, text, chip, facts))
    previous = around.before.text if around.before else ""
    typed = text[span[0] : offset]
    if (
        around.kind != "code"
        or not (around.first or previous in _BEFORE_OPERATIONS)
        or (not typed and previous != "=")
    ):
        return []
    return list(_of_operations(typed, span, facts))


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


def _of_schedules(around: Place, span: Span, facts: Facts) -> Iterator[Completion]:
    """The fields that a schedule may have beside those before them."""
    known = facts.get(around.operation.name) if around.operation and around.key is None else None
    written = set(around.names)
    fitting = [names for names in (known.schedules if known else ()) if written <= set(names)]
    for name in dict.fromkeys(name for names in fitting for name in names):
        if name not in written:
            yield Completion(name, span, "attribute", "a field of the schedule", insert=f"{name} = ")


def _of_attributes(
    around: Place, span: Span, text: str, chip: str | None, facts: Facts
) -> Iterator[Completion]:
    written = around.operation
    known = facts.get(written.name) if written else None
    if written is None or known is None:
        return
    family = forms.family_named(known.family)
    if around.key is None:
        for name in (*known.attributes, *known.optional):
            if name not in written.entries or written.entries[name].key == span:
                default = known.optional.get(name, "")
                yield Completion(name, span, "attribute", default, insert=f"{name} = {default}")
        return
    if family is None or around.key not in family.axes:
        yield from (Completion(f'"{value}"', span, "value") for value in known.values.get(around.key, ()))
        if known.optional.get(around.key) in ("true", "false"):
            yield from (Completion(word, span, "value") for word in ("true", "false"))
        return
    form = _form(family, known, written, text, around.key)
    fitting = family.alternatives(form, around.key, chip) if form else ()
    for value in dict.fromkeys((*fitting, *family.values(around.key, chip))):
        label = f'"{value}"' if isinstance(value, str) else str(value).lower()
        detail = "" if not form or value in fitting else "with other attributes"
        yield Completion(label, span, "value", detail)
