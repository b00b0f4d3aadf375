"""Powers of two by which integers are known to be divisible."""

import math

from weft import mlir
from weft.mlir import arith, ir, scf

_MOST = 1 << 16
_SAME = (arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp)
_EITHER = (
    *(arith.AddIOp, arith.SubIOp, arith.OrIOp, arith.XOrIOp),
    *(arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp),
    *(arith.RemSIOp, arith.RemUIOp),
)


def factor(value: ir.Value) -> int:
    """The greatest power of two, up to `_MOST`, that is known to divide an integer."""
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
