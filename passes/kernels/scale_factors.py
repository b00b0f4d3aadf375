"""What the sums of a K block are multiplied by, where lanes read the float32 scales of A and B themselves."""

from typing import Any

from weft.dialects.schedule import PROMOTED, AnySchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, memref, vector
from weft.passes.builders import emit, fragment_coordinates
from weft.passes.kernels.matrices import member, size


def matrices(op: MatmulOp, index: Any) -> tuple[Any, Any]:
    """The scales of A and of B for one product of a batch."""
    of_a, of_b = (member(op.role(f"scale_{name}"), index) for name in "ab")
    return of_a, of_b


def of_lane(
    op: MatmulOp, schedule: AnySchedule, kind: Any, scales: tuple[Any, Any], block: Any, row: Any, column: Any
) -> Any:
    """The factors of a lane's sums of a fragment of type `kind` at (`row`, `column`) of the tiles, whose
    columns share one scale of B unless each has its own. Beyond the last row, column or K block, where there
    are no scales, those of the last.
    """
    of_a, of_b = scales
    digits = fragment_coordinates.lane_digits(kind.layout, kind.shape)
    assert digits is not None
    lane = [fragment_coordinates.lane_coordinate(each) for each in digits]
    row, column = schedule.swapped(emit.add(row, lane[0]), emit.add(column, lane[1]))
    elements = fragment_coordinates.lane_elements(kind.layout, kind.shape)[0]
    inside = [schedule.swapped(*each) for each in elements]
    rows = {each: _element(of_a, block, emit.add(row, each)) for each, _ in inside}
    if op.types.scale_columns:
        columns = {each: _element(of_b, block, emit.add(column, each)) for _, each in inside}
        factors = [arith.mulf(rows[at_row], columns[at_column]) for at_row, at_column in inside]
        return vector.from_elements(kind.lane_type, factors)
    of_columns = _element(of_b, emit.div(column, PROMOTED), block)
    products = {each: arith.mulf(scale, of_columns) for each, scale in rows.items()}
    return vector.from_elements(kind.lane_type, [products[each] for each, _ in inside])


def _element(matrix: Any, row: Any, column: Any) -> Any:
    """The element at (`row`, `column`) of a matrix, or the nearest one."""
    nearest = (emit.minimum(at, emit.sub(size(matrix, i), 1)) for i, at in enumerate((row, column)))
    return memref.load(matrix, [emit.as_index(at) for at in nearest])
