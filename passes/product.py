"""What the kernels of a `tile.matmul` share: the order of their tiles, sizes and types."""

from typing import Any

from weft.dialects import tile
from weft.mlir import arith, ir, memref
from weft.passes import emit


def grouped(linear: Any, rows: Any, columns: Any, group: int) -> tuple[Any, Any]:
    """The row and column of a tile by its number: down `group` rows, then to the next column."""
    per_group = emit.mul(columns, group)
    first = emit.mul(emit.div(linear, per_group), group)
    height = emit.minimum(emit.sub(rows, first), group)
    inside = emit.rem(linear, per_group)
    return emit.add(first, emit.rem(inside, height)), emit.div(inside, height)


def size(matrix: Any, dimension: int) -> Any:
    """One of a matrix's sizes, as i32; a negative dimension counts from the last."""
    place = dimension % matrix.type.rank
    return emit.as_i32(memref.dim(matrix, arith.constant(ir.IndexType.get(), place)))


def member(matrix: Any, index: Any) -> Any:
    """One matrix of a batch, a memref of rank 3; a memref of rank 2 is every product's."""
    if matrix.type.rank == 2:
        return matrix
    dynamic = ir.ShapedType.get_dynamic_size()
    apart = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(apart, [apart, 1])
    kind = ir.MemRefType.get([dynamic] * 2, matrix.type.element_type, layout, matrix.type.memory_space)
    sizes = [memref.dim(matrix, arith.constant(ir.IndexType.get(), place)) for place in (1, 2)]
    at = arith.index_cast(ir.IndexType.get(), emit.value(index))
    return memref.SubViewOp(
        kind,
        matrix,
        offsets=[at],
        sizes=sizes,
        strides=[],
        static_offsets=[dynamic, 0, 0],
        static_sizes=[1, dynamic, dynamic],
        static_strides=[1, 1, 1],
    ).result


def map_of_member(matrix: Any, map_: Any, index: Any) -> Any:
    """The map of one matrix of a batch, given that of all; a memref of rank 2 is every product's."""
    return map_ if matrix.type.rank == 2 else tile.member(map_, emit.value(index))


def element_bytes(matrix: Any) -> int:
    """Bytes of an element."""
    return int(matrix.type.element_type.width) // 8


def pair_bytes(matrix: Any) -> int:
    """Bytes of two elements."""
    return 2 * element_bytes(matrix)


def convert(lane: Any, kind: Any) -> Any:
    """A vector of floats in another width."""
    if lane.type == kind:
        return lane
    wider = kind.element_type.width > lane.type.element_type.width
    return arith.extf(kind, lane) if wider else arith.truncf(kind, lane)
