"""`--lower-tcgen05`: lowers the `tcgen05` dialect to LLVM intrinsics, or to inline PTX where there is
none.
"""

from weft.dialects.tcgen05 import (
    MmaBlockScaleOp,
    MmaOp,
    MmaWsOp,
    SpMmaBlockScaleOp,
    SpMmaOp,
    SpMmaWsOp,
    Tcgen05,
)
from weft.mlir import ir, operations
from weft.passes.analysis import cta_groups
from weft.passes.builders.instructions import assembly, lower_all
from weft.passes.registry.pass_ import Pass

_PRODUCTS = (MmaOp, MmaBlockScaleOp, MmaWsOp, SpMmaOp, SpMmaBlockScaleOp, SpMmaWsOp)


def run(module: ir.Operation) -> None:
    """Lowers every `tcgen05` operation."""
    cta_groups.require_one(module)
    for op in operations(module, *_PRODUCTS):
        with ir.InsertionPoint(op), op.location:
            # To LLVM, products only write D: of two that add the same to it, it would remove one.
            assembly("", ["~{memory}"], [], [])
    lower_all(module, Tcgen05.operations)


LOWER_TCGEN05 = Pass(
    "lower-tcgen05", "lower the tcgen05 dialect to LLVM's NVVM intrinsics", run, lowers=(Tcgen05,)
)
