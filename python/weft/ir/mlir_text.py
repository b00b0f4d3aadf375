"""MLIR's text: refuses what would end its parser's process, and shortens what MLIR prints."""

import re

from weft.errors import BEGINS_WITH_MARK, BYTE_ORDER_MARK, Diagnostic, Location, WeftError

BYTECODE = b"ML\xefR"
"""How MLIR's bytecode begins, which isn't text."""
_DEEPEST = 1000  # nested brackets; the parser's stack overflows at a few thousand
_MOST_RESULTS = 1 << 16  # of an operation; the parser allocates as many as a use names
_OPENING = "([{<"
_CLOSING = ")]}>"
_LARGEST_SHAPE = 4096  # of m, n and k of an instruction; upstream's verifiers allocate as many registers
_NUMBER = r"(?:0x[\da-fA-F]+|-?\d+)"
_SHAPE = rf"<\s*(?:[mnk]\s*=\s*{_NUMBER}\s*,?\s*){{1,3}}>"
_LARGE_SHAPE = re.compile(r"[mnk]\s*=\s*(?:0x|-|\d{5})")
# Strings, comments and arrows are tokens, so that brackets in them aren't counted.
_TOKEN = re.compile(
    rf'(?P<raw>@(?:[\w$.-]+\()?|, bin = )?(?P<string>"(?:[^"\\\n]|\\.)*")|//.*|->'
    rf"|(?P<shape>{_SHAPE})|(?P<open>[(\[{{<])|(?P<close>[)\]}}>])"
    r"|%[\w$.-]++(?:\s|//.*\n)*#(?P<number>\d+)"
)
_LONG_NUMBER = re.compile(r"#\d{5}")
_ESCAPE = re.compile(rb"\\(?:([\da-fA-F]{2})|(.))")
_BYTE = re.compile(r"\\[89a-fA-F][\da-fA-F]")  # only in strings that aren't ASCII


def check(text: str, name: str) -> None:
    """Raises WeftError, with a source location in the file `name`, for text that would end the process."""
    _check_characters(text, name)
    shallow = sum(map(text.count, _OPENING)) <= _DEEPEST
    if shallow and not any(pattern.search(text) for pattern in (_LONG_NUMBER, _LARGE_SHAPE, _BYTE)):
        return
    within: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["open"]:
            within.append(match["open"])
            if len(within) > _DEEPEST:
                raise _refusal(f"brackets must be nested at most {_DEEPEST} deep", text, match.start(), name)
        elif match["shape"]:
            _check_shape(match, text, name)
        elif (
            match["string"] and not match["raw"]
        ):  # symbols, resources and machine code may contain any bytes
            _check_string(match, text, name)
        elif match["close"]:
            # Closes the innermost bracket of a kind, and all within it: `<` and `>` may be operators.
            opening = _OPENING[_CLOSING.index(match["close"])]
            if opening in within:
                while within.pop() != opening:
                    pass
        elif match["number"] and int(match["number"][:20]) >= _MOST_RESULTS:
            complaint = f"result number must be below {_MOST_RESULTS}, got {match['number']}"
            raise _refusal(complaint, text, match.start("number") - 1, name)


def _check_characters(text: str, name: str) -> None:
    """Refuses characters that a Python string may contain, but a text file can't."""
    if (at := text.find("\0")) >= 0:
        raise _refusal("text must not contain a zero byte", text, at, name)
    if text.startswith(BYTE_ORDER_MARK):
        raise _refusal(BEGINS_WITH_MARK, text, 0, name)
    try:
        text.encode()
    except UnicodeEncodeError as failure:
        raise _refusal("text must not contain half of a surrogate pair", text, failure.start, name) from None


def _check_string(match: re.Match[str], text: str, name: str) -> None:
    """Refuses a string that isn't UTF-8: the bindings return names, attributes and file names as text."""
    if not _BYTE.search(match["string"]):
        return
    inner = match["string"][1:-1].encode()
    unescaped = _ESCAPE.sub(lambda m: bytes.fromhex(m[1].decode()) if m[1] else m[2], inner)
    try:
        unescaped.decode()
    except UnicodeDecodeError:
        complaint = f"string must be UTF-8 text, got {match['string'][:80]}"
        raise _refusal(complaint, text, match.start("string"), name) from None


def _check_shape(match: re.Match[str], text: str, name: str) -> None:
    for size in re.finditer(_NUMBER, match["shape"]):
        digits = size[0].lstrip("-").removeprefix("0x")[:20]
        value = int(digits, 16 if "x" in size[0] else 10)
        if value > _LARGEST_SHAPE or (value and size[0].startswith("-")):
            complaint = f"m, n and k of a shape must be in 0..{_LARGEST_SHAPE}, got {size[0]}"
            raise _refusal(complaint, text, match.start() + size.start(), name)


def _refusal(message: str, text: str, at: int, name: str) -> WeftError:
    line, start = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at)
    return WeftError(Diagnostic(message, Location(name, line, at - start)))


_NESTED = r'<(?:[^<>"]|"[^"]*"|<(?:[^<>"]|"[^"]*"|<[^<>]*>)*>)*>'
_TYPE = re.compile(rf'"(?:[^"\\]|\\.)*"|!tile\.(?P<kind>\w+){_NESTED}')


def with_aliases(text: str) -> str:
    """The text of a module with short names for types of the `tile` dialect, which are defined before it.
    MLIR prints aliases only for types of dialects that are written in C++.
    """
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        whole = match[0]
        return whole if match["kind"] is None else names.setdefault(whole, f"!{match['kind']}{len(names)}")

    body = _TYPE.sub(name, text)
    return "".join(f"{alias} = {whole}\n" for whole, alias in names.items()) + body
