"""`--mark-dynamic-memory`: makes arrays of shared memory without elements dynamic shared memory.

`gpu.dynamic_shared_memory` and a `memref.global` of size 0 become such arrays. LLVM gives one that is defined
a byte of static memory, so what lies behind it would be other variables.
"""

from typing import Any

from weft.mlir import ir, llvm, operations
from weft.passes.registry.pass_ import Pass

_SHARED = 3


def run(module: Any) -> None:
    """Declares the arrays, which a launch gives their size."""
    for variable in operations(module, llvm.GlobalOp):
        attributes = variable.operation.attributes
        if variable.addr_space.value == _SHARED and str(variable.global_type.value).startswith(
            "!llvm.array<0 x"
        ):
            attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")


MARK_DYNAMIC_MEMORY = Pass(
    "mark-dynamic-memory", "make arrays of shared memory without elements dynamic shared memory", run
)
