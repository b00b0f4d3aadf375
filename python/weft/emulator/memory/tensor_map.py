"""Tensor maps as arguments of a launch, and the elements that a map names (PTX ISA, "Tensors").

The boxes of tensor maps and runs of bytes, as numbers for code of the host that copies them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import index
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.records import Record
from weft.errors import WeftError, shown
from weft.isa import tensor_map as isa

Numbers = npt.NDArray[np.int64]
ATOM_SHIFTS = {"16B": 4, "32B": 5, "32B_FLIP_8B": 5, "64B": 6}
SWIZZLE_BITS = {"32B": 1, "64B": 2, "128B": 3}
PATTERN_SHIFT = 7
_TOO_LARGE = 2**64
_SIGN = 2**63


class TensorMap:
    """A tensor map of a `buffer`: an ndarray, or a device address.

    `tiled` and `im2col` make one. They take the arguments of `cuTensorMapEncodeTiled` and
    `cuTensorMapEncodeIm2col`, the innermost dimension first, and raise WeftError for what the driver rejects.

    For an ndarray, `fields.address` is the distance in bytes from its first element to the tensor's.

    With `any_address`, the map of a buffer that isn't aligned has address 0: a kernel must not copy from it.
    """

    def __init__(
        self, fields: isa.TensorMap, buffer: npt.NDArray[np.generic] | int, *, any_address: bool = False
    ) -> None:
        if not isinstance(fields, isa.TensorMap):
            raise WeftError(
                f"a tensor map's fields must be a weft.isa.tensor_map.TensorMap, got {shown(fields)}"
            )
        if not isinstance(buffer, np.ndarray | int):
            raise WeftError(f"a tensor map's buffer must be an array or an address, got {shown(buffer)}")
        self.fields, self.buffer, self.any_address = fields, buffer, any_address

    @classmethod
    def tiled(
        cls,
        buffer: npt.NDArray[np.generic] | int,
        *,
        dtype: str,
        dims: tuple[int, ...],
        strides_bytes: tuple[int, ...],
        box: tuple[int, ...],
        element_strides: tuple[int, ...] = (),
        interleave: str = "none",
        swizzle: str = "none",
        l2_promotion: str = "none",
        oob_fill: str = "zero",
    ) -> "TensorMap":
        """A map for copies of a `box`.

        `dtype` is the driver's name after CU_TENSOR_MAP_DATA_TYPE_, `swizzle` one of none, 32B, 64B, 128B,
        128B_ATOM_32B, 128B_ATOM_32B_FLIP_8B, 128B_ATOM_64B; sizes are in elements, strides in bytes.
        """
        if not (sizes := _numbers("box", box)):
            raise WeftError("a tensor map needs a box")
        fields = _common(
            buffer, dtype, dims, strides_bytes, element_strides, interleave, swizzle, l2_promotion, oob_fill
        )
        return cls(_checked(replace(fields, box=sizes)), buffer)

    @classmethod
    def im2col(
        cls,
        buffer: npt.NDArray[np.generic] | int,
        *,
        dtype: str,
        dims: tuple[int, ...],
        strides_bytes: tuple[int, ...],
        lower_corner: tuple[int, ...],
        upper_corner: tuple[int, ...],
        channels_per_pixel: int,
        pixels_per_column: int,
        element_strides: tuple[int, ...] = (),
        interleave: str = "none",
        swizzle: str = "none",
        l2_promotion: str = "none",
        oob_fill: str = "zero",
    ) -> "TensorMap":
        """A map of images, dims (C, W, N), (C, W, H, N) or (C, W, H, D, N), for columns of pixels."""
        fields = _common(
            buffer, dtype, dims, strides_bytes, element_strides, interleave, swizzle, l2_promotion, oob_fill
        )
        fields = replace(
            fields,
            lower_corner=_numbers("lower_corner", lower_corner),
            upper_corner=_numbers("upper_corner", upper_corner),
            channels_per_pixel=_numbers("channels_per_pixel", (channels_per_pixel,))[0],
            pixels_per_column=_numbers("pixels_per_column", (pixels_per_column,))[0],
        )
        return cls(_checked(fields), buffer)

    def encode(self, address: int) -> bytes:
        """The 128 bytes, with the device address of the buffer. WeftError if it isn't aligned."""
        distance = 0 if isinstance(self.buffer, int) else self.fields.address
        fields = replace(self.fields, address=address + distance)
        if self.any_address and fields.complaint():
            fields = replace(fields, address=0)
        return _checked(fields).encode()


def _common(
    buffer: object,
    dtype: str,
    dims: tuple[int, ...],
    strides: tuple[int, ...],
    element_strides: tuple[int, ...],
    interleave: str,
    swizzle: str,
    l2_promotion: str,
    oob_fill: str,
) -> isa.TensorMap:
    if not isinstance(buffer, np.ndarray | int):
        raise WeftError(f"a tensor map's buffer must be an array or an address, got {type(buffer).__name__}")
    if not isinstance(dtype, str):
        raise WeftError(
            f"a tensor map's dtype must be one of {', '.join(isa.ELEMENT_TYPES)}, got {shown(dtype)}"
        )
    names = {"interleave": interleave, "swizzle": swizzle, "l2_promotion": l2_promotion, "oob_fill": oob_fill}
    for what, name in names.items():
        if not isinstance(name, str):
            raise WeftError(f'a tensor map\'s {what} must be a name such as "none", got {shown(name)}')
    sizes = _numbers("dims", dims)
    if swizzle not in isa.SWIZZLE_NAMES:
        raise WeftError(
            f"a tensor map's swizzle must be one of {', '.join(isa.SWIZZLE_NAMES)}, got {swizzle}"
        )
    width, _, atom = swizzle.partition(isa.ATOM)
    return isa.TensorMap(
        buffer if isinstance(buffer, int) else 0,
        dtype.removeprefix("CU_TENSOR_MAP_DATA_TYPE_"),
        sizes,
        _numbers("strides_bytes", strides),
        _numbers("element_strides", element_strides) or (1,) * len(sizes),
        interleave=interleave,
        swizzle=width,
        atom=atom or "16B",
        l2_promotion=l2_promotion,
        oob_fill=oob_fill,
    )


def _numbers(what: str, values: Iterable[object]) -> tuple[int, ...]:
    """Whole numbers, which may be NumPy's."""
    try:
        numbers = tuple(index(value) for value in values)  # type: ignore[arg-type]
        if all(abs(number) < _TOO_LARGE for number in numbers):
            return numbers
    except (TypeError, NotImplementedError):  # the second of a memoryview's dimensions
        raise WeftError(f"a tensor map's {what} must be whole numbers, got {shown(values)}") from None
    raise WeftError(f"a tensor map's {what} must be numbers below 2**64, got {shown(values)}")


def _checked(fields: isa.TensorMap) -> isa.TensorMap:
    if verdict := fields.complaint():
        raise WeftError(f"a tensor map's {verdict}")
    return fields


class Taken(NamedTuple):
    """The elements of one copy: for each unit of `unit` bytes, in the order of shared memory, its byte in the
    tensor, `[rows, units]`; whether it is `inside` the tensor; whether a store has `written` it; and the byte
    of shared memory's box to which it `goes`. `in_chunks`: the units are aligned chunks of 16 bytes.
    """

    unit: int
    bytes: Numbers
    inside: npt.NDArray[np.bool_]
    written: npt.NDArray[np.bool_]
    goes: Numbers
    in_chunks: bool


def of_box(map_: isa.TensorMap, coordinates: tuple[int, ...], *, in_chunks: bool = True) -> Taken:
    """The units of a tile at these coordinates, which are chunks if possible and `in_chunks`. With an
    interleave, dimension 0 counts slices of channels, and the copy takes one slice of the slices' own
    dimension (as an H200 does; the ISA leaves it open).
    """
    unit = isa.ROW_BYTES if in_chunks and _has_chunks(map_) else map_.unit_bytes
    first = coordinates[0] // map_.packing * map_.unit_bytes // unit
    axes = [axis + at for axis, at in zip(_axes(map_, unit), (first, *coordinates[1:]), strict=True)]
    return _taken(map_, axes, unit)


def _has_chunks(map_: isa.TensorMap) -> bool:
    """Whether a tensor's and its boxes' rows are aligned chunks of 16 bytes, which no swizzle splits."""
    sizes = map_.address, *map_.strides, map_.dims[0] * map_.unit_bytes, map_.box[0] * map_.unit_bytes
    plain = map_.interleave == "none" and map_.packing == 1 and map_.atom != "32B_FLIP_8B"
    whole = not any(size % isa.ROW_BYTES for size in sizes)
    return plain and whole and isa.ROW_BYTES % map_.unit_bytes == 0


@lru_cache(64)
def _axes(map_: isa.TensorMap, unit: int) -> list[Numbers]:
    """The coordinates of all units of the box at the origin, `[rows, units]` by dimension."""
    box = [-(-map_.box[0] // map_.packing) * map_.unit_bytes // unit, *map_.box[1:]]
    steps = list(map_.element_strides)
    if map_.interleave == "none":
        steps[0] = 1
    else:
        box[-2] = 1
    axes = [step * np.arange(-(-size // step), dtype=np.int64) for size, step in zip(box, steps, strict=True)]
    return [axis.reshape(-1, len(axes[0])) for axis in np.meshgrid(*axes[::-1], indexing="ij")[::-1]]


def _wrapped(number: int) -> int:
    """The low 64 bits, with a sign."""
    return (number + _SIGN) % (2 * _SIGN) - _SIGN


@lru_cache(256)
def decoded(data: bytes) -> isa.TensorMap:
    """The map of 128 bytes. Raises ValueError. Addresses of elements wrap around at 64 bits, and some maps
    begin far below their tensor, so the address has a sign.
    """
    map_ = isa.TensorMap.decode(data)
    return replace(map_, address=_wrapped(map_.address))


def of_rows(map_: isa.TensorMap, column: int, rows: tuple[int, ...]) -> Taken:
    """The units of a gather or scatter of rows, from a column on."""
    inner = column // map_.packing + np.arange(-(-map_.box[0] // map_.packing), dtype=np.int64)
    columns = np.broadcast_to(inner, (len(rows), len(inner)))
    return _taken(map_, [columns, np.broadcast_to(np.array(rows)[:, None], columns.shape)])


def of_pixels(map_: isa.TensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> Taken:
    """The units of a column of pixels that begins at coordinates; `offsets` are added to each pixel's."""
    spatial = map_.rank - 2
    low, steps = np.array(map_.lower_corner), np.array(map_.element_strides[1:-1])
    size = np.array(map_.dims[1:-1]) + np.array(map_.upper_corner) - low
    positions = -(-size // steps)
    first = np.array(coordinates[1:-1]) - low
    pixel = np.arange(map_.pixels_per_column, dtype=np.int64)
    axes: list[Numbers] = []
    for at in range(spatial):
        # The first run along a dimension begins inside it; after it wraps, the next begins at the corner.
        left = -(-(size[at] - first[at]) // steps[at])
        turn = np.maximum(pixel - left, -1) // positions[at] + 1
        inside = np.where(turn > 0, (pixel - left) % positions[at] * steps[at], first[at] + pixel * steps[at])
        axes.append(low[at] + inside + (offsets[at] if offsets else 0))
        pixel = turn
    axes.append(coordinates[-1] + pixel)
    count = -(-map_.channels_per_pixel // map_.packing)
    channels = coordinates[0] // map_.packing + np.arange(count, dtype=np.int64)
    shape = (len(pixel), len(channels))
    pixels = [np.broadcast_to(a[:, None], shape) for a in axes]
    return _taken(map_, [np.broadcast_to(channels, shape), *pixels])


def _taken(map_: isa.TensorMap, axes: list[Numbers], unit: int = 0) -> Taken:
    """The units at these coordinates. `unit`: their bytes, if they aren't the map's own."""
    unit = unit or map_.unit_bytes
    in_chunks = unit != map_.unit_bytes
    sizes = -(-map_.dims[0] // map_.packing) * map_.unit_bytes // unit, *map_.dims[1:]
    inside = np.logical_and.reduce([(a >= 0) & (a < size) for a, size in zip(axes, sizes, strict=True)])
    written = inside
    if map_.interleave == "none" and isa.ROW_BYTES % unit == 0 and not in_chunks:
        # A store continues to a row's next multiple of 16 bytes, as on an H200.
        ends = -(-sizes[0] * unit // isa.ROW_BYTES) * isa.ROW_BYTES // unit
        rows_inside = [(a >= 0) & (a < size) for a, size in zip(axes, (ends, *sizes[1:]), strict=True)]
        written = np.logical_and.reduce(rows_inside)
    offsets = axes[0] * unit + sum(a * s for a, s in zip(axes[1:], map_.strides, strict=True))
    rows, units = axes[0].shape
    spread = unit if in_chunks else map_.shared_unit_bytes
    row_bytes = units * spread
    # Rows are as wide as the swizzle; with an interleave they are contiguous.
    pitch = row_bytes
    if map_.swizzle != "none" and map_.interleave == "none":
        pitch = max(row_bytes, int(map_.swizzle.rstrip("B")))
    goes = np.arange(rows, dtype=np.int64)[:, None] * pitch + np.arange(units) * spread
    return Taken(unit, np.where(written, offsets, 0), inside, written, goes, in_chunks)


def swizzled(map_: isa.TensorMap, address: Numbers) -> Numbers:
    """The addresses of bytes in shared memory after the swizzle, which works on addresses, not on offsets."""
    low, mask, flips = _swizzle(map_)
    return address ^ (address >> PATTERN_SHIFT << low & mask) ^ (address >> PATTERN_SHIFT & flips) << 3


def _swizzle(map_: isa.TensorMap) -> tuple[int, int, bool]:
    """How far bits of an address are shifted to those that they swizzle, the mask of these, and whether the
    halves of an atom are exchanged in every second row.
    """
    low, bits = ATOM_SHIFTS[map_.atom], SWIZZLE_BITS.get(map_.swizzle, 0)
    mask = ((1 << bits) - 1) << low & (1 << PATTERN_SHIFT) - 1
    return low, mask, bits > 0 and map_.atom == "32B_FLIP_8B"


_SIX = 6
_NAN = 0x7FF7
_FULL = (1 << 64) - 1
OUTER = isa.MAX_RANK - 1
"""The dimensions of a box without the innermost one. Those that a box doesn't have are of size 1."""


class Shape(Record):
    """The numbers of a box: rows of contiguous bytes in global memory, which shared memory has in pieces."""

    SIZES = STEPS = DIMS = STRIDES = "", OUTER
    """Of the outer dimensions."""
    BASE = ""
    """The address of the tensor."""
    BYTES = ""
    """The bytes of a row in global memory."""
    PIECE = SPREAD = ""
    """The bytes of a piece, and the bytes from one to the next in shared memory."""
    PIECES = ""
    """The pieces of a row."""
    PITCH = ""
    """The bytes from a row to the next in shared memory."""
    LOAD_END = STORE_END = ""
    """The bytes of the tensor's rows that loads read, and those that stores write."""
    PACKING = UNIT = ""
    """The elements of a unit of the innermost coordinate, and the unit's bytes."""
    GATHERS = ""
    """Whether each row has a coordinate of its own."""
    SWIZZLE_SHIFT = SWIZZLE_MASK = FLIPS = ""
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
        self.aligned = isa.ROW_BYTES // map_.unit_bytes
        if packed := map_.element.packed_bytes:
            self.aligned = isa.EXPANDED_ROW if packed == isa.EXPANDED_UNIT else isa.EXPANDED_UNIT
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
        self._put(Shape.SWIZZLE_SHIFT, *_swizzle(map_))
        fill = _NAN * (_FULL // 0xFFFF) if map_.oob_fill == isa.OOB_FILLS[1] else 0
        self._put(Shape.FILL, fill, map_.type.startswith("TFLOAT32"))


class Run(Box):
    """`size` contiguous bytes, a multiple of 16, which begin at any address."""

    def __init__(self) -> None:
        self.numbers = np.zeros(max(Shape) + 1, np.int64)
        self.pointer = self.numbers.ctypes.data
        self._put(Shape.PIECE, 16, 16)
        self._put(Shape.PACKING, 1, 1)
        for at in (Shape.SIZES, Shape.STEPS, Shape.DIMS):
            self._put(at, *[1] * OUTER)
        self.gathers, self.stored, self.aligned = False, True, 1

    def set(self, address: int, size: int) -> None:
        """Makes it the bytes from an address on."""
        self.address, self.total = address, size
        self._put(Shape.BASE, address, size, 16, 16, size // 16, size, size, size)


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
