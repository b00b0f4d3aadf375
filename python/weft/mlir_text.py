"""Texts that MLIR's parser would end the process over, refused before it reads them."""

import re

from weft.errors import Diagnostic, Location, WeftError

_DEEPEST = 1000  # brackets within each other; the parser runs out of stack at some thousands
_MOST_RESULTS = 1 << 16  # of one operation; the parser makes room for the number that a use names
_OPENING = "([{<"
_CLOSING = ")]}>"
_LARGEST_SHAPE = 4096  # an instruction's m, n and k; upstream's verifiers make room for as many registers
_NUMBER = r"(?:0x[\da-fA-F]+|-?\d+)"
_SHAPE = rf"<\s*(?:[mnk]\s*=\s*{_NUMBER}\s*,?\s*){{1,3}}>"
_LARGE_SHAPE = re.compile(r"[mnk]\s*=\s*(?:0x|-|\d{5})")
# Strings, comments and arrows are tokens so that no bracket is seen in them.
_TOKEN = re.compile(
    rf'"(?:[^"\\\n]|\\.)*"|//.*|->|(?P<shape>{_SHAPE})|(?P<open>[(\[{{<])|(?P<close>[)\]}}>])'
    r"|%[\w$.-]++(?:\s|//.*\n)*#(?P<number>\d+)"
)
_LONG_NUMBER = re.compile(r"#\d{5}")


def check(text: str, name: str) -> None:
    """Raises WeftError, with the place in the file called `name`, for what the parser doesn't survive."""
    shallow = sum(map(text.count, _OPENING)) <= _DEEPEST
    if shallow and not _LONG_NUMBER.search(text) and not _LARGE_SHAPE.search(text):
        return
    within: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["open"]:
            within.append(match["open"])
            if len(within) > _DEEPEST:
                raise _refusal(f"more than {_DEEPEST} brackets within each other", text, match.start(), name)
        elif match["shape"]:
            _check_shape(match, text, name)
        elif match["close"]:
            _close(within, _OPENING[_CLOSING.index(match["close"])])
        elif match["number"] and int(match["number"][:20]) >= _MOST_RESULTS:
            what = f"expected the number of a result, below {_MOST_RESULTS}, got {match['number']}"
            raise _refusal(what, text, match.start("number") - 1, name)


def _check_shape(match: re.Match[str], text: str, name: str) -> None:
    for size in re.finditer(_NUMBER, match["shape"]):
        if not 0 <= int(size[0], 0) <= _LARGEST_SHAPE:
            what = f"expected m, n and k of an instruction's shape in 0..{_LARGEST_SHAPE}, got {size[0]}"
            raise _refusal(what, text, match.start() + size.start(), name)


def _close(within: list[str], opening: str) -> None:
    """Drops the innermost bracket of a kind, and those in it: `<` and `>` needn't be brackets."""
    if opening in within:
        while within.pop() != opening:
            pass


def _refusal(message: str, text: str, at: int, name: str) -> WeftError:
    line, start = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at)
    return WeftError(Diagnostic(message, Location(name, line, at - start)))
