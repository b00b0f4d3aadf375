"""Changes of an operation's attributes that make it legal; each is tried on the operation itself."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from weft import mlir
from weft.dialects.instruction import InstructionOp
from weft.dialects.op import as_attribute
from weft.errors import WeftError
from weft.mlir import ir
from weft.tools.language_server import forms
from weft.tools.language_server.mlir_tokens import Entry, Operation
from weft.tools.language_server.problem import Fix, replacement

_CLOSEST, _MOST = 24, 3
_CHOICE = re.compile(r"^'[\w.]+' op (\w+) must be (?:one of )?(.+?), got (.+?)(?:$|;)", re.DOTALL)
_RANGE = re.compile(r"in (-?\d+)\.\.(-?\d+)(?: by (\d+))?$")
_WHERE = re.compile(r" (?:for|on|with|when|if|in) .*$", re.DOTALL)


def fixes(op: Any, written: Operation, text: str, message: str) -> list[Fix]:
    """Fixes of an illegal operation, the best first: those after which it is legal, or if there are none,
    those after which its form is.
    """
    candidates = [*_closest(op), *_choices(op, message)]
    legal, others = list[Fix](), list[Fix]()
    for values in candidates:
        fix = _fix(op, written, text, values)
        if fix is None or any(fix["edits"] == known["edits"] for known in (*legal, *others)):
            continue
        complaint = _complaint_with(op, values)
        if complaint is None:
            legal.append(fix)
        elif complaint not in message:
            others.append(fix)
    legal.sort(key=lambda fix: len(fix["edits"]))
    return [{**fix, "preferred": True} for fix in legal[:_MOST]] or others[:_MOST]


def chip_with(op: Any, now: str) -> str | None:
    """The chip nearest to `now` that has the form of an operation; None where none has."""
    if not isinstance(op, InstructionOp) or op.family is None:
        return None
    support = op.family.table.get(op.form)
    return forms.nearest_chip(now, support.chips) if support else None


def _closest(op: Any) -> Iterator[dict[str, Any]]:
    """The values by which forms near that of an operation differ from it."""
    if not isinstance(op, InstructionOp) or op.family is None:
        return
    form, target = op.form, op.target
    for near in op.family.closest(form, target.chip.name if target else None, _CLOSEST):
        axes = [axis for axis in op.family.axes if getattr(near, axis) != getattr(form, axis)]
        if axes and not any(axis in op.derived for axis in axes):
            yield {axis: getattr(near, axis) for axis in axes}


def _choices(op: Any, message: str) -> Iterator[dict[str, Any]]:
    """The values that a message names for an attribute, the nearest first."""
    match = _CHOICE.match(message)
    if match is None or match[1] not in op.operation.attributes:
        return
    name, legal, got = match.groups()
    if span := _RANGE.search(legal):
        low, high, step = int(span[1]), int(span[2]), int(span[3] or 1)
        if re.fullmatch(r"-?\d+", got):
            near = low + round((min(max(int(got), low), high) - low) / step) * step
            yield {name: near}
        return
    words = [word.strip("'\" ") for word in re.split(r", | or ", _WHERE.sub("", legal))]
    if all(re.fullmatch(r"-?\d+", word) for word in (*words, got)):
        near_first = sorted(map(int, words), key=lambda value: abs(value - int(got)))
        yield from ({name: value} for value in near_first[:_MOST])
    elif isinstance(op.operation.attributes[name], ir.StringAttr):
        close = get_close_matches(got, words, _MOST, 0.0)
        yield from ({name: word} for word in close if re.fullmatch(r"[\w.:]+", word))


def _attribute(op: Any, name: str, value: Any) -> Any:
    """A value as an attribute of the type that the operation's has now."""
    attributes = op.operation.attributes
    old = attributes.get(name, None)
    with op.operation.context:
        if isinstance(old, ir.IntegerAttr) and isinstance(value, int) and not isinstance(value, bool):
            return ir.IntegerAttr.get(old.type, value)
        return as_attribute(value)


@contextmanager
def _changed(op: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """In the block, the operation has other attributes."""
    attributes = op.operation.attributes
    before = {name: attributes.get(name, None) for name in values}
    for name, value in values.items():
        attributes[name] = _attribute(op, name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del attributes[name]
            else:
                attributes[name] = old


def _complaint_with(op: Any, values: Mapping[str, Any]) -> str | None:
    """What is wrong with an operation when it has other attributes."""
    with op.location, _changed(op, values):
        try:
            complaint: str | None = op.check()
        except WeftError as error:
            return error.diagnostics[0].message
        except mlir.MLIRError as error:
            return str(error)
        return complaint


def _fix(op: Any, written: Operation, text: str, values: Mapping[str, Any]) -> Fix | None:
    """The change of the text that gives an operation other attributes; None where it can't be written."""
    fix: Fix = {"title": "", "edits": [], "preferred": False}
    changes = []
    for name, value in values.items():
        spelled = str(_attribute(op, name, value)).removesuffix(" : i64")
        if entry := written.entries.get(name):
            if text[slice(*entry.value)].startswith(("#", "!")):  # an alias, which others may use
                return None
            if value == op.optional.get(name):
                fix["edits"] += replacement("", _with_comma(entry, text), "")["edits"]
                changes.append(f"{name} to its default")
                continue
            fix["edits"] += replacement("", entry.value, spelled)["edits"]
        elif written.dictionary is not None:
            comma = ", " if written.entries else ""
            at = (written.dictionary, written.dictionary)
            fix["edits"] += replacement("", at, f"{name} = {spelled}{comma}")["edits"]
        else:
            return None
        changes.append(f"{name} to {spelled}")
    fix["title"] = f"Change {', '.join(changes)}"
    return fix


_AFTER, _BEFORE = re.compile(r"\s*,\s*"), re.compile(r",\s*$")


def _with_comma(entry: Entry, text: str) -> tuple[int, int]:
    """An attribute and the comma that separates it from others."""
    start, end = entry.key[0], entry.value[1]
    if after := _AFTER.match(text, end):
        return start, after.end()
    before = _BEFORE.search(text[max(0, start - 200) : start])
    return (start - len(before[0]) if before else start), end
