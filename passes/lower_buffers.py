"""`--lower-buffers`: gives every shared buffer its place in the kernel's dynamic shared memory.

The kernel's `weft.shared_bytes` attribute says how much of it a launch must provide.
"""

from typing import Any

from weft.dialects.launch_contract import SHARED_BYTES
from weft.dialects.op import refuse
from weft.dialects.tile import AddressOp, AllocOp, PeerOp, SliceOp, StageOp
from weft.dialects.wgmma import MmaAsyncOp, SpMmaAsyncOp
from weft.mlir import gpu, ir, llvm, nvvm, operations
from weft.passes.builders import emit, places
from weft.passes.registry.pass_ import Pass

ALIGNMENT = 1024  # the period of the widest swizzle
UNSWIZZLED = 128  # what buffers without a swizzle are aligned to
SYMBOL = "weft_shared"


def run(module: Any) -> None:
    """Lowers every `tile.alloc`, `tile.stage`, `tile.slice` and `tile.address`."""
    for kernel in operations(module, gpu.GPUFuncOp):
        if operations(kernel, AllocOp, StageOp, SliceOp, PeerOp, AddressOp):
            _place(kernel)
    for op in operations(module, AllocOp, StageOp, SliceOp, PeerOp, AddressOp):
        raise refuse(op, "expects to stand in a gpu.func")


def _place(kernel: Any) -> None:
    """Gives the buffers of one kernel their places, and the kernel the sum of their sizes."""
    addresses: dict[Any, Any] = {}
    starts: dict[Any, int] = {}
    total = 0
    allocs = operations(kernel, AllocOp)
    base = _base(kernel) if allocs else None
    for op in allocs:
        kind = op.buffer.type
        unit = kind.layout.swizzle.period if kind.layout.swizzle else UNSWIZZLED
        start = starts[op.buffer] = _start(op, starts, emit.ceil_div(total, unit) * unit)
        if start % unit:
            raise refuse(op, f"expects to lie over a buffer at a multiple of {unit} bytes, got {start}")
        with ir.InsertionPoint(op), op.location:
            addresses[op.buffer] = places.offset(base, start)
        total = max(total, start + kind.bytes)
    SHARED_BYTES.set(kernel, ir.IntegerAttr.get(emit.i32(), total))
    _forward(kernel, addresses)


def _base(kernel: Any) -> Any:
    """Where the kernel's shared memory begins."""
    symbol = _symbol(kernel)
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]), kernel.location:
        base = llvm.AddressOfOp(places.pointer(3), symbol).result
        if not operations(kernel, MmaAsyncOp, SpMmaAsyncOp):
            return base
        # What follows from a shuffle ptxas keeps in uniform registers, where matrix descriptors have to be;
        # what follows from a constant it brings there before every product. Lane 0's number adds nothing.
        return places.offset(base, emit.of_lane(nvvm.read_ptx_sreg_laneid(), 0))


def _start(op: AllocOp, starts: dict[Any, int], following: int) -> int:
    """Where a buffer begins: at the one that it lies over, else after all that have been placed."""
    for below in op.over:
        if below not in starts:
            raise refuse(op, "expects to lie over a buffer from tile.alloc in the same kernel")
        return starts[below]
    return following


def _symbol(kernel: Any) -> str:
    """The module's one array of dynamic shared memory, whose size the launch gives."""
    block = kernel.operation.block
    for op in block.operations:
        if op.operation.name == "llvm.mlir.global" and op.operation.attributes["sym_name"].value == SYMBOL:
            return SYMBOL
    with kernel.location:
        made = ir.Operation.parse(
            f"llvm.mlir.global external @{SYMBOL}() "
            f"{{addr_space = 3 : i32, alignment = {ALIGNMENT} : i64}} : !llvm.array<0 x i8>"
        )
    ir.InsertionPoint.at_block_begin(block).insert(made)
    return SYMBOL


def _forward(kernel: Any, addresses: dict[Any, Any]) -> None:
    """Replaces stages and addresses by pointer arithmetic, then drops the buffers."""
    views = operations(kernel, AllocOp, StageOp, SliceOp, PeerOp, AddressOp)
    for op in views:
        if isinstance(op, AllocOp):
            continue
        if op.buffer not in addresses:
            raise refuse(
                op, "expects a buffer from tile.alloc, tile.stage, tile.slice or tile.peer in the same kernel"
            )
        base = addresses[op.buffer]
        if isinstance(op, AddressOp):
            op.address.replace_all_uses_with(base)
            continue
        with ir.InsertionPoint(op), op.location:
            if isinstance(op, PeerOp):
                addresses[op.peer] = nvvm.mapa(places.pointer(7), base, op.rank)
            else:
                addresses[op.tile] = places.offset(base, places.distance(op))
    for op in reversed(views):
        if any(True for result in op.results for _ in result.uses):
            raise refuse(op, "has a use that isn't lowered: run --lower-copies before --lower-buffers")
        op.operation.erase()


LOWER_BUFFERS = Pass(
    "lower-buffers",
    "place shared buffers in dynamic shared memory",
    run,
    lowers=(AllocOp, StageOp, SliceOp, PeerOp, AddressOp),
)
