"""`--mark-tensor-maps`: passes a kernel's tensor maps, its last parameters, by value.

Upstream's lowering of kernels drops the attributes for that. Without `llvm.byval` the parameters would be
pointers. Without `nvvm.grid_constant` LLVM would copy each map to local memory, where TMA can't read it.
"""

from weft.dialects.launch_contract import TENSOR_MAPS
from weft.isa.tensor_map import ALIGNMENT, BYTES
from weft.mlir import ir, llvm, operations
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Marks the tensor maps of every kernel."""
    for function in operations(module, llvm.LLVMFuncOp):
        attributes = function.operation.attributes
        if (maps := TENSOR_MAPS.of(function)) is None:
            continue
        parameters = len(function.body.blocks[0].arguments)
        count = len(maps)
        marks = (
            list(attributes["arg_attrs"]) if "arg_attrs" in attributes else [ir.DictAttr.get({})] * parameters
        )
        by_value = ir.Attribute.parse(
            f"{{llvm.byval = !llvm.array<{BYTES} x i8>, llvm.align = {ALIGNMENT} : i64, nvvm.grid_constant}}"
        )
        attributes["arg_attrs"] = ir.ArrayAttr.get([*marks[: parameters - count], *[by_value] * count])


MARK_TENSOR_MAPS = Pass("mark-tensor-maps", "pass a kernel's tensor maps by value", run)
