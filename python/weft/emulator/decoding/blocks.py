"""The blocks of a program."""

from dataclasses import dataclass, field

from weft.emulator.decoding.table import End, Step
from weft.emulator.watch import Traffic


@dataclass(eq=False, slots=True)
class Block:
    """Steps that always run one after the other, and what ends them; `opcodes` are those of both."""

    function: str
    steps: list[Step] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)
    end: End | None = None
    rank: int = 0
    line: int = 0
    waits: str = ""
    """The opcode that ends the block, where that is more than going on."""
    whole: bool = False
    """Whether that takes whole warps, or warpgroups, together."""
    members: int | None = None
    """The slot of the member mask, where the block is a collective instruction that has one."""
