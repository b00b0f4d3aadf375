"""`weft.tiled_scales`: block scales in the layout that `weft.matmul` takes, made by the library whose arrays
hold them, on their device.
"""

import sys
from operator import index
from typing import Any

from weft.dialects.product_types import ceil_div
from weft.errors import WeftError, shown
from weft.isa import block_scales as layout
from weft.launch import arrays

_PACKED = 4  # scales in an int32
_GROUPS = {"int32": 32, "float8_e8m0fnu": 32, "float8_e4m3fn": 16}
"""The elements that share a scale in the instructions, by the type of an array of scales."""
_BLOCKS = {16: (16,), 32: (32, 128)}
"""The elements that may share a scale in an array, by those that do in the instructions."""
_ONES = {16: 0x38, 32: 0x7F}
"""The bytes of a scale of 1, as float8_e4m3fn and float8_e8m0fnu."""


def tiled_scales(scales: Any, k: int, *, block: int = 32) -> Any:
    """Block scales in the 128x4 layout, as `scales` of `weft.matmul`: an array of uint8 (so `weft.matmul`
    needs `kind`), of the same library and on the same device, ceil(rows / 128) x 512 * tiles along K.

    `scales` is a matrix, or a batch of them, of PyTorch, CuPy, JAX or NumPy, with any strides. Each row has
    the scales of a row of A, or of a column of B, for each `block` of K elements: 16 (float8_e4m3fn, for
    nvfp4), 32 or 128 (float8_e8m0fnu), or the bytes of either as uint8. An array of int32 has four scales of
    float8_e8m0fnu in each element, the first in the lowest bits, as DeepGEMM has them for Blackwell; bytes
    after the last scale are ignored.

    The library's operations make the new array, in the order of its current stream. Raises WeftError for
    other arrays, and for a number of columns that doesn't fit K.
    """
    name = arrays.library(type(scales))
    if name not in ("torch", "cupy", "jax", "numpy"):
        found = type(scales).__name__
        raise WeftError(f"scales must be an array of PyTorch, CuPy, JAX or NumPy, got {shown(found)}")
    dtype = str(scales.dtype).removeprefix("torch.")
    k, block = _positive("k", k), _positive("block", block)
    group = _group(dtype, block)
    rows, columns = _checked_shape(tuple(scales.shape), k, block, dtype == "int32")
    if name == "jax":
        import jax.numpy

        library = jax.numpy
    else:
        library = sys.modules[name]
    # Also where the rows are contiguous: only a new array can be seen as bytes in every library.
    plain = (
        scales.clone(memory_format=library.contiguous_format) if name == "torch" else scales.copy()
    ).view(library.uint8)[..., :columns]
    if (repeats := block // group) > 1:
        spread = library.broadcast_to(plain[..., None], (*plain.shape, repeats))
        plain = spread.reshape(*plain.shape[:-1], columns * repeats)
    groups = ceil_div(k, group)
    padded = _padded(name, library, plain[..., :groups], _ONES[group])
    batch, (down, across) = padded.shape[:-2], layout.tiles(rows, groups)
    parts = padded.reshape(*batch, *layout.by_rows(down, across // layout.TILE_BYTES))
    return parts.swapaxes(-4, -2).reshape(*batch, down, across)


def _group(dtype: str, block: int) -> int:
    """The elements that share a scale in the instructions. Raises WeftError for another type or block."""
    if dtype not in (*_GROUPS, "uint8"):
        raise WeftError(f"scales must have elements of {', '.join(_GROUPS)} or uint8, got {dtype}")
    groups = [_GROUPS[dtype]] if dtype in _GROUPS else list(_BLOCKS)
    for group in groups:
        if block in _BLOCKS[group]:
            return group
    legal = " or ".join(str(block) for group in groups for block in _BLOCKS[group])
    raise WeftError(f"block must be {legal} for scales of {dtype}, got {shown(block)}")


def _checked_shape(shape: tuple[int, ...], k: int, block: int, packed: bool) -> tuple[int, int]:
    """The rows, and the scales of each. Raises WeftError for a shape that doesn't fit K."""
    columns = ceil_div(k, block)
    wanted, what = (ceil_div(columns, _PACKED), "words") if packed else (columns, "scales")
    if len(shape) not in (2, 3) or shape[-1] != wanted:
        got = " x ".join(map(str, shape)) or "a single number"
        raise WeftError(
            f"scales must be rows x {wanted} or a batch of such matrices ({what} of K {k} in blocks of "
            f"{block}), got {got}"
        )
    return shape[-2], columns


def _positive(name: str, value: Any) -> int:
    try:
        number = index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise WeftError(f"{name} must be a positive integer, got {shown(value)}")
    return number


def _padded(name: str, library: Any, scales: Any, one: int) -> Any:
    """Scales of whole tiles, padded with scales of 1."""
    rows, groups = (-scales.shape[-2] % layout.ROWS, -scales.shape[-1] % layout.GROUPS)
    if name == "torch":
        return library.nn.functional.pad(scales, (0, groups, 0, rows), value=one)
    widths = [(0, 0)] * (scales.ndim - 2) + [(0, rows), (0, groups)]
    return library.pad(scales, widths, constant_values=one)
