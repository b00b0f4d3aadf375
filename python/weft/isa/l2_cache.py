"""How a kernel hints to the L2 cache how it uses memory (PTX ISA, "Data Movement and Conversion
Instructions: createpolicy", "Cache Eviction Priority Hints").
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.isa.chips import since
from weft.isa.family import Family, Form, Registers, Support
from weft.isa.template import Field, Template, Values, Word


@dataclass(frozen=True)
class Policy(Form):
    """`createpolicy` for accesses that all get one priority: which lines L2 evicts first, or last."""

    priority: str

    templates = (Template("createpolicy.fractional", Field("priority", ("L2::{}", r"\w+")), Word("b64")),)
    assembly = "{policy}, 1.0"

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values | None:
        return {} if list(operands[1:]) in ([], ["1.0"]) else None

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The policy, that copies take as their last operand."""
        return (Registers("policy", 1, "i64", role="out"),)


_PRIORITIES = ("evict_normal", "evict_first", "evict_last", "evict_unchanged")
POLICIES = Support(since("sm_80"), (7, 4))
CREATEPOLICY = Family(
    "createpolicy", Policy, lambda: ((Policy(priority), POLICIES) for priority in _PRIORITIES)
)
NORMAL = "evict_normal"
"""What accesses have without a policy, too."""
