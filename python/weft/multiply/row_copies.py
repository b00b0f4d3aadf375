"""What kernels read copies of: rows that begin anywhere, which are copied to rows that TMA takes, and columns
of MN-major matrices, which are copied to rows. `copy_kernels` has the kernel.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from weft.dialects.product_types import ceil_div
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays
from weft.launch.arrays import ArrayView

ELEMENTS = (1, 4)
"""The sizes in bytes of elements that are transposed."""
TRANSPOSED_TILE = 128, 128
"""The rows, and their bytes, that a CTA transposes."""
THREADS = 256
"""Threads of a CTA."""
VECTORS = 4
"""The vectors that a thread copies."""
_LINE = 128  # bytes that L2 reads at once
FIELDS = ("i64", "i64", "i64", "i32", "i32", "i32", "i32")
"""The types of the fields of `Rows`."""


@dataclass(frozen=True)
class Rows:
    """The rows of a matrix or batch to copy, in bytes: `count` rows of `width` in each of some members."""

    span: int  # from the first byte to the end of the last row
    member_stride: int
    stride: int
    members: int
    count: int
    width: int
    pitch: int  # of the copy

    @classmethod
    def of(cls, view: ArrayView) -> "Rows":
        """Those of an array with at most two dimensions before the last that have several elements."""
        row_bytes = 2 * ROW_BYTES if view.packed else ROW_BYTES  # TMA may give packed elements a byte each
        view = view.in_bytes
        size = arrays.numpy_dtype(view.dtype).itemsize
        width = view.shape[-1] * size
        apart = [(n, s * size) for n, s in zip(view.shape[:-1], view.strides, strict=False) if n > 1]
        assert len(apart) <= 2, view.shape
        (members, member_stride), (count, stride) = [(1, 0)] * (2 - len(apart)) + apart
        span = (members - 1) * member_stride + (count - 1) * stride + width
        return cls(span, member_stride, stride, members, count, width, _pitch(width, row_bytes))

    @property
    def size(self) -> int:
        """The bytes of an element of a matrix that is transposed; 0 for rows that are copied as they are."""
        return 0

    @property
    def nbytes(self) -> int:
        """The size of the copy."""
        return self.members * self.count * self.pitch

    @property
    def vectors(self) -> int:
        """The vectors of the copy that have bytes of the rows."""
        return self.members * self.count * ceil_div(self.width, ROW_BYTES)

    @property
    def ctas(self) -> int:
        """The CTAs that copy them."""
        return ceil_div(self.vectors, THREADS * VECTORS)

    def padded(self, view: ArrayView, address: int) -> ArrayView:
        """The copy of an array at an address."""
        plain = view.in_bytes
        pitch = self.pitch // arrays.numpy_dtype(plain.dtype).itemsize
        strides = arrays.contiguous_strides((*plain.shape[:-1], pitch))
        copy = replace(plain, address=address, strides=strides)
        return copy.unpacked_from(view.dtype) if view.packed else copy


@dataclass(frozen=True)
class Columns(Rows):
    """The rows of an MN-major matrix or batch, whose columns become the rows of the copy."""

    element: int  # bytes

    @classmethod
    def of(cls, view: ArrayView) -> "Columns":
        """Those of an array of two or three dimensions, with elements of a size in `ELEMENTS`."""
        size = arrays.numpy_dtype(view.dtype).itemsize
        assert size in ELEMENTS, view.dtype
        *_, count, columns = view.shape
        members, (member_stride, stride, _) = [1, *view.shape][-3], [0, *view.strides][-3:]
        span = size * ((members - 1) * member_stride + (count - 1) * stride + columns)
        pitch = _pitch(count * size, ROW_BYTES)
        return cls(span, member_stride * size, stride * size, members, count, columns * size, pitch, size)

    @property
    def size(self) -> int:
        return self.element

    @property
    def nbytes(self) -> int:
        return self.members * self.width // self.element * self.pitch

    @property
    def ctas(self) -> int:
        rows, width = TRANSPOSED_TILE
        return self.members * ceil_div(self.count, rows) * ceil_div(self.width, width)

    def padded(self, view: ArrayView, address: int) -> ArrayView:
        *members, count, columns = view.shape
        strides = arrays.contiguous_strides((*members, columns, self.pitch // self.element))
        return replace(view, address=address, shape=(*members, columns, count), strides=strides)


def _pitch(width: int, row_bytes: int) -> int:
    """The bytes from row to row of a copy whose rows begin at multiples of `row_bytes`."""
    # Long rows begin at lines of L2, so that TMA reads no line twice.
    unit = row_bytes if width < 4 * _LINE else _LINE
    return ceil_div(width, unit) * unit


def arguments(rows: Sequence[Rows], sources: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
    """The arguments of the kernel that copies these rows."""
    each = zip(rows, sources, targets, strict=True)
    return [
        argument for of, source, target in each for argument in (source, target, *astuple(of)[: len(FIELDS)])
    ]


def grid(rows: Sequence[Rows]) -> tuple[int, int, int]:
    """The grid of its launch."""
    return sum(of.ctas for of in rows), 1, 1
