"""The memory of several GPUs: buffers of one GPU, and buffers of one GPU that all can access."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.emulator.arguments import Buffers, Key, check_buffer
from weft.emulator.memory.device import Device
from weft.emulator.memory.segments import Segment
from weft.errors import WeftError, shown

Array = npt.NDArray[np.generic]
# Addresses, after those of the variables of modules: of buffers, and of what launches allocate.
_BUFFERS = 1 << 40
_LAUNCHES = 1 << 42
_OF_A_LAUNCH = 1 << 32


@dataclass(frozen=True)
class Buffer:
    """The memory that an array owns on the host, from byte `begin` to `end`, and where it is on GPU `rank`;
    `shared`: all GPUs can access it.
    """

    begin: int
    end: int
    rank: int
    shared: bool
    segment: Segment

    def offset(self, array: Array) -> int:
        """Where the first element of an array in this memory is."""
        return int(array.__array_interface__["data"][0]) - self.begin if array.size else 0


class WorldMemory:
    """The buffers of all GPUs. Each has an address of its own, which is the same on every GPU."""

    def __init__(self) -> None:
        self._all, self._buffers = Device(first=_BUFFERS), Buffers(Device())
        self._known: list[Buffer] = []
        self._launches = 0

    def share(self, array: Array, rank: int) -> None:
        """Gives an array, with all of the memory that it is a view of, to a GPU, and the others access to it.
        Raises WeftError if a GPU has the memory already.
        """
        owner = _owner(array)
        begin, end = _bounds(owner)
        if (found := self._overlapping(begin, end)) is not None:
            kind = "is shared" if found.shared else "is used"
            raise WeftError(f"array must be shared before its first use: it {kind} by rank {found.rank}")
        self._map(owner, rank, shared=True)

    def buffer(self, array: Array, rank: int) -> Buffer:
        """A GPU's buffer of an array, perhaps a new one. Raises WeftError if another GPU has it alone."""
        begin, end = _bounds(array)
        found = self._overlapping(begin, end)
        if found is None:
            return self._map(_owner(array), rank, shared=False)
        if begin < found.begin or end > found.end:
            raise WeftError("an array must not reach beyond the memory of another one that it overlaps")
        if not found.shared and found.rank != rank:
            raise WeftError(
                f"rank {rank} can't access this array of rank {found.rank}: share it before its first use, "
                f"with World.share(array, {found.rank})"
            )
        return found

    def address(self, array: Array, rank: int) -> int:
        """The address of an array's first element."""
        buffer = self.buffer(array, rank)
        return buffer.segment.base + buffer.offset(array)

    def shared_address(self, array: Array) -> int:
        """As `address`, of an array that all GPUs can access. Raises WeftError for another one."""
        begin, end = _bounds(array)
        found = self._overlapping(begin, end)
        if found is None or not found.shared:
            raise WeftError("array must be shared: World.share(array, rank)")
        return found.segment.base + found.offset(array)

    def device(self, rank: int, user: str, variables: Device) -> Device:
        """What a GPU can access, with the variables of a module."""
        device = Device(rank, user, _LAUNCHES + _OF_A_LAUNCH * self._launches)
        self._launches += 1
        mine = [each.segment for each in self._known if each.shared or each.rank == rank]
        device.segments = [*variables.segments, *mine]
        device.bases = [segment.base for segment in device.segments]
        device.const = variables.const
        return device

    def write_back(self) -> None:
        """Copies the contents of buffers that had to be copied to their arrays."""
        self._buffers.write_back()

    def _overlapping(self, begin: int, end: int) -> Buffer | None:
        return next((each for each in self._known if begin < each.end and each.begin < end), None)

    def _map(self, owner: Array, rank: int, *, shared: bool) -> Buffer:
        begin, end = _bounds(owner)
        data, writable = self._buffers.octets([owner], begin, end)
        name = f"an array of rank {rank}"
        self._all.map(name, data, writable)
        made = Buffer(begin, end, rank, shared, self._all.segments[-1])
        self._known.append(made)
        return made


class OfRank(Buffers):
    """The arrays of a launch on one GPU, as `weft.emulator.arguments.parameters` needs them."""

    def __init__(self, memory: WorldMemory, rank: int) -> None:
        self._memory, self._rank = memory, rank

    def map(self, arrays: Mapping[Key, Array], names: Mapping[Key, str] | None = None) -> dict[Key, int]:
        """The addresses of the first elements of the arrays; their memory has names already."""
        return {key: self._memory.address(array, self._rank) for key, array in arrays.items()}

    def map_multicast(self, name: str, members: tuple[int, ...], size: int) -> int:
        raise WeftError("Multicast objects can't be passed where several GPUs run")

    def forget(self, address: int) -> None:
        raise WeftError("Unwritten arrays aren't tracked where several GPUs run: pass the array itself")


def checked(array: object, what: str) -> Array:
    """An array that can be a buffer. Raises WeftError otherwise."""
    if not isinstance(array, np.ndarray):
        raise WeftError(f"{what} must be a NumPy array, got {shown(array)}")
    check_buffer(array, what)
    return array


def _owner(array: Array) -> Array:
    """The array whose memory this one is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _bounds(array: Array) -> tuple[int, int]:
    begin, end = np.lib.array_utils.byte_bounds(array)
    return begin, max(end, begin + 1)
