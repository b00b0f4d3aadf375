"""Whether all `tcgen05` operations of a kernel have one `cta_group`, as ptxas requires."""

from typing import Any

from weft.dialects.descriptor import DescriptorOp
from weft.dialects.op import refuse
from weft.dialects.tcgen05 import Tcgen05
from weft.dialects.tile_rings import MMA, MakeRingOp
from weft.mlir import gpu, operations

_GROUPED = tuple(
    each
    for each in Tcgen05.operations
    if not issubclass(each, DescriptorOp)
    and ("cta_group" in each.optional or any(field.name == "cta_group" for field in each._fields))
)


def require(kernel: Any, cta_group: int, first: str) -> None:
    """Raises WeftError for an operation with another `cta_group` than that of the kernel's operation `first`:
    ptxas refuses both in a kernel.
    """
    for op in operations(kernel, MakeRingOp, *_GROUPED):
        is_ring = isinstance(op, MakeRingOp)
        if is_ring and MMA not in (op.filler, op.emptier):
            continue
        got = op.attribute("cta_group")
        if got != cta_group:
            raise refuse(op, f"cta_group must be {cta_group}, as that of the kernel's '{first}', got {got}")


def require_one(module: Any) -> None:
    """Raises WeftError for a `tcgen05` operation with another `cta_group` than the first of its kernel."""
    for kernel in operations(module, gpu.GPUFuncOp):
        if found := operations(kernel, *_GROUPED):
            require(kernel, found[0].attribute("cta_group"), found[0].OPERATION_NAME)
