"""Which tile of D a CTA computes where each CTA has one: its product, and its part of K."""

from dataclasses import replace
from typing import Any

from weft.dialects.schedule import AnySchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, gpu, ir
from weft.passes.builders import emit
from weft.passes.kernels.ends_order import Ends
from weft.passes.kernels.matrices import size
from weft.passes.kernels.tile_order import Tile, element, grouped


def grid_tile(schedule: AnySchedule, member: ir.Value | None) -> Tile:
    """The one tile of a CTA in a grid of rows x columns of tiles, built at the insertion point."""
    x, y = (emit.as_i32(gpu.block_id(each)) for each in (gpu.Dimension.x, gpu.Dimension.y))
    rows, columns = (emit.as_i32(gpu.grid_dim(each)) for each in (gpu.Dimension.x, gpu.Dimension.y))
    return Tile(*grouped(emit.add(emit.mul(y, rows), x), rows, columns, schedule.group), member)


def group_tile(op: MatmulOp, schedule: AnySchedule, index: Any) -> tuple[Tile, Any]:
    """The one tile of a CTA where products have groups, and whether it has a product, an i1 (None: it always
    has). Both are built at the insertion point. `index` is the CTA's in the grid's third dimension.
    """
    assert op.grouping is not None
    at = grid_tile(schedule, index)
    rows, _, block_k = schedule.block
    groups, row = op.role(op.grouping), emit.mul(at.row, rows)
    depth = size(op.a, -2 if op.attribute("transpose_a") else -1)
    if op.grouping == "k_ends":
        return replace(at, k_span=Ends(groups, depth).k_blocks(index, block_k)), None
    if op.grouping == "row_ends":
        ends, count = Ends(groups, size(op.d, -2)), size(op.b, 0)
        number = _group_of(ends, count, row)
        last = emit.minimum(number, emit.sub(count, 1))
        begun = arith.cmpi(arith.CmpIPredicate.sle, ends.begin(last), row)
        span = ends.k_span(last, at.row, rows, emit.ceil_div(depth, block_k))
        return replace(at, member=last, k_span=span), arith.andi(emit.less(number, count), begun)
    if index is None:
        number = element(groups, row)
        return replace(at, member=number), emit.less(-1, number)
    return at, emit.less(row, element(groups, index))


def _group_of(ends: Ends, count: Any, row: ir.Value) -> Any:
    """The first group of rows after which the next one begins after a row; `count` if none does."""

    def before(group: ir.Value) -> tuple[Any, list[Any]]:
        end = ends.following(emit.minimum(group, emit.sub(count, 1)))
        ended = arith.cmpi(arith.CmpIPredicate.sle, end, row)
        return arith.andi(emit.less(group, count), ended), [group]

    return emit.repeat([emit.value(0)], before, lambda group: [emit.add(group, 1)])[0]
