"""`--round-tf32`: elements of f32 that asynchronous products read from memory are rounded to the nearest tf32
on their way there.

Tensor cores ignore the last 13 bits of an f32, which would bias all products toward zero. Buffers from which
products read f32 thus hold tf32: TMA rounds what it copies to them, and threads round what they store there.
Fragments are rounded where products of them are lowered.
"""

from collections.abc import Iterator

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile import CopyAsyncOp, CopyOp, StoreOp, is_buffer, is_map
from weft.dialects.tile_async import GemmAsyncOp
from weft.dialects.tile_buffers import AddressOp, PeerOp, SliceOp, StageOp
from weft.dialects.tile_copies import (
    AddAsyncOp,
    CopyMulticastOp,
    CopyOutOp,
    GatherAsyncOp,
    MemberOp,
    StoreAsyncOp,
    TensorMapOp,
)
from weft.mlir import gpu, ir, llvm, operations
from weft.passes.builders.tf32 import to_tf32
from weft.passes.registry.pass_ import Pass

_COPIES = (CopyAsyncOp, CopyMulticastOp, GatherAsyncOp)
_OUT = (StoreAsyncOp, AddAsyncOp, CopyOutOp)
_PARTS = tuple(op.OPERATION_NAME for op in (StageOp, SliceOp, PeerOp))


def run(module: ir.Operation) -> None:
    """Rounds what is written to the buffers of products, in every kernel."""
    for kernel in operations(module, gpu.GPUFuncOp):
        products = operations(kernel, GemmAsyncOp)
        read = {_memory(each) for op in products for each in (op.a, op.b) if _is_wide(each)}
        writes = operations(kernel, *_COPIES, *_OUT, CopyOp, StoreOp, AddressOp) if read else []
        maps = dict[ir.Value, ir.Value]()
        for op in writes:
            if any(is_buffer(each) and _memory(each) in read for each in op.operands):
                _round(op, maps)
        for source in reversed(maps):
            if not len(list(source.uses)):
                source.owner.erase()


def _is_wide(operand: ir.Value) -> bool:
    return is_buffer(operand) and operand.type.element_type == ir.F32Type.get()


def _memory(buffer: ir.Value) -> ir.Value:
    """The buffer of which one is a stage, a part or a peer's counterpart."""
    while not isinstance(buffer.owner, ir.Block) and buffer.owner.name in _PARTS:
        buffer = buffer.owner.operands[0]
    return buffer


def _round(op: ir.OpView, maps: dict[ir.Value, ir.Value]) -> None:
    """Rounds what an operation writes to a buffer of a product. `maps` has the maps that round, by those that
    don't.
    """
    operands = op.operation.operands
    if isinstance(op, _OUT):
        raise refuse(
            op, "would copy f32 as tf32, to which it is rounded for tile.gemm_async: use another buffer"
        )
    if isinstance(op, AddressOp):
        for store in _stores(op.address):
            with ir.InsertionPoint(store), store.location:
                store.operands[0] = to_tf32(store.operands[0])
    elif isinstance(op, StoreOp):
        with ir.InsertionPoint(op), op.location:
            operands[0] = tile.from_lane(to_tf32(tile.to_lane(op.fragment)), op.fragment.type)
    elif is_map(op.source):
        operands[0] = _rounding(op.source, maps)
    else:
        raise refuse(
            op,
            "can't round f32 to tf32 for the tile.gemm_async that reads this buffer: copy from a tile.map, "
            "or by tile.load and tile.store",
        )


def _stores(address: ir.Value) -> Iterator[ir.Operation]:
    """The stores of f32 to an address, and to those computed from it."""
    for use in address.uses:
        user = use.owner.operation
        if user.name == "llvm.getelementptr":
            yield from _stores(user.results[0])
        elif user.name == llvm.StoreOp.OPERATION_NAME and use.operand_number == 1:
            kind = user.operands[0].type
            kind = kind.element_type if isinstance(kind, ir.VectorType) else kind
            if kind == ir.F32Type.get():
                yield user


def _rounding(source: ir.Value, maps: dict[ir.Value, ir.Value]) -> ir.Value:
    """The map by which TMA rounds what another one copies."""
    made = None if isinstance(source.owner, ir.Block) else source.owner.opview
    if not isinstance(made, TensorMapOp | MemberOp) or (
        isinstance(made, TensorMapOp) and made.attribute("tf32")
    ):
        return source
    if source not in maps:
        batch = _rounding(made.batch, maps) if isinstance(made, MemberOp) else None
        with ir.InsertionPoint(made), made.location:
            maps[source] = copy = made.operation.clone().results[0]
        if batch is None:
            copy.owner.attributes["tf32"] = ir.BoolAttr.get(True)
        else:
            copy.owner.operands[0] = batch
    return maps[source]


ROUND_TF32 = Pass("round-tf32", "round f32 in memory to tf32 for asynchronous products", run)
