"""`--record-arguments`: records the types of a kernel's arguments in an attribute, so that it can be called
with arrays after memrefs have been lowered to pointers and integers.
"""

from weft.dialects.launch_contract import ARGUMENTS
from weft.mlir import gpu, ir, operations
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Records the types of every `gpu.func` kernel's arguments."""
    for kernel in operations(module, gpu.GPUFuncOp):
        attributes = kernel.operation.attributes
        if "kernel" in attributes or "gpu.kernel" in attributes:
            types = [ir.TypeAttr.get(kind) for kind in kernel.function_type.value.inputs]
            ARGUMENTS.set(kernel, ir.ArrayAttr.get(types))


RECORD_ARGUMENTS = Pass("record-arguments", "record the types of kernels' arguments in an attribute", run)
