"""Texts that MLIR's parser would end the process over, refused before it reads them."""

import re

from weft.errors import Diagnostic, Location, WeftError

_DEEPEST = 1000  # brackets within each other; the parser runs out of stack at some thousands
_MOST_RESULTS = 1 << 16  # of one operation; the parser makes room for the number that a use names
_OPENING = "([{<"
_CLOSING = ")]}>"
# Strings, comments and arrows are tokens so that no bracket is seen in them.
_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//.*|->|(?P<open>[(\[{<])|(?P<close>[)\]}>])'
    r"|%[\w$.-]++(?:\s|//.*\n)*#(?P<number>\d+)"
)
_LONG_NUMBER = re.compile(r"#\d{5}")


def check(text: str, name: str) -> None:
    """Raises WeftError, with the place in the file called `name`, for what the parser doesn't survive."""
    if sum(map(text.count, _OPENING)) <= _DEEPEST and not _LONG_NUMBER.search(text):
        return
    within: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["open"]:
            within.append(match["open"])
            if len(within) > _DEEPEST:
                raise _refusal(f"more than {_DEEPEST} brackets within each other", text, match.start(), name)
        elif match["close"]:
            _close(within, _OPENING[_CLOSING.index(match["close"])])
        elif match["number"] and int(match["number"][:20]) >= _MOST_RESULTS:
            what = f"expected the number of a result, below {_MOST_RESULTS}, got {match['number']}"
            raise _refusal(what, text, match.start("number") - 1, name)


def _close(within: list[str], opening: str) -> None:
    """Drops the innermost bracket of a kind, and those in it: `<` and `>` needn't be brackets."""
    if opening in within:
        while within.pop() != opening:
            pass


def _refusal(message: str, text: str, at: int, name: str) -> WeftError:
    line, start = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at)
    return WeftError(Diagnostic(message, Location(name, line, at - start)))
