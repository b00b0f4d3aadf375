"""What a check finds in a document, as plain values that pass between processes. Offsets count characters."""

from collections.abc import Iterable, Iterator
from typing import TypedDict


class Edit(TypedDict):
    """A part of the text to replace."""

    start: int
    end: int
    text: str


class Fix(TypedDict):
    """A change that removes a problem. `preferred` ones may be applied without a choice."""

    title: str
    edits: list[Edit]
    preferred: bool


class Problem(TypedDict):
    """A message about a part of the text. `severity` is "error", "warning", "remark" or "note"; `rule` is the
    table's rule or the axis that is wrong, or "".
    """

    start: int
    end: int
    severity: str
    message: str
    rule: str
    notes: list["Problem"]
    fixes: list[Fix]


def problem(
    span: tuple[int, int],
    message: str,
    *,
    severity: str = "error",
    rule: str = "",
    fixes: Iterable[Fix] = (),
    notes: Iterable[Problem] = (),
) -> Problem:
    """A problem in the part `span` of the text."""
    start, end = span
    return {
        "start": start,
        "end": end,
        "severity": severity,
        "message": message,
        "rule": rule,
        "notes": list(notes),
        "fixes": list(fixes),
    }


def replacement(title: str, span: tuple[int, int], text: str, *, preferred: bool = False) -> Fix:
    """A fix that replaces one part of the text."""
    edit: Edit = {"start": span[0], "end": span[1], "text": text}
    return {"title": title, "edits": [edit], "preferred": preferred}


def preferring_one(fixes: Iterable[Fix]) -> Iterator[Fix]:
    """The fixes, of which at most the first preferred one stays so: editors apply it without a choice."""
    chosen = False
    for fix in fixes:
        yield {**fix, "preferred": fix["preferred"] and not chosen}
        chosen = chosen or fix["preferred"]
