"""What a kernel tells the L2 cache of the memory that it uses (PTX ISA, "Data Movement and Conversion
Instructions: createpolicy", "Cache Eviction Priority Hints").
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.isa.chips import since
from weft.isa.family import Family, Registers, Support


@dataclass(frozen=True)
class Policy:
    """`createpolicy` for accesses all of which get a priority: which lines L2 gives up first, or last."""

    priority: str

    @property
    def ptx(self) -> str:
        return f"createpolicy.fractional.L2::{self.priority}.b64"

    @property
    def intrinsic(self) -> None:
        return None

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The policy, that copies take as their last operand."""
        return (Registers("policy", 1, "i64", role="out"),)

    @property
    def assembly(self) -> str:
        return "{policy}, 1.0"


#   priority          since    PTX
_POLICIES: tuple[tuple[str, str, tuple[int, int]], ...] = (
    ("evict_normal", "sm_80", (7, 4)),
    ("evict_first", "sm_80", (7, 4)),
    ("evict_last", "sm_80", (7, 4)),
    ("evict_unchanged", "sm_80", (7, 4)),
)


def _forms() -> Iterator[tuple[Policy, Support]]:
    for priority, first, ptx in _POLICIES:
        yield Policy(priority), Support(since(first), ptx)


def parse_createpolicy(opcode: str, operands: Sequence[str] = ()) -> Policy | None:
    """The form that a PTX opcode and its operands spell, legal or not; None where it isn't such a policy."""
    match = re.fullmatch(r"createpolicy\.fractional\.L2::(\w+)\.b64", opcode)
    return Policy(match[1]) if match and list(operands[1:]) in ([], ["1.0"]) else None


CREATEPOLICY = Family("createpolicy", Policy, _forms, parse_createpolicy)
NORMAL = "evict_normal"
"""What accesses have without a policy, too."""
