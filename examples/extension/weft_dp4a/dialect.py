"""The dialect `dot`, with one operation for each form of `dp4a`."""

from typing import Any

from weft.dialects.effects import Pure
from weft.dialects.instruction import InstructionOp
from weft.mlir import ext
from weft_dp4a.instruction import DP4A


class Dot(ext.Dialect, name="dot"):
    """Dot products of bytes."""


class Dp4aOp(InstructionOp, dialect=Dot, name="dp4a", family=DP4A, traits=[Pure]):
    """`dp4a`: adds four products of bytes to `c`."""

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    c: ext.Operand[Any]
    d: ext.Result[Any]


dp4a = Dp4aOp.make
