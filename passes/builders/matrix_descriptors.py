"""The matrix descriptors of buffers in shared memory, for `wgmma` and `tcgen05`, and of parts of them."""

from collections.abc import Callable

from weft.dialects import tile
from weft.dialects.tile import SliceOp, StageOp
from weft.isa.wgmma.descriptors import UNIT
from weft.mlir import arith, ir, llvm, vector
from weft.passes.builders import emit, shared_tiles


def start(buffer: ir.Value, build: Callable[..., ir.Value], record: object) -> ir.Value:
    """The descriptor of a buffer's start, whose fields `record` has; `build` builds the op. That of a stage
    or slice is the whole buffer's, advanced: one instruction for each block, where an address would be
    shifted and masked.
    """
    fields = {name: value for name, value in vars(record).items() if name != "address"}
    views: list[StageOp | SliceOp] = []
    while isinstance(view := None if isinstance(buffer.owner, ir.Block) else buffer.owner, StageOp | SliceOp):
        views.append(view)
        buffer = view.buffer
    descriptor = build(tile.address(buffer), **fields)
    # Slices are alike in all stages, so they come first: what a loop doesn't change is hoisted out of it.
    for view in sorted(views, key=lambda view: isinstance(view, StageOp)):
        descriptor = advance(descriptor, shared_tiles.view_offset(view, UNIT))
    return descriptor


def advance(descriptor: ir.Value, units: ir.Value | int) -> ir.Value:
    """The descriptor of what follows after so many units, a number or an i32. Addresses in shared memory have
    no more than the 14 bits of their field, so that nothing is carried out of it: the sum is that of the low
    words.
    """
    if isinstance(units, int) and units == 0:
        return descriptor
    low, high = emit.elements(llvm.bitcast(ir.VectorType.get([2], emit.i32()), descriptor))
    pair = [arith.addi(low, emit.value(units)), high]
    return llvm.bitcast(descriptor.type, vector.from_elements(ir.VectorType.get([2], emit.i32()), pair))
