"""The table of instructions: the decoders, and how the decoder of an opcode is looked up.

Builds steps from functions on arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from weft.emulator.decoding.decode import Op
from weft.emulator.reading.syntax import TYPES, Array, Bools, Type
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.scheduler import Scheduler
from weft.emulator.watch import Watch

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


UNENDED = End(lambda scheduler, group: -1, ())
"""The end of a block that isn't decoded yet."""
StepDecoder = Callable[[Op], Step]
CollectiveDecoder = Callable[[Op], Collective]
EndDecoder = Callable[[Op], End]
Decoder = StepDecoder | CollectiveDecoder | EndDecoder
_Decoder = TypeVar("_Decoder", StepDecoder, CollectiveDecoder, EndDecoder)


def _register(decoders: dict[str, _Decoder], opcodes: Sequence[str]) -> Callable[[_Decoder], _Decoder]:
    def register(decoder: _Decoder) -> _Decoder:
        decoders.update(dict.fromkeys(opcodes, decoder))
        return decoder

    return register


class Table:
    """Decoders by opcode prefix; `find` takes the longest prefix of an opcode that has one. `pure`: all of
    them only compute registers of their own lane.
    """

    def __init__(self, *parts: "Table", pure: bool = False) -> None:
        self.steps: dict[str, StepDecoder] = {}
        self.floats: dict[str, StepDecoder] = {}
        self.collectives: dict[str, CollectiveDecoder] = {}
        self.ends: dict[str, EndDecoder] = {}
        self.waits: set[str] = set()
        self._is_pure = pure
        self.pure: set[str] = set()
        """The opcodes that only compute registers of their own lane."""
        for part in parts:
            self.steps |= part.steps
            self.floats |= part.floats
            self.collectives |= part.collectives
            self.ends |= part.ends
            self.waits |= part.waits
            if part._is_pure:
                self.pure |= part.steps.keys() | part.floats.keys()

    def step(self, *opcodes: str) -> Callable[[StepDecoder], StepDecoder]:
        """Registers the decoder of ordinary instructions."""
        return _register(self.steps, opcodes)

    def float_step(self, *opcodes: str) -> Callable[[StepDecoder], StepDecoder]:
        """Registers the decoder of instructions on floating-point types; integers may share the opcode."""
        return _register(self.floats, opcodes)

    def collective(self, *opcodes: str) -> Callable[[CollectiveDecoder], CollectiveDecoder]:
        """Registers the decoder of instructions that wait until lanes of their warp have arrived."""
        return _register(self.collectives, opcodes)

    def end(self, *opcodes: str) -> Callable[[EndDecoder], EndDecoder]:
        """Registers the decoder of instructions that transfer control."""
        return _register(self.ends, opcodes)

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


ArrayFunction = Callable[..., Array]


def notify(event: Callable[[Watch, Bools], None]) -> Step:
    """A step that only reports an event of these threads to the observer, if there is one."""

    def run(lanes: Lanes) -> None:
        if lanes.wave.watch is not None:
            event(lanes.wave.watch, lanes.threads())

    return run


def compute(result: int, function: ArrayFunction, *sources: int) -> Step:
    """`result = function(*sources)`; the function returns a new array of the result's storage type."""

    def run(lanes: Lanes) -> None:
        if lanes.whole:
            lanes.regs[result] = function(*map(lanes.regs.__getitem__, sources))
        else:
            lanes.write(result, function(*map(lanes.read, sources)))

    return run


def computing(op: Op, function: ArrayFunction, out: Type, *kinds: Type) -> Step:
    """An instruction `d, a, …`, whose result of type `out` is a function of operands of these types."""
    op.count(len(kinds) + 1)
    result = op.destination(0, out)
    return compute(result, function, *[op.source(i, kind) for i, kind in enumerate(kinds, 1)])


def compute_many(results: Sequence[int], function: Callable[..., Sequence[Array]], *sources: int) -> Step:
    """`results = function(*sources)` for a function that returns one array for each result."""

    def run(lanes: Lanes) -> None:
        values = function(*[lanes.read(s) for s in sources])
        for result, value in zip(results, values, strict=True):
            lanes.write(result, value)

    return run


def nothing(lanes: Lanes) -> None:
    """A step without effect."""


def guarded(step: Step, predicate: int, negated: bool) -> Step:
    """`step` for the lanes whose predicate is true."""

    def run(lanes: Lanes) -> None:
        mask, count = lanes.guarded(predicate, negated)
        if count == lanes.active:
            step(lanes)
        elif count:
            step(lanes.narrowed(mask))

    return run
