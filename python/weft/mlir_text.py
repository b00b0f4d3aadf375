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
    rf'(?P<raw>@(?:[\w$.-]+\()?)?(?P<string>"(?:[^"\\\n]|\\.)*")|//.*|->'
    rf"|(?P<shape>{_SHAPE})|(?P<open>[(\[{{<])|(?P<close>[)\]}}>])"
    r"|%[\w$.-]++(?:\s|//.*\n)*#(?P<number>\d+)"
)
_LONG_NUMBER = re.compile(r"#\d{5}")
_ESCAPE = re.compile(rb"\\(?:([\da-fA-F]{2})|(.))")
_BYTE = re.compile(r"\\[89a-fA-F][\da-fA-F]")  # what only a string that isn't ASCII has


def check(text: str, name: str) -> None:
    """Raises WeftError, with the place in the file called `name`, for what the parser doesn't survive."""
    _check_characters(text, name)
    shallow = sum(map(text.count, _OPENING)) <= _DEEPEST
    if shallow and not any(pattern.search(text) for pattern in (_LONG_NUMBER, _LARGE_SHAPE, _BYTE)):
        return
    within: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["open"]:
            within.append(match["open"])
            if len(within) > _DEEPEST:
                raise _refusal(f"more than {_DEEPEST} brackets within each other", text, match.start(), name)
        elif match["shape"]:
            _check_shape(match, text, name)
        elif match["string"] and not match["raw"]:  # symbols, and the bytes behind a global's
            _check_string(match, text, name)
        elif match["close"]:
            _close(within, _OPENING[_CLOSING.index(match["close"])])
        elif match["number"] and int(match["number"][:20]) >= _MOST_RESULTS:
            what = f"expected the number of a result, below {_MOST_RESULTS}, got {match['number']}"
            raise _refusal(what, text, match.start("number") - 1, name)


def _check_characters(text: str, name: str) -> None:
    """What Python's text may have and a file of text can't."""
    if (at := text.find("\0")) >= 0:
        raise _refusal("a zero byte in the text", text, at, name)
    try:
        text.encode()
    except UnicodeEncodeError as failure:
        raise _refusal("half of a surrogate pair in the text", text, failure.start, name) from None


def _check_string(match: re.Match[str], text: str, name: str) -> None:
    """The bindings hand out names, attributes and files of locations as text alone."""
    if not _BYTE.search(match["string"]):
        return
    inner = match["string"][1:-1].encode()
    found = _ESCAPE.sub(lambda m: bytes.fromhex(m[1].decode()) if m[1] else m[2], inner)
    try:
        found.decode()
    except UnicodeDecodeError:
        what = f"expected a string of UTF-8 text, got {match['string'][:80]}"
        raise _refusal(what, text, match.start("string"), name) from None


def _check_shape(match: re.Match[str], text: str, name: str) -> None:
    for size in re.finditer(_NUMBER, match["shape"]):
        digits = size[0].lstrip("-").removeprefix("0x")[:20]
        value = int(digits, 16 if "x" in size[0] else 10)
        if value > _LARGEST_SHAPE or (value and size[0].startswith("-")):
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
