"""Matrices in shared memory that `wgmma` and `tcgen05` address through descriptors (PTX ISA, "Shared Memory
Matrix Layout" and "Strides").

A matrix is read in chunks of 16 bytes, which no swizzle splits.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.reading.syntax import STORAGE, Array
from weft.emulator.running.function_code import Places
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import CHUNK, Chunks, UnitAccess
from weft.isa.tcgen05.shared_descriptor import WIDE_ATOMS, SharedMemoryDescriptor
from weft.isa.wgmma.descriptors import GROUP, SWIZZLES, MatrixDescriptor
from weft.layout import SWIZZLES as PATTERNS
from weft.layout import Swizzle

PACKED = {"b6x16_p32": (6, 0), "b4x16_p64": (4, 2)}
"""The bits of elements of which 16 take 16 bytes, and the bit of a byte at which tcgen05 unpacks them."""
Offsets = npt.NDArray[np.int64]

# The widths of the swizzle modes, their patterns, and the rows after which a pattern repeats.
_WIDTHS = {mode.name: mode.width for mode in SWIZZLES.values()} | {WIDE_ATOMS: 128}
_PATTERNS = PATTERNS | {WIDE_ATOMS: Swizzle(WIDE_ATOMS, bits=2, base=5, shift=2)}
_GROUPS = dict.fromkeys(SWIZZLES, GROUP) | {WIDE_ATOMS: 4}


@cache
def _terms(rows: int, chunks: int, width: int, group: int) -> tuple[Offsets, Offsets, Offsets]:
    """The terms of each chunk of each row, `[rows, chunks]`: bytes, leading offsets and stride offsets."""
    row, chunk = np.indices((rows, chunks))
    inside = (row % group) * width + (chunk * CHUNK) % width
    return inside, chunk * CHUNK // width, row // group


def chunk_offsets(
    descriptor: MatrixDescriptor | SharedMemoryDescriptor, rows: int, row_bytes: int, transposed: bool
) -> Offsets:
    """The offset in shared memory of each 16 bytes of each row, `[rows, row_bytes / 16]`.

    The rows are those of M (N), contiguous along K; if `transposed`, they are those of K, contiguous along M
    (N).
    """
    width, group = _WIDTHS[descriptor.swizzle], _GROUPS[descriptor.swizzle]
    inside, across, down = _terms(rows, -(-row_bytes // CHUNK), width, group)
    leading, stride = descriptor.leading_byte_offset, descriptor.stride_byte_offset
    if descriptor.swizzle == "none" and transposed:
        leading, stride = stride, leading
    if isinstance(descriptor, SharedMemoryDescriptor) and descriptor.absolute:
        # The bytes after the first 128 of a row have an address of their own.
        column = descriptor.address % width + inside % width
        begin = np.where(column < width, descriptor.address // width * width, leading)
        offsets = begin + column % width + inside // width * width + down * stride
    else:
        offsets = descriptor.address + inside + across * leading + down * stride
    if descriptor.swizzle == "none":
        return offsets
    pattern = _PATTERNS[descriptor.swizzle]
    mask = ((1 << pattern.bits) - 1) << pattern.base
    phase = (offsets >> pattern.shift) - (descriptor.base_offset << pattern.base)
    swizzled: Offsets = offsets ^ (phase & mask)
    return swizzled


def check_rows(
    descriptor: MatrixDescriptor | SharedMemoryDescriptor, row_bytes: int, transposed: bool, line: int
) -> None:
    """Fault if rows along K go beyond the swizzle's width: they would continue in the next row."""
    width = _WIDTHS[descriptor.swizzle]
    begin = descriptor.address % width
    if transposed or descriptor.swizzle == "none" or getattr(descriptor, "absolute", False):
        return
    if row_bytes <= width < begin + row_bytes:
        what = (
            f"a slice of {row_bytes} bytes must lie within the {width} bytes of its swizzle, "
            f"got bytes {begin}..{begin + row_bytes - 1}"
        )
        raise Fault(what, line, address=descriptor.address, rule="descriptor")


def matrix_places(
    descriptor: MatrixDescriptor | SharedMemoryDescriptor,
    shape: tuple[int, int],
    bits: tuple[int, int],
    transposed: bool,
    by_row: bool,
    line: int,
) -> Places:
    """Where a matrix of M (N) rows and K columns is, or if not `by_row` its transpose; `transposed`: it is
    contiguous along M (N). `bits` are those of an element, and of the room for one, which may be a byte in
    chunks of 16 elements. Fault if the descriptor is wrong.
    """
    rows, k = shape
    (width, container), (outer, inner) = bits, (k, rows) if transposed else (rows, k)
    row_bytes = inner * container // 8
    check_rows(descriptor, row_bytes, transposed, line)
    offsets = chunk_offsets(descriptor, outer, row_bytes, transposed)
    packed = width < container == 8
    size = width if packed else container
    inside = np.arange(CHUNK if packed else 8 * CHUNK // size) * size
    every = (8 * offsets[:, :, None] + inside) // (size if size >= 8 else 1)
    matrix = every.reshape(len(offsets), -1)[:, :inner]
    used = 2 * size if packed else CHUNK
    return Places(matrix.T if transposed == by_row else matrix, offsets, used, size)


def matrices(lanes: Lanes, proxy: str, ctas: Sequence[int], places: Places, line: int) -> Array:
    """Elements at places in shared memory of CTAs, `[ctas, …]`, read by `proxy`. Fault out of bounds."""
    wave, memory = lanes.wave, lanes.wave.memory
    for cta in ctas if wave.watch is not None else ctas[:1]:
        reading = lanes
        if len(ctas) > 1:
            reading = lanes.narrowed(lanes.enabled() & (lanes.chosen(wave.cta_of_row) == cta)[:, None])
        _check(reading, proxy, cta, places.chunks, line, places.used)
    octets, first, end = memory.shared.data.reshape(-1, memory.shared_stride), ctas[0], ctas[0] + len(ctas)
    chosen = octets[first:end] if list(ctas) == list(range(first, end)) else octets[list(ctas)]
    return gathered(chosen, places)


def gathered(octets: Array, places: Places) -> Array:
    """The elements at places in rows of bytes, `[rows, …]`; those of fewer than 8 bits as a byte each. The
    last bytes stand for those that don't exist.
    """
    bits, at = places.bits, places.elements
    if bits >= 8:
        return octets.view(STORAGE[bits]).take(at, axis=1, mode="clip")
    words = octets.take(at >> 3, axis=1, mode="clip")
    if 8 % bits:
        after = octets.take(at + bits - 1 >> 3, axis=1, mode="clip")
        words = words | after.astype(np.uint16) << np.uint16(8)
    return (words >> (at & 7).astype(np.uint8) & ((1 << bits) - 1)).astype(np.uint8)


def read(lanes: Lanes, proxy: str, cta: int, offsets: Offsets, line: int, used: int = CHUNK) -> Array:
    """The bytes at these offsets of a CTA's shared memory, `[rows, row bytes]`, read by `proxy` for `lanes`.
    Observers are notified of the first `used` of each 16. Fault if an offset is out of bounds.
    """
    shared = _check(lanes, proxy, cta, offsets, line, used)
    wide = shared[: len(shared) // CHUNK * CHUNK].view(np.complex128)
    return wide[offsets // CHUNK].view(np.uint8).reshape(len(offsets), -1)


def _check(lanes: Lanes, proxy: str, cta: int, offsets: Offsets, line: int, used: int) -> Array:
    """The shared memory of a CTA, which must have the chunks at these offsets."""
    if lanes.wave.watch is not None:
        octets = offsets.reshape(-1)
        watched = Chunks(octets) if used == CHUNK else (octets[:, None] + np.arange(used)).reshape(-1)
        access = UnitAccess("load", proxy, cta, "shared", watched, lanes.threads(), line)
        lanes.wave.watch.async_access(access)
    shared = lanes.wave.memory.shared_of(cta)
    if int(offsets.max(initial=0)) + CHUNK > len(shared):
        past = int(offsets.max())
        what = f"out-of-bounds shared access of {CHUNK} bytes at 0x{past:x} by a matrix descriptor"
        raise Fault(f"{what}, {lanes.wave.memory.extent()}", line, address=past, rule="out-of-bounds")
    return shared


def unpacked(data: Array, bits: int, shift: int = 0) -> Array:
    """Sixteen elements of `bits` from the low bits of each 16 bytes, as one byte each, shifted up."""
    stream = np.unpackbits(data.reshape(-1, CHUNK)[:, : 2 * bits], axis=1, bitorder="little")
    parts = stream.reshape(-1, CHUNK, bits)
    wide = np.zeros((*parts.shape[:-1], 8), np.uint8)
    wide[..., shift : shift + bits] = parts
    return np.packbits(wide, axis=-1, bitorder="little").reshape(data.shape)
