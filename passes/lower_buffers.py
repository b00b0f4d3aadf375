"""`--lower-buffers`: assigns every shared buffer an offset in the kernel's dynamic shared memory.

The kernel's attribute `weft.shared_bytes` is the number of bytes that a launch must provide.
"""

from typing import Any

from weft.dialects.launch_contract import SHARED_BYTES
from weft.dialects.op import refuse
from weft.dialects.tile import AddressOp, AllocOp, PeerOp, SliceOp, StageOp
from weft.dialects.wgmma import MmaAsyncOp, SpMmaAsyncOp
from weft.isa.tensor_map import BOX_ALIGNMENT
from weft.isa.wgmma.descriptors import WIDEST
from weft.mlir import gpu, ir, llvm, nvvm, operations
from weft.passes.builders import addresses, emit, shared_tiles
from weft.passes.registry.pass_ import Pass

SYMBOL = "weft_shared"


def run(module: ir.Operation) -> None:
    """Lowers every `tile.alloc`, `tile.stage`, `tile.slice` and `tile.address`."""
    for kernel in operations(module, gpu.GPUFuncOp):
        if operations(kernel, AllocOp, StageOp, SliceOp, PeerOp, AddressOp):
            _lower_buffers(kernel)
    for op in operations(module, AllocOp, StageOp, SliceOp, PeerOp, AddressOp):
        raise refuse(op, "expects a gpu.func around it")


def _lower_buffers(kernel: ir.OpView) -> None:
    """Assigns the buffers of one kernel their offsets, and the kernel the bytes that they span."""
    address_of: dict[ir.Value, ir.Value] = {}
    starts: dict[ir.Value, int] = {}
    total = 0
    allocs = operations(kernel, AllocOp)
    base: Any = _base(kernel) if allocs else None
    for op in allocs:
        kind = op.buffer.type
        unit = kind.layout.swizzle.period if kind.layout.swizzle else BOX_ALIGNMENT
        start = starts[op.buffer] = _start(op, starts, emit.ceil_div(total, unit) * unit)
        if start % unit:
            raise refuse(op, f"expects to overlap a buffer at a multiple of {unit} bytes, got {start}")
        with ir.InsertionPoint(op), op.location:
            address_of[op.buffer] = addresses.offset(base, start)
        total = max(total, start + kind.bytes)
    SHARED_BYTES.set(kernel, ir.IntegerAttr.get(emit.i32(), total))
    _forward(kernel, address_of)


def _base(kernel: ir.OpView) -> ir.Value:
    """The address of the kernel's shared memory."""
    symbol = _symbol(kernel)
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]), kernel.location:
        base = llvm.AddressOfOp(addresses.pointer_type(3), symbol).result
        if not operations(kernel, MmaAsyncOp, SpMmaAsyncOp):
            return base
        # Matrix descriptors must be in uniform registers. ptxas keeps the result of a shuffle there, but
        # copies a constant there before every product. Lane 0's number adds nothing.
        return addresses.offset(base, emit.of_lane(nvvm.read_ptx_sreg_laneid(), 0))


def _start(op: AllocOp, starts: dict[ir.Value, int], following: int) -> int:
    """The offset of a buffer: that of the one that it overlaps, or after all earlier ones."""
    for below in op.over:
        if below not in starts:
            raise refuse(op, "expects to overlap a buffer from an earlier tile.alloc in the same kernel")
        return starts[below]
    return following


def _symbol(kernel: ir.OpView) -> str:
    """The module's one array of dynamic shared memory, whose size the launch sets."""
    block = kernel.operation.block
    for op in block.operations:
        if op.operation.name == "llvm.mlir.global" and op.operation.attributes["sym_name"].value == SYMBOL:
            return SYMBOL
    with kernel.location:
        symbol = ir.Operation.parse(
            f"llvm.mlir.global external @{SYMBOL}() "
            f"{{addr_space = 3 : i32, alignment = {WIDEST.period} : i64}} : !llvm.array<0 x i8>"
        )
    ir.InsertionPoint.at_block_begin(block).insert(symbol)
    return SYMBOL


def _forward(kernel: ir.OpView, address_of: dict[ir.Value, ir.Value]) -> None:
    """Replaces stages, slices and addresses by pointer arithmetic, then erases the buffers."""
    views = operations(kernel, AllocOp, StageOp, SliceOp, PeerOp, AddressOp)
    for op in views:
        if isinstance(op, AllocOp):
            continue
        if op.buffer not in address_of:
            raise refuse(
                op, "expects a buffer from tile.alloc, tile.stage, tile.slice or tile.peer in the same kernel"
            )
        base = address_of[op.buffer]
        if isinstance(op, AddressOp):
            op.address.replace_all_uses_with(base)
            continue
        with ir.InsertionPoint(op), op.location:
            if isinstance(op, PeerOp):
                address_of[op.peer] = nvvm.mapa(addresses.pointer_type(7), base, op.rank)
            else:
                address_of[op.tile] = addresses.offset(base, shared_tiles.view_offset(op))
    for op in reversed(views):
        if any(True for result in op.results for _ in result.uses):
            raise refuse(op, "expects all its uses to be lowered: run --lower-copies before --lower-buffers")
        op.operation.erase()


LOWER_BUFFERS = Pass(
    "lower-buffers",
    "assign shared buffers offsets in dynamic shared memory",
    run,
    lowers=(AllocOp, StageOp, SliceOp, PeerOp, AddressOp),
)
