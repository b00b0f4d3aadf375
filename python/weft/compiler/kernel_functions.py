"""The kernels of a module, as `gpu.func` or, lowered, as `llvm.func`, and what each specifies."""

from weft.dialects.launch_contract import ARGUMENTS
from weft.dialects.op import refuse
from weft.mlir import cast, gpu, ir, llvm, operations

# By its name on a gpu.func, what upstream calls it on the llvm.func that this becomes, and what NVVM has.
_BLOCK = ("known_block_size", "gpu.known_block_size", "nvvm.reqntid")
_CLUSTER = ("known_cluster_size", "gpu.known_cluster_size", "nvvm.cluster_dim")
_MARKS = ("kernel", "gpu.kernel", "nvvm.kernel")


def kernels(module: ir.Module | ir.OpView) -> list[ir.OpView]:
    """The kernels below an operation."""
    return [f for f in operations(module, gpu.GPUFuncOp, llvm.LLVMFuncOp) if is_kernel(f)]


def is_kernel(function: ir.OpView) -> bool:
    """Whether a function is a kernel: text has `kernel`, upstream's passes `gpu.kernel` or `nvvm.kernel`."""
    return any(mark in function.operation.attributes for mark in _MARKS)


def is_lowered(kernel: ir.OpView) -> bool:
    """Whether a kernel is in LLVM's dialect."""
    return isinstance(kernel, llvm.LLVMFuncOp)


def argument_types(kernel: ir.OpView) -> list[ir.Type]:
    """The types of a kernel's arguments; those that a lowered one had before, where it has recorded them.

    Raises WeftError for a record that doesn't fit the function.
    """
    if not is_lowered(kernel):
        return list(kernel.function_type.value.inputs)
    parameters = list(llvm.FunctionType(kernel.function_type.value).inputs)
    if (recorded := ARGUMENTS.of(kernel)) is None:
        return parameters
    if not all(isinstance(each, ir.TypeAttr) for each in recorded):
        raise refuse(kernel, f"{ARGUMENTS.name} must be {ARGUMENTS.words}, got {recorded}")
    kinds = [each.value for each in recorded]
    # A memref's parameters are two pointers, an offset, sizes and strides.
    count = sum(3 + 2 * int(k.rank) if isinstance(k, ir.MemRefType) else 1 for k in kinds)
    if count != len(parameters):
        raise refuse(
            kernel, f"{ARGUMENTS.name} must be the types of {len(parameters)} parameters, got {recorded}"
        )
    return kinds


def block(kernel: ir.OpView) -> tuple[int, int, int] | None:
    """The threads of a CTA on x, y and z; None where the kernel doesn't fix them."""
    return _extents(kernel, _BLOCK)


def cluster(kernel: ir.OpView) -> tuple[int, int, int] | None:
    """The CTAs of a cluster on x, y and z; None where the kernel doesn't fix them."""
    return _extents(kernel, _CLUSTER)


def _extents(kernel: ir.OpView, names: tuple[str, ...]) -> tuple[int, int, int] | None:
    attributes = kernel.operation.attributes
    for name in names:
        if name in attributes:
            extents = cast(ir.DenseI32ArrayAttr, attributes[name])
            if extents is None or not 1 <= len(extents) <= 3 or min(extents) < 1:
                raise refuse(kernel, f"{name} must be one to three numbers above 0, got {attributes[name]}")
            x, y, z = (*extents, 1, 1)[:3]
            return x, y, z
    return None
