"""Which numbers of a kernel are the same for all warpgroups of a CTA, and which ones aren't negative, as far
as their operations show.
"""

from collections.abc import Callable, Sequence

from weft import mlir
from weft.mlir import ir
from weft.passes.builders.emit import SIGN_CAST

_DIALECTS = ("arith", "affine", "math")
_OPS = ("memref.dim", "gpu.block_id", "gpu.grid_dim")
_COUNTS = (*_OPS, "gpu.thread_id", "gpu.block_dim")
_KEEP_SIGN = [
    "addi",
    "muli",
    "divsi",
    "divui",
    "remsi",
    "remui",
    "maxsi",
    "minsi",
    "extsi",
    "index_cast",
    "index_castui",
]

_Owner = ir.Block | ir.OpView
_Sources = Sequence[ir.Value] | None


def alike(*values: ir.Value) -> bool:
    """Whether each is computed from the kernel's arguments, the CTA's number and constants alone.

    What is loaded, or carried by a loop, may be the same, too: that isn't known.
    """

    def sources(owner: _Owner, value: ir.Value) -> _Sources:
        if isinstance(owner, ir.Block):
            above = owner.owner.operation
            if above.name == "scf.for" and owner.arguments[0] == value:
                return list(above.operands)[:3]
            return () if above.name == "gpu.func" else None
        name = owner.operation.name
        if name not in (*_OPS, SIGN_CAST) and name.partition(".")[0] not in _DIALECTS:
            return None
        return owner.operation.operands

    return _all([each for each in values if isinstance(each, ir.Value)], sources)


def computed_from(value: ir.Value, operation: str) -> bool:
    """Whether a value is computed from results of an operation with this name, not through memory, loops or
    branches.
    """

    def sources(owner: _Owner, _: ir.Value) -> _Sources:
        if isinstance(owner, ir.Block):
            return ()
        return None if owner.operation.name == operation else owner.operation.operands

    return not _all([value], sources)


def not_negative(value: ir.Value) -> bool:
    """Whether a number is computed from sizes, from numbers of threads and CTAs, and from constants that
    aren't negative, without subtractions.
    """

    def sources(owner: _Owner, value: ir.Value) -> _Sources:
        if (constant := mlir.constant(value)) is not None:
            return None if constant < 0 else ()
        name = "" if isinstance(owner, ir.Block) else owner.operation.name
        if name in _COUNTS:
            return ()
        return owner.operation.operands if name.removeprefix("arith.") in _KEEP_SIGN else None

    return _all([value], sources)


def _all(values: list[ir.Value], sources: Callable[[_Owner, ir.Value], _Sources]) -> bool:
    """Whether all that values are computed from is legal. `sources` returns it, for a value's owner and the
    value; None for an illegal one.
    """
    seen = set[ir.Value]()
    while values:
        value = values.pop()
        if value in seen:
            continue
        seen.add(value)
        operands = sources(value.owner, value)
        if operands is None:
            return False
        values += operands
    return True
