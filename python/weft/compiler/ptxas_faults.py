"""PTX that some releases of ptxas compile wrong, and the PTX that replaces it.

Random programs (`test/fuzz/random_ptx.py`) on an H200 found what PTX from LLVM may contain. They also found
faults of instructions that LLVM doesn't use, of all releases: `cnot`, `set` and `slct` beside other types,
`cvt.sat`, `set` and `testp` under a predicate, `lop3` with an operand twice. For `bfe` and `bfi` beyond the
last bit, and `slct` by an absolute value, 12.9 and 13.0 are wrong, and 13.5 is right.
"""

import re
from dataclasses import dataclass

_GUARD = r"^(?P<guard>[ \t]*(?:@!?%\w+\s+)?)"


@dataclass(frozen=True)
class Fault:
    """An instruction that `releases` of ptxas compile wrong, and what computes the same.

    `pattern` follows the predicate, whose group is `guard`. `instead` may contain groups.
    """

    name: str
    what: str
    releases: tuple[str, ...]
    pattern: str
    instead: tuple[str, ...]
    among: str = ""
    """A pattern that PTX has, too, if it is affected."""
    operand: str = ""
    """A pattern of the opcodes whose results are affected where they are the operand `a`."""

    def avoided(self, ptx: str) -> str:
        """The same PTX without the fault."""
        if re.search(self.among, ptx) is None or re.search(self.pattern, ptx) is None:
            return ptx
        instead = "\n".join(self.instead)
        results = set(re.findall(rf"{_GUARD}[\w.:]*(?:{self.operand})[\w.:]*\s+(%\w+)", ptx, re.MULTILINE))
        affected = {register for *_, register in results}

        def spelled(found: re.Match[str]) -> str:
            groups = found.groupdict()
            return instead.format(**groups) if not self.operand or groups["a"] in affected else found[0]

        return re.sub(_GUARD + self.pattern, spelled, ptx, flags=re.MULTILINE)


def _unary(name: str) -> str:
    return rf"{re.escape(name)}\s+(?P<d>%\w+), (?P<a>%\w+);"


def _negated(kind: str) -> tuple[str, ...]:
    bits = kind[1:]
    return f"{{guard}}not.b{bits} {{d}}, {{a}};", f"{{guard}}add.{kind} {{d}}, {{d}}, 1;"


def _size(kind: str) -> tuple[str, ...]:
    """The larger one of a number and its negation."""
    bits = kind[1:]
    return (
        f"{{{{ .reg .b{bits} %minus;",
        f"{{guard}}not.b{bits} %minus, {{a}};",
        f"{{guard}}add.{kind} %minus, %minus, 1;",
        f"{{guard}}max.{kind} {{d}}, %minus, {{a}};",
        "}}",
    )


def _part_of_float(of: str, stored: str, through: str) -> Fault:
    """The store of a part of a float's register."""
    bits = {"rs": "16", "r": "32", "rd": "64"}[of]
    return Fault(
        f"st.b of {bits} bits",
        f"a store of a part of the {bits} bits of a floating-point result converts it to an integer",
        ("12.9", "13.0"),
        rf"(?P<store>st[\w.:]*\.b(?:{stored}))(?P<at>\s+\[[^\]]+\], )(?P<a>%{of}\d+);",
        (
            f"{{{{ .reg .b{through} %part;",
            f"{{guard}}cvt.u{through}.u{bits} %part, {{a}};",
            "{guard}{store}{at}%part;",
            "}}",
        ),
        operand="f(?:16|32|64)",
    )


FAULTS = (
    Fault(
        "neg.s32",
        "the second negation of max(max(-a, -b), c), and of minima and unsigned numbers alike, is lost on "
        "chips with an instruction for three numbers (VIMNMX3, sm_90 and later)",
        ("12.9", "13.0"),
        _unary("neg.s32"),
        _negated("s32"),
        among=r"\b(max|min)\.[su]32\b",
    ),
    Fault(
        "neg.s16",
        "-a of 16 bits isn't sign-extended where 32 or 64 bits are computed of it: -(-32768) is 32768",
        ("12.9", "13.0"),
        _unary("neg.s16"),
        _negated("s16"),
    ),
    Fault("abs.s16", "abs(a) is like -a of 16 bits", ("12.9", "13.0"), _unary("abs.s16"), _size("s16")),
    *(
        Fault(
            f"abs.{kind}",
            "comparisons and remainders take abs(a) of the least a, which is negative, for a positive number",
            ("12.9", "13.0"),
            _unary(f"abs.{kind}"),
            _size(kind),
        )
        for kind in ("s32", "s64")
    ),
    _part_of_float("rs", "8", "32"),
    _part_of_float("r", "8|16", "16"),
    _part_of_float("rd", "8|16|32", "32"),
    Fault(
        "add.16x2",
        "a sum with constants, of which only one half is used, adds 0 to it (VIADD.16x2, sm_90 and later)",
        ("12.9", "13.0"),
        r"add\.[su]16x2\s+(?P<d>%\w+), (?P<b>%\w+), (?P<a>%\w+);",
        (
            "{{ .reg .b32 %sum, %sign;",  # without the signs, no half overflows into the other
            "{guard}and.b32 %sum, {b}, 0x7fff7fff;",
            "{guard}and.b32 %sign, {a}, 0x7fff7fff;",
            "{guard}add.u32 %sum, %sum, %sign;",
            "{guard}xor.b32 %sign, {b}, {a};",
            "{guard}and.b32 %sign, %sign, 0x80008000;",
            "{guard}xor.b32 {d}, %sum, %sign;",
            "}}",
        ),
        operand=r"mov\.b32(?=\s+%\w+, -?\d)",
    ),
    Fault(
        "mov.b32 of fp8",
        "the upper half of a word of the same pair of fp8 twice isn't written",
        ("12.9",),
        r"mov\.b32\s+(?P<d>%r\d+), \{(?P<a>%rs\d+), (?P=a)\};",
        ("{guard}cvt.u32.u16 {d}, {a};", "{guard}prmt.b32 {d}, {d}, {d}, 0x1010;"),
        operand=r"satfinite[\w.]*\.e[45]m[23]x2",
    ),
    Fault(
        "sub.sat.s32",
        "the least integer, subtracted, isn't saturated",
        ("12.9",),
        r"sub\.sat\.s32\s+(?P<d>%\w+), (?P<a>%\w+), -2147483648;",
        ("{guard}add.sat.s32 {d}, {a}, 2147483647;", "{guard}add.sat.s32 {d}, {d}, 1;"),
    ),
)
"""Tests assemble an example of each with the installed releases (`test_ptxas_faults.py`)."""


def avoided(ptx: str) -> str:
    """The same PTX without any of the faults."""
    for fault in FAULTS:
        ptx = fault.avoided(ptx)
    return ptx
