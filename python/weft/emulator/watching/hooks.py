"""Functions that a launch calls when threads reach a line or an instruction, or access memory.

Where a hook applies, the interpreter runs the instructions of the blocks that it concerns; compiled code runs
all others. Results, counters and findings are the same as without hooks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from weft.emulator.decoding.program import Program
from weft.emulator.errors import Deadlock, Fault
from weft.emulator.reading.syntax import Bools
from weft.emulator.sanitizer import Finding
from weft.emulator.watching.stopped import Launched, MemoryEvent, Stopped
from weft.emulator.watching.variables import Line, Position, SourceMap, instructions
from weft.errors import WeftError, shown

MEMORY = (
    *("ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "wmma", "wgmma", "tcgen05"),
    "mbarrier",
)
"""The opcodes that may access shared, global or tensor memory, by their first words."""
SPACES = ("shared", "global", "local", "tensor", "const", "param")


@dataclass(eq=False)
class Hook:
    """A function that is called until `remove` is."""

    function: Callable[..., None]
    owner: "Hooks"
    kind: str
    opcode: str = ""
    file: str = ""
    line: int = 0
    spaces: frozenset[str] = frozenset(SPACES)

    def remove(self) -> None:
        """Doesn't call the function again."""
        owner = self.owner
        if self in owner._hooks:
            owner._hooks.remove(self)
            owner._version += 1

    def call(self, *what: object) -> None:
        """Calls the function. Launches that it makes don't have the hooks of `hooked`."""
        token = _now.set(None)
        try:
            self.function(*what)
        finally:
            _now.reset(token)


@dataclass
class _Plan:
    """The hooks of a program: by position, of each instruction, and of accesses."""

    version: int
    blocks: Bools
    at: dict[Position, list[Hook]]
    everywhere: list[Hook]
    accesses: list[Hook]


@dataclass(eq=False)
class Hooks:
    """What a launch calls: `Module.launch(…, hooks=hooks)`, or `with emulator.hooked(hooks):` around any call
    that runs in the emulator.

    Functions may add and remove hooks. The launch ends with what a function raises. With hooks, all CTAs run
    in this process.
    """

    _hooks: list[Hook] = field(default_factory=list)
    _version: int = 0
    _plans: dict[int, _Plan] = field(default_factory=dict)
    launched: Launched | None = None
    """The launch that runs."""
    current: Any = None
    """The machine that runs."""

    # Adding hooks

    def on_line(self, line: int, function: Callable[[Stopped], None], *, file: str = "") -> Hook:
        """Calls `function(stopped)` when threads reach a line of the source, before its first instruction.

        `file` is the end of the path of the source file, or "<ptx>" for lines of the PTX. Without it, it is a
        line of any source file, or of the PTX if that has no `.loc`.
        """
        if not isinstance(line, int) or line < 1:
            raise WeftError(f"line must be a number from 1 on, got {shown(line)}")
        return self._add(Hook(function, self, "line", file=_text("file", file), line=line))

    def on_instruction(self, function: Callable[[Stopped], None], opcode: str = "") -> Hook:
        """Calls `function(stopped)` before threads execute an instruction whose opcode begins with `opcode`,
        such as "wgmma.mma_async"; by default before each one.
        """
        return self._add(Hook(function, self, "instruction", opcode=_text("opcode", opcode)))

    def after_instruction(self, function: Callable[[Stopped], None], opcode: str = "") -> Hook:
        """As `on_instruction`, after the instruction."""
        return self._add(Hook(function, self, "after", opcode=_text("opcode", opcode)))

    def on_access(
        self, function: Callable[[Stopped, MemoryEvent], None], spaces: Sequence[str] = SPACES
    ) -> Hook:
        """Calls `function(stopped, event)` when threads, or asynchronous units for them, access memory."""
        if isinstance(spaces, str) or not isinstance(spaces, Iterable):
            raise WeftError(f"spaces must be a list of names, such as ['global'], got {shown(spaces)}")
        for space in (spaces := list(spaces)):
            if space not in SPACES:
                raise WeftError(f"spaces must be among {', '.join(SPACES)}, got {shown(space)}")
        return self._add(Hook(function, self, "access", spaces=frozenset(spaces)))

    def on_finding(self, function: Callable[[Stopped | None, Finding], None]) -> Hook:
        """Calls `function(stopped, finding)` when the sanitizer finds a mistake that it hasn't found yet."""
        return self._add(Hook(function, self, "finding"))

    def on_error(self, function: Callable[[Stopped, Fault | Deadlock], None]) -> Hook:
        """Calls `function(stopped, error)` when a launch ends with a fault or a deadlock."""
        return self._add(Hook(function, self, "error"))

    def on_launch(self, function: Callable[[Launched], None]) -> Hook:
        """Calls `function(launched)` before each launch."""
        return self._add(Hook(function, self, "launch"))

    def on_end(self, function: Callable[[Launched], None]) -> Hook:
        """Calls `function(launched)` after each launch."""
        return self._add(Hook(function, self, "end"))

    def on_block(self, function: Callable[[Stopped], None]) -> Hook:
        """Calls `function(stopped)` between blocks of instructions, compiled or not: often, and cheaply."""
        return self._add(Hook(function, self, "block"))

    def _add(self, hook: Hook) -> Hook:
        if not callable(hook.function):
            raise WeftError(f"a hook must be a function, got {shown(hook.function)}")
        self._hooks.append(hook)
        self._version += 1
        return hook

    def of_kind(self, kind: str) -> list[Hook]:
        """The hooks of a kind."""
        return [hook for hook in self._hooks if hook.kind == kind]

    # Called by a launch

    def begin(self, launched: Launched) -> None:
        """A launch begins."""
        self.launched, self._plans = launched, {}
        for hook in self.of_kind("launch"):
            hook.call(launched)

    def end(self) -> None:
        """A launch has ended."""
        launched, self.launched, self.current = self.launched, None, None
        for hook in self.of_kind("end"):
            hook.call(launched)

    def found(self, finding: Finding) -> None:
        """The sanitizer has found something new."""
        stopped = None if self.current is None else self.current.stopped_at(finding.line)
        for hook in self.of_kind("finding"):
            hook.call(stopped, finding)

    def failed(self, stopped: Stopped, error: Fault | Deadlock) -> None:
        """The launch ends with an error."""
        for hook in self.of_kind("error"):
            hook.call(stopped, error)

    def plan(self, program: Program) -> _Plan:
        """The hooks of a program."""
        known = self._plans.get(id(program))
        if known is not None and known.version == self._version:
            return known
        blocks = np.zeros(len(program.blocks), np.bool_)
        plan = _Plan(self._version, blocks, {}, [], self.of_kind("access"))
        for hook in self._hooks:
            if hook.kind in ("instruction", "after") and not hook.opcode:
                plan.everywhere.append(hook)
                blocks[:] = True
                continue
            for position in self._positions(hook, program):
                plan.at.setdefault(position, []).append(hook)
                blocks[position[0]] = True
        if plan.accesses:
            for at, block in enumerate(program.blocks):
                blocks[at] |= any(opcode.split(".")[0] in MEMORY for opcode in block.opcodes)
        self._plans[id(program)] = plan
        return plan

    def _positions(self, hook: Hook, program: Program) -> Iterator[Position]:
        assert self.launched is not None
        if hook.kind == "line":
            yield from positions_of(self.launched.map, hook.file, hook.line)
        elif hook.kind in ("instruction", "after"):
            for position, instruction in instructions(program):
                if instruction.opcode.startswith(hook.opcode):
                    yield position


PTX = "<ptx>"


def positions_of(map_: SourceMap, file: str, line: int) -> list[Position]:
    """The instructions with which a line begins; see `Hooks.on_line`."""
    if file == PTX or not (file or map_.begins):
        return map_.positions.get(line, [])[:1]
    found = [map_.begins.get(Line(each, line), []) for each in map_.files if is_file(each, file)]
    return [position for each in found for position in each]


def is_file(path: str, named: str) -> bool:
    """Whether a path ends in the path that somebody has named."""
    parts, wanted = PurePath(path).parts, PurePath(named).parts
    return not wanted or parts[-len(wanted) :] == wanted


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise WeftError(f"{name} must be text, got {shown(value)}")
    return value


_now: ContextVar[Hooks | None] = ContextVar("hooks", default=None)


@contextmanager
def hooked(hooks: Hooks) -> Iterator[Hooks]:
    """Sets the hooks of all launches inside the `with` block, also of those by `weft.matmul`, compiled
    kernels and frameworks, but not of those by `World`. It affects only the current thread.
    """
    token = _now.set(checked(hooks))
    try:
        yield hooks
    finally:
        _now.reset(token)


def checked(hooks: object) -> Hooks:
    """`hooks`, which must be some. Raises WeftError."""
    if not isinstance(hooks, Hooks):
        raise WeftError(f"hooks must be emulator.Hooks, got {shown(hooks)}")
    return hooks


def chosen(hooks: Hooks | None) -> Hooks | None:
    """The hooks of a launch, or of the block around it."""
    return _now.get() if hooks is None else checked(hooks)
