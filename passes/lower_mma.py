"""`--lower-mma`: the operations of the `mma` dialect become calls of the LLVM intrinsics that their rows
name.
"""

from typing import Any

from weft.dialects.mma import LdmatrixOp, Mma, SyncOp
from weft.mlir import ir, llvm, operations
from weft.passes.pass_ import Pass


def run(module: Any) -> None:
    """Lowers every `mma` operation."""
    for op in operations(module, SyncOp, LdmatrixOp):
        with ir.InsertionPoint(op), op.location:
            result = op.results[0]
            call = llvm.call_intrinsic(result.type, op.form.intrinsic, list(op.operands), [], [])
        result.replace_all_uses_with(call)
        op.operation.erase()


LOWER_MMA = Pass("lower-mma", "lower the mma dialect to LLVM's NVVM intrinsics", run, lowers=(Mma,))
