"""`--record-arguments`: a kernel keeps the types of its arguments in an attribute, so that it takes
arrays even after memrefs have become pointers and numbers.
"""

from typing import Any

from weft.dialects.launch_contract import ARGUMENTS
from weft.mlir import gpu, ir, operations
from weft.passes.registry.pass_ import Pass


def run(module: Any) -> None:
    """Records the types of every `gpu.func` kernel's arguments."""
    for kernel in operations(module, gpu.GPUFuncOp):
        attributes = kernel.operation.attributes
        if "kernel" in attributes or "gpu.kernel" in attributes:
            types = [ir.TypeAttr.get(kind) for kind in kernel.function_type.value.inputs]
            ARGUMENTS.set(kernel, ir.ArrayAttr.get(types))


RECORD_ARGUMENTS = Pass("record-arguments", "keep the types of kernels' arguments in an attribute", run)
