"""Tiles as the matrices that they are: from registers by their layout, from shared memory without swizzle."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.emulator.numerics import arithmetic
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.layout import MEMORY, Layout

Matrix = npt.NDArray[Any]
_ALIASES = {
    "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2",
    "f6E2M3FN": "e2m3",
    "f6E3M2FN": "e3m2",
    "f4E2M1FN": "e2m1",
    "f8E8M0FNU": "ue8m0",
    "i1": "u1",
    **{f"ui{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
_BITS = {"f64": 64, "f32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "ue8m0": 8, "e2m1": 4}
_BITS |= {f"{kind}{bits}": bits for kind in "iusb" for bits in (8, 16, 32, 64)} | {"u1": 1, "pred": 1}
TYPES = tuple(_BITS)


def type_named(name: str) -> str:
    """The name of an element type as this module has it. Raises WeftError for an unknown one."""
    name = _ALIASES.get(name, name)
    if name not in _BITS:
        raise WeftError(f"type must be one of {', '.join(TYPES)}, got '{name}'{did_you_mean(name, TYPES)}")
    return name


def bits_of(name: str) -> int:
    """The bits of an element."""
    return _BITS[type_named(name)]


def typed(bits: Matrix, name: str) -> Matrix:
    """The values of elements, given by their bits in unsigned integers of at least their size."""
    name = type_named(name)
    width = max(8, _BITS[name])
    words = bits.astype(np.dtype(f"u{width // 8}"))
    if name in ("pred", "u1"):
        return words.astype(np.bool_)
    if name[0] in "bu" and name[1:].isdigit():
        return words
    if name[0] in "is":
        return words.view(np.dtype(f"i{width // 8}"))
    return arithmetic.decode(words, name)


def of_array(array: Matrix) -> Matrix:
    """The values of an array of a launch, in a type that NumPy prints."""
    small = array.dtype.kind == "V" or hasattr(ml_dtypes, array.dtype.name)
    return array.astype(np.float64) if small else array


@lru_cache(64)
def places(layout: str, shape: tuple[int, ...]) -> dict[str, npt.NDArray[np.int64]]:
    """Where the first copy of each element is: its position on each axis, in row-major order, before the
    swizzle.
    """
    parsed = Layout.parse(layout)
    extents = [it.extent for it in parsed.shard]
    digits = np.unravel_index(np.arange(parsed.size), extents) if extents else ()
    found: dict[str, npt.NDArray[np.int64]] = {}
    for axis in parsed.axes:
        total = np.full(parsed.size, dict(parsed.offset).get(axis, 0), np.int64)
        for it, digit in zip(parsed.shard, digits, strict=True):
            if it.axis == axis:
                total = total + digit * it.stride
        found[axis] = total
    return found


def warps_of(layout: str) -> int:
    """The number of warps whose registers hold a fragment."""
    return Layout.parse(layout).span("warpid")


def from_registers(registers: Sequence[Matrix], layout: str, shape: tuple[int, ...], dtype: str) -> Matrix:
    """A matrix in registers; each register is `[warps of the fragment, 32]`."""
    bits, where = bits_of(dtype), places(layout, shape)
    size = 8 * registers[0].dtype.itemsize
    each = max(1, size // max(bits, 1)) if size > bits else 1
    element = where.get(MEMORY, np.zeros(1, np.int64)) + where.get("reg", 0)
    zero = np.zeros_like(element)
    warp, lane = where.get("warpid", zero), where.get("laneid", zero)
    stacked = np.stack(registers)
    words = stacked[np.minimum(element // each, len(stacked) - 1), warp % stacked.shape[1], lane]
    if each > 1:
        mask = np.array((1 << bits) - 1, words.dtype)
        words = words >> (element % each * bits).astype(words.dtype) & mask
    return typed(words, dtype).reshape(shape)


def from_bytes(data: npt.NDArray[np.uint8], layout: str, shape: tuple[int, ...], dtype: str) -> Matrix:
    """A matrix in memory, whose first byte is the first of `data`, with the swizzle of the layout undone.
    Raises WeftError if it goes beyond `data`.
    """
    bits, parsed = bits_of(dtype), Layout.parse(layout)
    at = places(layout, shape)[MEMORY] * bits
    byte, inside = at // 8, at % 8
    if parsed.swizzle is not None:
        pattern = parsed.swizzle
        mask = ((1 << pattern.bits) - 1) << pattern.base
        byte = byte ^ (byte >> pattern.shift & mask)
    width = max(1, bits // 8)
    if len(byte) and int(byte.max()) + width > len(data):
        raise WeftError(f"the tile has {int(byte.max()) + width} bytes, but only {len(data)} are left there")
    octets = data[byte[:, None] + np.arange(width)]
    if bits < 8:
        words = octets[:, 0] >> inside.astype(np.uint8) & np.uint8((1 << bits) - 1)
    else:
        words = np.ascontiguousarray(octets).view(np.dtype(f"u{width}"))[:, 0]
    return typed(words, dtype).reshape(shape)


def from_tensor(
    cells: npt.NDArray[np.uint32], layout: str, shape: tuple[int, ...], dtype: str, first: int
) -> Matrix:
    """A matrix in tensor memory, from the address `first` on."""
    bits, where = bits_of(dtype), places(layout, shape)
    zero = np.zeros(int(np.prod(shape)), np.int64)
    lane, column = where.get("TLane", zero), where.get("TCol", zero) * bits
    lanes, columns = (first >> 16) + lane, (first & 0xFFFF) + column // 32
    if len(lanes) and (int(lanes.max()) >= cells.shape[0] or int(columns.max()) >= cells.shape[1]):
        raise WeftError(f"tensor memory has {cells.shape[0]} lanes and {cells.shape[1]} columns")
    words = cells[lanes, columns] >> (column % 32).astype(np.uint32)
    if bits < 32:
        words = words & np.uint32((1 << bits) - 1)
    return typed(words, dtype).reshape(shape)


def text_of(matrix: Matrix, most: int = 8) -> str:
    """A matrix in text: its corners, if it has more than `most` rows or columns."""
    formats: dict[str, Any] = {"float_kind": lambda x: f"{x:.5g}", "bool": lambda x: str(int(x))}
    options: dict[str, Any] = {"max_line_width": 120, "edgeitems": most // 2, "formatter": formats}
    return np.array2string(matrix, threshold=most * most, separator=" ", **options)
