"""All memory of a launch. What threads access goes through `Memory`, where a `watch` can see it.

Generic addresses are flat 64-bit numbers: buffers lie below the first window, each with a gap around it, and
shared, local, const and param space show through a window each. In its own space, an address of those counts
from 0.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.lanes import Lanes
from weft.emulator.types import STORAGE, Array, Bools

WINDOW_SHIFT = 44
WINDOWS = {"shared": 1 << 44, "local": 2 << 44, "const": 3 << 44, "param": 4 << 44}
_WINDOW_SPACE = {base >> WINDOW_SHIFT: space for space, base in WINDOWS.items()}
FRAME_PARAM = 1 << 28
"""Param-space addresses from here on are parameters of a `.func`, which live in its local frame."""
_FIRST_ADDRESS = 1 << 33
_ALIGN = 256
_GAP = 1 << 16
_MASK64 = (1 << 64) - 1

Addresses = npt.NDArray[np.uint64]


class Segment:
    """A run of bytes with an address. `views` shows the bytes as elements of a power-of-two width."""

    def __init__(self, name: str, base: int, data: npt.NDArray[np.uint8], writable: bool = True) -> None:
        self.name, self.base, self.data, self.writable = name, base, data, writable
        self.size = len(data)
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
    """One access: `kind` is load, store, atomic or async; `address` is `[warps, 32]`, in `space`."""

    kind: str
    space: str
    address: Addresses
    width: int
    lanes: Lanes
    line: int


class Watcher(Protocol):
    def __call__(self, access: Access) -> None: ...


class Device:
    """What all CTAs share: the buffers in global memory, constants and the kernel's parameters."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.const = Segment("const", 0, np.zeros(0, np.uint8), writable=False)
        self.params = Segment("param", 0, np.zeros(0, np.uint8), writable=False)
        self._next = _FIRST_ADDRESS

    def copy(self) -> "Device":
        """A device with the same buffers, to which more can be added."""
        other = Device()
        other.segments, other.bases = list(self.segments), list(self.bases)
        other.const, other._next = self.const, self._next
        return other

    def map(self, name: str, data: npt.NDArray[np.uint8], writable: bool = True) -> int:
        """Gives `data` an address, aligned to 256 bytes, and returns it."""
        base = self._next
        self.segments.append(Segment(name, base, data, writable))
        self.bases.append(base)
        self._next = (base + len(data) + _GAP + _ALIGN - 1) // _ALIGN * _ALIGN
        return base

    def find(self, address: int) -> Segment | None:
        """The buffer that begins at or below `address`; the address may lie past its end."""
        at = bisect_right(self.bases, address) - 1
        return self.segments[at] if at >= 0 else None


class Memory:
    """The memory that one wave sees: the device's, and shared and local memory of its CTAs and threads.

    `shared_base` is the first byte of each warp's CTA in `shared`, `[warps, 1]`; `local_base` that of each
    thread in `local`.
    """

    def __init__(self, device: Device, ctas: int, cta_of_row: npt.NDArray[np.intp], shared: int) -> None:
        self.device = device
        self.shared_size = shared
        stride = -(-shared // _ALIGN) * _ALIGN
        self.shared = Segment("shared", 0, np.zeros(ctas * stride, np.uint8))
        self.shared_base = (cta_of_row.astype(np.uint64) * np.uint64(stride))[:, None]
        self._threads = 32 * len(cta_of_row)
        self.watch: Watcher | None = None
        self.bytes: dict[str, int] = {}
        self.local_size = 0
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
            segment, size, base = self.shared, self.shared_size, self.shared_base
        elif space == "local":
            segment, size, base = self.local, self.local_size, self.local_base
        else:
            segment = self.device.const if space == "const" else self.device.params
            size = segment.size
        limit = size - width
        if int(np.maximum.reduce(address, axis=None)) > limit:
            inside = address <= np.uint64(max(limit, 0)) if limit >= 0 else _nowhere(address)
            self._fault(lanes, address, inside, "out-of-bounds", space, width, line)
        return self._piece(lanes, segment, space, address, base, width, kind, line)

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
                pieces.append(self._piece(here, segment, "global", offset, None, width, kind, line))
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
        base: Addresses | None,
        width: int,
        kind: str,
        line: int,
    ) -> Piece:
        """The place of accesses that are in bounds; each passes here once for each space that it meets."""
        if self.watch is not None:
            self.watch(Access(kind, space, offset + np.uint64(segment.base), width, lanes, line))
        if kind != "load" and not segment.writable:
            self._fault(lanes, offset, _nowhere(offset), "read-only", space, width, line)
        self.bytes[space] = self.bytes.get(space, 0) + lanes.active * width
        if base is not None:
            offset = offset + lanes.chosen(base)
        index = offset if width == 1 else offset >> _SHIFTS[width]
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
            hint = f", {bad - near.base} bytes into {near.name} of {near.size} bytes"
        elif what == "out-of-bounds" and space == "shared":
            hint = f", the block has {self.shared_size} bytes"
        raise Fault(f"{what} {space} access of {width} bytes at 0x{bad:x}{hint}", line, thread, bad)


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
