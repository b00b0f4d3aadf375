"""Floating-point constants of LLVM IR as LLVM 22.1 reads them; MLIR's own LLVM is newer and writes others.

There a decimal means the nearest number of its type, `f0x` begins the type's bits, and infinities and NaNs
are words. LLVM 22.1 takes a decimal only if a double rounds to it exactly, and bits otherwise.
"""

import functools
import math
import re
import struct
from fractions import Fraction

# How bits of each type begin, the type's width, and how many of them are the fraction.
_FORMATS = {
    "half": ("0xH", 16, 10),
    "bfloat": ("0xR", 16, 7),
    "float": ("0x", 32, 23),
    "double": ("0x", 64, 52),
}

_LITERAL = re.compile(
    r"f0x[0-9A-Fa-f]+\b|[-+]?\d+\.\d*(?:[eE][-+]?\d+)?|[-+](?:inf|qnan|s?nan\(0x[0-9A-Fa-f]+\))"
)
# Strings, comments and names are tokens so that nothing in them is taken for a constant.
_TOKEN = re.compile(
    rf'"[^"]*"|;.*|[%@!#$^][-\w$.\\]*|(?P<literal>{_LITERAL.pattern})|(?P<word>[A-Za-z_.][-\w$.]*)', re.ASCII
)


# In most lines of a kernel no constant begins: numbers there are parts of names and of types.
_BEGINNING = re.compile(rf"(?<![\w$.])(?:{_LITERAL.pattern})")


def respelled(text: str) -> str:
    """The LLVM IR with every constant that LLVM 22.1 would refuse, or misread, as bits."""
    if not _names_a_type(text):
        return text
    lines = text.split("\n")
    for i, line in enumerate(lines):
        # The pattern takes long to go through the types of structures, which are most of a kernel's text.
        marked = "." in line or "f0x" in line or "inf" in line or "nan" in line
        if marked and _names_a_type(line) and _BEGINNING.search(line) is not None:
            lines[i] = _line(line)
    return "\n".join(lines)


def _names_a_type(text: str) -> bool:
    """Whether a name of a type of floats may be in a text. Without one, nothing is a constant."""
    return "float" in text or "half" in text or "double" in text


def _line(line: str) -> str:
    # A constant that no type precedes (a second operand, a phi's) is of the type that the line named last.
    kind = ""

    def token(match: re.Match[str]) -> str:
        nonlocal kind
        if match["word"] in _FORMATS:
            kind = match["word"]
        return _spelled(kind, match[0]) if match["literal"] and kind else match[0]

    return _TOKEN.sub(token, line)


@functools.cache
def _spelled(kind: str, literal: str) -> str:
    prefix, width, fraction = _FORMATS[kind]
    bits = _bits(literal, width, fraction)
    if "." in literal and float(literal) == _value(bits, width, fraction):
        return literal
    if kind == "float":  # is written as the double of the same value
        bits, width = _widened(bits), 64
    return f"{prefix}{bits:0{width // 4}X}"


def _bits(literal: str, width: int, fraction: int) -> int:
    """The value of a constant in a format: one sign bit, exponent, fraction."""
    if literal.startswith("f0x"):
        return int(literal[3:], 16)
    sign = literal.startswith("-") << (width - 1)
    word = literal.lstrip("+-")
    if word[0].isdigit():
        return sign | _nearest(Fraction(word), width, fraction)
    infinity = (1 << (width - 1)) - (1 << fraction)
    quiet = 0 if word.startswith(("inf", "snan")) else 1 << (fraction - 1)
    payload = int(word.split("0x")[1][:-1], 16) if "0x" in word else 0
    return sign | infinity | quiet | payload


def _nearest(value: Fraction, width: int, fraction: int) -> int:
    """The bits of the number next to `value`, of two the even one; by way of a double it may be another."""
    if not value:
        return 0
    bias = (1 << (width - fraction - 2)) - 1
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    units = round(value / Fraction(2) ** (exponent - fraction))
    # What rounds up to the next power of two carries into the exponent.
    return ((exponent + bias - 1) << fraction) + units


def _value(bits: int, width: int, fraction: int) -> float:
    """The value of finite bits."""
    bias = (1 << (width - fraction - 2)) - 1
    sign, magnitude = -1.0 if bits >> (width - 1) else 1.0, bits & ((1 << (width - 1)) - 1)
    exponent, units = magnitude >> fraction, magnitude & ((1 << fraction) - 1)
    if exponent:
        units += 1 << fraction
    return sign * math.ldexp(units, max(exponent, 1) - bias - fraction)


def _widened(bits: int) -> int:
    """The bits of a double of the same value as a float's; a signaling NaN stays one."""
    exponent, units = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return (bits >> 31) << 63 | 0x7FF << 52 | units << 29
    return int.from_bytes(struct.pack(">d", _value(bits, 32, 23)), "big")
