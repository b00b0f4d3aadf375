"""Tiles as the matrices that they are: from registers by their layout, from shared memory without swizzle."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.dialects.element_types import NARROW_TYPES, PTX_INPUTS
from weft.emulator.numerics import arithmetic
from weft.emulator.reading.syntax import Array
from weft.emulator.running.wave import Wave
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.layout import AXES, MEMORY, Layout
from weft.tools.debugger.expressions import Tile

Matrix = Array
_ALIASES = {
    **{name: PTX_INPUTS[name] for name in NARROW_TYPES},
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
def places(layout: str) -> dict[str, npt.NDArray[np.int64]]:
    """Where the first copy of each element is: its position on each axis, row-major, before the swizzle."""
    return dict(zip(AXES, Layout.parse(layout).first_positions().T, strict=True))


def size_of(shape: Sequence[int]) -> str:
    """A shape in messages."""
    return " x ".join(map(str, shape))


def at_tensor(address: int) -> str:
    """An address of tensor memory in messages."""
    return f"tensor memory at lane {address >> 16}, column {address & 0xFFFF}"


def fragment(
    wave: Wave,
    row: int,
    name: str,
    held: Sequence[Matrix | None],
    layout: str,
    shape: tuple[int, ...],
    dtype: str,
) -> Tile:
    """A matrix in registers (None: zeros) of a warp and those that share it; `[warps of the wave, 32]`."""
    span, size = Layout.parse(layout).span("warpid"), int(np.prod(shape))
    first = row - int(wave.warp_of_row[row]) % span
    zero = np.zeros((span, 32), np.uint32)
    registers = [zero if each is None else each[first : first + span] for each in held]
    words = len(held) * span * 32 * 8 * registers[0].dtype.itemsize
    bits = bits_of(dtype)  # those smaller than a byte may take one
    kind = "b8" if bits < 8 and bits * size > words else dtype
    shown = shape[-2:] if len(shape) > 2 and shape[0] == 1 else shape
    found = from_registers(registers, layout, shape, kind).reshape(shown)
    warp = int(wave.warp_of_row[first])
    who = f"warp {warp}" if span == 1 else f"warps {warp}-{warp + span - 1}"
    return Tile(found, f"{name}: {size_of(shown)} {dtype} in registers of {who}, layout {layout}")


def from_registers(registers: Sequence[Matrix], layout: str, shape: tuple[int, ...], dtype: str) -> Matrix:
    """A matrix in registers; each register is `[warps of the fragment, 32]`."""
    bits, where = bits_of(dtype), places(layout)
    size = 8 * registers[0].dtype.itemsize
    each = max(1, size // max(bits, 1)) if size > bits else 1
    element, stacked = where[MEMORY] + where["reg"], np.stack(registers)
    row = np.minimum(element // each, len(stacked) - 1)
    words = stacked[row, where["warpid"] % stacked.shape[1], where["laneid"]]
    if each > 1:
        mask = np.array((1 << bits) - 1, words.dtype)
        words = words >> (element % each * bits).astype(words.dtype) & mask
    return typed(words, dtype).reshape(shape)


def from_bytes(data: npt.NDArray[np.uint8], layout: str, shape: tuple[int, ...], dtype: str) -> Matrix:
    """A matrix in memory, whose first byte is the first of `data`, with the swizzle of the layout undone.
    Raises WeftError if it goes beyond `data`.
    """
    bits, parsed = bits_of(dtype), Layout.parse(layout)
    at = places(layout)[MEMORY] * bits
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
    bits, where = bits_of(dtype), places(layout)
    lane, column = where["TLane"], where["TCol"] * bits
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
