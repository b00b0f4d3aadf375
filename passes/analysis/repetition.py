"""Whether an operation may be executed more than once in a launch."""

from weft.mlir import ir
from weft.passes.analysis.uniformity import FUNCTIONS, UNCONDITIONAL

_ONCE = ("scf.if", "scf.index_switch", "tile.role", "builtin.module", "gpu.module", *UNCONDITIONAL)


def around(op: ir.OpView) -> str | None:
    """The innermost loop around an operation, to follow "inside". None if there is none."""
    inner = op.operation
    while inner.parent is not None:
        if _is_in_cycle(inner.block):
            return "a loop of blocks"
        inner = inner.parent.operation
        if inner.name in FUNCTIONS:
            return None
        if inner.name not in _ONCE:
            return f"a '{inner.name}'"
    return None


def _is_in_cycle(block: ir.Block) -> bool:
    """Whether a block may be executed again after itself."""
    found, left = list[ir.Block](), [block]
    while left:
        *_, last = left.pop().operations
        new = [each for each in last.successors if each not in found]
        found += new
        left += new
    return block in found
