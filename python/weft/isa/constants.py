"""Constants as PTX text has them (PTX ISA, "Integer Constants" and "Floating-Point Constants")."""

import re

NUMBER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
FLOAT = re.compile(r"[-+]?(\d+\.\d*(e[-+]?\d+)?|0[fFdD][0-9a-fA-F]{8,16})")


def value_of(text: str) -> int | None:
    """The value of an integer constant; None for anything else."""
    match = NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower())
    octal = re.fullmatch("0[0-7]+", digits) is not None
    value = int(digits[2:], base) if base else int(digits, 8 if octal else 10)
    return -value if sign == "-" else value
