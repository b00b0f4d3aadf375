"""What kernels read copies of: rows that begin anywhere, which are copied to rows that TMA takes, and columns
of MN-major matrices, which are copied to rows. `kernels.copies` has the kernel.
"""

from dataclasses import dataclass, replace
from math import prod

from weft.dialects.product_types import ceil_div
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays
from weft.launch.arrays import ArrayView

ELEMENTS = (1, 4)
"""The sizes in bytes of elements that are transposed."""
_LINE = 128  # bytes that L2 reads at once


@dataclass(frozen=True)
class Rows:
    """The rows of a matrix or batch to copy. `source` has its bytes, members x rows x bytes, without an
    owner. `pitch` is the distance of rows of the copy. With a `size`, the copy is of the transposed matrix,
    which has elements of so many bytes.
    """

    source: ArrayView
    pitch: int
    size: int = 0

    @classmethod
    def of(cls, view: ArrayView) -> "Rows":
        """Those of an array with at most two dimensions before the last that have several elements."""
        row_bytes = 2 * ROW_BYTES if view.packed else ROW_BYTES  # TMA may give packed elements a byte each
        view = view.in_bytes
        outer = [(n, s) for n, s in zip(view.shape[:-1], view.strides, strict=False) if n > 1]
        assert len(outer) <= 2, view.shape
        outer = [(1, 0)] * (2 - len(outer)) + outer
        source = _in_bytes(view, [n for n, _ in outer], [s for _, s in outer])
        return cls(source, _pitch(source.shape[-1], row_bytes))

    @classmethod
    def transposing(cls, view: ArrayView) -> "Rows":
        """Those of an array of two or three dimensions, with elements of a size in `ELEMENTS`."""
        size = arrays.numpy_dtype(view.dtype).itemsize
        assert size in ELEMENTS, view.dtype
        source = _in_bytes(view, [1, *view.shape[:-1]][-2:], [0, *view.strides[:-1]][-2:])
        return cls(source, _pitch(source.shape[1] * size, ROW_BYTES), size)

    @property
    def target(self) -> ArrayView:
        """The bytes of the copy, members x rows x `pitch`, without an address."""
        members, count, width = self.source.shape
        shape = members, width // self.size if self.size else count, self.pitch
        return replace(self.source, address=0, shape=shape, strides=arrays.contiguous_strides(shape))

    @property
    def nbytes(self) -> int:
        """The size of the copy."""
        return prod(self.target.shape)

    @property
    def vectors(self) -> int:
        """The vectors of 16 bytes of the rows."""
        members, count, width = self.source.shape
        return members * count * ceil_div(width, ROW_BYTES)

    def padded(self, view: ArrayView, address: int) -> ArrayView:
        """The copy of an array at an address."""
        plain = view.in_bytes
        shape = (*view.shape[:-2], *view.shape[:-3:-1]) if self.size else plain.shape
        pitch = self.pitch // arrays.numpy_dtype(plain.dtype).itemsize
        strides = arrays.contiguous_strides((*shape[:-1], pitch))
        copy = replace(plain, address=address, shape=shape, strides=strides)
        return copy.unpacked_from(view.dtype) if view.packed else copy


def _in_bytes(view: ArrayView, shape: list[int], strides: list[int]) -> ArrayView:
    """The bytes of an array with contiguous rows, and these sizes and strides of others dimensions."""
    size = arrays.numpy_dtype(view.dtype).itemsize
    return replace(
        view,
        owner=None,
        dtype="ui8",
        shape=(*shape, view.shape[-1] * size),
        strides=(*(each * size for each in strides), 1),
        readonly=False,
    )


def _pitch(width: int, row_bytes: int) -> int:
    """The bytes from row to row of a copy whose rows begin at multiples of `row_bytes`."""
    # Long rows begin at lines of L2, so that TMA reads no line twice.
    unit = row_bytes if width < 4 * _LINE else _LINE
    return ceil_div(width, unit) * unit
