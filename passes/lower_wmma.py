"""`--lower-wmma`: the operations of the `wmma` dialect become LLVM intrinsics."""

from weft.dialects.wmma import Wmma
from weft.mlir import ir
from weft.passes.builders.instructions import lower_all
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Lowers every `wmma` operation."""
    lower_all(module, Wmma.operations)


LOWER_WMMA = Pass("lower-wmma", "lower the wmma dialect to LLVM's NVVM intrinsics", run, lowers=(Wmma,))
