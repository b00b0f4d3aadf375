"""What is around an offset in MLIR's text, which need not parse: an operation, its attributes, a value."""

from dataclasses import dataclass

from weft.tools.language_server import mlir_tokens
from weft.tools.language_server.mlir_tokens import Operation, Token
from weft.tools.language_server.text import line_around

_BACK = 20_000  # characters before an offset in which its operation is searched


@dataclass(frozen=True)
class Place:
    """What is around an offset.

    `kind` is "code", "attributes" (of `operation`), "field" (of a dictionary that is the value of an
    attribute of `operation`), "target" (`#nvvm.target<…>`) or "other". `names` are those that the dictionary
    has before the offset. `key` is the name whose value the offset is in, or None. `token` ends at the
    offset, `before` is the one before that, and `first`: the line has nothing before.
    """

    kind: str
    operation: Operation | None
    names: tuple[str, ...]
    key: str | None
    token: Token | None
    before: Token | None
    first: bool


class _Bracket:
    """An open bracket: its number among the tokens, and where the operation begins that it belongs to."""

    def __init__(self, at: int, owner: int | None) -> None:
        self.at, self.owner = at, owner


def place(text: str, offset: int) -> Place:
    """What is around an offset."""
    seen, brackets = _read(text, offset)
    ended = seen[-1] if seen and seen[-1].end >= offset and seen[-1].kind != "mark" else None
    rest = seen[:-1] if ended else seen
    before = rest[-1] if rest else None
    first = before is None or "\n" in text[before.end : ended.start if ended else offset]
    kind, owner, names, key = "code", None, tuple[str, ...](), None
    if brackets:
        inner = brackets[-1]
        kind, owner = _kind(seen, brackets)
        names, key = _entries(rest[inner.at + 1 :])
    operation = mlir_tokens.operation(text, owner) if owner is not None else None
    return Place(kind, operation, names, key, ended, before, first)


def _read(text: str, offset: int) -> tuple[list[Token], list[_Bracket]]:
    """The tokens before an offset, and the brackets that are open there."""
    start, end = line_around(text, max(0, offset - _BACK))[0], line_around(text, offset)[1]
    seen, brackets, closed = list[Token](), list[_Bracket](), dict[int, int | None]()
    for token in mlir_tokens.tokens(text, start, end):
        if token.start >= offset:
            break
        if token.kind == "mark" and token.text in "([{<":
            brackets.append(_Bracket(len(seen), _owner(token, seen, brackets, closed)))
        elif token.kind == "mark" and token.text in ")]}>" and brackets:
            closed[len(seen)] = brackets.pop().owner
        seen.append(token)
    return seen, brackets


def _owner(
    token: Token, seen: list[Token], brackets: list[_Bracket], closed: dict[int, int | None]
) -> int | None:
    """Where the operation in generic form begins that a bracket belongs to: its operands, properties, regions
    and attributes follow each other directly.
    """
    if not seen:
        return None
    if token.text == "(" and seen[-1].kind == "string":
        return seen[-1].start
    if token.text == "{" and seen[-1].text == "<" and brackets:
        return brackets[-1].owner
    return closed.get(len(seen) - 1)


def _kind(seen: list[Token], brackets: list[_Bracket]) -> tuple[str, int | None]:
    """The kind of the innermost bracket, and the operation that it belongs to."""
    inner = brackets[-1]
    opening, previous = seen[inner.at].text, seen[inner.at - 1].text if inner.at else ""
    if opening == "<" and previous == "#nvvm.target":
        return "target", None
    if opening != "{":
        return "other", None
    if inner.owner is not None:
        return "attributes", inner.owner
    if previous == "=":
        return "field", brackets[-2].owner if len(brackets) > 1 else None
    return ("other" if previous == "attributes" else "code"), None


def _entries(tokens: list[Token]) -> tuple[tuple[str, ...], str | None]:
    """The names in a dictionary that some tokens begin, and the one in whose value they end."""
    depth, names, entry = list[str](), list[str](), list[Token]()
    for token in tokens:
        mlir_tokens.nest(depth, token)
        entry = [] if token.text == "," and not depth else [*entry, token]
        if len(entry) == 1:
            names.append(token.text.strip('"'))
    is_value = len(entry) > 1 and entry[1].text == "="
    return tuple(names), entry[0].text.strip('"') if is_value else None
