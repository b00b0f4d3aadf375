"""Whether a thread's reads of shared memory come before a proxy fence."""

from typing import Any

from weft.dialects.tile_types import BufferType
from weft.mlir import ir, llvm, nvvm

_CALLS = ("func.call", "llvm.call")
_READ_NOTHING = (
    *("llvm.getelementptr", "llvm.store", "llvm.addrspacecast", "llvm.ptrtoint"),
    *("tile.alloc", "tile.stage", "tile.slice", "tile.address", "wgmma.descriptor"),
    *("nvvm.mapa", "nvvm.stmatrix"),
)
"""Operations that have an address and read no data there."""
_SHARED = tuple(f"#nvvm.proxy_kind<{kind}>" for kind in ("async", "async.shared"))
"""The fences that order accesses to shared memory."""
_BARRIERS = "nvvm.mbarrier."


def follow_reads(op: Any) -> bool:
    """Whether a fence between the generic and the asynchronous proxy comes before an operation, and no read
    between them. False where the operations before it in its block don't show that.
    """
    this = op.operation
    before = []
    for each in this.block.operations:
        if each.operation == this:
            break
        before.append(each)
    for each in reversed(before):
        if isinstance(each, nvvm.FenceProxyOp) and str(each.kind) in _SHARED:
            return True
        if _may_read(each.operation):
            return False
    return False


def _may_read(op: Any) -> bool:
    """Whether an operation, or one in it, may read memory: one with an address, unless it is known not to."""
    found = []

    def visit(inner: Any) -> Any:
        if inner.name in _CALLS or (_has_address(inner) and not _reads_nothing(inner.name)):
            found.append(inner.name)
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return bool(found)


def _has_address(op: Any) -> bool:
    return any(isinstance(each.type, (llvm.PointerType, ir.MemRefType, BufferType)) for each in op.operands)


def _reads_nothing(name: str) -> bool:
    return name in _READ_NOTHING or name.startswith(_BARRIERS)
