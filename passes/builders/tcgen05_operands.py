"""Operands of `tcgen05.mma` in shared memory, as matrix descriptors describe them (PTX ISA, "Shared Memory
Matrix Layout", "Canonical Layouts").
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.isa.tcgen05.shared_descriptor import WIDE_ATOMS, SharedMemoryDescriptor, swizzle_complaint
from weft.isa.wgmma.descriptors import GROUP, SWIZZLES, UNIT, WIDEST
from weft.layout import Iter, Layout
from weft.layout.iterators import point_table
from weft.mlir import ir

_UNIT_BITS = 8 * UNIT
_WIDE_GROUP = 4  # rows of K in an atom of swizzle WIDE_ATOMS
_WIDE_BITS = 8 * WIDEST.width
Distances = npt.NDArray[np.int64]
Steps = tuple[tuple[int, int], ...]
"""Where along K each instruction begins, and its K."""


@dataclass(frozen=True)
class SharedOperand:
    """A or B in shared memory.

    `descriptor` is that of the operand, with address 0. `row_bits` and `k_bits` are the distances of the rows
    of M (or N) and of the columns of K from the operand's start, before the swizzle. `mn_major` where
    elements are contiguous along M (or N).
    """

    descriptor: SharedMemoryDescriptor
    mn_major: bool
    row_bits: tuple[int, ...]
    k_bits: tuple[int, ...]

    def units(self, row: int, k: int) -> int:
        """The distance of the part that begins at (`row`, `k`) from the operand's start, in units of 16
        bytes.
        """
        return (self.row_bits[row] + self.k_bits[k]) // _UNIT_BITS

    @staticmethod
    def of(
        buffer: ir.Type, kind: str, *, rows: int, steps: Steps, container_bits: int, k_first: bool
    ) -> "SharedOperand | str":
        """The operand of instructions of `kind` in a buffer of type `buffer`: K x M (or N) if `k_first`, M
        (or N) x K otherwise. What its layout must be, where no descriptor describes it.

        Each instruction reads `rows` of M (or N). An element takes `container_bits`: 16 elements of 4 or 6
        bits have 16 bytes where that is 8.
        """
        unit = _UNIT_BITS // container_bits
        return _operand(buffer.layout, buffer.shape, buffer.element_bits, kind, rows, steps, unit, k_first)


@lru_cache(maxsize=256)
def _operand(
    layout: Layout,
    shape: tuple[int, int],
    bits: int,
    kind: str,
    rows: int,
    steps: Steps,
    unit: int,
    k_first: bool,
) -> SharedOperand | str:
    groups = layout.group(shape)
    depth, height = groups if k_first else groups[::-1]
    row_bits, k_bits = _distances(height, bits), _distances(depth, bits)
    mode = layout.swizzle.name if layout.swizzle else "none"
    mn_major = len(row_bits) > 1 and bool(row_bits[1] == bits)
    if verdict := swizzle_complaint(kind, mode, transposed=mn_major):
        return f"{'MN' if mn_major else 'K'}-major order with another swizzle: {verdict}"
    if mode == WIDE_ATOMS and not mn_major:  # the ISA doesn't say how many rows are in a group
        return f"MN-major order with swizzle {mode}, got {layout}"
    canonical = CanonicalLayout(mode, mn_major, unit, bits)
    strides = None
    for row in range(0, len(row_bits), rows):
        for k, extent in steps:
            part = row_bits[row : row + rows], k_bits[k : k + extent]
            found = canonical.strides(*(part if mn_major else part[::-1]))
            if found is None or found != (strides or found):
                return f"{canonical}, got {layout}"
            strides = found
    assert strides is not None
    descriptor = canonical.descriptor(*strides)
    if verdict := descriptor.complaint():
        return f"a layout that a matrix descriptor describes: {verdict}"
    return SharedOperand(descriptor, mn_major, tuple(row_bits.tolist()), tuple(k_bits.tolist()))


def _distances(digits: tuple[Iter, ...], bits: int) -> Distances:
    """The distance of each index of a dimension from its first, in bits."""
    return point_table(digits)[:, -1] * bits


@dataclass(frozen=True)
class CanonicalLayout:
    """A canonical layout: lines, each as wide as the swizzle, in groups. A line is contiguous along M (or N)
    if `mn_major`, along K otherwise. It has `unit` elements in 16 bytes, `bits` apart.
    """

    mode: str
    mn_major: bool
    unit: int
    bits: int

    @property
    def width(self) -> int:
        """The bits of a line."""
        return _WIDE_BITS if self.mode == WIDE_ATOMS else 8 * SWIZZLES[self.mode].width

    @property
    def group(self) -> int:
        """The lines of a group."""
        return _WIDE_GROUP if self.mode == WIDE_ATOMS else GROUP

    def __str__(self) -> str:
        line, order = ("rows of K", "MN-major") if self.mn_major else ("rows", "K-major")
        elements = self.width // _UNIT_BITS * self.unit
        return (
            f"groups of {self.group} {line}, one after the other, of {elements} contiguous elements, as wide "
            f"as swizzle {self.mode}, each group and each panel at one stride ({order})"
        )

    def strides(self, inner: Distances, outer: Distances) -> tuple[int, int] | None:
        """The bits from panel to panel and from group to group of what one instruction reads, whose elements
        have these distances along the lines and across them; None if it isn't laid out so.
        """
        start = int(inner[0] + outer[0])
        element, line = np.arange(len(inner)), np.arange(len(outer))
        panel, inside = divmod(element // self.unit * _UNIT_BITS, self.width)
        across = self._distance(inner, self.width // _UNIT_BITS * self.unit, 0)
        down = self._distance(outer, self.group, self.group * self.width)
        along = inside + element % self.unit * self.bits + panel * across
        lines = line % self.group * self.width + line // self.group * down
        fits = np.array_equal(inner - inner[0], along) and np.array_equal(outer - outer[0], lines)
        swizzled = self.mode != "none"
        if not fits or start % _UNIT_BITS or (swizzled and start // self.width % self.group):
            return None
        if swizzled and not self.mn_major and start % self.width + int(along[-1]) >= self.width:
            return None  # a K-major operand has no second panel
        return across, down

    @staticmethod
    def _distance(distances: Distances, index: int, default: int) -> int:
        return int(distances[index] - distances[0]) if len(distances) > index else default

    def descriptor(self, across: int, down: int) -> SharedMemoryDescriptor:
        """The descriptor, with address 0, of what has these distances."""
        across, down = across // 8, down // 8
        if self.mode == "none":
            leading, stride = (down, across) if self.mn_major else (across, down)
        else:
            # K-major, the leading offset is ignored; the stride is what PTX's other users write there.
            leading, stride = (across if self.mn_major else down), down
        return SharedMemoryDescriptor(
            leading_byte_offset=leading, stride_byte_offset=stride, swizzle=self.mode
        )
