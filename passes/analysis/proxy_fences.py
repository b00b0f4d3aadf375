"""Whether a thread's accesses to shared memory come before a proxy fence."""

from itertools import takewhile

from weft import mlir
from weft.dialects.tile_types import BufferType
from weft.mlir import ir, llvm, nvvm

_CALLS = ("func.call", "llvm.call")
_ACCESS_NOTHING = (
    *("llvm.getelementptr", "llvm.addrspacecast", "llvm.ptrtoint", "nvvm.mapa"),
    *("tile.alloc", "tile.stage", "tile.slice", "tile.address", "wgmma.descriptor"),
)
"""Operations that have an address and access no data there."""
_STORES = ("llvm.store", "nvvm.stmatrix")
_DERIVED = ("llvm.getelementptr", "llvm.addrspacecast", "tile.address", "tile.slice")
"""Operations whose result is in the memory of their first operand."""
_SHARED = tuple(f"#nvvm.proxy_kind<{kind}>" for kind in ("async", "async.shared"))
"""The fences that order accesses to shared memory."""
_BARRIERS = "nvvm.mbarrier."


def follow_accesses(op: ir.OpView) -> bool:
    """Whether a fence between the generic and the asynchronous proxy comes before the release of a stage, and
    between them no read, and no store to a buffer of that stage. False where the operations before it in its
    block don't show that.
    """
    this = op.operation
    before = takewhile(lambda each: each.operation != this, this.block.operations)
    for each in reversed(list(before)):
        if isinstance(each, nvvm.FenceProxyOp) and str(each.kind) in _SHARED:
            return True
        if _may_access(each.operation, op.stage):
            return False
    return False


def _may_access(op: ir.Operation, stage: ir.Value) -> bool:
    """Whether an operation, or one in it, may read memory or store to a buffer of a stage: one with an
    address, unless it is known not to.
    """
    return any(
        inner.name in _CALLS or (_has_address(inner) and not _accesses_nothing(inner, stage))
        for inner in mlir.within(op)
    )


def _has_address(op: ir.Operation) -> bool:
    return any(isinstance(each.type, (llvm.PointerType, ir.MemRefType, BufferType)) for each in op.operands)


def _accesses_nothing(op: ir.Operation, stage: ir.Value) -> bool:
    name = op.name
    if name in _STORES:
        return _is_elsewhere(op, stage)
    return name in _ACCESS_NOTHING or name.startswith(_BARRIERS)


def _is_elsewhere(store: ir.Operation, stage: ir.Value) -> bool:
    """Whether an operation stores to a buffer without stages, or to one of another stage."""
    at = next(each for each in store.operands if isinstance(each.type, llvm.PointerType))
    while not isinstance(at.owner, ir.Block):
        operation = at.owner.operation
        if operation.name not in _DERIVED:
            others = operation.name == "tile.stage" and operation.operands[1] != stage
            return bool(others) or operation.name == "tile.alloc"
        at = operation.operands[0]
    return False
