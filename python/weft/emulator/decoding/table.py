"""The table of instructions: the decoders, and how the decoder of an opcode is looked up."""

from collections.abc import Callable
from dataclasses import dataclass

from weft.emulator.decoding.decode import Op
from weft.emulator.reading.types import TYPES
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.scheduler import Scheduler

Step = Callable[[Lanes], None]
"""Runs an instruction, whose operands are resolved, for the lanes."""


@dataclass(frozen=True)
class Exchange:
    """An instruction by which lanes exchange values, as compiled code names it; `registers` are its slots, of
    which the last is the member mask. `negated`: its predicate is.
    """

    name: str
    registers: tuple[int, ...]
    negated: bool = False


@dataclass(frozen=True)
class Collective:
    """A step that needs its lanes together: those in the register `members` (None: the whole warp), or the
    four warps of each warpgroup. `exchange`: what it does, if compiled code can.
    """

    step: Step
    members: int | None = None
    warpgroup: bool = False
    exchange: Exchange | None = None


@dataclass(frozen=True)
class Flow:
    """Threads continue with block `target`, or with block `after` if `predicate` isn't true (false, if
    `negated`). Without a predicate, all continue with `target`.
    """

    target: int
    after: int = -1
    predicate: int | None = None
    negated: bool = False


@dataclass(frozen=True)
class End:
    """What ends a block. `run` returns the block to continue with, or -1 if the group doesn't continue now.

    `targets` are the blocks of the same function to which it can lead; `collective` is the step that runs
    once lanes are together, if the end does nothing else; `flow` is what it does if that is all.
    """

    run: Callable[[Scheduler, Group], int]
    targets: tuple[int, ...]
    collective: Collective | None = None
    flow: Flow | None = None


StepDecoder = Callable[[Op], Step]
CollectiveDecoder = Callable[[Op], Collective]
EndDecoder = Callable[[Op], End]
Decoder = StepDecoder | CollectiveDecoder | EndDecoder


class Table:
    """Decoders by opcode prefix; `find` takes the longest prefix of an opcode that has one."""

    def __init__(self, *parts: "Table") -> None:
        self.steps: dict[str, StepDecoder] = {}
        self.floats: dict[str, StepDecoder] = {}
        self.collectives: dict[str, CollectiveDecoder] = {}
        self.ends: dict[str, EndDecoder] = {}
        self.waits: set[str] = set()
        for part in parts:
            self.steps |= part.steps
            self.floats |= part.floats
            self.collectives |= part.collectives
            self.ends |= part.ends
            self.waits |= part.waits

    def step(self, *opcodes: str) -> Callable[[StepDecoder], StepDecoder]:
        """Registers the decoder of ordinary instructions."""

        def register(decoder: StepDecoder) -> StepDecoder:
            self.steps.update(dict.fromkeys(opcodes, decoder))
            return decoder

        return register

    def float_step(self, *opcodes: str) -> Callable[[StepDecoder], StepDecoder]:
        """Registers the decoder of instructions on floating-point types; integers may share the opcode."""

        def register(decoder: StepDecoder) -> StepDecoder:
            self.floats.update(dict.fromkeys(opcodes, decoder))
            return decoder

        return register

    def collective(self, *opcodes: str) -> Callable[[CollectiveDecoder], CollectiveDecoder]:
        """Registers the decoder of instructions that wait until lanes of their warp have arrived."""

        def register(decoder: CollectiveDecoder) -> CollectiveDecoder:
            self.collectives.update(dict.fromkeys(opcodes, decoder))
            return decoder

        return register

    def end(self, *opcodes: str) -> Callable[[EndDecoder], EndDecoder]:
        """Registers the decoder of instructions that transfer control."""

        def register(decoder: EndDecoder) -> EndDecoder:
            self.ends.update(dict.fromkeys(opcodes, decoder))
            return decoder

        return register

    def wait(self, *opcodes: str) -> Callable[[EndDecoder], EndDecoder]:
        """Registers the decoder of an end that may run repeatedly and so has a block of its own."""
        self.waits.update(opcodes)
        return self.end(*opcodes)

    def find(self, opcode: str) -> tuple[str, Decoder] | None:
        """The longest known prefix of `opcode` and its decoder."""
        parts = opcode.split(".")
        is_float = any(part in TYPES and TYPES[part].is_float for part in parts)
        for count in range(len(parts), 0, -1):
            prefix = ".".join(parts[:count])
            if is_float and prefix in self.floats:
                return prefix, self.floats[prefix]
            for table in (self.steps, self.collectives, self.ends):
                if prefix in table:
                    return prefix, table[prefix]
        return None
