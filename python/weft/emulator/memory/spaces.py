"""The memory of a wave. Threads access it through `Memory`, which notifies the wave's observers."""

from collections import Counter
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault, Thread
from weft.emulator.memory.device import Device
from weft.emulator.memory.segments import (
    FRAME_PARAM,
    GAP,
    RANK_SHIFT,
    STACK,
    WINDOW_SHIFT,
    WINDOWS,
    Access,
    Addresses,
    Multicast,
    Order,
    Piece,
    Segment,
    Threads,
    put,
)
from weft.emulator.reading.syntax import STORAGE, Array, Bools
from weft.emulator.watch import Watch

_WINDOW_SPACE = {base >> WINDOW_SHIFT: space for space, base in WINDOWS.items()}
_MAX_STACK = 512 * 1024
_OFFSET_MASK = (1 << RANK_SHIFT) - 1
_SHARED_ALIGN = 1024


class Host(Protocol):
    """The wave that has a memory. `watch` observes it, if set; `changes` counts the times that it may have
    changed something that other waves see.
    """

    changes: int

    @property
    def watch(self) -> Watch | None: ...

    def thread(self, row: int, lane: int) -> Thread:
        """The thread in a lane of a row."""


class Memory:
    """The memory that one wave sees: the device's, and the shared and local memory of its CTAs and threads.

    `shared_base` is the first byte of each warp's CTA in `shared`, `[warps, 1]`; with clusters it is that of
    the cluster's first CTA. `local_base` is the first byte of each thread in `local`. Each `cluster` CTAs
    form a cluster; the shared memory of a CTA begins `shared_stride` bytes after that of the CTA before it.
    """

    def __init__(
        self,
        host: Host,
        device: Device,
        ctas: int,
        cta_of_row: npt.NDArray[np.intp],
        shared: int,
        cluster: int = 1,
        lacks_dynamic: bool = False,
    ) -> None:
        self.host = host
        self.device: Device = device
        self.cluster = cluster
        self.lacks_dynamic = lacks_dynamic
        self.shared_size = shared
        self.shared_stride = -(-shared // _SHARED_ALIGN) * _SHARED_ALIGN
        self.shared = Segment("shared", 0, np.zeros(ctas * self.shared_stride, np.uint8))
        first = cta_of_row // cluster * cluster
        self.shared_base = (first.astype(np.uint64) * np.uint64(self.shared_stride))[:, None]
        self._threads = 32 * len(cta_of_row)
        self.order: Order | None = None
        """The order of the current access; None: it is weak, and must not race with other threads."""
        self.by_unit = False
        """Whether a unit makes the current access: it allocates tensor memory, or copies for cp.async."""
        self.storing: Array | None = None
        """What the current store writes, for observers."""
        self.moving: npt.NDArray[np.uint8] | None = None
        """The bytes of the current store of the bulk unit to global memory, for observers."""
        self.used: npt.NDArray[np.int64] | None = None
        """The bytes of a CTA's shared memory, of all that the bulk unit reads, that it needs; None: all."""
        self.bytes = Counter[str]()
        self.local_size = self.stack_size = 0
        self.stack = Segment("local", 0, np.zeros(0, np.uint8))
        self.stack_top = self.stack_base = np.zeros((len(cta_of_row), 32), np.uint64)
        self.reserve_local(16)

    def reserve_local(self, size: int) -> None:
        """Gives each thread `size` bytes of local memory and keeps their contents."""
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
        """Raises Fault if a CTA's shared memory doesn't have these bytes."""
        if offset + width > self.shared_size:
            what = f"out-of-bounds shared access of {width} bytes at 0x{offset:x}"
            raise Fault(f"{what}, {self.extent()}", line, None, offset, "out-of-bounds")

    def extent(self) -> str:
        """How much shared memory there is, for messages about an access outside of it."""
        blocks = "the block has" if self.cluster == 1 else f"each of the cluster's {self.cluster} blocks has"
        hint = ""
        if self.lacks_dynamic:
            hint = ", and the launch adds none, whose size the kernel leaves to it (shared_bytes, --shared)"
        return f"{blocks} {self.shared_size} bytes{hint}"

    def allocate_local(self, lanes: Threads, sizes: Addresses, align: int, line: int) -> Addresses:
        """The local addresses of new bytes for the active lanes, above what each thread has allocated."""
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

    def load(self, lanes: Threads, space: str, address: Addresses, width: int, line: int) -> Array:
        """One element of `width` bytes for each active lane."""
        pieces = self.locate(lanes, space, address, width, "load", line)
        if len(pieces) == 1:
            return pieces[0].view.take(pieces[0].elements, mode="clip")
        out = np.zeros(address.shape, STORAGE[8 * width])
        for piece in pieces:
            part = piece.view.take(piece.elements, mode="clip")
            out = np.where(piece.mask, part, out) if piece.mask is not None else part
        return out

    def store(
        self, lanes: Threads, space: str, address: Addresses, value: Array, width: int, line: int
    ) -> None:
        """Writes one element of each active lane. Of several lanes with the same address, the last wins."""
        self.storing = value
        for piece in self.locate(lanes, space, address, width, "store", line):
            put(piece, value)

    def locate(
        self, lanes: Threads, space: str, address: Addresses, width: int, kind: str, line: int
    ) -> list[Piece]:
        """The elements that active lanes access. Raises Fault for the first lane whose access is illegal."""
        mask = lanes.mask
        if mask is not None:
            address = np.where(mask, address, address.flat[mask.argmax()])
        if width > 1:
            self.check_alignment(lanes, space, address, width, line)
        if space in ("global", "generic"):
            return self._in_generic(lanes, space, address, width, kind, line)
        return [self._in_space(lanes, space, address, width, kind, line)]

    def check_alignment(self, lanes: Threads, space: str, address: Addresses, width: int, line: int) -> None:
        """Raises Fault for the first active lane whose address is not a multiple of `width`."""
        if int(np.bitwise_or.reduce(address, axis=None)) & (width - 1):
            odd = (address & np.uint64(width - 1)) != 0
            if (odd & lanes.enabled()).any():
                self._fault(lanes, address, ~odd, "misaligned", space, width, line)

    def _in_space(
        self, lanes: Threads, space: str, address: Addresses, width: int, kind: str, line: int
    ) -> Piece:
        """Shared, local, const and param space, where an address is an offset."""
        if space == "param" and int(address.flat[0]) >= FRAME_PARAM:
            space, address = "local", address - np.uint64(FRAME_PARAM)
        base = None
        if space == "shared":
            if self.cluster > 1:
                offsets = self._in_cluster_offsets(lanes, address, width, line)
                return self._piece(lanes, self.shared, space, address, offsets, width, kind, line)
            segment, size, base = self.shared, self.shared_size, self.shared_base
        elif space == "local" and int(address.flat[0]) >= STACK:
            # An address below wraps around to one that is far out of bounds.
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
        offsets = address if base is None else address + lanes.chosen(base)
        return self._piece(lanes, segment, space, address, offsets, width, kind, line)

    def shared_offsets(
        self, lanes: Threads, space: str, address: Addresses, width: int, line: int
    ) -> Addresses:
        """The offsets in `shared` of active lanes' shared or generic addresses. Faults as `locate` does."""
        if lanes.mask is not None:
            address = np.where(lanes.mask, address, address.flat[lanes.mask.argmax()])
        self.check_alignment(lanes, space, address, width, line)
        if space == "generic":
            inside = address >> np.uint64(32) == np.uint64(WINDOWS["shared"] >> 32)
            if not inside.all():
                self._fault(lanes, address, inside, "out-of-bounds", "shared", width, line)
            address = address - np.uint64(WINDOWS["shared"])
        return self._in_cluster_offsets(lanes, address, width, line)

    def _in_cluster_offsets(self, lanes: Threads, address: Addresses, width: int, line: int) -> Addresses:
        """Of shared addresses, which can refer to the other CTAs of a cluster."""
        limit = self.shared_size - width
        if self.cluster == 1 and int(address.max()) <= limit:
            return address + lanes.chosen(self.shared_base)
        rank, offset = address >> np.uint64(RANK_SHIFT), address & np.uint64(_OFFSET_MASK)
        if limit < 0 or int(offset.max()) > limit or int(rank.max()) >= self.cluster:
            inside = (offset.astype(np.int64) <= limit) & (rank < np.uint64(self.cluster))
            self._fault(lanes, address, inside, "out-of-bounds", "shared", width, line)
        offsets: Addresses = offset + rank * np.uint64(self.shared_stride) + lanes.chosen(self.shared_base)
        return offsets

    def _in_generic(
        self, lanes: Threads, space: str, address: Addresses, width: int, kind: str, line: int
    ) -> list[Piece]:
        """Takes the buffer or window of the first lane, then continues with the lanes outside of it."""
        pieces: list[Piece] = []
        while True:
            first = int(address.flat[0])
            window = _WINDOW_SPACE.get(first >> WINDOW_SHIFT) if space == "generic" else None
            segment = None if window else self.device.find(first)
            base, size = (segment.base, segment.size) if segment else (0, 0)
            if window:
                base, size = WINDOWS[window], 1 << 32
            if not base or first + width > base + size:
                self._fault(lanes, address, address != address.flat[0], "out-of-bounds", space, width, line)
            offset = address - np.uint64(base)
            here, rest = lanes, None
            if int(np.maximum.reduce(offset, axis=None)) > size - width:
                inside = offset <= np.uint64(size - width)
                here = lanes.narrowed(lanes.enabled() & inside)
                rest = lanes.narrowed(lanes.enabled() & ~inside)
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
        lanes: Threads,
        segment: Segment,
        space: str,
        offset: Addresses,
        offsets: Addresses,
        width: int,
        kind: str,
        line: int,
    ) -> Piece:
        """The elements of accesses that are in bounds. Each access comes here once for each space that it
        touches.

        `offset` counts from the segment's base; in shared and local memory it is the address in that space.
        """
        if self.host.watch is not None:
            address = offset + np.uint64(segment.base)
            self.host.watch.access(Access(kind, space, address, width, lanes, line, segment, offsets))
        if kind != "load":
            if not segment.writable:
                address = offset + np.uint64(segment.base)
                self._fault(lanes, address, _nowhere(address), "read-only", space, width, line)
            # Whether an atomic operation changes anything is known only afterwards.
            self.host.changes += kind != "atomic" and space != "local"
        self.bytes[space] += lanes.active * width
        index = offsets if width == 1 else offsets >> _SHIFTS[width]
        return Piece(segment.view(width), index.view(np.intp), lanes.mask)

    def _fault(
        self, lanes: Threads, address: Addresses, good: Bools, what: str, space: str, width: int, line: int
    ) -> None:
        """Raises the fault of the first active lane that isn't `good`."""
        at = int((lanes.enabled() & ~good).argmax())
        bad = int(address.flat[at])
        thread = self.host.thread(int(lanes.row_numbers()[at // 32]), at % 32)
        near = self.device.find(bad) if space in ("global", "generic") else None
        hint = ""
        if isinstance(near, Multicast) and bad - near.base < near.extent:
            hint = f", in {near.name}, which only multimem instructions may access"
        elif what == "out-of-bounds" and near is not None and bad - near.base < near.size + GAP:
            inside = bad - near.base
            far = f"{inside} bytes into"
            if inside >= near.size:
                far = f"{inside - near.size} bytes past the end of"
            hint = f", {far} {near.name} of {near.size} bytes"
        elif what == "out-of-bounds" and space == "shared":
            hint = f", {self.extent()}"
        elif what == "read-only" and near is not None:
            hint = f", {bad - near.base} bytes into {near.name}"
        raise Fault(f"{what} {space} access of {width} bytes at 0x{bad:x}{hint}", line, thread, bad, what)


def _nowhere(address: Addresses) -> Bools:
    return np.zeros(address.shape, np.bool_)


_SHIFTS = {1 << shift: np.uint64(shift) for shift in range(5)}
