"""`--lower-reductions`: reductions of the rows or columns of tiles, of a lane's elements first, then by
exchanges with other lanes.
"""

from functools import partial

from weft import mlir
from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile import ReduceOp, is_fragment
from weft.dialects.tile_types import FragmentType
from weft.mlir import ir
from weft.passes.builders import emit, registers
from weft.passes.registry.pass_ import Pass, rewrite


def _reduced(op: ReduceOp) -> ir.Value:
    kind, axis = op.source.type, op.attribute("axis")
    if not is_fragment(op.source):
        raise refuse(op, "expects a tile with a layout: run --assign-layouts first")
    distances = registers.shuffles(kind.layout, kind.shape, axis)
    layout = registers.without_axis(kind.layout, kind.shape, axis)
    if distances is None or not registers.same(layout, op.vector.type.layout, op.vector.type.shape):
        raise refuse(op, f"can't reduce along axis {axis} from {kind.layout} to {op.vector.type.layout}")
    groups = dict[int, list[ir.Value]]()
    lane = emit.elements(tile.to_lane(op.source))
    for point, element in zip(registers.registers_of(kind.layout, kind.shape), lane, strict=True):
        groups.setdefault(point[1 - axis], []).append(element)
    combine, done = partial(_combined, op), dict[int, ir.Value]()
    for key, values in groups.items():
        done[key] = emit.across_lanes(emit.folded(values, combine), distances, combine)
    wanted = FragmentType.of(op.vector.type.shape, kind.element_type, layout)
    order = [point[0] for point in registers.registers_of(layout, wanted.shape)]
    return tile.from_lane(emit.vector_of([done[key] for key in order]), op.vector.type)


def _combined(op: ReduceOp, one: ir.Value, other: ir.Value) -> ir.Value:
    """What the region makes of two elements."""
    values = dict(zip(op.block.arguments, (one, other), strict=True))
    *body, last = op.block.operations
    for each in body:
        mlir.clone(each.operation, values)
    return values.get(last.element, last.element)


LOWER_REDUCTIONS = Pass(
    "lower-reductions",
    "reduce rows and columns of tiles in each lane, then among lanes",
    lambda module: rewrite(module, {ReduceOp: _reduced}),
    lowers=(ReduceOp,),
)
