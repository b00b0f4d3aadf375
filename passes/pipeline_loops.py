"""`--pipeline-loops`: tiles that a loop loads for products go through stages of shared memory, which are
filled some iterations ahead.

Where the chip has `wgmma` or `tcgen05.mma`, these multiply, and one thread fills a ring of stages by TMA.
Otherwise, all warps multiply by `mma.sync`, and fill the stages by `cp.async`. With `wgmma`, a second product
of what is computed from a first one starts an iteration late. Warpgroups or warps divide the sums, and so
all tiles of the kernel: the pass decides their layouts, and the block size. Where rows and columns may be
unaligned, threads copy single elements, and warps multiply. The kernel may only load, multiply, compute by
element or row, and store.
"""

from weft.dialects.op import refuse
from weft.dialects.tile import GemmOp, is_free
from weft.mlir import gpu, ir, operations
from weft.passes.pipelines.loop import Loop
from weft.passes.pipelines.mma import ByWarps
from weft.passes.pipelines.tcgen05 import InTensorMemory
from weft.passes.pipelines.wgmma import ByWarpgroups
from weft.passes.pipelines.wgmma_overlapped import Overlapped
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Pipelines the loop of each kernel that has one with products of tiles without layouts. Raises WeftError
    for one that it can't pipeline.
    """
    for kernel in operations(module, gpu.GPUFuncOp):
        products = [each for each in operations(kernel, GemmOp) if is_free(each.d)]
        if not products:
            continue
        loop = Loop.of(kernel, products)
        grids = ((kind, kind.grid(loop)) for kind in (Overlapped, ByWarpgroups, InTensorMemory, ByWarps))
        kind, grid = next(((kind, grid) for kind, grid in grids if grid), (None, None))
        if kind is None or grid is None:
            raise refuse(products[0], ByWarps.complaint(loop))
        with loop.op.location:
            kind(loop, *grid).write()


PIPELINE_LOOPS = Pass("pipeline-loops", "load tiles of products in loops some iterations ahead", run)
