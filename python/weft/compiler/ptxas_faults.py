"""What some releases of ptxas compile wrong, and the PTX in its place.

Each was seen in machine code and on a GPU. `test/fuzz` looks for more (CONTRIBUTING.md).
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """An instruction that `releases` of ptxas compile wrong, and what computes the same.

    In `instead`, `{guard}` is a predicate or empty, `{d}` the result and `{a}` the operand.
    """

    what: str
    releases: tuple[str, ...]
    instruction: str
    instead: tuple[str, ...]
    among: str = ""
    """A pattern: only PTX that has this, too, is affected."""

    def avoided(self, ptx: str) -> str:
        """The same PTX without the fault."""
        if re.search(self.among, ptx) is None:
            return ptx
        pattern = (
            rf"^(?P<guard>[ \t]*(?:@!?%\w+\s+)?){re.escape(self.instruction)}\s+(?P<d>%\w+), (?P<a>%\w+);"
        )
        instead = "\n".join(self.instead)
        return re.sub(pattern, lambda found: instead.format(**found.groupdict()), ptx, flags=re.MULTILINE)


FAULTS = (
    Fault(
        "the second negation of max(max(-a, -b), c), and of minima and unsigned numbers alike, is lost on "
        "chips with an instruction for three numbers (VIMNMX3, sm_90 and later)",
        ("12.9", "13.0"),
        "neg.s32",
        ("{guard}not.b32 {d}, {a};", "{guard}add.s32 {d}, {d}, 1;"),
        among=r"\b(max|min)\.[su]32\b",
    ),
    Fault(
        "-a of 16 bits isn't sign-extended where 32 or 64 bits are computed of it: -(-32768) is 32768",
        ("12.9", "13.0"),
        "neg.s16",
        ("{guard}not.b16 {d}, {a};", "{guard}add.s16 {d}, {d}, 1;"),
    ),
    Fault(
        "abs(a) of 16 bits isn't sign-extended where 32 or 64 bits are computed of it: abs(-32768) is 32768",
        ("12.9", "13.0"),
        "abs.s16",
        (
            "{{ .reg .b16 %minus;",
            "{guard}not.b16 %minus, {a};",
            "{guard}add.s16 %minus, %minus, 1;",
            "{guard}max.s16 {d}, %minus, {a};",
            "}}",
        ),
    ),
)
"""Tests assemble an example of each with the installed releases (`test_ptxas_faults.py`)."""


def avoided(ptx: str) -> str:
    """The same PTX without any of the faults."""
    for fault in FAULTS:
        ptx = fault.avoided(ptx)
    return ptx
