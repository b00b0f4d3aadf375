"""What features answer, before it becomes LSP's types: offsets into the text."""

from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True)
class Hover:
    """Markdown about a part of the text."""

    text: str
    span: Span


@dataclass(frozen=True)
class Completion:
    """A choice that replaces `span`. `kind` is "operation", "attribute", "value" or "keyword"."""

    label: str
    span: Span
    kind: str
    detail: str = ""
    documentation: str = ""
    insert: str = ""
    """What is written instead of the label, if anything."""


@dataclass(frozen=True)
class Symbol:
    """A name in the outline of a document: `kind` is "module", "function" or "variable"."""

    name: str
    kind: str
    span: Span
    name_span: Span
    children: tuple["Symbol", ...] = ()
