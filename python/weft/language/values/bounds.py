"""Indices that may be outside of an array on purpose, as those of neighbors: x[image - 1, row + 1]."""

from weft import mlir
from weft.mlir import arith, ir, scf
from weft.passes.builders import emit
from weft.passes.kernels import matrices

_DEEPEST = 100  # sums of sums
_Parts = dict[ir.Value, int | None]


def may_begin_before(start: ir.Value) -> bool:
    """Whether a first index, an SSA value, is a number of the GPU minus a constant. Then it may be less than
    0, and the elements before the first one need a comparison of their own.
    """
    return (_constant_part(start) or 0) < 0


def inside(number: ir.Value, limit: ir.Value, start: ir.Value) -> ir.Value:
    """Whether the index of an element of a vector that begins at `start` is inside of the array: an i1."""
    below = emit.less(number, limit)
    if not may_begin_before(start):
        return below
    return arith.andi(below, arith.cmpi(arith.CmpIPredicate.sge, number, emit.value(0)))


def existing(array: ir.Value, first: list[ir.Value]) -> tuple[ir.Value | None, list[ir.Value]]:
    """Whether an array, a memref, has the matrix or row at these first indices, SSA values: an i1, or None
    where it must have it. And these indices, or zeros if it doesn't have it.
    """
    has = None
    for dimension, index in enumerate(first):
        # Plus or minus a constant, or less than 0.
        constant = mlir.constant(index)
        if _constant_part(index) if constant is None else constant < 0:
            size = emit.value(matrices.size(array, dimension))
            inside = arith.cmpi(arith.CmpIPredicate.ult, index, size)
            has = inside if has is None else arith.andi(has, inside)
    return has, first if has is None else [emit.select(has, each, 0) for each in first]


def _constant_part(value: ir.Value, known: _Parts | None = None, depth: int = _DEEPEST) -> int | None:
    """The constant of a sum, 0 for another value; None where a number of the GPU is subtracted. The number of
    a loop that begins below 0 counts as the first one. `known` has the parts of values seen before.
    """
    known = {} if known is None else known
    if value not in known:
        known[value] = _computed_part(value, known, depth - 1) if depth else 0
    return known[value]


def _computed_part(value: ir.Value, known: _Parts, depth: int) -> int | None:
    constant = mlir.constant(value)
    if constant is not None:
        return int(constant)
    if isinstance(value.owner, ir.Block):
        loop = value.owner.owner.opview
        if not isinstance(loop, scf.ForOp) or ir.BlockArgument(value).arg_number != 0:
            return 0
        return min(_constant_part(loop.lowerBound, known, depth) or 0, 0)
    operation = value.owner.opview
    if not isinstance(operation, (arith.AddIOp, arith.SubIOp)) or _is_quotient(operation):
        return 0
    subtracts = isinstance(operation, arith.SubIOp)
    if subtracts and mlir.constant(operation.rhs) is None:
        return None
    left, right = (_constant_part(each, known, depth) for each in (operation.lhs, operation.rhs))
    if left is None or right is None:
        return None
    return left - right if subtracts else left + right


def _is_quotient(op: ir.OpView) -> bool:
    """Whether a difference is a quotient of Python's //, which subtracts a truth value to round down."""
    rhs = op.rhs.owner
    return isinstance(op, arith.SubIOp) and not isinstance(rhs, ir.Block) and rhs.name == "arith.extui"
