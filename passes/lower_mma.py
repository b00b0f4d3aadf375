"""`--lower-mma`: lowers the `mma` dialect to LLVM intrinsics, or to inline PTX where there is none."""

from weft.dialects.mma import Mma
from weft.mlir import ir
from weft.passes.builders.instructions import lower_all
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Lowers every `mma` operation."""
    lower_all(module, Mma.operations)


LOWER_MMA = Pass("lower-mma", "lower the mma dialect to LLVM's NVVM intrinsics", run, lowers=(Mma,))
