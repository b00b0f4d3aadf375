"""The blocks of a program."""

from dataclasses import dataclass, field

from weft.emulator.decoding.table import UNENDED, End, Step
from weft.emulator.watch import Traffic


@dataclass(eq=False, slots=True)
class Block:
    """Steps that always run one after the other, and the end that follows; `opcodes` are those of both."""

    function: str
    steps: list[Step] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)
    numbers: list[int] | None = None
    """The instruction that each step belongs to, by its index in `traffic`; None: each is its own's."""
    end: End = UNENDED
    rank: int = 0
    line: int = 0
    waits: str = ""
    """The opcode of the instruction that ends the block, if there is one."""
    whole: bool = False
    """Whether it needs whole warps, or warpgroups, together."""
    pure: bool = True
    """Whether none of its instructions reads a clock or another special register that changes."""
    members: int | None = None
    """The slot of the member mask, if it is a collective instruction that has one."""

    def instruction(self, step: int) -> int:
        """The index in `traffic` of a step's instruction, or of the end's."""
        if self.numbers is None:
            return step
        return self.numbers[step] if step < len(self.numbers) else self.numbers[-1] + 1 if self.numbers else 0
