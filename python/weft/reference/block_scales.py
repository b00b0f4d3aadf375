"""Matrices with block scales: quantization, and the layouts of packed elements and of scales.

Elements and scales are of ml_dtypes' types, one in each byte, unless a function states otherwise. K is the
last dimension, along which elements share scales; a first dimension makes a batch.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.errors import WeftError, shown
from weft.isa import block_scales as layout
from weft.isa.block_scales import FORMATS, GROUPS, LANES, ROWS
from weft.isa.types import ELEMENT_TYPES
from weft.layout import packed_elements

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

_DTYPES = {
    name: np.dtype(dtype)
    for name, dtype in (
        ("e4m3", ml_dtypes.float8_e4m3fn),
        ("e5m2", ml_dtypes.float8_e5m2),
        ("e2m3", ml_dtypes.float6_e2m3fn),
        ("e3m2", ml_dtypes.float6_e3m2fn),
        ("e2m1", ml_dtypes.float4_e2m1fn),
        ("ue8m0", ml_dtypes.float8_e8m0fnu),
        ("ue4m3", ml_dtypes.float8_e4m3fn),
    )
}
_INTEGERS = {"s4": np.dtype(ml_dtypes.int4), "u4": np.dtype(ml_dtypes.uint4)}
_ELEMENTS = {dtype: name for name, dtype in _DTYPES.items() if name not in layout.SCALE_TYPES}
_SCALES = {_DTYPES[name]: name for name in layout.SCALE_TYPES}
_LEAST_EXPONENT, _MOST_EXPONENT = -127, 127  # of ue8m0


@dataclass(frozen=True)
class Quantized:
    """A matrix (or batch) whose groups of elements along K share scales: `factor * scales * elements`.

    `elements` is M x K and `scales` is M x ceil(K / group), both of ml_dtypes' types. `factor` scales the
    whole matrix: 1 except for nvfp4, whose global scale it is. The product of the factors of A and B is the
    `alpha` of `weft.matmul`: a number, or in an array of float32.
    """

    kind: str
    elements: Array
    scales: Array
    factor: float = 1.0

    @property
    def values(self) -> Doubles:
        """The numbers that it stands for, in float64."""
        return self.factor * dequantized(self.elements, self.scales, FORMATS[self.kind].group)

    @property
    def packed(self) -> Array:
        """The elements as bytes of uint8: see `pack`. Those of 8 bits stay as they are."""
        return pack(self.elements) if _bits(self.elements) < 8 else self.elements

    @property
    def tiled_scales(self) -> Array:
        """The scales in the layout that `weft.matmul` takes: see the function of this name."""
        return tiled_scales(self.scales)


def quantize(
    matrix: Array,
    kind: str,
    *,
    element: str | None = None,
    factor: float | None = None,
    rounding: str = "down",
) -> Quantized:
    """Quantizes a matrix (or batch) of real numbers to "mxfp8", "mxfp6", "mxfp4" or "nvfp4".

    `element` selects among the elements of a kind, by PTX's name: "e4m3" or "e5m2" for mxfp8, "e2m3" or
    "e3m2" for mxfp6. Elements are rounded to nearest even and saturate.

    An mx scale is a power of two, by default as the OCP specification rounds it: the largest power of two in
    the group, divided by that of the largest element. So a group's largest number may saturate. With
    `rounding` "up" it is the least power of two with which no number saturates. A scale of nvfp4 is the
    group's largest magnitude divided by 6 and by `factor`, which is by default the least with which no scale
    saturates. A group of zeros has a scale of 1. A group with NaN or infinity has a scale of NaN.

    Raises WeftError for another kind, element or rounding, for what isn't a matrix of real numbers, and for
    a factor that isn't positive and finite.
    """
    if not (isinstance(kind, str) and kind in FORMATS):
        raise WeftError(f"kind must be one of {', '.join(FORMATS)}, got {shown(kind)}")
    format_ = FORMATS[kind]
    name = format_.elements[0] if element is None else element
    if name not in format_.elements:
        raise WeftError(f"element must be {' or '.join(format_.elements)} for {kind}, got {shown(name)}")
    if rounding not in ("down", "up"):
        raise WeftError(f"rounding must be 'down' or 'up', got {shown(rounding)}")
    values = _numbers(matrix)
    width = -(-values.shape[-1] // format_.group) * format_.group
    padded = np.zeros((*values.shape[:-1], width))
    padded[..., : values.shape[-1]] = values
    groups = padded.reshape(*values.shape[:-1], width // format_.group, format_.group)
    factor = _checked_factor(factor)
    largest = np.abs(groups).max(axis=-1)
    if format_.scale == "ue8m0":
        factor = 1.0 if factor is None else factor
        scales = _powers(largest / factor, name, rounding)
    else:
        factor = _factor(largest, name) if factor is None else factor
        scales = _saturated(np.where(np.isfinite(largest), largest / _most(name) / factor, np.nan), "ue4m3")
        scales = np.where(scales.astype(np.float64) == 0, _DTYPES["ue4m3"].type(1), scales)
    scaled = groups / (factor * scales.astype(np.float64)[..., None])
    elements = _saturated(np.nan_to_num(scaled), name)
    whole = elements.reshape(padded.shape)[..., : values.shape[-1]]
    return Quantized(kind, np.ascontiguousarray(whole), scales, factor)


def dequantized(elements: Array, scales: Array, group: int) -> Doubles:
    """Elements times their scales, in float64: `scales` has one for each `group` of elements along K."""
    depth = elements.shape[-1]
    spread = np.repeat(scales.astype(np.float64), group, axis=-1)[..., :depth]
    return elements.astype(np.float64) * spread


def pack(elements: Array) -> npt.NDArray[np.uint8]:
    """Elements of 4 or 6 bits as bytes without gaps, the first in the lowest bits: two of 4 bits in a byte,
    four of 6 bits in three bytes. Raises WeftError where a row isn't whole bytes.
    """
    return packed_elements.pack(elements, _bits(elements))


def unpack(packed: npt.NDArray[np.uint8], element: str) -> Array:
    """The elements, of PTX's name ("e2m1", "e2m3", "e3m2", "s4" or "u4"), that `pack` has packed."""
    dtype = (_DTYPES | _INTEGERS)[element]
    return packed_elements.unpack(packed, ELEMENT_TYPES[element].bits).view(dtype)


def tiled_scales(scales: Array) -> Array:
    """Scales, M x groups, in the 128x4 layout of cuBLAS, PyTorch and FlashInfer: ceil(M / 128) x ceil(groups
    / 4) tiles of 512. A scale that pads a tile is 1. Raises WeftError for what isn't a matrix or a batch.
    """
    if scales.ndim < 2:
        raise WeftError(f"scales must be a matrix or a batch of them, got an array of shape {scales.shape}")
    *batch, rows, groups = scales.shape
    padded = np.ones((*batch, -(-rows // ROWS) * ROWS, -(-groups // GROUPS) * GROUPS), scales.dtype)
    padded[..., :rows, :groups] = scales
    parts = padded.reshape(*batch, -1, ROWS // LANES, LANES, padded.shape[-1] // GROUPS, GROUPS)
    ordered = np.moveaxis(parts, (-2, -3, -4), (-4, -3, -2))
    return np.ascontiguousarray(ordered).reshape(*batch, *layout.tiles(rows, groups))


def packed_scales(scales: Array) -> npt.NDArray[np.int32]:
    """Scales of float8_e8m0fnu, M x groups, as DeepGEMM has them for Blackwell: four in an int32, the first
    in the lowest bits, M x ceil(groups / 4). The words are contiguous along M, and each column begins at a
    multiple of 16 bytes. A byte after the last scale of a row is 0.
    """
    *batch, rows, groups = scales.shape
    words = -(-groups // 4)
    in_bytes = np.zeros((*batch, rows, words, 4), np.uint8)
    in_bytes.reshape(*batch, rows, -1)[..., :groups] = scales.view(np.uint8)
    columns = np.zeros((*batch, words, -(-rows // 4) * 4), np.int32)
    columns[..., :rows] = in_bytes.view("<i4")[..., 0].swapaxes(-1, -2)
    return columns[..., :rows].swapaxes(-1, -2)


def plain_scales(tiled: Array, rows: int, groups: int) -> Array:
    """The scales, `rows` x `groups`, of a matrix in the layout of `tiled_scales`, whatever its shape (PyTorch
    has a vector, FlashInfer a row for each row of the matrix). Raises WeftError for another number of scales.
    """
    if min(rows, groups) < 1:
        raise WeftError(f"rows and groups must be at least 1, got {rows} and {groups}")
    down, across = layout.tiles(rows, groups)
    if tiled.size % (down * across):
        raise WeftError(
            f"scales of {rows} x {groups} must be {down} x {across} in the 128x4 layout, got {tiled.shape}"
        )
    batch = (tiled.size // (down * across),) if tiled.size != down * across else ()
    parts = tiled.reshape(*batch, down, -1, LANES, ROWS // LANES, GROUPS)
    ordered = np.moveaxis(parts, (-4, -3, -2), (-2, -3, -4))
    whole = np.ascontiguousarray(ordered).reshape(*batch, down * ROWS, -1)
    return whole[..., :rows, :groups]


def scale_type(scales: Array) -> str | None:
    """PTX's name of the type of block scales; None for scales of another type, such as float32."""
    return _SCALES.get(scales.dtype)


def element_type(elements: Array) -> str | None:
    """PTX's name of the type of a format's elements; None for others."""
    return _ELEMENTS.get(elements.dtype)


def _bits(elements: Array) -> int:
    """The bits of an element. Raises WeftError for a type that neither a format nor packed integers have."""
    every = _ELEMENTS | {dtype: name for name, dtype in _INTEGERS.items()}
    if (name := every.get(elements.dtype)) is None:
        legal = ", ".join(dtype.name for dtype in every)
        raise WeftError(f"elements must be of {legal}, got {elements.dtype}")
    return ELEMENT_TYPES[name].bits


_MATRIX = 2  # dimensions, without those of a batch


def _numbers(matrix: object) -> Doubles:
    """A matrix in float64. Raises WeftError for what isn't a matrix of real numbers."""
    try:
        values = np.asarray(matrix)
        if values.ndim >= _MATRIX and values.dtype.kind != "c":
            return values.astype(np.float64)
    except (TypeError, ValueError):
        pass
    got = shown(matrix)
    if isinstance(matrix, np.ndarray):
        got = f"an array of {matrix.dtype} of shape {matrix.shape}"
    raise WeftError(f"matrix must be an array of real numbers with at least two dimensions, got {got}")


def _checked_factor(factor: object) -> float | None:
    """A factor as a float. Raises WeftError for one that isn't positive and finite."""
    if factor is None:
        return None
    try:
        number = float(factor)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not 0 < number < np.inf:
        raise WeftError(f"factor must be a positive, finite number, got {shown(factor)}")
    return number


def _most(name: str) -> float:
    """The largest element of a type."""
    return float(ml_dtypes.finfo(_DTYPES[name]).max)  # type: ignore[no-untyped-call]


def _powers(largest: Doubles, element: str, rounding: str) -> Array:
    """A power of two for each group with this largest magnitude."""
    finite = np.isfinite(largest)
    size, most = np.where(finite & (largest > 0), largest, 1.0), _most(element)
    if rounding == "down":
        exponents = np.frexp(size)[1] - np.frexp(most)[1]
    else:
        exponents = np.frexp(size / most)[1]
        exponents = exponents - (size <= np.ldexp(most, exponents - 1))
    exponents = np.where(largest > 0, np.clip(exponents, _LEAST_EXPONENT, _MOST_EXPONENT), 0)
    return np.where(finite, np.ldexp(1.0, exponents), np.nan).astype(_DTYPES["ue8m0"])


def _factor(largest: Doubles, element: str) -> float:
    """The least factor with which no scale saturates; 1 for zeros."""
    finite = largest[np.isfinite(largest)]
    most = float(finite.max()) if finite.size else 0.0
    factor = most / (_most(element) * _most("ue4m3"))
    return max(factor, float(np.finfo(np.float64).smallest_subnormal)) if most > 0 else 1.0


def _saturated(values: Doubles, name: str) -> Array:
    """Numbers rounded to the nearest of a type, or to its largest."""
    most = _most(name)
    clipped = np.clip(values, -most, most)
    near = clipped.astype(
        np.float32
    )  # ml_dtypes rounds through f32: so not to a number between two of the type
    bits = near.view(np.int32)
    bits -= np.abs(near) > np.abs(clipped)
    bits |= near != clipped
    return near.astype(_DTYPES[name])
