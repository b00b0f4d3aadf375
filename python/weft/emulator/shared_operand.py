"""Matrices in shared memory as `wgmma` and `tcgen05` find them through descriptors (PTX ISA, "Shared Memory
Matrix Layout" and "Strides").

A matrix is read by chunks of 16 bytes, which no swizzle takes apart.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.memory import Memory
from weft.emulator.types import Array
from weft.isa.descriptors import GROUP, SWIZZLES, MatrixDescriptor
from weft.layout import SWIZZLES as PATTERNS

CHUNK = 16
Offsets = npt.NDArray[np.int64]


@cache
def _terms(rows: int, chunks: int, width: int) -> tuple[Offsets, Offsets, Offsets]:
    """What each chunk of each row adds, `[rows, chunks]`: in bytes, in leading and in stride offsets."""
    row, chunk = np.indices((rows, chunks))
    inside = (row % GROUP) * max(width, CHUNK) + (chunk * CHUNK) % max(width, CHUNK)
    return inside, chunk * CHUNK // max(width, CHUNK), row // GROUP


def chunk_offsets(found: MatrixDescriptor, rows: int, row_bytes: int, transposed: bool) -> Offsets:
    """Where in shared memory each 16 bytes of each row lie, `[rows, row_bytes / 16]`.

    Rows are those of M (N), K running fastest; `transposed`, they are those of K, M (N) running fastest.
    """
    mode = SWIZZLES[found.swizzle]
    inside, across, down = _terms(rows, -(-row_bytes // CHUNK), mode.width)
    leading, stride = found.leading_byte_offset, found.stride_byte_offset
    if mode.name == "none" and transposed:
        leading, stride = stride, leading
    offsets: Offsets = found.address + inside + across * leading + down * stride
    if mode.name == "none":
        return offsets
    pattern = PATTERNS[mode.name]
    mask = ((1 << pattern.bits) - 1) << pattern.base
    phase = (offsets >> pattern.shift) - (found.base_offset << pattern.base)
    swizzled: Offsets = offsets ^ (phase & mask)
    return swizzled


def read(memory: Memory, cta: int, offsets: Offsets, line: int) -> Array:
    """The bytes at these offsets of a CTA's shared memory, `[rows, row bytes]`. Fault where it has none."""
    shared = memory.shared_of(cta)
    if int(offsets.max(initial=0)) + CHUNK > len(shared):
        past = int(offsets.max())
        raise Fault(
            f"out-of-bounds shared access of {CHUNK} bytes at 0x{past:x} by a matrix descriptor, "
            f"the block has {len(shared)} bytes",
            line,
            address=past,
            rule="out-of-bounds",
        )
    wide = shared[: len(shared) // CHUNK * CHUNK].view(np.complex128)
    return wide[offsets // CHUNK].view(np.uint8).reshape(len(offsets), -1)
