"""What the kernels of a `tile.matmul` share: the order of their tiles, and what is done with the sums."""

from typing import Any

from weft.dialects import tile
from weft.dialects.tile import FragmentType, MatmulOp
from weft.mlir import arith, ir, memref
from weft.passes import emit


def grouped(linear: Any, rows: Any, columns: Any, group: int) -> tuple[Any, Any]:
    """The row and column of a tile by its number: down `group` rows, then to the next column."""
    per_group = emit.mul(columns, group)
    first = emit.mul(emit.div(linear, per_group), group)
    height = emit.minimum(emit.sub(rows, first), group)
    inside = emit.rem(linear, per_group)
    return emit.add(first, emit.rem(inside, height)), emit.div(inside, height)


def finish(op: MatmulOp, sums: Any, row: Any, column: Any, *, aligned: bool) -> Any:
    """The fragment of D that stands at (`row`, `column`): scaled, beta * C added, in f32 up to the last
    rounding. `aligned`: pairs of C's elements can be read at once.
    """
    layout, shape, lane = sums.type.layout, sums.type.shape, tile.to_lane(sums)
    alpha, c = op.attribute("alpha"), op.c
    if alpha != 1.0:
        lane = arith.mulf(lane, emit.constant(lane.type, alpha))
    if c is not None:
        fragment = FragmentType.of(shape, c.type.element_type, layout)
        loaded = tile.load(c, row, column, fragment, vector_bytes=pair_bytes(c) if aligned else 0)
        term = convert(tile.to_lane(loaded), lane.type)
        beta = op.attribute("beta")
        if isinstance(lane.type.element_type, ir.IntegerType):
            lane = arith.addi(lane, term)
        else:
            term = term if beta == 1.0 else arith.mulf(term, emit.constant(term.type, beta))
            lane = arith.addf(lane, term)
    fragment = FragmentType.of(shape, op.d.type.element_type, layout)
    return tile.from_lane(convert(lane, fragment.lane_type), fragment)


def size(matrix: Any, dimension: int) -> Any:
    """One of a matrix's sizes, as i32."""
    return emit.as_i32(memref.dim(matrix, arith.constant(ir.IndexType.get(), dimension)))


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
