"""Sums of rows of A between two groups, which the ends of groups of rows leave out."""

from weft.dialects.tile import MatmulOp
from weft.mlir import arith, ir
from weft.passes.builders import emit, fragment_coordinates
from weft.passes.kernels.ends_order import Ends
from weft.passes.kernels.matrices import size

_NAN = float("nan")
_MARKS = {"i32": (1 << 31) - 1}  # relu would hide the smallest


def marked(op: MatmulOp, lane: ir.Value, kind: ir.Type, row: ir.Value, group: ir.Value | None) -> ir.Value:
    """A lane's sums of a fragment of type `kind` from `row` on. In rows after the end of their group, those
    that aren't 0 become NaN, or the largest integer.

    Where groups follow each other without a gap, as those of PyTorch's `grouped_mm`, such rows are of another
    group. Nothing else shows that: the same ends may be those of groups with gaps.
    """
    digits = fragment_coordinates.lane_digits(kind.layout, kind.shape)
    assert digits is not None, kind
    end = Ends(op.role("row_ends"), size(op.d, -2)).end(group)
    left = emit.sub(end, emit.add(row, fragment_coordinates.lane_coordinate(digits[0])))
    rows = [at[0] for at in fragment_coordinates.lane_elements(kind.layout, kind.shape)[0]]
    after = {at: emit.less(left, at + 1) for at in sorted(set(rows))}
    number = _MARKS.get(str(kind.element_type), _NAN)
    zero, mark = (emit.constant(lane.type, each) for each in (0, number))
    # A branch for tiles without such rows would take registers for all sums once more.
    wrong = arith.andi(emit.vector_of([after[at] for at in rows]), _differ(lane, zero))
    return arith.select(wrong, mark, lane)


def _differ(lane: ir.Value, zero: ir.Value) -> ir.Value:
    if isinstance(lane.type.element_type, ir.IntegerType):
        return arith.cmpi(arith.CmpIPredicate.ne, lane, zero)
    return arith.cmpf(arith.CmpFPredicate.UNE, lane, zero)
