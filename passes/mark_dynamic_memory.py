"""`--mark-dynamic-memory`: makes arrays of shared memory without elements dynamic shared memory.

`gpu.dynamic_shared_memory` and a `memref.global` of size 0 become such arrays. LLVM gives one that is defined
a byte of static memory, so what lies behind it would be other variables.
"""

from weft.mlir import gpu, ir, llvm, operations
from weft.passes.registry.pass_ import Pass

_SHARED = 3


def run(module: ir.Operation) -> None:
    """Declares the arrays, which a launch gives their size. Those of a `gpu.module` get the same alignment:
    a GPU aligns each by itself, and they must begin at the same address.
    """
    for holder in operations(module, gpu.GPUModuleOp):
        arrays = [each for each in operations(holder, llvm.GlobalOp) if _is_empty(each)]
        alignments = [each.alignment.value for each in arrays if each.alignment is not None]
        for variable in arrays:
            attributes = variable.operation.attributes
            attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
            if alignments:
                kind = ir.IntegerType.get_signless(64)
                attributes["alignment"] = ir.IntegerAttr.get(kind, max(alignments))


def _is_empty(variable: ir.OpView) -> bool:
    """Whether a variable is an array in shared memory without elements."""
    is_array = str(variable.global_type.value).startswith("!llvm.array<0 x")
    return is_array and variable.addr_space is not None and variable.addr_space.value == _SHARED


MARK_DYNAMIC_MEMORY = Pass(
    "mark-dynamic-memory", "make arrays of shared memory without elements dynamic shared memory", run
)
