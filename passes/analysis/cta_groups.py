"""Whether all `tcgen05` operations of a function have one `cta_group`, as ptxas requires."""

from collections.abc import Iterable, Iterator

from weft.dialects.descriptor import DescriptorOp
from weft.dialects.op import Related, refuse
from weft.dialects.tcgen05 import Tcgen05
from weft.dialects.tile_rings import MMA, MakeRingOp
from weft.mlir import func, gpu, ir, llvm, operations

_GROUPED = tuple(
    each
    for each in Tcgen05.operations
    if not issubclass(each, DescriptorOp)
    and ("cta_group" in each.optional or any(field.name == "cta_group" for field in each._fields))
)


def require(kernel: ir.OpView, first: ir.OpView) -> None:
    """Raises WeftError for an operation with another `cta_group` than the kernel's operation `first`."""
    rings = [op for op in operations(kernel, MakeRingOp) if MMA in (op.filler, op.emptier)]
    for op, wrong in _others(first, (*rings, *operations(kernel, *_GROUPED))):
        raise refuse(op, wrong)


def require_one(module: ir.Operation) -> None:
    """Raises WeftError for a `tcgen05` operation with another `cta_group` than the first of its function."""
    for op, wrong in mixed(module):
        raise refuse(op, wrong)


def mixed(module: ir.Module | ir.Operation) -> Iterator[tuple[ir.OpView, Related]]:
    """The operations with another `cta_group` than the first of their function, with complaints."""
    for function in operations(module, gpu.GPUFuncOp, llvm.LLVMFuncOp, func.FuncOp):
        if found := operations(function, *_GROUPED):
            yield from _others(found[0], found)


def _others(first: ir.OpView, ops: Iterable[ir.OpView]) -> Iterator[tuple[ir.OpView, Related]]:
    group, name = first.attribute("cta_group"), first.OPERATION_NAME
    for op in ops:
        if (got := op.attribute("cta_group")) != group:
            message = f"cta_group must be {group}, as that of the function's '{name}', got {got}"
            yield op, Related(message, first, f"'{name}' op has cta_group {group}")
