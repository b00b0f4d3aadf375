"""`--lower-mma`, `--lower-wgmma`, `--lower-tcgen05` and `--lower-wmma`: operations of these dialects become
LLVM intrinsics, or inline PTX where there is none.
"""

from typing import Any

from weft.dialects.mma import Mma
from weft.dialects.tcgen05 import (
    MmaBlockScaleOp,
    MmaOp,
    MmaWsOp,
    SpMmaBlockScaleOp,
    SpMmaOp,
    SpMmaWsOp,
    Tcgen05,
)
from weft.dialects.wgmma import Wgmma
from weft.dialects.wmma import Wmma
from weft.mlir import ir, operations
from weft.passes.analysis import cta_groups
from weft.passes.builders.instructions import assembly, lower_all
from weft.passes.registry.pass_ import Pass

_PRODUCTS = (MmaOp, MmaBlockScaleOp, MmaWsOp, SpMmaOp, SpMmaBlockScaleOp, SpMmaWsOp)


def _lower_tcgen05(module: ir.Operation) -> None:
    cta_groups.require_one(module)
    for op in operations(module, *_PRODUCTS):
        with ir.InsertionPoint(op), op.location:
            # To LLVM, products only write D: of two that add the same to it, it would remove one.
            assembly("", ["~{memory}"], [], [])
    lower_all(module, Tcgen05.operations)


def _lowering(dialect: Any) -> Pass:
    """The pass that lowers all operations of a dialect."""
    name = dialect.DIALECT_NAMESPACE

    def run(module: ir.Operation) -> None:
        lower_all(module, dialect.operations)

    summary = f"lower the {name} dialect to LLVM's NVVM intrinsics"
    return Pass(f"lower-{name}", summary, _lower_tcgen05 if dialect is Tcgen05 else run, lowers=(dialect,))


LOWER_MMA, LOWER_WGMMA, LOWER_TCGEN05, LOWER_WMMA = map(_lowering, (Mma, Wgmma, Tcgen05, Wmma))
