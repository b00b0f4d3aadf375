"""What all CTAs of a launch share: the buffers in global memory, constants and the kernel's parameters."""

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import GAP, Multicast, Segment

_FIRST_ADDRESS = 1 << 33
_MAX_HEAP = 1 << 30
_ALIGN = 256
_WORKSPACE = 64


class Device:
    """The buffers in global memory, constants and the kernel's parameters."""

    def __init__(self, rank: int | None = None, user: str = "", first: int = _FIRST_ADDRESS) -> None:
        self.rank, self.user = rank, user
        """Where several GPUs run, the GPU's number and the name of what uses it."""
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.const = Segment("const", 0, np.zeros(0, np.uint8), writable=False)
        self.params = Segment("param", 0, np.zeros(0, np.uint8), writable=False)
        self.printed: list[str] = []
        self._heap = 0
        self.workspace: int = 0
        """The address of the memory that a cooperative launch has for a barrier of the whole grid."""
        self._next = first
        """The least address of the next buffer."""

    def copy(self) -> "Device":
        """A device with the same buffers, to which more can be added."""
        other = Device()
        other.segments, other.bases = [each.again() for each in self.segments], list(self.bases)
        other.const, other._next = self.const, self._next
        return other

    def map_workspace(self) -> None:
        """Allocates the workspace: its size, followed by the barrier's counter."""
        data = np.zeros(_WORKSPACE, np.uint8)
        data[:4].view(np.uint32)[0] = _WORKSPACE
        self.workspace = self.map("the grid's workspace", data, of_others=False)

    def map(
        self, name: str, data: npt.NDArray[np.uint8], writable: bool = True, of_others: bool = True
    ) -> int:
        """Gives `data` an address, aligned to 256 bytes, and returns it."""
        base = self._next
        self._insert(Segment(name, base, data, writable, of_others))
        self._next = (base + len(data) + GAP + _ALIGN - 1) // _ALIGN * _ALIGN
        return base

    def place(self, name: str, address: int, data: npt.NDArray[np.uint8]) -> None:
        """Gives `data` the address of other memory of the process, beyond those that `map` gives out."""
        self._insert(Segment(name, address, data))

    def _insert(self, segment: Segment) -> None:
        at = bisect_left(self.bases, segment.base)
        self.segments.insert(at, segment)
        self.bases.insert(at, segment.base)

    def remove(self, address: int) -> None:
        """Takes the buffer at an address away."""
        at = self.bases.index(address)
        del self.bases[at], self.segments[at]

    def map_multicast(self, name: str, members: tuple[int, ...], size: int) -> int:
        """Gives a multicast object of the buffers at `members` an address, and returns it."""
        base = self._next
        self._insert(Multicast(name, base, members, size))
        self._next = (base + size + GAP + _ALIGN - 1) // _ALIGN * _ALIGN
        return base

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes for a kernel that calls malloc; 0 if there is not enough memory."""
        if not 0 < size <= _MAX_HEAP - self._heap:
            return 0
        self._heap += size
        base = self.map("a block of malloc", np.zeros(size, np.uint8), of_others=False)
        self.segments[self.bases.index(base)].filled = np.zeros(size, np.bool_)
        return base

    def release(self, address: int) -> bool:
        """Frees a block of malloc; False if there is none at `address`."""
        at = bisect_right(self.bases, address) - 1
        if at < 0 or self.bases[at] != address or self.segments[at].name != "a block of malloc":
            return False
        self._heap -= self.segments[at].size
        del self.bases[at], self.segments[at]
        return True

    def has(self, address: int) -> bool:
        """Whether an address is in a buffer."""
        segment = self.find(address)
        return segment is not None and address < segment.base + segment.size

    def find(self, address: int) -> Segment | None:
        """The buffer that begins at or below `address`, which may lie past the buffer's end."""
        at = bisect_right(self.bases, address) - 1
        return self.segments[at] if at >= 0 else None
