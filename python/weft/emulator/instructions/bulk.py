"""The bulk copy unit: contiguous bytes of global and shared memory, and the events for observers."""

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.memory.segments import Segment
from weft.emulator.reading.types import Bools
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import CHUNK, Chunks, UnitAccess

PROXY = "bulk"
_WIDE = np.dtype(np.complex128)
"""Elements as large as a chunk."""
Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def fault(one: Lanes, what: str, line: int, address: int, rule: str) -> Fault:
    """A fault of the active thread of `one`."""
    row, lane = (int(part) for part in np.argwhere(one.enabled())[0])
    return Fault(what, line, one.wave.thread(int(one.row_numbers()[row]), lane), address, rule)


def aligned(one: Lanes, what: str, value: int, step: int, line: int) -> None:
    """Faults if an address or a size is not a multiple of `step`."""
    if value % step:
        raise fault(
            one,
            f"misaligned {what} 0x{value:x}, which must be a multiple of {step}",
            line,
            value,
            "misaligned",
        )


def global_segment(one: Lanes, address: int, first: int, last: int, line: int, writes: bool) -> Segment:
    """The buffer with the bytes from `address + first` up to, but not including, `address + last`.

    The address may be outside of all buffers: some tensor maps begin before their tensor.
    """
    device = one.wave.memory.device
    segment = device.find(address if device.has(address) else address + first)
    if segment is None or address + first < segment.base or address + last > segment.base + segment.size:
        near = f", in {segment.name} of {segment.size} bytes" if segment is not None else ""
        what = (
            f"out-of-bounds global access by a bulk copy of bytes {first} to {last} from 0x{address:x}{near}"
        )
        raise fault(one, what, line, address, "out-of-bounds")
    if writes and not segment.writable:
        raise fault(one, f"{segment.name} is read-only, but is written", line, address, "read-only")
    return segment


def notify_global(
    one: Lanes,
    kind: str,
    addresses: Numbers | Chunks,
    line: int,
    barrier: tuple[int, int] | None = None,
    data: Octets | None = None,
) -> None:
    """Reports an access to bytes of global memory to observers, and the `data` of a store."""
    wave = one.wave
    flat = addresses if isinstance(addresses, Chunks) else addresses.reshape(-1)
    wave.memory.bytes["global"] = wave.memory.bytes.get("global", 0) + len(flat)
    if kind != "load":
        wave.changes += 1
    if wave.watch is not None:
        wave.memory.moving = data
        wave.watch.async_access(UnitAccess(kind, PROXY, 0, "global", flat, one.threads(), line, barrier))


def notify_shared(
    one: Lanes,
    kind: str,
    cta: int,
    offsets: Numbers | Chunks,
    line: int,
    barrier: tuple[int, int] | None = None,
    used: Numbers | None = None,
) -> None:
    """Reports an access to bytes of a CTA's shared memory to observers. `used`: those that a store takes into
    global memory; None: all.
    """
    wave = one.wave
    flat = offsets if isinstance(offsets, Chunks) else offsets.reshape(-1)
    wave.memory.bytes["shared"] = wave.memory.bytes.get("shared", 0) + len(flat)
    if wave.watch is not None:
        wave.memory.used = used
        wave.watch.async_access(UnitAccess(kind, PROXY, cta, "shared", flat, one.threads(), line, barrier))


def get(memory: Octets, offsets: Numbers | Chunks) -> Octets:
    """Reads bytes or chunks."""
    if not isinstance(offsets, Chunks):
        return memory[offsets]
    octets: Octets = _in_chunks(memory).take(offsets.first // CHUNK).view(np.uint8)
    return octets


def put(memory: Octets, offsets: Numbers | Chunks, data: Octets) -> None:
    """Writes bytes or chunks."""
    if isinstance(offsets, Chunks):
        _in_chunks(memory)[offsets.first // CHUNK] = data.reshape(-1).view(_WIDE)
    else:
        memory[offsets] = data


def _in_chunks(memory: Octets) -> npt.NDArray[np.complex128]:
    return memory[: len(memory) // CHUNK * CHUNK].view(_WIDE)


def bounded(one: Lanes, cta: int, offsets: Numbers | Chunks, line: int) -> Octets:
    """The shared memory of a CTA, which must have all of these bytes."""
    shared = one.wave.memory.shared_of(cta)
    if isinstance(offsets, Chunks):
        most = int(offsets.first.max(initial=0)) + CHUNK - 1
    else:
        most = int(offsets.max(initial=0))
    if most >= len(shared):
        what = f"out-of-bounds shared access by a bulk copy at 0x{most:x}, {one.wave.memory.extent()}"
        raise fault(one, what, line, most, "out-of-bounds")
    return shared


def chosen_ctas(one: Lanes, cta: int, mask: int, line: int) -> tuple[int, ...]:
    """The CTAs of the cluster that a multicast mask selects."""
    ctas = one.wave.cluster_ctas(cta)
    ranks = [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
    if ranks and ranks[-1] >= len(ctas):
        what = f"the mask 0x{mask:x} names CTA {ranks[-1]}, but the cluster has {len(ctas)} CTAs"
        raise fault(one, what, line, mask, "out-of-bounds")
    return tuple(ctas[rank] for rank in ranks)


def complete(one: Lanes, barriers: set[tuple[int, int]], size: int, line: int, threads: Bools | None) -> None:
    """`size` bytes have arrived at each of these mbarriers."""
    for cta, offset in sorted(barriers):
        one.wave.mbarriers.complete_tx(cta, offset, size, line, threads)
