"""What streams do, one operation after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from weft.emulator.memory.segments import Segment
from weft.emulator.sanitizer import GlobalMemory
from weft.emulator.world.engine import Engine
from weft.emulator.world.launched import How, Running

Start = Callable[[How, GlobalMemory, frozenset[str]], Running]
"""Starts a kernel: how, what the sanitizer knows of all GPUs, and the rules that are ignored."""


@dataclass(frozen=True)
class Part:
    """Bytes of a buffer."""

    segment: Segment
    begin: int
    size: int


class Operation(Protocol):
    """One operation of a stream."""

    @property
    def waits(self) -> str:
        """What it waits for; empty if it can begin."""

    def act(self, engine: Engine) -> None:
        """Does it."""


@dataclass(frozen=True)
class Launched:
    """A launch of a kernel, which `start` starts."""

    start: Start
    waits: str = ""

    def act(self, engine: Engine) -> None:
        """Nothing: the kernel takes more than one turn."""


@dataclass(frozen=True)
class Copied:
    """A copy by a copy engine."""

    to: Part
    source: Part
    waits: str = ""

    def act(self, engine: Engine) -> None:
        engine.copy(self.to.segment, self.to.begin, self.source.segment, self.source.begin, self.to.size)


@dataclass(frozen=True)
class Written:
    """A write to a flag."""

    to: Part
    value: bytes
    waits: str = ""

    def act(self, engine: Engine) -> None:
        engine.write(self.to.segment, self.to.begin, self.value)


@dataclass(frozen=True)
class ValueAwaited:
    """A wait for a flag: until its difference from a value, of 32 bits with a sign, isn't negative."""

    flag: Part
    value: int

    @property
    def waits(self) -> str:
        now = int(self.flag.segment.data[self.flag.begin :][:4].view(np.uint32)[0])
        if (now - self.value) % (1 << 32) < 1 << 31:
            return ""
        address = self.flag.segment.base + self.flag.begin
        return f"for the flag at 0x{address:x} to be at least {self.value}; it is {now}"

    def act(self, engine: Engine) -> None:
        engine.acquire((self.flag.segment.base, self.flag.begin))


@dataclass(eq=False)
class Event:
    """A moment of a stream, for which other streams can wait."""

    stream: str
    recorded: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class Recorded:
    """An event."""

    event: Event
    waits: str = ""

    def act(self, engine: Engine) -> None:
        engine.release(self.event)
        self.event.recorded = True


@dataclass(frozen=True)
class EventAwaited:
    """A wait for an event."""

    event: Event

    @property
    def waits(self) -> str:
        return "" if self.event.recorded else f"for an event of {self.event.stream}"

    def act(self, engine: Engine) -> None:
        engine.acquire(self.event)
