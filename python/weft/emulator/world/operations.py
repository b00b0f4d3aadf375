"""What streams do, one operation after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.emulator.sanitizer import GlobalMemory
from weft.emulator.world.engine import Engine
from weft.emulator.world.launched import How, Running

Start = Callable[[How, GlobalMemory, frozenset[str]], Running]
"""Starts a kernel: how, what the sanitizer knows of all GPUs, and the rules that are ignored."""


@dataclass(frozen=True)
class Operation:
    """One operation of a stream: what does it at once, or starts a kernel, which takes more than one turn.
    `waits` returns what it waits for; empty if it can begin.
    """

    act: Callable[[Engine], None] | None = None
    start: Start | None = None
    waits: Callable[[], str] = lambda: ""


@dataclass(eq=False)
class Event:
    """A moment of a stream, for which other streams can wait."""

    stream: str
    recorded: bool = field(default=False, repr=False)
