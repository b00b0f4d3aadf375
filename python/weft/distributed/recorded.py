"""Teams of GPUs of one process: their plans are recorded as sequences, which other code queues.

A plan queues launches, copies and events for arrays that have no memory yet. What it queues is kept instead,
with the place of each array: its number among the operands and results of a call, or an address of the
team's memory. Where the host numbers the calls of a plan, there are steps for even and for odd ones, whose
memory differs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.distributed.devices import Devices, Memory
from weft.distributed.peers import PeerGpus
from weft.distributed.plans import Plan
from weft.distributed.teams import HALVES, Exchange, Team, Turn
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.launch.sequence import CALLER, OTHER, Copy, Counter, Launch, Number, Record, Step, Wait, Where


class Operand(ArrayView):
    """An operand or a result of a call, or memory of the team as an array. The owner of the former is its
    number; its address is aligned as the one of a call.
    """

    @classmethod
    def of(cls, number: int, shape: Sequence[int], dtype: str, device: str, ordinal: int) -> "Operand":
        """An operand or a result of calls."""
        strides = arrays.contiguous_strides(tuple(shape))
        return cls((number + 1) * arrays.APART, tuple(shape), strides, dtype, device, ordinal, False, number)

    @property
    def T(self) -> "Operand":  # as NumPy names it
        return replace(self, shape=self.shape[::-1], strides=self.strides[::-1])

    def __getitem__(self, rows: slice) -> "Operand":
        first, last, _ = rows.indices(self.shape[0])
        address = self.address + first * self.strides[0] * self.bits // 8
        return replace(self, address=address, shape=(last - first, *self.shape[1:]))


def _where(memory: Memory) -> Where:
    """Where a sequence finds memory: in that of an operand, which has a number, or at an address."""
    number = memory.owner
    return Where(number, memory.address - (0 if number is None else (number + 1) * arrays.APART))


class RecordedQueue:
    """A stream, whose work is kept."""

    def __init__(self, stream: int, steps: list[Step], peers: PeerGpus) -> None:
        self._stream, self._steps, self._peers = stream, steps, peers

    def copy(self, to: Memory, source: Memory) -> None:
        self._steps.append(Copy(self._stream, _where(to), _where(source), source.size))

    def number(self, to: Memory) -> None:
        """Adds a write of the number of the call."""
        self._steps.append(Number(_where(to)))

    def fill(self, flags: Memory, value: int) -> None:
        raise NotImplementedError  # only captured calls fill flags

    def await_value(self, flag: Memory, value: int) -> None:
        raise NotImplementedError  # as `awaits_values`

    def prepared(self, kernel: Kernel, views: Sequence[ArrayView]) -> Any:
        return self._peers.prepared(kernel, views)

    def launch(self, prepared: Any, operands: Sequence[Operand], memory: Sequence[Memory]) -> None:
        self._steps.append(Launch(prepared, tuple(map(_where, (*map(Memory.of, operands), *memory)))))

    def record(self) -> int:
        self._steps.append(Record(self._stream))
        return self._stream

    def wait(self, event: int) -> None:
        self._steps.append(Wait(self._stream, event))


class RecordedDevices(Devices):
    """A GPU of a team whose calls are recorded."""

    awaits_values = False  # for which sequences have no steps

    def __init__(self, peers: PeerGpus, rank: int, shared: list[list[Memory]]) -> None:
        """`shared` is the memory that ranks have allocated, the same list for all of them."""
        self._peers, self._shared = peers, shared
        self.rank, self.size, self.chip = rank, len(peers.ordinals), peers.chip
        self.name = f"GPUs {', '.join(map(str, peers.ordinals))}, rank {rank}"
        self.steps: list[Step] = []
        self.pushes = RecordedQueue(OTHER, self.steps, peers)
        self._caller = RecordedQueue(CALLER, self.steps, peers)
        self._allocated = 0
        self.result = 0
        """The number of the result."""
        self.parity = 0
        """That of the numbers of the calls."""
        self.counter: Counter | None = None
        """What numbers the calls, if a plan asks for a number."""

    def caller(self) -> RecordedQueue:
        return self._caller

    def shared(self, size: int) -> list[Memory]:
        if self._allocated == len(self._shared):
            self._shared.append([self._peers.zeros(rank, size) for rank in range(self.size)])
        self._allocated += 1
        return self._shared[self._allocated - 1]

    def address(self, memory: Memory) -> int:
        return self._peers.mapped(memory)

    def constant(self, numbers: npt.NDArray[Any]) -> Memory:
        return self._peers.constant(self.rank, np.ascontiguousarray(numbers))

    def of(self, array: Operand) -> Memory:
        return Memory.of(array)

    def array(self, memory: Memory, shape: Sequence[int], dtype: str) -> Operand:
        return Operand(**vars(memory.view(shape, dtype)))

    def empty(self, shape: tuple[int, ...], like: Operand, dtype: str | None = None) -> Operand:
        return Operand.of(self.result, shape, dtype or like.dtype, like.device, like.device_id)

    def barrier(self, milliseconds: int) -> Callable[[], None]:
        return lambda: None  # only captured calls need one


class RecordedExchange(Exchange):
    """An exchange whose calls compiled code numbers."""

    def __init__(self, devices: RecordedDevices, limit: int) -> None:
        super().__init__(devices, limit)
        self._recorded, self.counter = devices, Counter()
        self._state = devices.constant(np.array([devices.rank, 0, limit, 0], np.int32))

    def next(self, captured: bool) -> Turn:
        """The calls with an even number, or with an odd one."""
        devices = self._recorded
        devices.counter = self.counter
        turn = Turn(self._halves[devices.parity], self._state, devices.parity)
        devices.caller().number(turn.number)
        return turn


@dataclass(frozen=True)
class Recording:
    """The steps of a call: the same each time, or, with a counter, by whether its number is even or odd."""

    steps: tuple[tuple[Step, ...], ...]
    counter: Counter | None


class RecordedTeam(Team):
    """A rank of a team whose calls are recorded."""

    devices: RecordedDevices

    @classmethod
    def together(cls, peers: PeerGpus, seconds: float) -> "list[RecordedTeam]":
        """A team of these GPUs, by rank."""
        shared: list[list[Memory]] = []
        ranks = range(len(peers.ordinals))
        return [cls.of(RecordedDevices(peers, rank, shared), seconds) for rank in ranks]  # type: ignore[misc]

    def _new_exchange(self) -> Exchange:
        return RecordedExchange(self.devices, self._limit)

    def record(self, plan: Plan, operands: Sequence[Operand]) -> Recording:
        """Records the steps that a plan queues for operands. The result has the number after theirs."""
        devices, recorded = self.devices, list[tuple[Step, ...]]()
        devices.result, devices.counter = len(operands), None
        for devices.parity in range(HALVES):
            devices.steps.clear()
            plan.run(operands)
            recorded.append(tuple(devices.steps))
            if devices.counter is None:
                break
        return Recording(tuple(recorded), devices.counter)
