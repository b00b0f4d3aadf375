"""The addresses of elements, stages and slices of buffers in tensor memory: `lane << 16 | column`."""

from dataclasses import replace

from weft.dialects.tile_buffers import SliceOp, StageOp
from weft.isa.tcgen05.tensor_layouts import COLUMN_BITS, LANE_SHIFT
from weft.layout import Iter
from weft.mlir import ir, llvm
from weft.passes.builders import addresses, emit
from weft.passes.builders.shared_tiles import index_offset

POINTER = 6
"""LLVM's address space of tensor memory."""


def view_offset(view: StageOp | SliceOp) -> ir.Value:
    """The distance of a stage or slice from the start of its buffer, as a number to add to its address."""
    kind = view.buffer.type
    groups = kind.layout.group(kind.shape)
    if isinstance(view, StageOp):
        return offset(kind, ((view.index, groups[0]),))
    return offset(kind, ((view.row, groups[0]), (view.column, groups[1])))


def offset(kind: ir.Type, coordinates: tuple[tuple[ir.Value, tuple[Iter, ...]], ...]) -> ir.Value:
    """The distance of an element at whole columns from the start of a buffer of this type: each coordinate
    with the digits that it splits into.
    """
    per_column = COLUMN_BITS // kind.element_bits
    digits = [it for _, group in coordinates for it in group if it.axis == "TCol"]
    # Where no digit has a part of a column, the strides count columns, and nothing is divided at run time.
    unit = per_column if all(it.stride % per_column == 0 for it in digits) else 1
    lane = (per_column // unit) << LANE_SHIFT

    def scaled(it: Iter) -> Iter:
        return replace(it, stride=it.stride * lane if it.axis == "TLane" else it.stride // unit)

    parts = [index_offset(value, tuple(map(scaled, group))) for value, group in coordinates]
    return emit.div(emit.add(*parts), per_column // unit)


def pointer(word: ir.Value) -> ir.Value:
    """An address of 32 bits as a pointer."""
    return llvm.inttoptr(addresses.pointer_type(POINTER), word)
