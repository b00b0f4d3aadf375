"""Which numbers of a kernel are the same for all warpgroups of a CTA, and which ones aren't negative, as far
as their operations show.
"""

from typing import Any

from weft import mlir
from weft.mlir import ir
from weft.passes.builders.emit import SIGN_CAST

_DIALECTS = ("arith", "affine", "math")
_OPS = ("memref.dim", "gpu.block_id", "gpu.grid_dim")
_COUNTS = (*_OPS, "gpu.thread_id", "gpu.block_dim")
_KEEP_SIGN = (
    "addi",
    "muli",
    "divsi",
    "divui",
    "remsi",
    "remui",
    "maxsi",
    "minsi",
    "index_cast",
    "index_castui",
    "extsi",
)


def alike(*values: ir.Value) -> bool:
    """Whether each is computed from the kernel's arguments, the CTA's number and constants alone.

    What is loaded, or carried by a loop, may be the same, too: that isn't known.
    """
    rest, seen = [each for each in values if isinstance(each, ir.Value)], set[Any]()
    while rest:
        value = rest.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, ir.Block):
            above = owner.owner.operation
            if above.name == "scf.for" and owner.arguments[0] == value:
                rest += list(above.operands)[:3]
            elif above.name != "gpu.func":
                return False
            continue
        name = owner.operation.name
        if name not in (*_OPS, SIGN_CAST) and name.partition(".")[0] not in _DIALECTS:
            return False
        rest += owner.operation.operands
    return True


def computed_from(value: ir.Value, operation: str) -> bool:
    """Whether a value is computed from results of an operation with this name, not through memory, loops or
    branches.
    """
    rest, seen = [value], set[Any]()
    while rest:
        each = rest.pop()
        if each in seen or isinstance(each.owner, ir.Block):
            continue
        seen.add(each)
        owner = each.owner.operation
        if owner.name == operation:
            return True
        rest += owner.operands
    return False


def not_negative(value: ir.Value) -> bool:
    """Whether a number is computed from sizes, from numbers of threads and CTAs, and from constants that
    aren't negative, without subtractions.
    """
    rest = [value]
    while rest:
        each = rest.pop()
        if (known := mlir.constant(each)) is not None:
            if known < 0:
                return False
            continue
        owner = each.owner
        if isinstance(owner, ir.Block):
            return False
        name = owner.operation.name
        if name not in _COUNTS:
            if name.removeprefix("arith.") not in _KEEP_SIGN:
                return False
            rest += owner.operation.operands
    return True
