"""Stores of 32-bit words to global memory under a predicate (PTX ISA, "Data Movement and Conversion
Instructions: st", "Predicated Execution").
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.isa.chips import since
from weft.isa.family import Family, Form, Registers, Support
from weft.isa.template import Field, Template, Values, Word


@dataclass(frozen=True)
class Store(Form):
    """`st.global` of this many words at once."""

    words: int

    templates = (
        Template("st", Word("global"), Field("words", ("v{}", "2|4"), default=1, number=True), Word("b32")),
    )
    assembly = "[{address}], {value}"
    guard = "@{predicate}"
    """What comes before the opcode: threads without the predicate store nothing."""

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values | None:
        return {} if len(operands) in (0, 2) else None

    @property
    def operands(self) -> tuple[Registers, ...]:
        """Where to, and the words."""
        return Registers("address", 1, "!llvm.ptr<1>"), Registers("value", self.words, "i32")


STORE = Family(
    "st.global", Store, lambda: ((Store(words), Support(since("sm_70"), (6, 0))) for words in (1, 2, 4))
)
