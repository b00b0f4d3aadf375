"""The words of MLIR's text, also of text that doesn't parse: strings, names, brackets."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.tools.language_server.text import line_around

_NAME = r"[\w$.-]+"
_TOKEN = re.compile(
    rf"""(?P<comment>//[^\n]*) | (?P<string>"(?:[^"\\\n]|\\[^\n])*"?) | (?P<value>%{_NAME}(?:\#\d+)?)
    | (?P<symbol>@(?:{_NAME}|"(?:[^"\\\n]|\\[^\n])*"?)) | (?P<block>\^{_NAME})
    | (?P<alias>[\#!][A-Za-z_$][\w$.]*)
    | (?P<number>-?\d[\w.]*) | (?P<word>[A-Za-z_][\w$.]*) | (?P<arrow>->) | (?P<mark>[^\s\w])""",
    re.VERBOSE,
)
_OPEN = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CLOSE = frozenset(_OPEN.values())
_MOST = 20_000
"""The most tokens of one operation that are read, and how far back one is searched."""


class Token(NamedTuple):
    """A word of the text: its kind, one of the groups of the pattern, and where it is."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """Where it is."""
        return self.start, self.end


def tokens(text: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """The tokens from an offset on that isn't within a token, without comments."""
    for match in _TOKEN.finditer(text, start, len(text) if end is None else end):
        if match.lastgroup != "comment":
            yield Token(str(match.lastgroup), match[0], match.start(), match.end())


def at(text: str, offset: int) -> Token | None:
    """The token that contains an offset, or ends there; None in comments and blanks."""
    found = None
    for match in _TOKEN.finditer(text, *line_around(text, offset)):
        if match.start() > offset:
            break
        if offset < match.end() or (offset == match.end() and match.lastgroup != "mark"):
            found = Token(str(match.lastgroup), match[0], match.start(), match.end())
            if offset < match.end():
                break
    return None if found is None or found.kind == "comment" else found


@dataclass(frozen=True)
class Entry:
    """An attribute in a dictionary: where its name and its value are."""

    name: str
    key: tuple[int, int]
    value: tuple[int, int]


@dataclass
class Operation:
    """An operation in generic form: its name, and its attributes."""

    name: str
    span: tuple[int, int]
    entries: dict[str, Entry] = field(default_factory=dict)
    dictionary: int | None = None
    """Where the attributes in braces begin, after the brace."""
    operands_end: int | None = None


def operation(text: str, start: int) -> Operation | None:
    """The operation whose name in quotes begins at `start`, as far as it is written; None otherwise."""
    stream = _Reader(text, start)
    name = stream.next()
    if name is None or name.kind != "string" or (after := stream.next()) is None or after.text != "(":
        return None
    found = Operation(name.text.strip('"'), name.span)
    if (end := stream.skip("(")) is None:
        return found
    found.operands_end = end
    while (token := stream.next()) is not None:
        if token.text == "{":
            found.dictionary = token.end
            found.entries.update(stream.entries("}"))
            return found
        if token.text == "<":  # properties: <{…}>
            inner = stream.next()
            if inner is None or inner.text != "{":
                return found
            found.dictionary = inner.end
            found.entries.update(stream.entries("}"))
            stream.next()
        elif token.text in ("[", "("):  # successors, regions
            if stream.skip(token.text) is None:
                return found
        else:
            return found
    return found


class _Reader:
    """Tokens one after the other."""

    def __init__(self, text: str, start: int) -> None:
        self._tokens, self._left = tokens(text, start), _MOST

    def next(self) -> Token | None:
        self._left -= 1
        return next(self._tokens, None) if self._left > 0 else None

    def skip(self, opening: str) -> int | None:
        """Reads to the bracket that closes one that was read, and returns its end."""
        depth = [opening]
        while (token := self.next()) is not None:
            if nest(depth, token) and not depth:
                return token.end
        return None

    def entries(self, closing: str) -> dict[str, Entry]:
        """The attributes up to the bracket that closes their dictionary."""
        found: dict[str, Entry] = {}
        depth: list[str] = [next(opening for opening, closer in _OPEN.items() if closer == closing)]
        key: Token | None = None
        value: list[Token] = []
        is_value = False
        while (token := self.next()) is not None:
            top = len(depth) == 1
            nest(depth, token)
            if not depth or (top and token.text == ","):
                if key is not None:
                    span = (value[0].start, value[-1].end) if value else (key.end, key.end)
                    found[key.text.strip('"')] = Entry(key.text.strip('"'), key.span, span)
                key, value, is_value = None, [], False
                if not depth:
                    break
            elif is_value:
                value.append(token)
            elif token.text == "=":
                is_value = True
            elif key is None and token.kind in ("word", "string"):
                key = token
        return found


def nest(depth: list[str], token: Token) -> bool:
    """Keeps the open brackets in `depth`; whether the token has closed one."""
    if token.kind != "mark":
        return False
    if token.text in _OPEN:
        depth.append(token.text)
    elif token.text in _CLOSE:
        opening = next(each for each, closer in _OPEN.items() if closer == token.text)
        if opening in depth:
            while depth.pop() != opening:
                pass
            return True
    return False


def without_locations(text: str) -> str:
    """The text with blanks for `loc(…)` behind operations and arguments: messages are about this text, not
    about one that it was made from.
    """
    if "loc(" not in text:
        return text
    parts, done, before = [], 0, ""
    stream = tokens(text)
    for token in stream:
        if token.text == "loc" and token.kind == "word" and before not in ("=", "[", ",", "<", ""):
            depth: list[str] = []
            end = token.end
            for inner in stream:
                nest(depth, inner)
                end = inner.end
                if not depth:
                    break
            parts += [text[done : token.start], re.sub(r"[^\n]", " ", text[token.start : end])]
            done = end
        before = token.text
    return "".join([*parts, text[done:]])
