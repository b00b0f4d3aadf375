"""The gate of a `wgmma` kernel: it leaves half of a tile's columns, each from two of them."""

from dataclasses import replace

from weft.dialects import tile
from weft.dialects.operand_roles import GATE_RUN
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, ir
from weft.passes.builders import emit
from weft.passes.builders.fragment_registers import coordinates
from weft.passes.kernels import activations
from weft.passes.kernels.accumulator import sums_type

_AT_ONCE = 8  # elements of a lane


def written(op: MatmulOp, schedule: WarpgroupSchedule) -> WarpgroupSchedule:
    """The schedule, with the columns of a tile that are written."""
    m, n, k = schedule.block
    return schedule if op.gate is None else replace(schedule, block=(m, n // 2, k))


def gated(op: MatmulOp, sums: ir.Value) -> ir.Value:
    """A warpgroup's sums after the gate, which `op` may have."""
    if op.gate is None:
        return sums
    assert isinstance(op.schedule, WarpgroupSchedule)
    kind = sums_type(written(op, op.schedule), op.types)
    elements = emit.elements(tile.to_lane(sums))
    held = {at: number for number, at in enumerate(coordinates(sums.type))}
    found = list[ir.Value]()
    firsts = [(row, 2 * column - column % GATE_RUN) for row, column in coordinates(kind)]
    for start in range(0, len(firsts), _AT_ONCE):
        some = firsts[start : start + _AT_ONCE]
        first = emit.vector_of([elements[held[at]] for at in some])
        second = emit.vector_of([elements[held[row, column + GATE_RUN]] for row, column in some])
        found += emit.elements(arith.mulf(activations.apply(op.gate, first), second))
    return tile.from_lane(emit.vector_of(found), kind)
