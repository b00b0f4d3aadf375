"""Constants as PTX text has them (PTX ISA, "Integer Constants", "Floating-Point Constants" and "Constant
Expressions").
"""

import operator
import re
import struct
from collections.abc import Callable, Mapping

from weft.isa.text.identifiers import PREDEFINED

FLOAT = re.compile(r"[-+]?(\d+\.\d*(e[-+]?\d+)?|0[fFdD][0-9a-fA-F]{8,16})")

_NUMBER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|(0[0-7]+)|(0|[1-9]\d*))U?", re.ASCII)
_BASES = (16, 2, 8, 10)
_MOST_DEPTH = 64

_TOKEN = re.compile(
    r"\s*(?:(?P<real>\d+\.\d*(?:e[-+]?\d+)?|0[fFdD][0-9a-fA-F]{8,16})|(?P<cast>\(\s*\.[su]64\s*\))"
    r"|(?P<word>\w+)|(?P<sign><<|>>|[<>=!]=|&&|\|\||%(?!\w)|[-+*/&|^~!<>?:()]))",
    re.ASCII,
)
# Each of a line binds tighter than those above.
_BINARY = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_LEVELS = {sign: level for level, signs in enumerate(_BINARY) for sign in signs}
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&&": lambda a, b: bool(a and b),
    "||": lambda a, b: bool(a or b),
}
_WHOLE: Mapping[str, Callable[[int, int], int]] = {
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: a % (1 << 64) % (b % (1 << 64)),  # of unsigned values, as in ptxas
}
_REAL: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


_Tokens = list[tuple[str, str]]


def value_of(text: str) -> int | None:
    """The value of an integer constant, or of an expression of constants that has an integer's; None for
    anything else.
    """
    if (match := _NUMBER.fullmatch(text)) is not None:
        value = _literal(match)
        return value if value is None or match[1] != "-" else -value
    constant = _evaluated(text)
    return constant if isinstance(constant, int) else None


def expression(text: str) -> float | None:
    """The value of an expression of constants: an int, or a float; None for anything else."""
    return _evaluated(text)


def is_real(text: str) -> bool:
    """Whether a text is a floating-point constant, or an expression of constants that has such a value."""
    return FLOAT.fullmatch(text) is not None or isinstance(_evaluated(text), float)


def is_single(text: str) -> bool:
    """Whether a text is a constant of .f32: others that aren't integers are of .f64."""
    return text[:2].lower() == "0f" and FLOAT.fullmatch(text) is not None


def _literal(match: re.Match[str]) -> int | None:
    value = next(int(digits, base) for digits, base in zip(match.groups()[1:], _BASES, strict=True) if digits)
    return value if value < 1 << 64 else None


def _evaluated(text: str) -> float | None:
    """The value of an expression, an int or a float."""
    tokens: _Tokens = []
    text, at = text.rstrip(), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or len(tokens) > _MOST_DEPTH:
            return None
        tokens.append((str(match.lastgroup), match[match.lastgroup or 0]))
        at = match.end()
    try:
        value, rest = _ternary(tokens, 0)
    except (_NoConstantError, ZeroDivisionError):
        return None
    return value if rest == len(tokens) else None


class _NoConstantError(Exception):
    """Tokens that aren't an expression of constants."""


def _sign(tokens: _Tokens, at: int) -> str:
    return tokens[at][1] if at < len(tokens) and tokens[at][0] == "sign" else ""


def _ternary(tokens: _Tokens, at: int) -> tuple[float, int]:
    value, at = _binary(tokens, at, 0)
    if _sign(tokens, at) != "?":
        return value, at
    first, at = _ternary(tokens, at + 1)
    if _sign(tokens, at) != ":":
        raise _NoConstantError
    second, at = _ternary(tokens, at + 1)
    return (first if value else second), at


def _binary(tokens: _Tokens, at: int, level: int) -> tuple[float, int]:
    """The operations that bind as tight as those of `level`, or tighter."""
    value, at = _unary(tokens, at)
    while (sign := _sign(tokens, at)) in _LEVELS and _LEVELS[sign] >= level:
        other, at = _binary(tokens, at + 1, _LEVELS[sign] + 1)
        value = _operated(sign, value, other)
    return value, at


def _operated(sign: str, one: float, other: float) -> float:
    if sign in _COMPARED:
        return int(_COMPARED[sign](one, other))
    if isinstance(one, int) and isinstance(other, int):
        value = _WHOLE[sign](one, other)
        # As 64 bits hold it.
        return value if -(1 << 63) <= value < 1 << 64 else (value + (1 << 63)) % (1 << 64) - (1 << 63)
    if sign not in _REAL:
        raise _NoConstantError
    return float(_REAL[sign](one, other))


def _unary(tokens: _Tokens, at: int) -> tuple[float, int]:
    if at >= len(tokens):
        raise _NoConstantError
    kind, text = tokens[at]
    if kind == "real":
        if text[:2].lower() not in ("0f", "0d"):
            return float(text), at + 1
        form = "<f" if text[1] in "fF" else "<d"
        bits = int(text[2:], 16).to_bytes(struct.calcsize(form), "little")
        return float(struct.unpack(form, bits)[0]), at + 1
    if kind == "word":
        match = _NUMBER.fullmatch(text)
        whole = _literal(match) if match else PREDEFINED.get(text)
        if whole is None:
            raise _NoConstantError
        return whole, at + 1
    if text == "(":
        inner, at = _ternary(tokens, at + 1)
        if _sign(tokens, at) != ")":
            raise _NoConstantError
        return inner, at + 1
    value, at = _unary(tokens, at + 1)
    if kind == "cast" or text == "+":
        return value, at
    if text == "!":
        return int(not value), at
    if text not in "-~" or (text == "~" and isinstance(value, float)):
        raise _NoConstantError
    return (-value if text == "-" else ~int(value)), at
