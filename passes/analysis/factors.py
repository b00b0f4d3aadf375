"""Powers of two by which integers are known to be divisible."""

import math
from collections.abc import Callable

from weft import mlir
from weft.mlir import arith, ir, scf

_MOST = 1 << 16
_DEEPEST = 100
_SAME = (arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp)
_EITHER = (
    *(arith.AddIOp, arith.SubIOp, arith.OrIOp, arith.XOrIOp),
    *(arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp),
    *(arith.RemSIOp, arith.RemUIOp),
)


def factor(value: ir.Value, known: dict[ir.Value, int] | None = None, depth: int = _DEEPEST) -> int:
    """The greatest power of two, up to `_MOST`, that is known to divide an integer. `known` has those of
    values seen before, as each may be an operand of many others.
    """
    known = {} if known is None else known
    if value not in known:
        known[value] = _computed(value, lambda each: factor(each, known, depth - 1)) if depth else 1
    return known[value]


def _computed(value: ir.Value, factor: Callable[[ir.Value], int]) -> int:
    """The factor of a value by those of its operands."""
    constant = mlir.constant(value)
    if constant is not None:
        return math.gcd(int(constant), _MOST)
    if isinstance(value.owner, ir.Block):
        loop = value.owner.owner.opview
        is_number = isinstance(loop, scf.ForOp) and ir.BlockArgument(value).arg_number == 0
        return math.gcd(*map(factor, (loop.lowerBound, loop.step))) if is_number else 1
    op = value.owner.opview
    match op:
        case arith.MulIOp():
            return min(factor(op.lhs) * factor(op.rhs), _MOST)
        case arith.SelectOp():
            return math.gcd(factor(op.true_value), factor(op.false_value))
        case _ if isinstance(op, _EITHER):
            return math.gcd(factor(op.lhs), factor(op.rhs))
        case _ if isinstance(op, _SAME):
            return factor(op.operands[0])
    return 1
