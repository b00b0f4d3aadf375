"""Matrices in global and shared memory as kernels see them: sizes, members of a batch, layouts of stages."""

import functools
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from math import gcd

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES
from weft.dialects.tile import BufferType
from weft.isa.tcgen05.shared_descriptor import WIDE_ATOMS
from weft.isa.tensor_map import EXPANDED_ROW, EXPANDED_UNIT
from weft.mlir import arith, ir, memref
from weft.passes.builders import emit, matrix_moves

VECTOR_BYTES = 16
"""The most bytes that a thread accesses at once."""


def panel_width(columns: int, element_bytes: int) -> int:
    """Elements of a panel that is as wide as a swizzle: 128 bytes where that divides the columns, otherwise
    64 or 32.
    """
    return next(w // element_bytes for w in SWIZZLES if columns * element_bytes % w == 0)


def panels(rows: int, columns: int, element_bytes: int, outer: int, *, wide_atoms: bool = False) -> str:
    """The layout of `outer` tiles one after the other, each in panels (`panel_width`). With `wide_atoms` the
    swizzle moves 32 bytes at a time.
    """
    width = panel_width(columns, element_bytes)
    strides = f"{rows * columns},{width},{rows * width},1"
    swizzle = WIDE_ATOMS if wide_atoms else SWIZZLES[width * element_bytes]
    return f"S[({outer},{rows},{columns // width},{width}):({strides})] xor {swizzle}"


def narrow_panels(rows: int, columns: int, bits: int, outer: int, *, expanded: bool) -> str:
    """As `panels`, for K-major tiles of elements of 4 or 6 bits: `expanded`, 16 elements have 16 bytes, so
    that a panel has 128 of them; otherwise elements of 4 bits are packed.
    """
    if not expanded:
        width = next(w * 8 // bits for w in SWIZZLES if columns * bits % (8 * w) == 0)
        swizzle = SWIZZLES[width * bits // 8]
        strides = f"{rows * columns},{width},{rows * width},1"
        return f"S[({outer},{rows},{columns // width},{width}):({strides})] xor {swizzle}"
    width = EXPANDED_ROW
    if bits == 6:  # whose distances count bytes
        return panels(rows, columns, 1, outer)
    strides = f"{2 * rows * columns},{2 * width},{2 * rows * width},{2 * EXPANDED_UNIT},1"
    units = f"{width // EXPANDED_UNIT},{EXPANDED_UNIT}"
    return f"S[({outer},{rows},{columns // width},{units}):({strides})] xor 128B"


def alternating(kind: ir.Type) -> ir.Type:
    """The type of MN-major stages of bytes as fragments read them: columns alternate between the halves of
    16, as `ldmatrix` transposes pairs of bytes.
    """
    stages, depth, panels_, width = (it.extent for it in kind.layout.shard)
    strides = ",".join(str(it.stride) for it in kind.layout.shard[:-1])
    digits, inner = matrix_moves.interleaved(width)
    layout = f"S[({stages},{depth},{panels_},{digits}):({strides},{inner})] xor {SWIZZLES[width]}"
    return BufferType.of(kind.shape, kind.element_type, layout)


def size(matrix: ir.Value, dimension: int) -> ir.Value:
    """One of a matrix's sizes, as i32; a negative dimension counts from the last."""
    number = dimension % matrix.type.rank
    return emit.as_i32(memref.dim(matrix, arith.constant(ir.IndexType.get(), number)))


def member(matrix: ir.Value, *indices: ir.Value | None) -> ir.Value:
    """One matrix of a batch, a memref of rank 3, or of a batch of batches, by its indices. All products share
    a memref of rank 2.
    """
    if matrix.type.rank == 2:
        return matrix
    return _part(matrix, indices, [_extent(matrix, number - 2) for number in range(2)])


def with_rows(matrix: ir.Value, rows: ir.Value) -> ir.Value:
    """The first `rows` rows of a matrix, or all of them if it has fewer."""
    return _part(matrix, (), [emit.as_index(emit.minimum(size(matrix, 0), rows)), _extent(matrix, 1)])


def along(matrix: ir.Value, dimension: int, first: ir.Value | int, count: ir.Value) -> ir.Value:
    """So many rows (dimension 0) or columns (1) of a matrix, from the first one on."""
    dynamic = ir.ShapedType.get_dynamic_size()
    stride = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(stride, [stride, 1])
    space = matrix.type.memory_space
    sizes, offsets = [_extent(matrix, 0), _extent(matrix, 1)], [0, 0]
    sizes[dimension], offsets[dimension] = emit.as_index(count), dynamic
    return memref.SubViewOp(
        ir.MemRefType.get([dynamic, dynamic], matrix.type.element_type, layout, space),
        matrix,
        offsets=[emit.as_index(first)],
        sizes=sizes,
        strides=[],
        static_offsets=offsets,
        static_sizes=[dynamic, dynamic],
        static_strides=[1, 1],
    ).result


def vector_of(matrix: ir.Value, *indices: ir.Value | int | None) -> ir.Value:
    """The last dimension of an array, at these indices of the others."""
    return _part(matrix, indices, [_extent(matrix, -1)])


def _part(matrix: ir.Value, indices: Sequence[ir.Value | int | None], sizes: list[ir.Value]) -> ir.Value:
    """The part of an array at these indices of its first dimensions, of these sizes in the others."""
    dynamic = ir.ShapedType.get_dynamic_size()
    stride = ir.ShapedType.get_dynamic_stride_or_offset()
    _, offset = ir.MemRefType(matrix.type).get_strides_and_offset()
    kept = [stride] * (len(sizes) - 1)
    layout = ir.StridedLayoutAttr.get(stride if indices else offset, [*kept, 1])
    kind = ir.MemRefType.get(
        [dynamic] * len(sizes), matrix.type.element_type, layout, matrix.type.memory_space
    )
    return memref.SubViewOp(
        kind,
        matrix,
        offsets=[emit.as_index(index) for index in indices],
        sizes=sizes,
        strides=[],
        static_offsets=[dynamic] * len(indices) + [0] * len(sizes),
        static_sizes=[1] * len(indices) + [dynamic] * len(sizes),
        static_strides=[1] * matrix.type.rank,
    ).result


def _extent(matrix: ir.Value, dimension: int) -> ir.Value:
    return memref.dim(matrix, arith.constant(ir.IndexType.get(), dimension % matrix.type.rank))


def map_of_member(matrix: ir.Value, map_: ir.Value, *indices: ir.Value | None) -> ir.Value:
    """The map of one matrix of a batch, from the batch's map. All products share a memref of rank 2."""
    if matrix.type.rank > 2:
        for index in indices:
            map_ = tile.member(map_, emit.value(index))
    return map_


@dataclass
class StagedMatrix:
    """Stages of type `kind` that TMA fills with tiles of a matrix, or of those of a batch. Built at the
    insertion point.
    """

    matrix: ir.Value
    kind: ir.Type
    chunk: int = 0
    cta_group: int = 1
    buffer: ir.Value = field(init=False)
    map: ir.Value = field(init=False)

    def __post_init__(self) -> None:
        self.buffer = tile.alloc(self.kind)
        self.map = tile.tensor_map(self.matrix, tile.stage_type(self.kind), chunk=self.chunk)

    def of_others(self, matrix: ir.Value) -> "StagedMatrix":
        """The same stages, filled from another batch."""
        other = copy(self)
        other.matrix, other.map = matrix, tile.tensor_map(matrix, tile.stage_type(self.kind))
        return other

    def copy(
        self,
        member: ir.Value | None,
        row: ir.Value | int,
        column: ir.Value | int,
        stage: ir.Value,
        barrier: ir.Value,
    ) -> None:
        """Starts to copy the tile at (`row`, `column`) of a matrix into a stage."""
        source = map_of_member(self.matrix, self.map, member)
        row, column, into = emit.value(row), emit.value(column), tile.stage(self.buffer, stage)
        tile.copy_async(source, row, column, into, barrier=barrier, cta_group=self.cta_group)


def distance(array: ir.Value, dimension: int) -> ir.Value:
    """The bytes from an element of an array to the next one along a dimension: an i64."""
    strides = memref.extract_strided_metadata(array)[2 + array.type.rank :]
    bytes_ = arith.muli(strides[dimension], emit.as_index(element_bytes(array)))
    return arith.index_cast(emit.i64(), bytes_)


def misaligned(matrix: ir.Value, bytes_: int) -> ir.Value:
    """Whether a row of a matrix, or of a batch, doesn't begin at a multiple of so many bytes, a power of two:
    an i1.
    """
    _, offset, *extents = memref.extract_strided_metadata(matrix)
    *strides, _ = extents[matrix.type.rank :]
    elements = functools.reduce(arith.ori, strides, offset)
    address = memref.extract_aligned_pointer_as_index(matrix)
    bits = arith.ori(address, arith.muli(elements, emit.as_index(element_bytes(matrix))))
    return emit.less(0, emit.bit_and(emit.as_i32(bits), bytes_ - 1))


def ends_ragged(matrix: ir.Value) -> ir.Value:
    """Whether rows of a matrix end within 16 bytes, all of which TMA would write: an i1."""
    return emit.less(0, emit.rem(emit.mul(size(matrix, -1), element_bytes(matrix)), VECTOR_BYTES))


def skew(matrix: ir.Value) -> ir.Value:
    """The elements from the last multiple of 16 bytes to the first element of a matrix: an i32."""
    offset, size = memref.extract_strided_metadata(matrix)[1], element_bytes(matrix)
    address = memref.extract_aligned_pointer_as_index(matrix)
    elements = arith.addi(arith.divui(address, emit.as_index(size)), offset)
    return emit.bit_and(emit.as_i32(elements), VECTOR_BYTES // size - 1)


def element_bytes(matrix: ir.Value) -> int:
    """Bytes of an element."""
    return int(matrix.type.element_type.width) // 8


def run_bytes(matrix: ir.Value, run: int, fragment: ir.Type) -> int:
    """Bytes of a matrix that a lane accesses at once, at most 16, where `run` elements of a fragment of this
    type follow each other in a row, or fewer if it has fewer columns; 0 for single elements.
    """
    run = gcd(run, fragment.shape[1])
    return min(run * element_bytes(matrix), VECTOR_BYTES) if run > 1 else 0
