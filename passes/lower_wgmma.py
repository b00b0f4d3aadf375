"""`--lower-wgmma`: lowers the `wgmma` dialect to LLVM intrinsics, or to inline PTX where there is none."""

from weft.dialects.wgmma import Wgmma
from weft.mlir import ir
from weft.passes.builders.instructions import lower_all
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Lowers every `wgmma` operation."""
    lower_all(module, Wgmma.operations)


LOWER_WGMMA = Pass("lower-wgmma", "lower the wgmma dialect to LLVM's NVVM intrinsics", run, lowers=(Wgmma,))
