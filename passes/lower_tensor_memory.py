"""`--lower-tensor-memory`: `tile.tensor_memory` becomes the allocation of columns, its region, and what frees
them. The buffers in it become addresses.
"""

from weft.dialects import tcgen05, tile
from weft.dialects.launch_contract import TENSOR_COLUMNS
from weft.dialects.op import kernel_of, refuse
from weft.dialects.tile import (
    AddressOp,
    AllocOp,
    BufferType,
    SliceOp,
    StageOp,
    TensorMemoryOp,
    is_tensor_buffer,
)
from weft.isa.chips import LANES
from weft.mlir import gpu, ir, llvm, nvvm, operations
from weft.passes.analysis import cta_groups, repetition, uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import addresses, emit, tensor_memory_tiles, thread_ids
from weft.passes.registry.pass_ import Pass

_VIEWS = (StageOp, SliceOp, AddressOp)


def run(module: ir.Operation) -> None:
    """Lowers every `tile.tensor_memory` and what uses its buffers."""
    for kernel in operations(module, gpu.GPUFuncOp):
        # A second allocation could wait for ever for what the first one holds.
        found = operations(kernel, TensorMemoryOp)
        if len(found) > 1:
            raise refuse(found[1], "expects to be the only one in its kernel: put all buffers in one region")
    for op in operations(module, TensorMemoryOp):
        uniformity.require(op, Scope.CTA)
        threads, warp = thread_ids.threads_of(op), op.attribute("warp")
        if (warp + 1) * LANES > threads:
            raise refuse(op, f"warp must be below {threads // LANES}, the warps of the CTA, got {warp}")
        if loop := repetition.around(op):  # a CTA can't allocate after it has given up its permit
            raise refuse(op, f"expects to be reached once, outside of loops, got it inside {loop}")
        _check_pairs(op)
        cta_groups.require(kernel_of(op).opview, op)
        with ir.InsertionPoint(op), op.location:
            _lower(op)
        op.operation.erase()


def _check_pairs(op: TensorMemoryOp) -> None:
    if op.attribute("cta_group") == 1:
        return
    kernel = kernel_of(op)
    if "known_cluster_size" not in kernel.attributes:
        raise refuse(op, "expects a kernel with 'known_cluster_size', so that its CTAs form pairs")
    x = int(kernel.attributes["known_cluster_size"][0])
    if x % 2:
        raise refuse(op, f"expects a cluster of whole pairs along x, got {x} CTAs")


def _lower(op: TensorMemoryOp) -> None:
    starts = op.starts
    if not starts:
        _move_body(op)
        return
    TENSOR_COLUMNS.set(kernel_of(op).opview, ir.IntegerAttr.get(emit.i32(), op.allocated))
    columns, group = emit.value(op.allocated), op.attribute("cta_group")
    word = tile.address(tile.alloc(BufferType.of((1,), emit.i32(), "S[(1):(1)]")))
    number = emit.uniform(emit.div(emit.thread(), LANES))
    allocates = emit.equal(number, op.attribute("warp"))
    if group > 1:
        # The peer must be running: the allocation is one of both.
        _synchronize(group)
    with emit.when(allocates):
        tcgen05.alloc(address=word, columns=columns, cta_group=group)
        tcgen05.relinquish_alloc_permit(cta_group=group)  # to the next CTA on the multiprocessor
    gpu.barrier()
    base = llvm.load(emit.i32(), word)
    address_of = {
        buffer: tensor_memory_tiles.pointer(emit.value(emit.add(base, start)))
        for buffer, start in starts.items()
    }
    _move_body(op)
    tcgen05.fence(kind="before_thread_sync")
    _synchronize(group)
    with emit.when(emit.equal(number, op.attribute("warp"))):
        tcgen05.fence(kind="after_thread_sync")
        freed = llvm.load(emit.i32(), word) if op.attribute("reload") else base
        tcgen05.dealloc(address=tensor_memory_tiles.pointer(freed), columns=columns, cta_group=group)
    _forward(op, address_of)


def _synchronize(cta_group: int) -> None:
    """A barrier of the CTA, or of the cluster for pairs: neither CTA frees columns, or exits, while its peer
    uses them.
    """
    if cta_group == 1:
        gpu.barrier()
        return
    nvvm.ClusterArriveOp()
    nvvm.ClusterWaitOp()


def _move_body(op: TensorMemoryOp) -> None:
    """Moves the region's operations to the insertion point."""
    for inner in list(op.body.blocks[0].operations):
        inner.operation.move_before(op.operation)


def _forward(op: TensorMemoryOp, address_of: dict[ir.Value, ir.Value]) -> None:
    """Replaces stages, slices and addresses of tensor memory by arithmetic, then erases the buffers."""
    kernel = op.operation.parent
    views = [each for each in operations(kernel, AllocOp, *_VIEWS) if is_tensor_buffer(each.buffer)]
    for view in views:
        if isinstance(view, AllocOp):
            continue
        if view.buffer not in address_of:
            raise refuse(view, "expects a buffer from a tile.alloc, tile.stage or tile.slice in the region")
        base = address_of[view.buffer]
        if isinstance(view, AddressOp):
            view.address.replace_all_uses_with(base)
            continue
        with ir.InsertionPoint(view), view.location:
            address_of[view.tile] = addresses.offset(base, tensor_memory_tiles.view_offset(view))
    for view in reversed(views):
        for result in view.results:
            for use in result.uses:
                raise refuse(use.owner.opview, "uses tensor memory: lower it before --lower-tensor-memory")
        view.operation.erase()


LOWER_TENSOR_MEMORY = Pass(
    "lower-tensor-memory",
    "lower tile.tensor_memory and its buffers to tcgen05.alloc and addresses",
    run,
    lowers=(TensorMemoryOp,),
)
