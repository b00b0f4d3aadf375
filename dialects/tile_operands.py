"""Operands of the `tile` dialect whose number varies: MLIR requires that they have one type."""

from collections.abc import Sequence
from typing import Any

from weft.dialects.effects import Pure
from weft.dialects.op import Op, Operand, Result, build
from weft.dialects.tile_types import AnyType, Tile, is_buffer, is_memref
from weft.mlir import ir


class OperandOp(Op, dialect=Tile, name="operand", traits=[Pure]):
    """Wraps one of the operands after D of a `tile.matmul`, a matrix or vector in global memory, or one of
    those after `accumulate` of a `tile.gemm_async`, a buffer in tensor memory or an i32.

    MLIR's IRDL, which defines these operations, requires one type of all operands whose number varies.
    Operands made by this op may come from values of different types; the verifiers check the types of these.
    """

    source: Operand
    operand: Result

    def check(self) -> str | None:
        if not (is_memref(self.source) or is_buffer(self.source) or str(self.source.type) == "i32"):
            return f"expects a memref, a tile.buffer or an i32, got {self.source.type}"
        if not isinstance(self.operand.type, AnyType):
            return f"expects to return a !tile.any, got {self.operand.type}"
        return None


def of_one_type(values: Sequence[Any]) -> list[Any]:
    """The values, each wrapped by a `tile.operand` if they have different types and it isn't a !tile.any.
    `build` refuses what is no value.
    """
    if len({getattr(value, "type", None) for value in values}) < 2:
        return list(values)
    kind = AnyType.get()
    return [
        value
        if isinstance(getattr(value, "type", None), AnyType)
        else build(OperandOp, operands=[value], results=[kind]).operand
        for value in values
    ]


def unwrapped(value: ir.Value) -> ir.Value:
    """The value that a `tile.operand` wraps; any other value itself."""
    owner = value.owner
    is_wrapped = not isinstance(owner, ir.Block) and isinstance(owner.opview, OperandOp)
    return owner.opview.source if is_wrapped else value
