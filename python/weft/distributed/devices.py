"""The interface of a team's GPU: memory that all GPUs can access, streams, and the host's agreement."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy.typing as npt

from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "npt.NDArray[Any] | torch.Tensor"
"""An array of a call: of NumPy or PyTorch, or one without memory that is recorded."""
Make = Callable[[Any, Any], Any]
"""A function that plans a product, or several, for a team."""


class Memory(NamedTuple):
    """Contiguous bytes of a GPU. `device` and `ordinal` are those of views. `owner` keeps them alive."""

    address: int
    size: int
    device: str
    ordinal: int
    owner: Any

    @classmethod
    def of(cls, view: ArrayView) -> "Memory":
        """That of a contiguous array."""
        return cls(view.address, prod(view.shape) * view.bits // 8, view.device, view.device_id, view.owner)

    def part(self, begin: int, size: int) -> "Memory":
        """Some of the bytes."""
        return Memory(self.address + begin, size, self.device, self.ordinal, self.owner)

    def view(self, shape: Sequence[int], dtype: str) -> ArrayView:
        """Their beginning as an array, of elements by MLIR's name."""
        shape = tuple(shape)
        strides = arrays.contiguous_strides(shape)
        return ArrayView(self.address, shape, strides, dtype, self.device, self.ordinal, False, self.owner)


class Queue(Protocol):
    """A stream of this GPU."""

    def copy(self, to: Memory, source: Memory) -> None:
        """Adds a copy by a copy engine."""

    def fill(self, flags: Memory, value: int) -> None:
        """Adds writes of a number to flags of 4 bytes."""

    def await_value(self, flag: Memory, value: int) -> None:
        """Work added from now on begins when a flag of 4 bytes of this GPU has been set to a number, or to
        one of the next 2**31 - 1.
        """

    def prepared(self, kernel: Kernel, views: Sequence[ArrayView]) -> Any:
        """A launch with arrays like these, for `launch`."""

    def launch(self, prepared: Any, operands: Sequence[Any], memory: Sequence[Memory]) -> None:
        """Adds a launch with these arrays and this memory."""

    def record(self) -> Any:
        """An event after all that was added."""

    def wait(self, event: Any) -> None:
        """Work added from now on begins after an event."""


class Host:
    """A rank of a team, and the work of its host. `chip` is the team's, `name` that of its group."""

    rank: int
    size: int
    chip: str
    name: str

    @property
    def captures(self) -> bool:
        """Whether the caller's work is captured in a graph."""
        return False

    def key(self, operands: Sequence[Array]) -> Hashable:
        """A key of arrays for plans, if it is faster to make than their views; otherwise None."""
        return None

    def agree(self, key: tuple[object, ...]) -> None:
        """Returns when all ranks have called it. Raises WeftError on all of them if keys differ."""

    def is_watched(self, operands: Sequence[Array]) -> bool:
        """Whether PyTorch must see an operation on arrays, to differentiate or cast it."""
        return False

    def planned(self, make: Make, product: object, team: Any) -> Any:
        """The plan that `make` makes for a product and a team, or one that runs such plans elsewhere."""
        return make(product, team)


class Devices(Host, ABC):
    """This GPU of a team, by rank, and what the host does for it."""

    awaits_values = True
    """Whether streams can wait for values."""
    graphs_wait = False
    """Whether graphs in which the caller's work is captured can wait for flags: the same on all ranks."""
    pushes: Queue
    """The stream of copies to other GPUs."""

    @abstractmethod
    def caller(self) -> Queue:
        """The stream on which the caller's work is."""

    @abstractmethod
    def shared(self, size: int) -> Sequence[Memory]:
        """So many bytes on each GPU, zeros, for all to access: by rank. All ranks call it together."""

    @abstractmethod
    def address(self, memory: Memory) -> int:
        """Where shared memory is mapped on this GPU."""

    @abstractmethod
    def constant(self, numbers: npt.NDArray[Any]) -> Memory:
        """A copy of a NumPy array, for this GPU, ordered before what the caller adds next."""

    @abstractmethod
    def of(self, array: Any) -> Memory:
        """The memory of a contiguous array."""

    @abstractmethod
    def array(self, memory: Memory, shape: Sequence[int], dtype: str) -> Array:
        """The beginning of shared memory of this GPU as an array, of elements by MLIR's name."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], like: Any, dtype: str | None = None) -> Array:
        """A new array, of elements by MLIR's name, by default those of another array."""

    @abstractmethod
    def barrier(self, milliseconds: int) -> Callable[[], None]:
        """Makes a barrier on the callers' streams: nothing after a call of it begins before all ranks have
        called it and ended what precedes. A wait that takes longer ends with an error. All ranks call
        `barrier` together.
        """


def different(keys: Sequence[object]) -> str:
    """The message about ranks that don't call the same product."""
    calls = " and ".join(map(str, keys))
    return f"all ranks must multiply arrays of the same shapes and types with the same options, got {calls}"
