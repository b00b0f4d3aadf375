"""The sums of K slices in global memory, in the arguments of kernels."""

from weft.isa.chips import WARPGROUP
from weft.mlir import ir
from weft.passes.builders import emit

VECTOR = 4
"""Contiguous sums that a lane reads at once."""


def workspace_types(element: ir.Type) -> list[ir.Type]:
    """The types of the arguments that such a kernel has after its own: vectors of sums, a row of which has
    one for each thread of a warpgroup, and counters.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    sums = ir.MemRefType.get([dynamic, WARPGROUP], ir.VectorType.get([VECTOR], element))
    return [sums, ir.MemRefType.get([dynamic], emit.i32())]
