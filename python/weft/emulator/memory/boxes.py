"""The boxes of tensor maps and runs of bytes, as numbers for code of the host that copies them."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.tensor_map import ATOM_SHIFTS, PATTERN_SHIFT, SWIZZLE_BITS, decoded
from weft.emulator.records import Record
from weft.isa import tensor_map as isa

_SIX = 6
_NAN = 0x7FF7
_FULL = (1 << 64) - 1
Numbers = npt.NDArray[np.int64]
OUTER = isa.MAX_RANK - 1
"""The dimensions of a box without the innermost one. Those that a box doesn't have are of size 1."""


class Shape(Record):
    """The numbers of a box. It has rows of contiguous bytes in global memory, which shared memory has in
    pieces.
    """

    SIZES = "", OUTER
    STEPS = "", OUTER
    DIMS = "", OUTER
    STRIDES = "", OUTER
    """Of the outer dimensions."""
    BASE = ""
    """The address of the tensor."""
    BYTES = ""
    """The bytes of a row in global memory."""
    PIECE = ""
    SPREAD = ""
    """The bytes of a piece, and the bytes from one to the next in shared memory."""
    PIECES = ""
    """The pieces of a row."""
    PITCH = ""
    """The bytes from a row to the next in shared memory."""
    LOAD_END = ""
    STORE_END = ""
    """The bytes of the tensor's rows that loads read, and those that stores write."""
    PACKING = ""
    UNIT = ""
    """The elements of a unit of the innermost coordinate, and the unit's bytes."""
    GATHERS = ""
    """Whether each row has a coordinate of its own."""
    SWIZZLE_SHIFT = ""
    SWIZZLE_MASK = ""
    FLIPS = ""
    FILL = ""
    """What is out of bounds, as 64 bits."""
    ROUNDS = ""
    """Whether a load rounds to tf32."""


class Box:
    """The box of one tensor map in one mode. `numbers` are those of `Shape`; `aligned` is what the innermost
    coordinate must be a multiple of; `total` counts the bytes of shared memory; `stored`: stores may use it.
    """

    def __init__(self, map_: isa.TensorMap, mode: str) -> None:
        self.address = map_.address
        self.numbers: Numbers = np.zeros(max(Shape) + 1, np.int64)
        self.pointer = self.numbers.ctypes.data
        self.gathers = mode in ("tile::gather4", "tile::scatter4")
        self.stored = map_.element.bits != _SIX and map_.atom != "32B_FLIP_8B"
        self.stored &= map_.element.name != "16U4_ALIGN16B"
        self.aligned = _alignment(map_)
        units = -(-map_.box[0] // map_.packing)
        row, unit = units * map_.unit_bytes, map_.unit_bytes
        whole = map_.packing != isa.EXPANDED_UNIT
        piece, spread = (16, 16) if whole else (unit, isa.EXPANDED_UNIT)
        pitch = row // piece * spread
        if map_.swizzle != "none":
            pitch = max(pitch, int(map_.swizzle.rstrip("B")))
        end = -(-map_.dims[0] // map_.packing) * unit
        stored = -(-end // isa.ROW_BYTES) * isa.ROW_BYTES if isa.ROW_BYTES % unit == 0 else end
        self._put(Shape.BASE, map_.address, row, piece, spread, row // piece, pitch, end, stored)
        self._put(Shape.PACKING, map_.packing, unit, self.gathers)
        self._rows(map_)
        self._in_shared(map_)
        rows = int(np.prod(self.numbers[Shape.SIZES : Shape.SIZES + OUTER]))
        self.total = rows * row

    def begins_inside(self, where: Sequence[int]) -> bool:
        """Whether the first byte of the box at some coordinates is inside the tensor."""
        ends = self.numbers[Shape.DIMS :].tolist()
        first = where[0] * int(self.numbers[Shape.UNIT]) // int(self.numbers[Shape.PACKING])
        inner = 0 <= first < int(self.numbers[Shape.LOAD_END])
        rows = where[1:2] if self.gathers else where[1:]
        return inner and all(0 <= at < end for at, end in zip(rows, ends, strict=False))

    def _put(self, first: int, *values: int) -> None:
        self.numbers[first : first + len(values)] = values

    def _rows(self, map_: isa.TensorMap) -> None:
        steps = map_.element_strides[1:]
        sizes = [-(-size // step) for size, step in zip(map_.box[1:], steps, strict=True)]
        if self.gathers:
            sizes = [isa.GATHERED_ROWS]
        for at, values, rest in (
            (Shape.SIZES, sizes, 1),
            (Shape.STEPS, steps, 1),
            (Shape.DIMS, map_.dims[1:], 1),
            (Shape.STRIDES, map_.strides, 0),
        ):
            self._put(at, *values, *[rest] * (OUTER - len(values)))

    def _in_shared(self, map_: isa.TensorMap) -> None:
        low = ATOM_SHIFTS[map_.atom]
        swizzles = SWIZZLE_BITS.get(map_.swizzle, 0)
        mask = ((1 << swizzles) - 1) << low & (1 << PATTERN_SHIFT) - 1
        flips = swizzles > 0 and map_.atom == "32B_FLIP_8B"
        self._put(Shape.SWIZZLE_SHIFT, low, mask, flips)
        fill = _NAN * (_FULL // 0xFFFF) if map_.oob_fill == isa.OOB_FILLS[1] else 0
        self._put(Shape.FILL, fill, map_.type.startswith("TFLOAT32"))


class Run(Box):
    """`size` contiguous bytes, a multiple of 16, which begin at any address."""

    def __init__(self) -> None:
        self.numbers = np.zeros(max(Shape) + 1, np.int64)
        self.pointer = self.numbers.ctypes.data
        self._put(Shape.PIECE, 16, 16)
        self._put(Shape.PACKING, 1, 1)
        for at, value in ((Shape.SIZES, 1), (Shape.STEPS, 1), (Shape.DIMS, 1)):
            self._put(at, *[value] * OUTER)
        self.gathers, self.stored, self.aligned = False, True, 1

    def set(self, address: int, size: int) -> None:
        """Makes it the bytes from an address on."""
        self.address, self.total = address, size
        self._put(Shape.BASE, address, size, 16, 16, size // 16, size, size, size)


def _alignment(map_: isa.TensorMap) -> int:
    """What the innermost coordinate must be a multiple of."""
    if map_.element.packed_bytes:
        return isa.EXPANDED_ROW if map_.element.packed_bytes == isa.EXPANDED_UNIT else isa.EXPANDED_UNIT
    return isa.ROW_BYTES // map_.unit_bytes


@lru_cache(256)
def box_of(data: bytes, rank: int, mode: str) -> Box | None:
    """The box of a map's 128 bytes in a mode; None if only the interpreter copies it, or refuses to."""
    try:
        map_ = decoded(data)
    except ValueError:
        return None
    if map_.rank != rank or map_.is_im2col or mode.startswith("im2col") or map_.interleave != "none":
        return None
    if map_.address % isa.ROW_BYTES or any(stride % isa.ROW_BYTES for stride in map_.strides):
        return None
    rows = mode in ("tile::gather4", "tile::scatter4")
    if rows and map_.box[1] != 1:
        return None
    row = -(-map_.box[0] // map_.packing) * map_.unit_bytes
    if map_.packing != isa.EXPANDED_UNIT and row % isa.ROW_BYTES:
        return None
    return Box(map_, mode)
