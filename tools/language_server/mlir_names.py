"""Where the names in MLIR's text are defined and used, found in its words: the text need not parse."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from weft.tools.language_server import mlir_tokens
from weft.tools.language_server.answers import Span, Symbol
from weft.tools.language_server.mlir_tokens import Token

_NAMED = ("value", "symbol", "block", "alias")
_DEFINING = {
    "func.func": "function",
    "gpu.func": "function",
    "llvm.func": "function",
    "gpu.module": "module",
    "module": "module",
    "builtin.module": "module",
    "memref.global": "variable",
    "llvm.mlir.global": "variable",
}
_BEFORE_A_BODY = ("attributes", "kernel", "workgroup", "private", "->")
_MOST_BACK = 8  # words between `llvm.func` and the name


@dataclass(frozen=True)
class _Use:
    """One occurrence of a name: where it is, the open braces around it, and whether it is a definition."""

    name: str
    span: Span
    scope: tuple[int, ...]
    defines: bool


@lru_cache(maxsize=4)
def names(text: str) -> "Names":
    """The names of a text."""
    return Names(text)


class Names:
    """The names in a text, and where they are."""

    def __init__(self, text: str) -> None:
        self._tokens = list(mlir_tokens.tokens(text))
        self._starts = [token.start for token in self._tokens]
        self._text = text

    @cached_property
    def _first(self) -> list[bool]:
        """Whether each token is the first of its line."""
        first = [True] if self._tokens else []
        first += ["\n" in self._text[a.end : b.start] for a, b in pairwise(self._tokens)]
        return first

    @cached_property
    def _uses(self) -> list[_Use]:
        found, scope, brackets, opened = [], tuple[int, ...](), list[int](), 0
        defined = self._results()
        for i, token in enumerate(self._tokens):
            if token.kind in _NAMED:
                defines = i in defined or self._is_definition(i, brackets)
                name = token.text.partition("#")[0] if token.kind == "value" else token.text
                found.append(_Use(name, (token.start, token.start + len(name)), scope, defines))
            elif token.text == "{":
                opened += 1
                scope = (*scope, opened)
            elif token.text == "}":
                scope = scope[:-1]
            elif token.text == "(":
                brackets.append(i)
            elif token.text == ")" and brackets:
                brackets.pop()
        return found

    def _results(self) -> set[int]:
        """The tokens that name the results of operations: `%0, %1:2 = …`."""
        found = set[int]()
        for i, token in enumerate(self._tokens):
            if token.kind != "value" or i in found:
                continue
            group, at = [i], i + 1
            if self._text_at(at) == ":" and self._kind_at(at + 1) == "number":
                at += 2
            while self._first[i] and self._text_at(at) == "," and self._kind_at(at + 1) == "value":
                group.append(at + 1)
                at += 2
                if self._text_at(at) == ":" and self._kind_at(at + 1) == "number":
                    at += 2
            if self._text_at(at) == "=":
                found.update(group)
        return found

    def _text_at(self, i: int) -> str:
        return self._tokens[i].text if 0 <= i < len(self._tokens) else ""

    def _kind_at(self, i: int) -> str:
        return self._tokens[i].kind if 0 <= i < len(self._tokens) else ""

    def _is_definition(self, i: int, brackets: list[int]) -> bool:
        """Whether a token other than a result defines its name; `brackets` are the open parentheses."""
        kind, after = self._kind_at(i), self._text_at(i + 1)
        if kind == "value":
            if after != ":" or not brackets or self._text_at(i - 1) not in ("(", ","):
                return False
            before = brackets[-1] - 1
            return self._kind_at(before) == "block" or self._defining(before) is not None
        if kind == "symbol":
            return self._defining(i) is not None
        return self._first[i] and after in ((":", "(") if kind == "block" else ("=",))

    def _defining(self, i: int) -> int | None:
        """The token of the operation that defines the symbol at a token; None where it is a use."""
        if self._kind_at(i) != "symbol":
            return None
        for at in range(i - 1, max(i - 1 - _MOST_BACK, -1), -1):
            if self._text_at(at) in _DEFINING:
                return at
            if self._kind_at(at) != "word" or self._first[at]:
                return None
        return None

    def _at(self, offset: int) -> _Use | None:
        at = bisect_right(self._use_starts, offset) - 1
        use = self._uses[at] if at >= 0 else None
        return use if use is not None and offset <= use.span[1] else None

    @cached_property
    def _use_starts(self) -> list[int]:
        return [use.span[0] for use in self._uses]

    def _defined(self, use: _Use) -> _Use | None:
        """The definition that an occurrence means."""
        known = [each for each in self._by_name.get(use.name, ()) if each.defines]
        if use.name[0] in "#!":
            return known[0] if known else None
        if use.name[0] == "@":
            inner = [each for each in known if each.scope == use.scope[: len(each.scope)]]
            return max(inner, key=lambda each: len(each.scope)) if inner else known[-1] if known else None
        seen = [each for each in known if each.scope == use.scope[: len(each.scope)]]
        before = [each for each in seen if each.span[0] <= use.span[0]]
        return before[-1] if before else seen[0] if seen else None

    @cached_property
    def _by_name(self) -> dict[str, list[_Use]]:
        found: dict[str, list[_Use]] = {}
        for use in self._uses:
            found.setdefault(use.name, []).append(use)
        return found

    def definition(self, offset: int) -> Span | None:
        """Where the name at an offset is defined."""
        use = self._at(offset)
        found = self._defined(use) if use else None
        return found.span if found else None

    def references(self, offset: int) -> list[Span]:
        """Every occurrence of what the name at an offset means, its definition included."""
        if (use := self._at(offset)) is None:
            return []
        meant = self._defined(use)
        return [each.span for each in self._by_name[use.name] if self._defined(each) == meant]

    def symbols(self) -> list[Symbol]:
        """The outline: modules, functions and variables, one within the other."""
        flat = []
        for i, token in enumerate(self._tokens):
            if token.kind == "symbol" and (at := self._defining(i)) is not None:
                span = (self._tokens[at].start, self._body_end(i))
                flat.append(Symbol(token.text.strip('@"'), _DEFINING[self._text_at(at)], span, token.span))
        return _nested(flat)

    def _body_end(self, i: int) -> int:
        """The end of the body that follows the name of a symbol, or of its declaration."""
        depth, end = list[str](), self._tokens[i].end
        for at in range(i + 1, len(self._tokens)):
            token = self._tokens[at]
            goes_on = not self._first[at] or token.text in _BEFORE_A_BODY
            if not depth and (not goes_on or token.text == "}"):
                return end
            mlir_tokens.nest(depth, token)
            end = token.end
        return end


def _nested(flat: list[Symbol]) -> list[Symbol]:
    """Symbols in those whose text contains theirs; they come in the order of the text."""
    starts = [symbol.span[0] for symbol in flat]
    top, i = [], 0
    while i < len(flat):
        end = bisect_left(starts, flat[i].span[1], i + 1)
        each = flat[i]
        top.append(Symbol(each.name, each.kind, each.span, each.name_span, tuple(_nested(flat[i + 1 : end]))))
        i = end
    return top


def first_line(text: str, span: Span, most: int = 300) -> str:
    """The line of a definition."""
    start = text.rfind("\n", 0, span[0]) + 1
    return text[start : start + most].partition("\n")[0].strip()


__all__ = ["Names", "Token", "first_line", "names"]
