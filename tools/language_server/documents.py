"""The open documents, their texts and what was found in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from weft.tools import cli
from weft.tools.language_server.problem import Problem
from weft.tools.language_server.text import Text

KINDS = ("mlir", "ptx")
MOST_CHARACTERS = 4_000_000
"""The longest text that has hovers, completions and an outline; longer ones have diagnostics."""


@dataclass(eq=False)
class Document:
    """A version of an open document, checked for `chip`. `problems` are its text's, once it is checked."""

    uri: str
    kind: str
    text: Text
    version: int | None
    chip: str | None
    problems: Sequence[Problem] = ()

    @property
    def is_short(self) -> bool:
        """Whether features other than diagnostics are answered."""
        return len(self.text.text) <= MOST_CHARACTERS


def kind_of(uri: str, language: str, text: str) -> str:
    """Whether a document is "mlir" or "ptx": by its name, by the editor's language, or by its text."""
    suffix = PurePosixPath(unquote(urlsplit(uri).path)).suffix.removeprefix(".")
    if suffix in KINDS:
        return suffix
    if language in KINDS:
        return language
    return "ptx" if cli.is_ptx("", text) else "mlir"
