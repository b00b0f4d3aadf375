"""The kind of `tcgen05.mma` for the types, scales and packing of a `tile.gemm_async`, and its operands in
shared memory, as matrix descriptors describe them (PTX ISA, "Shared Memory Matrix Layout", "Canonical
Layouts").
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.tile_async import GemmAsyncOp
from weft.dialects.tile_types import TMEM
from weft.isa.tcgen05.descriptors import KINDS, BlockScaledDescriptor, Kind
from weft.isa.tcgen05.mma_rows import scale_vecs
from weft.isa.tcgen05.shared_descriptor import WIDE_ATOMS, SharedMemoryDescriptor, swizzle_complaint
from weft.isa.tcgen05.tensor_layouts import SCALES_OF_COLUMN
from weft.isa.types import ELEMENT_TYPES
from weft.isa.wgmma.descriptors import GROUP, SWIZZLES, UNIT, WIDEST
from weft.layout import Iter, Layout
from weft.layout.iterators import point_table
from weft.mlir import ir

BYTE = 8
_UNIT = 16  # elements of 4 or 6 bits that have 16 bytes where each takes a byte
SIZES = (32, 16)
"""How many elements along K may share a scale."""


def kind_of(op: GemmAsyncOp) -> str | None:
    """The kind for A's and B's types, and for their scales if they have some; None where no kind has them."""
    return next((kind.name for kind in KINDS.values() if _multiplies(kind, op)), None)


def _multiplies(kind: Kind, op: GemmAsyncOp) -> bool:
    types = (PTX_INPUTS.get(str(each.type.element_type)) for each in (op.a, op.b))
    if (kind.scales is None) != (op.scales is None) or not all(t in kind.elements for t in types):
        return False
    if kind.scales is None or op.scales is None:
        return True
    if is_packed_kind(kind.name) != all(container_bits(each.type) < BYTE for each in (op.a, op.b)):
        return False
    scale = PTX_SCALES.get(str(op.scales[0].type.element_type), "")
    return scale in kind.scales and scale_vec(kind.name, scale, scale_size(op)) is not None


def is_packed_kind(kind: str) -> bool:
    """Whether a kind has two elements of 4 bits in a byte, where others have one."""
    return KINDS[kind].scales is not None and not KINDS[kind].transposes


def container_of(kind: str, element: str) -> int:
    """The bits that an element of this PTX type takes of its memory."""
    bits = ELEMENT_TYPES[element].bits
    return bits if is_packed_kind(kind) else max(bits, BYTE)


def container_bits(buffer: ir.Type) -> int:
    """The bits that an element of a buffer of this type takes of its memory: a byte for elements of 6 bits,
    and for those of 4 bits where 16 have 16 bytes.
    """
    bits = int(buffer.element_bits)
    if bits >= BYTE:
        return bits
    in_tensor_memory = buffer.space == TMEM
    axis = "TCol" if in_tensor_memory else "m"
    runs = [it.extent for it in buffer.layout.canonical().shard if it.axis == axis and it.stride == 1]
    return BYTE if runs == ([] if in_tensor_memory else [_UNIT]) else bits


def scale_size(op: GemmAsyncOp) -> int | None:
    """How many elements along K share a scale; None where the scales of A have another number of columns:
    one for each group of elements, padded to a multiple of 4 unless they are 1 or 2. With `scale_block`, how
    many an instruction multiplies with one.
    """
    assert op.scales is not None
    k, columns = op.mnk[2], op.scales[0].type.shape[1]
    if block := op.attribute("scale_block"):
        fits = columns == SCALES_OF_COLUMN and k % block == 0 and k <= columns * block
        return SIZES[0] if fits else None
    return next((size for size in SIZES if columns == scale_columns(k, size)), None)


def scale_columns(k: int, size: int) -> int:
    """The columns of a buffer of scales for K elements, of which `size` share one."""
    groups = -(-k // size)
    return groups if groups in (1, 2) else -(-groups // SCALES_OF_COLUMN) * SCALES_OF_COLUMN


def scale_vec(kind: str, scale: str, size: int | None) -> str | None:
    """The modifier of an instruction whose scales, of this PTX type, are shared by `size` elements; None
    where the kind has none. It is one that every chip has, and not the kind's own, which has no modifier: the
    ptxas of CUDA 13.0 refuses that before PTX 8.8, that of CUDA 13.5 doesn't.
    """
    element = next(iter(KINDS[kind].elements))
    for spelled in filter(None, scale_vecs(kind)):
        record = BlockScaledDescriptor(kind, 128, 128, element, element, scale, scale_vec=spelled)
        every_chip = not spelled.endswith("X")
        if every_chip and record.depth // record.scales == size and record.complaint() is None:
            return spelled
    return None


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
