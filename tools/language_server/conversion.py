"""Answers as LSP's types: offsets become positions in UTF-16 units."""

from collections.abc import Iterable, Iterator

from lsprotocol import types

from weft.tools.language_server.answers import Completion, Hover, Span, Symbol
from weft.tools.language_server.documents import Document
from weft.tools.language_server.problem import Fix, Problem
from weft.tools.language_server.text import Text

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "remark": types.DiagnosticSeverity.Information,
}
_COMPLETIONS = {
    "operation": types.CompletionItemKind.Function,
    "attribute": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.EnumMember,
    "keyword": types.CompletionItemKind.Keyword,
}
_SYMBOLS = {
    "module": types.SymbolKind.Module,
    "function": types.SymbolKind.Function,
    "variable": types.SymbolKind.Variable,
}


def range_of(text: Text, span: Span) -> types.Range:
    """A part of a text as a range."""
    return types.Range(*(types.Position(*text.position(offset)) for offset in span))


def offset(text: Text, position: types.Position) -> int:
    """The offset of a position."""
    return text.offset((position.line, position.character))


def span_of(text: Text, part: types.Range) -> Span:
    """A range as a part of a text."""
    return offset(text, part.start), offset(text, part.end)


def diagnostic(uri: str, text: Text, found: Problem) -> types.Diagnostic:
    """A problem as a diagnostic."""
    notes = [
        types.DiagnosticRelatedInformation(
            types.Location(uri, range_of(text, (note["start"], note["end"]))), note["message"]
        )
        for note in found["notes"]
    ]
    return types.Diagnostic(
        range_of(text, (found["start"], found["end"])),
        found["message"],
        _SEVERITIES.get(found["severity"], types.DiagnosticSeverity.Hint),
        code=found["rule"] or None,
        source="weft",
        related_information=notes or None,
    )


def actions(document: Document, wanted: Span, versioned: bool) -> Iterator[types.CodeAction]:
    """The fixes of problems that touch a part of a document, for one version of it if editors take that."""
    for found in document.problems:
        if found["start"] > wanted[1] or found["end"] < wanted[0] or not found["fixes"]:
            continue
        about = diagnostic(document.uri, document.text, found)
        for fix in found["fixes"]:
            yield types.CodeAction(
                fix["title"],
                types.CodeActionKind.QuickFix,
                [about],
                is_preferred=fix["preferred"] or None,
                edit=_edit(document, fix, versioned),
            )


def _edit(document: Document, fix: Fix, versioned: bool) -> types.WorkspaceEdit:
    edits = [
        types.TextEdit(range_of(document.text, (edit["start"], edit["end"])), edit["text"])
        for edit in fix["edits"]
    ]
    if not versioned:
        return types.WorkspaceEdit(changes={document.uri: edits})
    identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, edits)])


def hover(text: Text, found: Hover | None) -> types.Hover | None:
    """A hover, if there is one."""
    if found is None or not found.text:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found.text), range_of(text, found.span))


def completions(text: Text, found: Iterable[Completion]) -> list[types.CompletionItem]:
    """Completions, in the order given."""
    return [
        types.CompletionItem(
            each.label,
            kind=_COMPLETIONS[each.kind],
            detail=each.detail or None,
            documentation=types.MarkupContent(types.MarkupKind.Markdown, each.documentation)
            if each.documentation
            else None,
            sort_text=f"{number:04}",
            filter_text=each.label,
            text_edit=types.TextEdit(range_of(text, each.span), each.insert or each.label),
        )
        for number, each in enumerate(found)
    ]


def symbol(text: Text, found: Symbol) -> types.DocumentSymbol:
    """An entry of the outline, with those within it."""
    return types.DocumentSymbol(
        found.name or "(unnamed)",
        _SYMBOLS[found.kind],
        range_of(text, found.span),
        range_of(text, found.name_span),
        children=[symbol(text, child) for child in found.children] or None,
    )
