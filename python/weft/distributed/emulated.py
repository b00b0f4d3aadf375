"""A team of GPUs in the emulator: one process adds the work of all ranks to an `emulator.World`."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.distributed.devices import Array, Devices, Memory, different
from weft.emulator import Stream, World
from weft.errors import WeftError
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel


def _memory(array: npt.NDArray[Any]) -> Memory:
    """The memory of a contiguous array."""
    return Memory.of(arrays.view(array))


def _bytes(memory: Memory) -> npt.NDArray[Any]:
    """Memory as a slice of the array that it belongs to: the first use of a part gives a GPU all of it."""
    whole = memory.owner.reshape(-1).view(np.uint8)
    begin = memory.address - whole.ctypes.data
    return whole[begin : begin + memory.size]


class WorldQueue:
    """A stream of a GPU in the emulator."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def copy(self, to: Memory, source: Memory) -> None:
        self.stream.copy(_bytes(to), _bytes(source))

    def fill(self, flags: Memory, value: int) -> None:
        for begin in range(0, flags.size, 4):
            self.stream.write(_bytes(flags.part(begin, 4)), value)

    def await_value(self, flag: Memory, value: int) -> None:
        self.stream.wait_value(_bytes(flag), value)

    def prepared(self, kernel: Kernel, views: Sequence[ArrayView]) -> Any:
        return kernel, views

    def launch(
        self, prepared: tuple[Kernel, list[ArrayView]], operands: Sequence[Array], memory: Sequence[Memory]
    ) -> None:
        kernel, views = prepared
        kernel.emulate_on(self.stream, *views)

    def record(self) -> Any:
        return self.stream.record()

    def wait(self, event: Any) -> None:
        self.stream.wait(event)


_numbers = itertools.count()


class _Together:
    """The state that all ranks of a team share: allocations and keys, in the order of the calls."""

    def __init__(self, world: World) -> None:
        self.world, self.number = world, next(_numbers)
        self.allocations: list[list[Memory]] = []
        self.keys: list[tuple[object, ...]] = []


class WorldDevices(Devices):
    """A GPU of a team in the emulator."""

    graphs_wait = True

    def __init__(self, together: _Together, rank: int, chip: str) -> None:
        self._together, self.rank, self.size, self.chip = together, rank, together.world.ranks, chip
        self.name = f"world {together.number}, rank {rank}"
        self._stream = WorldQueue(together.world.stream(rank))
        self.pushes = WorldQueue(together.world.stream(rank))
        self._allocated = self._agreed = 0

    @staticmethod
    def team(world: World, chip: str) -> "list[WorldDevices]":
        """The GPUs of a world."""
        together = _Together(world)
        return [WorldDevices(together, rank, chip) for rank in range(world.ranks)]

    def caller(self) -> WorldQueue:
        return self._stream

    def shared(self, size: int) -> list[Memory]:
        allocations = self._together.allocations
        if self._allocated == len(allocations):
            made = [np.zeros(size, np.uint8) for _ in range(self.size)]
            for rank, each in enumerate(made):
                self._together.world.share(each, rank)
            allocations.append(list(map(_memory, made)))
        self._allocated += 1
        return allocations[self._allocated - 1]

    def address(self, memory: Memory) -> int:
        return self._together.world.address(_bytes(memory))

    def constant(self, numbers: npt.NDArray[Any]) -> Memory:
        return _memory(numbers.copy())

    def of(self, array: Array) -> Memory:
        return _memory(array)

    def array(self, memory: Memory, shape: Sequence[int], dtype: str) -> Array:
        return memory.view(shape, dtype).numpy()

    def empty(self, shape: tuple[int, ...], like: Array, dtype: str | None = None) -> Array:
        return np.zeros(tuple(shape), like.dtype if dtype is None else arrays.numpy_dtype(dtype))

    def barrier(self, milliseconds: int) -> Callable[[], None]:
        flags = [each.view((self.size,), "ui32").numpy() for each in self.shared(4 * self.size)]
        others = [rank for rank in range(self.size) if rank != self.rank]
        numbers, stream = itertools.count(1), self._stream.stream

        def meet() -> None:
            number = next(numbers)
            for other in others:
                stream.write(flags[other][self.rank : self.rank + 1], number)
            for other in others:
                stream.wait_value(flags[self.rank][other : other + 1], number)

        return meet

    def agree(self, key: tuple[object, ...]) -> None:
        keys = self._together.keys
        if self._agreed == len(keys):
            keys.append(key)
        elif keys[self._agreed] != key:
            raise WeftError(different([str(each[0]) for each in (keys[self._agreed], key)]))
        self._agreed += 1
