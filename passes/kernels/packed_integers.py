"""Products of integers of less than a byte in the kernels of `mma.sync`: matrices, tiles and fragments are of
bytes there, since the integers are packed along K. Only the instruction multiplies others than bytes.
"""

from dataclasses import replace
from typing import Any

from weft.dialects import mma, tile
from weft.isa import mma as isa
from weft.isa.types import ELEMENT_TYPES, S8
from weft.mlir import arith, ir, memref
from weft.passes.builders import emit, warp_products

_BYTE = 8


def of_bytes(form: Any) -> Any:
    """The instruction of bytes with the registers of one of packed integers; other instructions as they
    are.
    """
    bits = ELEMENT_TYPES[form.a_type].bits
    if bits >= _BYTE:
        return form
    m, n, k = form.mnk
    shape = f"m{m}n{n}k{k * bits // _BYTE}"
    return replace(form, shape=shape, a_type=S8.name, b_type=S8.name, bit_op="")


def in_bytes(matrix: ir.Value) -> ir.Value:
    """A matrix of packed integers as the matrix of its bytes; other matrices as they are."""
    kind = matrix.type
    if kind.element_type.width >= _BYTE:
        return matrix
    byte, dynamic = ir.IntegerType.get_signless(_BYTE), ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(dynamic, [dynamic, 1])
    _, offset, rows, columns, stride, _ = memref.extract_strided_metadata(matrix)
    together = emit.as_index(_BYTE // kind.element_type.width)
    offset, columns, stride = (arith.divui(each, together) for each in (offset, columns, stride))
    # The descriptor of the cast counts elements of the matrix, that of its result bytes.
    same = ir.MemRefType.get(kind.shape, byte, kind.layout, kind.memory_space)
    cast = ir.Operation.create("builtin.unrealized_conversion_cast", results=[same], operands=[matrix])
    return memref.ReinterpretCastOp(
        ir.MemRefType.get([dynamic] * 2, byte, layout, kind.memory_space),
        cast.result,
        offsets=[offset],
        sizes=[rows, columns],
        strides=[stride],
        static_offsets=[dynamic],
        static_sizes=[dynamic] * 2,
        static_strides=[dynamic, 1],
    ).result


def multiply(a: ir.Value, b: Any, sums: ir.Value, form: isa.Sync) -> Any:
    """The sums plus the products of two fragments of bytes, read as packed integers."""

    def build(operands: warp_products.Operands, _: Any) -> Any:
        return mma.sync(**operands, **vars(form))

    return warp_products.nest(a, b, tile.to_lane(sums), sums.type, of_bytes(form), build)
