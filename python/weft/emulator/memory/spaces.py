"""All memory of a launch. What threads access goes through `Memory`, where the wave's `watch` can see it.

Generic addresses are flat 64-bit numbers: buffers lie below the first window, each with a gap around it, and
shared, local, const and param space show through a window each. In its own space, an address of those counts
from 0; a shared one has the CTA's rank in its cluster from bit 24 on, as on a GPU, so that it also names the
shared memory of the cluster's other CTAs.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.reading.types import STORAGE, Array, Bools
from weft.emulator.running.lanes import Lanes

WINDOW_SHIFT = 44
WINDOWS = {"shared": 1 << 44, "local": 2 << 44, "const": 3 << 44, "param": 4 << 44}
_WINDOW_SPACE = {base >> WINDOW_SHIFT: space for space, base in WINDOWS.items()}
FRAME_PARAM = 1 << 28
"""Param-space addresses from here on are parameters of a `.func`, which live in its local frame."""
STACK = 1 << 27
"""Local addresses from here on are what `alloca` gave."""
_MAX_STACK = 512 * 1024
RANK_SHIFT = 24
"""From this bit on, a shared address has the rank of its CTA in the cluster."""
_OFFSET_MASK = (1 << RANK_SHIFT) - 1
_FIRST_ADDRESS = 1 << 33
_MAX_HEAP = 1 << 30
_ALIGN = 256
_WORKSPACE = 64
_SHARED_ALIGN = 1024
_GAP = 1 << 16
_MASK64 = (1 << 64) - 1

Addresses = npt.NDArray[np.uint64]


class Segment:
    """A run of bytes with an address. `view` shows the bytes as elements of a power-of-two width.

    `of_others`: other launches may write it, too.
    """

    def __init__(
        self,
        name: str,
        base: int,
        data: npt.NDArray[np.uint8],
        writable: bool = True,
        of_others: bool = True,
    ) -> None:
        self.name, self.base, self.data, self.writable = name, base, data, writable
        self.of_others = of_others and writable
        self.size = len(data)
        self.filled: Bools | None = None
        """Which bytes a kernel has written, where it must do so before it reads; None: they are given."""
        self._views: dict[int, Array] = {}

    def view(self, width: int) -> Array:
        """The bytes as one array of `width`-byte elements; a rest that fills no element is left out."""
        if width not in self._views:
            self._views[width] = self.data[: self.size // width * width].view(STORAGE[8 * width])
        return self._views[width]


class Piece(NamedTuple):
    """The lanes of `mask` (None: all active ones) and where in `view` each points; others point anywhere."""

    view: Array
    places: npt.NDArray[np.intp]
    mask: Bools | None


@dataclass(frozen=True)
class Access:
    """One access: `kind` is load, store, atomic or async; `address` is `[warps, 32]`, in `space`.

    `places` are the first bytes in the data of `segment`, which for shared memory is that of all of the
    wave's CTAs one after the other, and for local memory that of all threads.
    """

    kind: str
    space: str
    address: Addresses
    width: int
    lanes: Lanes
    line: int
    segment: Segment
    places: Addresses


CTA, CLUSTER, GPU = 1, 2, 3
LEVELS = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU}
"""The scopes, from the smallest on; that of the system is as good as the GPU's here."""


class Order(NamedTuple):
    """What an access that isn't weak orders: a relaxed one neither acquires nor releases. `level` is its
    scope. `exchanges`: what was there before doesn't matter.
    """

    acquires: bool
    releases: bool
    level: int
    exchanges: bool = False


class Device:
    """What all CTAs share: the buffers in global memory, constants and the kernel's parameters."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.const = Segment("const", 0, np.zeros(0, np.uint8), writable=False)
        self.params = Segment("param", 0, np.zeros(0, np.uint8), writable=False)
        self.printed: list[str] = []
        self._heap = 0
        self.workspace: int = 0
        """The address of what the driver gives a cooperative launch, for a barrier of the whole grid."""
        self._next = _FIRST_ADDRESS

    def copy(self) -> "Device":
        """A device with the same buffers, to which more can be added."""
        other = Device()
        other.segments, other.bases = list(self.segments), list(self.bases)
        other.const, other._next = self.const, self._next
        return other

    def map_workspace(self) -> None:
        """Makes the workspace: its size, then the barrier's counter."""
        data = np.zeros(_WORKSPACE, np.uint8)
        data[:4].view(np.uint32)[0] = _WORKSPACE
        self.workspace = self.map("the grid's workspace", data, of_others=False)

    def map(
        self, name: str, data: npt.NDArray[np.uint8], writable: bool = True, of_others: bool = True
    ) -> int:
        """Gives `data` an address, aligned to 256 bytes, and returns it."""
        base = self._next
        self.segments.append(Segment(name, base, data, writable, of_others))
        self.bases.append(base)
        self._next = (base + len(data) + _GAP + _ALIGN - 1) // _ALIGN * _ALIGN
        return base

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes for a kernel that calls malloc; 0 where there is no room."""
        if not 0 < size <= _MAX_HEAP - self._heap:
            return 0
        self._heap += size
        base = self.map("a block of malloc", np.zeros(size, np.uint8), of_others=False)
        self.segments[-1].filled = np.zeros(size, np.bool_)
        return base

    def release(self, address: int) -> bool:
        """Gives a block of malloc back; False where there is none at `address`."""
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
        """The buffer that begins at or below `address`; the address may lie past its end."""
        at = bisect_right(self.bases, address) - 1
        return self.segments[at] if at >= 0 else None


class Memory:
    """The memory that one wave sees: the device's, and shared and local memory of its CTAs and threads.

    `shared_base` is the first byte of each warp's CTA in `shared`, `[warps, 1]`, with clusters that of the
    cluster's first CTA; `local_base` that of each thread in `local`. Every `cluster` CTAs are a cluster, and
    shared memory of one follows the other's after `shared_stride` bytes.
    """

    def __init__(
        self, device: Device, ctas: int, cta_of_row: npt.NDArray[np.intp], shared: int, cluster: int = 1
    ) -> None:
        self.device: Device = device
        self.cluster = cluster
        self.shared_size = shared
        self.shared_stride = -(-shared // _SHARED_ALIGN) * _SHARED_ALIGN
        self.shared = Segment("shared", 0, np.zeros(ctas * self.shared_stride, np.uint8))
        first = cta_of_row // cluster * cluster
        self.shared_base = (first.astype(np.uint64) * np.uint64(self.shared_stride))[:, None]
        self._threads = 32 * len(cta_of_row)
        self.order: Order | None = None
        """That of what is accessed now; None where it is weak, so that threads may not meet there."""
        self.by_unit = False
        """Whether what is stored now comes from the unit that gives out tensor memory."""
        self.storing: Array | None = None
        """What a plain store writes, while its access is told to who looks on."""
        self.bytes: dict[str, int] = {}
        self.local_size = self.stack_size = 0
        self.stack = Segment("local", 0, np.zeros(0, np.uint8))
        self.stack_top = self.stack_base = np.zeros((len(cta_of_row), 32), np.uint64)
        self.reserve_local(16)

    def reserve_local(self, size: int) -> None:
        """Makes room for `size` bytes of local memory for each thread, keeping what is there."""
        size = -(-size // 16) * 16
        if size <= self.local_size:
            return
        data = np.zeros((self._threads, size), np.uint8)
        if self.local_size:
            data[:, : self.local_size] = self.local.data.reshape(self._threads, -1)
        self.local_size = size
        self.local: Segment = Segment("local", 0, data.reshape(-1))
        self.local_base = np.arange(self._threads, dtype=np.uint64).reshape(-1, 32) * np.uint64(size)

    # Shared memory of the CTAs

    def shared_of(self, cta: int) -> npt.NDArray[np.uint8]:
        """The shared memory of the wave's CTA number `cta`, as bytes."""
        begin = cta * self.shared_stride
        return self.shared.data[begin : begin + self.shared_size]

    def check_shared(self, offset: int, width: int, line: int) -> None:
        """Fault where a CTA's shared memory hasn't these bytes."""
        if offset + width > self.shared_size:
            what = f"out-of-bounds shared access of {width} bytes at 0x{offset:x}"
            raise Fault(f"{what}, {self._extent()}", line, None, offset, "out-of-bounds")

    def _extent(self) -> str:
        blocks = "the block has" if self.cluster == 1 else f"each of the cluster's {self.cluster} blocks has"
        return f"{blocks} {self.shared_size} bytes"

    def allocate_local(self, lanes: Lanes, sizes: Addresses, align: int, line: int) -> Addresses:
        """The local addresses of new bytes for the active lanes, above what each thread has there."""
        mask = np.uint64(align - 1)
        begin = (lanes.chosen(self.stack_top) + mask) & ~mask
        end = begin + np.minimum(sizes, np.uint64(_MAX_STACK))
        most = int(np.where(lanes.enabled(), end, np.uint64(0)).max())
        if most >= _MAX_STACK:
            raise Fault("stack overflow", line)
        if most > self.stack_size:
            size = 1 << (most - 1).bit_length()
            data = np.zeros((self._threads, size), np.uint8)
            data[:, : self.stack_size] = self.stack.data.reshape(self._threads, self.stack_size)
            self.stack_size, self.stack = size, Segment("local", 0, data.reshape(-1))
            self.stack_base = np.arange(self._threads, dtype=np.uint64).reshape(-1, 32) * np.uint64(size)
        top = self.stack_top.copy()
        top[lanes.row_numbers()] = np.where(lanes.enabled(), end, lanes.chosen(top))
        self.stack_top = top
        return begin + np.uint64(STACK)

    # Access

    def load(self, lanes: Lanes, space: str, address: Addresses, width: int, line: int) -> Array:
        """One element of `width` bytes for each active lane."""
        pieces = self.locate(lanes, space, address, width, "load", line)
        if len(pieces) == 1:
            return pieces[0].view.take(pieces[0].places, mode="clip")
        out = np.zeros(address.shape, STORAGE[8 * width])
        for piece in pieces:
            part = piece.view.take(piece.places, mode="clip")
            out = np.where(piece.mask, part, out) if piece.mask is not None else part
        return out

    def store(
        self, lanes: Lanes, space: str, address: Addresses, value: Array, width: int, line: int
    ) -> None:
        """Writes one element of each active lane; of lanes that write the same place, the last one wins."""
        self.storing = value
        for piece in self.locate(lanes, space, address, width, "store", line):
            put(piece, value)

    def locate(
        self, lanes: Lanes, space: str, address: Addresses, width: int, kind: str, line: int
    ) -> list[Piece]:
        """Where the active lanes' elements lie. Raises Fault for the first lane that is wrong."""
        mask = lanes.mask
        if mask is not None:
            address = np.where(mask, address, address.flat[mask.argmax()])
        if width > 1:
            self.check_alignment(lanes, space, address, width, line)
        if space in ("global", "generic"):
            return self._in_generic(lanes, space, address, width, kind, line)
        return [self._in_space(lanes, space, address, width, kind, line)]

    def check_alignment(self, lanes: Lanes, space: str, address: Addresses, width: int, line: int) -> None:
        """Raises Fault for the first active lane whose address is no multiple of `width`."""
        if int(np.bitwise_or.reduce(address, axis=None)) & (width - 1):
            odd = (address & np.uint64(width - 1)) != 0
            if (odd & lanes.enabled()).any():
                self._fault(lanes, address, ~odd, "misaligned", space, width, line)

    def _in_space(
        self, lanes: Lanes, space: str, address: Addresses, width: int, kind: str, line: int
    ) -> Piece:
        """Shared, local, const and param space, where an address is an offset."""
        if space == "param" and int(address.flat[0]) >= FRAME_PARAM:
            space, address = "local", address - np.uint64(FRAME_PARAM)
        base = None
        if space == "shared":
            if self.cluster > 1:
                return self._in_cluster(lanes, address, width, kind, line)
            segment, size, base = self.shared, self.shared_size, self.shared_base
        elif space == "local" and int(address.flat[0]) >= STACK:
            # An address below wraps to one that is far out of bounds.
            segment, size, base = self.stack, self.stack_size, self.stack_base
            address = address - np.uint64(STACK)
        elif space == "local":
            segment, size, base = self.local, self.local_size, self.local_base
        else:
            segment = self.device.const if space == "const" else self.device.params
            size = segment.size
        limit = size - width
        if int(np.maximum.reduce(address, axis=None)) > limit:
            inside = address <= np.uint64(max(limit, 0)) if limit >= 0 else _nowhere(address)
            self._fault(lanes, address, inside, "out-of-bounds", space, width, line)
        places = address if base is None else address + lanes.chosen(base)
        return self._piece(lanes, segment, space, address, places, width, kind, line)

    def shared_places(self, lanes: Lanes, space: str, address: Addresses, width: int, line: int) -> Addresses:
        """Where in `shared` the active lanes' shared or generic addresses point. Faults as `locate` does."""
        if lanes.mask is not None:
            address = np.where(lanes.mask, address, address.flat[lanes.mask.argmax()])
        self.check_alignment(lanes, space, address, width, line)
        if space == "generic":
            inside = address >> np.uint64(32) == np.uint64(WINDOWS["shared"] >> 32)
            if not inside.all():
                self._fault(lanes, address, inside, "out-of-bounds", "shared", width, line)
            address = address - np.uint64(WINDOWS["shared"])
        return self._in_cluster_places(lanes, address, width, line)

    def _in_cluster(self, lanes: Lanes, address: Addresses, width: int, kind: str, line: int) -> Piece:
        """Shared space where addresses reach the other CTAs of a cluster."""
        places = self._in_cluster_places(lanes, address, width, line)
        return self._piece(lanes, self.shared, "shared", address, places, width, kind, line)

    def _in_cluster_places(self, lanes: Lanes, address: Addresses, width: int, line: int) -> Addresses:
        rank, offset = address >> np.uint64(RANK_SHIFT), address & np.uint64(_OFFSET_MASK)
        limit = self.shared_size - width
        if limit < 0 or int(offset.max()) > limit or int(rank.max()) >= self.cluster:
            inside = (offset.astype(np.int64) <= limit) & (rank < np.uint64(self.cluster))
            self._fault(lanes, address, inside, "out-of-bounds", "shared", width, line)
        places: Addresses = offset + rank * np.uint64(self.shared_stride) + lanes.chosen(self.shared_base)
        return places

    def _in_generic(
        self, lanes: Lanes, space: str, address: Addresses, width: int, kind: str, line: int
    ) -> list[Piece]:
        """Takes the buffer or window of the first lane, and goes on with the lanes that are not in it."""
        pieces: list[Piece] = []
        while True:
            first = int(address.flat[0])
            window = _WINDOW_SPACE.get(first >> WINDOW_SHIFT) if space == "generic" else None
            segment = None if window else self.device.find(first)
            base, size = (
                (WINDOWS[window], 1 << 32) if window else (segment.base, segment.size) if segment else (0, 0)
            )
            if not base or first + width > base + size:
                self._fault(lanes, address, address != address.flat[0], "out-of-bounds", space, width, line)
            offset = address - np.uint64(base)
            here, rest = lanes, None
            if int(np.maximum.reduce(offset, axis=None)) > size - width:
                inside = offset <= np.uint64(size - width)
                here, rest = (
                    lanes.narrowed(lanes.enabled() & inside),
                    lanes.narrowed(lanes.enabled() & ~inside),
                )
                offset = np.where(inside, offset, offset.flat[0])
            if window:
                pieces.append(self._in_space(here, window, offset, width, kind, line))
            elif segment is not None:
                pieces.append(self._piece(here, segment, "global", offset, offset, width, kind, line))
            if rest is None or rest.mask is None:
                return pieces
            lanes = rest
            address = np.where(rest.mask, address, address.flat[rest.mask.argmax()])

    def _piece(
        self,
        lanes: Lanes,
        segment: Segment,
        space: str,
        offset: Addresses,
        places: Addresses,
        width: int,
        kind: str,
        line: int,
    ) -> Piece:
        """The place of accesses that are in bounds; each passes here once for each space that it meets.

        `offset` is that from the segment's base, of shared and local memory the address in that space.
        """
        if lanes.wave.watch is not None:
            address = offset + np.uint64(segment.base)
            lanes.wave.watch.access(Access(kind, space, address, width, lanes, line, segment, places))
        if kind != "load":
            if not segment.writable:
                address = offset + np.uint64(segment.base)
                self._fault(lanes, address, _nowhere(address), "read-only", space, width, line)
            # What an atomic operation changes, if anything, shows only when it is done.
            lanes.wave.changes += kind != "atomic" and space != "local"
        self.bytes[space] = self.bytes.get(space, 0) + lanes.active * width
        index = places if width == 1 else places >> _SHIFTS[width]
        return Piece(segment.view(width), index.view(np.intp), lanes.mask)

    def _fault(
        self, lanes: Lanes, address: Addresses, good: Bools, what: str, space: str, width: int, line: int
    ) -> None:
        """Raises the fault of the first active lane that isn't `good`."""
        at = int((lanes.enabled() & ~good).argmax())
        bad = int(address.flat[at])
        thread = lanes.wave.thread(int(lanes.row_numbers()[at // 32]), at % 32)
        near = self.device.find(bad) if space in ("global", "generic") else None
        hint = ""
        if what == "out-of-bounds" and near is not None and bad - near.base < near.size + _GAP:
            inside = bad - near.base
            far = f"{inside} bytes into" if inside < near.size else f"{inside - near.size} bytes behind"
            hint = f", {far} {near.name} of {near.size} bytes"
        elif what == "out-of-bounds" and space == "shared":
            hint = f", {self._extent()}"
        elif what == "read-only" and near is not None:
            hint = f", {bad - near.base} bytes into {near.name}"
        raise Fault(f"{what} {space} access of {width} bytes at 0x{bad:x}{hint}", line, thread, bad, what)


def put(piece: Piece, value: Array) -> None:
    """Writes the lanes' elements of `value` to where `piece` says."""
    if piece.mask is None:
        piece.view[piece.places] = value
    else:
        piece.view[piece.places[piece.mask]] = value[piece.mask]


def wrap(value: int) -> np.uint64:
    """`value` modulo 2**64."""
    return np.uint64(value & _MASK64)


def _nowhere(address: Addresses) -> Bools:
    return np.zeros(address.shape, np.bool_)


_SHIFTS = {1 << shift: np.uint64(shift) for shift in range(5)}
