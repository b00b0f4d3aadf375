"""Sequences of launches, copies and events, which `host.c` queues on a GPU with new addresses each time."""

import ctypes
import functools
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.errors import WeftError
from weft.launch import host
from weft.launch.cuda_driver import api, call, check, entered, primary
from weft.launch.launcher import NO_WORKSPACE

CALLER, OTHER = range(2)
"""The streams of a sequence: the caller's, and the GPU's other one."""
_END = 0  # of steps
_FIXED = -1
_PRIORITY = -1  # of the other stream: above XLA's and PyTorch's


class Where(NamedTuple):
    """Byte `begin` of the caller's address `number`; or, without a number, an address."""

    number: int | None
    begin: int


@dataclass(frozen=True)
class Launch:
    """A launch on the caller's stream, with the addresses of what it takes."""

    prepared: Any
    operands: tuple[Where, ...]


@dataclass(frozen=True)
class Copy:
    """A copy of so many bytes on a stream."""

    stream: int
    to: Where
    source: Where
    size: int


@dataclass(frozen=True)
class Number:
    """Sets 4 bytes to the number of the call, on the caller's stream."""

    to: Where


@dataclass(frozen=True)
class Record:
    """Records the event of a stream."""

    stream: int


@dataclass(frozen=True)
class Wait:
    """What follows on a stream waits for the last recorded event of another one."""

    stream: int
    awaited: int


Step = Launch | Copy | Number | Record | Wait
_KINDS = (None, Launch, Copy, Number, Record, Wait)  # as host.c numbers them


def _words(step: Step) -> Iterator[int]:
    """A step as host.c reads it: its kind and its fields, where a place is two words."""
    yield _KINDS.index(type(step))
    fields: Iterable[Any] = vars(step).values()
    if isinstance(step, Launch):
        fields = step.prepared.plan_address, len(step.operands), *step.operands
    for each in fields:
        if isinstance(each, Where):
            yield _FIXED if each.number is None else each.number
            yield each.begin
        else:
            yield each


class Counter:
    """The number of calls so far of sequences that share it, all of one GPU."""

    def __init__(self) -> None:
        self._value = ctypes.c_uint64(0)
        self.address = ctypes.addressof(self._value)

    @property
    def calls(self) -> int:
        return self._value.value


class Sequence:
    """A prepared sequence of steps on a GPU, in the form that compiled code reads. Sequences of a GPU follow
    each other on all streams, in the order in which threads queue them.
    """

    has_workspaces = False

    def __init__(
        self, action: str, ordinal: int, steps: Several[Several[Step]], counter: Counter | None = None
    ) -> None:
        """`steps` are those of each call or, with a counter, first those of calls with an even number and
        then those of odd ones. `action` names the sequence in messages.
        """
        self._action = action
        launches = [step for each in steps for step in each if isinstance(step, Launch)]
        if any(each.prepared.has_workspaces for each in launches):
            raise WeftError(f"{action}: schedule must be one whose kernel has no workspaces")
        host.connect()
        words = [host.words([*(word for step in each for word in _words(step)), _END]) for each in steps]
        lane, most = _lane(ordinal), max((len(each.operands) for each in launches), default=1)
        self._kept = lane, counter, words, steps  # to which the sequence has pointers
        calls = 0 if counter is None else counter.address
        starts = ctypes.addressof(words[0]), ctypes.addressof(words[-1])
        self._sequence = host.words([int(primary(ordinal)), ctypes.addressof(lane), calls, *starts, most])
        self.plan_address = ctypes.addressof(self._sequence)

    def provide(self, status: int, stream: int) -> None:
        """Raises WeftError for a status."""
        assert status != NO_WORKSPACE, self._action
        check(self._action, api().CUresult(status))

    def launch(self, stream: int, *addresses: int) -> None:
        """Queues the sequence with these addresses on a stream of its GPU."""
        if status := host.functions.run_sequence(self.plan_address, stream, *addresses):
            self.provide(status, stream)


@functools.cache
def _lane(ordinal: int) -> Any:
    """What all sequences of a GPU share."""
    driver, action = api(), f"preparing a stream of GPU {ordinal}"
    with entered(primary(ordinal)):
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = call(action, driver.cuStreamCreateWithPriority, flags, _PRIORITY)
        kind = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        ended, *events = (int(call(action, driver.cuEventCreate, kind)) for _ in range(3))
    new_lock = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_allocate_lock", ctypes.pythonapi))
    return host.words([new_lock() or 0, 0, ended, int(stream), *events])
