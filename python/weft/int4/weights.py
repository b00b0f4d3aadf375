"""4-bit weights in the layout of the kernel: `weft.quantize_int4` and `weft.Int4Weights`."""

import functools
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.errors import WeftError, shown
from weft.launch import arrays
from weft.layout.int4_layout import DEPTH, LINES, ROWS

Array = Any
"""An array of NumPy or PyTorch."""
LEVELS = 16
MIDDLE = 8
"""The zero of weights without zeros of their own."""
TYPES = ("bf16", "f16")
"""Elements of scales and of products."""
_SOURCES = ("f32", *TYPES)
_STEPS = DEPTH // 16  # of `wgmma` in a block, a word of each thread
_WORD_AXES = (4, 8)  # warp, group of lanes
_CHUNK = 1 << 24  # elements that are packed at once


@dataclass(frozen=True, eq=False)
class Int4Weights:
    """A matrix of N x K integers q in 0..15 with scales, which stands for `(q - zero) * scale`.

    Make one with `weft.quantize_int4`, or with `Int4Weights.pack` from integers that another program
    quantized. `packed`, `scales` and `zeros` are arrays in the kernel's layout, which docs/int4.md describes.
    """

    packed: Array
    """Words of 32 bits with eight integers each: 16 rows of 32 for each 64 x 64 weights."""
    scales: Array
    """In the type of the products: for each 64 rows of weights those of all groups."""
    zeros: Array
    """As `scales`; None if all zeros are 8."""
    rows: int
    """N, the columns of a product."""
    columns: int
    """K."""
    group: int
    """How many columns share a scale; 0 for all of a row."""

    @staticmethod
    def pack(q: Array, scales: Array, zeros: Array = None, *, group: int | None = None) -> "Int4Weights":
        """Packs integers of N x K in 0..15, of any integer type, with scales of N x groups in bf16 or f16,
        and zeros of the same shape, which are integers in 0..15 of any type; without zeros, they are 8.

        `group` columns share a scale: 32, or a multiple of 64, or 0 where a row has one scale. By default, it
        follows from the number of scales. Arrays are NumPy's or PyTorch's, on any device. Raises WeftError
        for shapes and types that don't fit.
        """
        q, scales, zeros = (_plain(each) for each in (q, scales, zeros))
        n, k = _matrix("q", q)
        dtype = arrays.view(scales).dtype
        if dtype not in TYPES:
            raise _refusal(f"scales must have elements of bf16 or f16, got {dtype}: convert them")
        count = _matrix("scales", scales)[1]
        group = _group(group, k, count)
        for name, each in (("scales", scales), ("zeros", zeros)):
            if each is not None and tuple(each.shape) != (n, count):
                raise _refusal(f"{name} must have shape ({n}, {count}), got {tuple(each.shape)}")
        _check_range("q", q)
        if zeros is not None:
            _check_range("zeros", zeros)
            zeros = _tiled(_as(zeros, scales))
        return Int4Weights(_packed(q), _tiled(scales), zeros, n, k, group)

    @functools.cached_property
    def dtype(self) -> str:
        """The type of products, "bf16" or "f16"."""
        return arrays.view(self.scales).dtype

    @functools.cached_property
    def first_scales(self) -> Array:
        """The scales of the first rows, an array for arguments that a kernel doesn't read."""
        return self.scales[0]

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        each = (self.packed, self.scales, *(() if self.zeros is None else (self.zeros,)))
        return sum(one.nbytes for one in each)

    @property
    def groups(self) -> int:
        """The scales of a row."""
        return -(-self.columns // self.group) if self.group else 1

    def to(self, *args: object, **named: object) -> "Int4Weights":
        """The weights on another device of PyTorch, as `torch.Tensor.to`."""
        packed, scales, zeros = (
            None if each is None else each.to(*args, **named)
            for each in (self.packed, self.scales, self.zeros)
        )
        return replace(self, packed=packed, scales=scales, zeros=zeros)

    def integers(self) -> Array:
        """The integers q, N x K, of the type uint8."""
        tiles, blocks = -(-self.rows // ROWS), -(-self.columns // DEPTH)
        words = self.packed.reshape(tiles, blocks, *_WORD_AXES, 4, _STEPS)
        words = _moved(words, (0, 2, 3, 1, 5, 4))  # tile, warp, group, block, step, lane
        made = _new(words, (*words.shape[:2], 2, *words.shape[2:5], 2, 4, 2))
        for row, column, element in itertools.product(range(2), repeat=3):
            made[:, :, row, :, :, :, column, :, element] = (words >> _shift(row, column, element)) & 15
        return made.reshape(tiles * ROWS, blocks * DEPTH)[: self.rows, : self.columns]

    def dequantize(self) -> Array:
        """The matrix that the weights stand for, N x K in the type of the scales: (q - zero) * scale, rounded
        once, as the kernel computes it.
        """
        q = _as(self.integers(), self.scales)
        scales = _spread(self._rows_of(self.scales), self.group, self.columns)
        zeros = MIDDLE if self.zeros is None else _spread(self._rows_of(self.zeros), self.group, self.columns)
        return (q - zeros) * scales

    def _rows_of(self, tiled: Array) -> Array:
        """Scales or zeros as N x groups."""
        by_tile = tiled.reshape(-1, self.groups, ROWS)
        return _moved(by_tile, (0, 2, 1)).reshape(-1, self.groups)[: self.rows]


def quantize_int4(
    weights: object, *, group: int = 128, symmetric: bool = False, dtype: str | None = None
) -> Int4Weights:
    """Rounds a matrix of weights, N x K of f32, bf16 or f16, to 4 bits with scales of `group` columns.

    The range of a group goes from its smallest to its largest weight, and includes 0. The scale is a 15th of
    this range, and the zero point is the integer that represents 0. With `symmetric`, the scale is a seventh
    of the largest magnitude, and zero points are 8. `group` is 32 or a multiple of 64, or 0 for one scale of
    a row. `dtype` is the type of scales and of products, "bf16" or "f16": by default that of the weights, and
    bf16 for f32. Arrays are NumPy's or PyTorch's, and so are those of the result, on the same device. Raises
    WeftError for arrays and groups that don't fit, and for weights that aren't finite.
    """
    if weights is None or isinstance(weights, type) or getattr(weights, "is_nested", False):
        got = shown(weights) if weights is None or isinstance(weights, type) else "a nested tensor"
        raise _refusal(f"weights must be a matrix of NumPy or PyTorch, got {got}")
    weights = _plain(weights)
    n, k = _matrix("weights", weights)
    source = arrays.view(weights).dtype
    if source not in _SOURCES:
        raise _refusal(f"weights must have elements of {', '.join(_SOURCES)}, got {source}")
    if not isinstance(symmetric, bool):
        raise _refusal(f"symmetric must be True or False, got {shown(symmetric)}")
    dtype = dtype or (source if source in TYPES else "bf16")
    if dtype not in TYPES:
        raise _refusal(f"dtype must be 'bf16' or 'f16', got {shown(dtype)}")
    group = _group(group, k, None)
    size = group or k
    xp = _namespace(weights)
    wide = _padded(_cast(weights, "f32"), n, -(-k // size) * size).reshape(n, -1, size)
    if not bool(xp.isfinite(wide).all()):
        raise _refusal("weights must be finite, got infinities or NaN")
    most, least = xp.amax(wide, axis=-1), xp.amin(wide, axis=-1)
    if symmetric:
        span, steps = xp.maximum(most, -least), MIDDLE - 1
    else:
        span, steps = xp.clip(most, 0, None) - xp.clip(least, None, 0), LEVELS - 1
    exact = _cast(_cast(span / steps, dtype), "f32")
    exact = xp.where(exact == 0, xp.ones_like(exact), exact)
    if not bool(xp.isfinite(exact).all()):
        raise _refusal(
            f"scales must be finite in {dtype}, got weights up to {float(span.max()):.3g}: use bf16"
        )
    scales = _cast(exact, dtype)
    zeros = None if symmetric else xp.clip(xp.round(-xp.clip(least, None, 0) / exact), 0, LEVELS - 1)
    shift = MIDDLE if zeros is None else zeros[..., None]
    q = xp.clip(xp.round(wide / exact[..., None]) + shift, 0, LEVELS - 1)
    q = _cast(q.reshape(n, -1)[:, :k], "ui8")
    return Int4Weights.pack(q, scales, zeros, group=group)


def _group(group: int | None, k: int, count: int | None) -> int:
    """The columns of a group, 0 for all. Raises WeftError for a group that the kernel can't have, or that
    `count` scales don't have.
    """
    if group is None:
        assert count is not None
        if count == 1:
            return 0
        legal = [each for each in (32, *range(64, k, 64)) if -(-k // each) == count]
        if not legal:
            raise _refusal(f"no group of 32, or of a multiple of 64, columns makes {count} of {k} columns")
        powers = [each for each in legal if each & (each - 1) == 0]
        return int((powers or legal)[0])
    if not isinstance(group, int) or isinstance(group, bool) or group < 0 or (group != 32 and group % 64):
        raise _refusal(f"group must be 0, 32 or a multiple of 64, got {shown(group)}: {_nearest(group)}")
    group = 0 if group >= k else group
    if count is not None and count != (-(-k // group) if group else 1):
        wanted = -(-k // group) if group else 1
        raise _refusal(f"groups of {group or k} of {k} columns have {wanted} scales, got {count}")
    return int(group)


def _nearest(group: object) -> str:
    if not isinstance(group, int) or isinstance(group, bool):
        return "use 128"
    legal = (0, 32, *range(64, max(group, 0) + 128, 64))
    return f"the nearest is {min(legal, key=lambda each: abs(each - group))}"


def _packed(q: Array) -> Array:
    """The integers as words, 16 rows of 32 for each 64 x 64, some tiles of 64 rows at a time."""
    n, k = q.shape
    tiles, columns = -(-n // ROWS), -(-k // DEPTH) * DEPTH
    at_once = max(_CHUNK // (ROWS * columns), 1)
    chunks = [_packed_tiles(q[ROWS * first : ROWS * (first + at_once)]) for first in range(0, tiles, at_once)]
    return _namespace(q).concatenate(chunks) if len(chunks) > 1 else chunks[0]


def _packed_tiles(q: Array) -> Array:
    n, k = q.shape
    tiles, blocks = -(-n // ROWS), -(-k // DEPTH)
    whole = _padded(_cast(q, "i32"), tiles * ROWS, blocks * DEPTH)
    parts = whole.reshape(tiles, 4, 2, 8, blocks, _STEPS, 2, 4, 2)
    words: Array = 0
    for row, column, element in itertools.product(range(2), repeat=3):
        words = words | parts[:, :, row, :, :, :, column, :, element] << _shift(row, column, element)
    # Tile, warp, group of lanes, block, step, lane: a thread's words of a block become contiguous.
    return contiguous(_moved(words, (0, 3, 1, 2, 5, 4))).reshape(tiles * blocks * LINES, -1)


def _shift(row: int, column: int, element: int) -> int:
    """The lowest bit, in a word, of an element of a thread: of its first or second row and run of columns,
    and the first or second of the run.
    """
    return 4 * (2 * column + row) + 16 * element


def _tiled(values: Array) -> Array:
    """N x groups as, for each 64 rows, those of all groups, with zeros after the last row."""
    n, groups = values.shape
    tiles = -(-n // ROWS)
    by_tile = _padded(values, tiles * ROWS, groups).reshape(tiles, ROWS, groups)
    return contiguous(_moved(by_tile, (0, 2, 1))).reshape(tiles, groups * ROWS)


# What NumPy and PyTorch have different names for


def _plain(array: Array) -> Array:
    """An array of PyTorch without its gradient; others are NumPy's."""
    if array is None or arrays.library(type(array)) == "torch":
        return None if array is None else array.detach()
    return np.asarray(array)


def _namespace(array: object) -> Array:
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def _cast(array: Array, dtype: str) -> Array:
    numpy_type = arrays.numpy_dtype(dtype)
    if isinstance(array, np.ndarray):
        with np.errstate(over="ignore"):
            return array.astype(numpy_type)
    return array.to(getattr(_namespace(array), numpy_type.name))


def _as(array: Array, like: Array) -> Array:
    """The array with the elements of another."""
    return array.astype(like.dtype) if isinstance(array, np.ndarray) else array.to(like.dtype)


def _moved(array: Array, axes: tuple[int, ...]) -> Array:
    return array.transpose(axes) if isinstance(array, np.ndarray) else array.permute(axes)


def contiguous(array: Array) -> Array:
    """An array of NumPy, PyTorch or CuPy if it is contiguous, otherwise a contiguous copy."""
    if hasattr(array, "contiguous"):
        return array.contiguous()
    flags = getattr(array, "flags", None)
    return array if flags is None or flags.c_contiguous else array.copy(order="C")


def _new(like: Array, shape: tuple[int, ...]) -> Array:
    if isinstance(like, np.ndarray):
        return np.empty(shape, np.uint8)
    return like.new_empty(shape, dtype=_namespace(like).uint8)


def _padded(array: Array, rows: int, columns: int) -> Array:
    """The matrix with zeros after its last row and column."""
    if tuple(array.shape) == (rows, columns):
        return array
    made = np.zeros((rows, columns), array.dtype) if isinstance(array, np.ndarray) else None
    made = array.new_zeros((rows, columns)) if made is None else made
    made[: array.shape[0], : array.shape[1]] = array
    return made


def _spread(values: Array, group: int, columns: int) -> Array:
    """N x groups as N x K."""
    if not group:
        return values
    xp = _namespace(values)
    wide = values.repeat(group, axis=1) if xp is np else values.repeat_interleave(group, dim=1)
    return wide[:, :columns]


def _matrix(name: str, array: Array) -> tuple[int, int]:
    shape = tuple(array.shape)
    if len(shape) != 2 or 0 in shape:
        raise _refusal(f"{name} must be a matrix with elements, got shape {shape}")
    return shape[0], shape[1]


def _check_range(name: str, array: Array) -> None:
    is_float = "f" in arrays.view(array).dtype
    array = _cast(array, "f32") if is_float else array
    most, least = float(array.max()), float(array.min())
    whole = not is_float or bool((array == _namespace(array).round(array)).all())
    if not (0 <= least <= most < LEVELS and whole):
        raise _refusal(f"{name} must be integers in 0..15, got {least:g}..{most:g}")


def _refusal(message: str) -> WeftError:
    return WeftError(f"weft.Int4Weights: {message}")
