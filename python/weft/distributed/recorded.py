"""Teams of GPUs of one process: their plans are recorded as sequences, which other code queues.

A plan queues launches, copies and events for arrays that have no memory yet. What it queues is kept instead,
with the place of each array: its number among the operands and results of a call, or an address of the
team's memory. Where the host numbers the calls of a plan, there are steps for even and for odd ones, whose
memory differs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from weft.distributed.devices import Devices, Memory
from weft.distributed.products import Plan
from weft.distributed.teams import HALVES, Exchange, Team, Turn
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.launch.sequence import CALLER, OTHER, Copy, Counter, Launch, Number, Record, Step, Wait, Where
from weft.multiply.xla_product import APART


class Peers(Protocol):
    """The GPUs of a team, by rank, and their memory. `kind` and `ordinals` are those of views of it."""

    chip: str
    kind: str
    ordinals: tuple[int, ...]

    def zeros(self, rank: int, size: int) -> int:
        """The address of so many new bytes of a GPU, for all to access."""

    def constant(self, rank: int, numbers: npt.NDArray[Any]) -> int:
        """The address of a copy of a NumPy array for a GPU."""

    def mapped(self, address: int) -> int:
        """The address that kernels use for memory of `zeros`."""

    def prepared(self, kernel: Kernel, views: Sequence[ArrayView]) -> Any:
        """A launch with arrays like these, for a `Launch`."""


@dataclass(frozen=True)
class Place:
    """Contiguous bytes of a GPU: of an operand or a result of a call, by its number, or at an address."""

    where: Where
    size: int
    kind: str
    ordinal: int

    def part(self, begin: int, size: int) -> "Place":
        number, start = self.where
        return replace(self, where=Where(number, start + begin), size=size)

    def view(self, shape: Sequence[int], dtype: str) -> ArrayView:
        shape = tuple(shape)
        strides = arrays.contiguous_strides(shape)
        return ArrayView(self._address, shape, strides, dtype, self.kind, self.ordinal, False, self)

    @property
    def _address(self) -> int:
        """An address that is aligned as the one of a call."""
        number, begin = self.where
        return begin if number is None else (number + 1) * APART + begin


@dataclass(frozen=True)
class Operand:
    """An operand or a result of a call, or memory of the team as an array."""

    place: Place
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, place: Place, shape: Sequence[int], dtype: str) -> "Operand":
        """A contiguous array that begins at a place."""
        size = prod(shape) * arrays.numpy_dtype(dtype).itemsize
        strides = arrays.contiguous_strides(tuple(shape))
        return cls(place.part(0, size), tuple(shape), strides, dtype)

    @property
    def T(self) -> "Operand":  # as NumPy names it
        return replace(self, shape=self.shape[::-1], strides=self.strides[::-1])

    def __getitem__(self, rows: slice) -> "Operand":
        first, last, _ = rows.indices(self.shape[0])
        width = self.strides[0] * arrays.numpy_dtype(self.dtype).itemsize
        place = self.place.part(first * width, (last - first) * width)
        return replace(self, place=place, shape=(last - first, *self.shape[1:]))

    def __weft_view__(self) -> ArrayView:
        view = self.place.view(self.shape, self.dtype)
        return replace(view, strides=self.strides)


class RecordedQueue:
    """A stream, whose work is kept."""

    def __init__(self, stream: int, steps: list[Step], peers: Peers) -> None:
        self._stream, self._steps, self._peers = stream, steps, peers

    def copy(self, to: Place, source: Place) -> None:
        self._steps.append(Copy(self._stream, to.where, source.where, source.size))

    def number(self, to: Place) -> None:
        """Adds a write of the number of the call."""
        self._steps.append(Number(to.where))

    def fill(self, flags: Memory, value: int) -> None:
        raise NotImplementedError  # only captured calls fill flags

    def await_value(self, flag: Memory, value: int) -> None:
        raise NotImplementedError  # sequences have no such steps

    def prepared(self, kernel: Kernel, views: Sequence[ArrayView]) -> Any:
        return self._peers.prepared(kernel, views)

    def launch(self, prepared: Any, operands: Sequence[Operand], memory: Sequence[Place]) -> None:
        places = [*(each.place.where for each in operands), *(each.where for each in memory)]
        self._steps.append(Launch(prepared, tuple(places)))

    def record(self) -> int:
        self._steps.append(Record(self._stream))
        return self._stream

    def wait(self, event: int) -> None:
        self._steps.append(Wait(self._stream, event))


class RecordedDevices(Devices):
    """A GPU of a team whose calls are recorded."""

    def __init__(self, peers: Peers, rank: int, shared: list[list[int]]) -> None:
        """`shared` are the addresses of memory that ranks have allocated, the same list for all of them."""
        self._peers, self._shared = peers, shared
        self.rank, self.size, self.chip = rank, len(peers.ordinals), peers.chip
        self.name = f"GPUs {', '.join(map(str, peers.ordinals))}, rank {rank}"
        self.steps: list[Step] = []
        self.pushes = RecordedQueue(OTHER, self.steps, peers)
        self._caller = RecordedQueue(CALLER, self.steps, peers)
        self._allocated = 0
        self.result = 0
        """The number of the result."""

    def caller(self) -> RecordedQueue:
        return self._caller

    def shared(self, size: int) -> list[Place]:
        if self._allocated == len(self._shared):
            self._shared.append([self._peers.zeros(rank, size) for rank in range(self.size)])
        self._allocated += 1
        starts = self._shared[self._allocated - 1]
        return [self._place(Where(None, start), size, rank) for rank, start in enumerate(starts)]

    def address(self, memory: Place) -> int:
        return self._peers.mapped(memory.where.begin)

    def constant(self, numbers: npt.NDArray[Any]) -> Place:
        numbers = np.ascontiguousarray(numbers)
        return self._place(Where(None, self._peers.constant(self.rank, numbers)), numbers.nbytes, self.rank)

    def of(self, array: Operand) -> Place:
        return array.place

    def array(self, memory: Place, shape: Sequence[int], dtype: str) -> Operand:
        return Operand.of(memory, shape, dtype)

    def empty(self, shape: tuple[int, ...], like: Operand, dtype: str | None = None) -> Operand:
        return self.operand(self.result, shape, like.dtype if dtype is None else dtype)

    def operand(self, number: int, shape: Sequence[int], dtype: str) -> Operand:
        """An operand or a result of calls."""
        return Operand.of(self._place(Where(number, 0), 0, self.rank), shape, dtype)

    def _place(self, where: Where, size: int, rank: int) -> Place:
        return Place(where, size, self._peers.kind, self._peers.ordinals[rank])

    def barrier(self, milliseconds: int) -> Callable[[], None]:
        raise NotImplementedError  # only captured calls need one


class RecordedExchange(Exchange):
    """An exchange whose calls compiled code numbers."""

    def __init__(self, devices: RecordedDevices, limit: int) -> None:
        super().__init__(devices, limit)
        self.counter = Counter()
        self._state = devices.constant(np.array([devices.rank, 0, limit, 0], np.int32))

    def turn(self, parity: int) -> Turn:
        """The calls with an even number, or with an odd one."""
        return Turn(self._halves[parity], self._state, parity)


@dataclass(frozen=True)
class Recording:
    """The steps of a call: the same each time, or, with a counter, by whether its number is even or odd."""

    steps: tuple[tuple[Step, ...], ...]
    counter: Counter | None


class RecordedTeam(Team):
    """A rank of a team whose calls are recorded."""

    devices: RecordedDevices

    @classmethod
    def together(cls, peers: Peers, seconds: float) -> "list[RecordedTeam]":
        """A team of these GPUs, by rank."""
        shared: list[list[int]] = []
        ranks = range(len(peers.ordinals))
        return [cls.of(RecordedDevices(peers, rank, shared), seconds) for rank in ranks]  # type: ignore[misc]

    def _set(self, devices: RecordedDevices, seconds: float) -> None:
        super()._set(devices, seconds)
        self._recorded: dict[str, RecordedExchange] = {}
        self._parity = 0
        self._numbered: RecordedExchange | None = None

    def exchange(self, kind: str) -> RecordedExchange:
        if kind not in self._recorded:
            self._recorded[kind] = RecordedExchange(self.devices, self._limit)
        return self._recorded[kind]

    def begin(self, exchange: Exchange) -> Turn:
        assert isinstance(exchange, RecordedExchange)
        self._numbered = exchange
        turn = exchange.turn(self._parity)
        memory: Memory = turn.number
        assert isinstance(memory, Place)
        self.devices.caller().number(memory)
        return turn

    def barrier(self) -> Callable[[], None]:
        """Calls aren't captured."""
        return lambda: None

    def record(self, plan: Plan, operands: Sequence[Operand]) -> Recording:
        """Records the steps that a plan queues for operands. The result has the number after theirs."""
        self.devices.result = len(operands)
        self._numbered = None
        recordings = [self._recording(plan, operands, 0)]
        if self._numbered is None:
            return Recording(tuple(recordings), None)
        recordings += [self._recording(plan, operands, parity) for parity in range(1, HALVES)]
        return Recording(tuple(recordings), self._numbered.counter)

    def _recording(self, plan: Plan, operands: Sequence[Operand], parity: int) -> tuple[Step, ...]:
        self._parity = parity
        self.devices.steps.clear()
        plan.run(operands)
        return tuple(self.devices.steps)
