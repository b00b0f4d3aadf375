"""`--pipeline-loops`: tiles that a loop loads for products go through stages of shared memory, which are
filled some iterations ahead.

Where the chip has `wgmma` or `tcgen05.mma`, these multiply, and one thread fills a ring of stages by TMA.
Otherwise, all warps multiply by `mma.sync`, and fill the stages by `cp.async`. With `wgmma`, a second product
of what is computed from a first one starts an iteration late. Warpgroups or warps divide the sums, and so
all tiles of the kernel: the pass decides their layouts, and the block size. A kernel stays as it is if it
does more than load, multiply, compute by element and store.
"""

from weft.mlir import gpu, ir, operations
from weft.passes.pipelines.loop import Loop
from weft.passes.pipelines.mma import ByWarps
from weft.passes.pipelines.tcgen05 import InTensorMemory
from weft.passes.pipelines.wgmma import ByWarpgroups
from weft.passes.pipelines.wgmma_overlapped import Overlapped
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Pipelines the loop of each kernel that has one with products."""
    for loop in filter(None, map(Loop.of, operations(module, gpu.GPUFuncOp))):
        for kind in (Overlapped, ByWarpgroups, InTensorMemory, ByWarps):
            if grid := kind.grid(loop):
                with loop.op.location:
                    kind(loop, *grid).write()
                break


PIPELINE_LOOPS = Pass("pipeline-loops", "load tiles of products in loops some iterations ahead", run)
