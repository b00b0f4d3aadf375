"""Which asynchronous `tcgen05` operations of one thread run in order without a wait (PTX ISA, "tcgen05 Memory
Consistency Model", "Implicitly pipelined tcgen05 Instructions").
"""

from dataclasses import dataclass
from functools import cache

D, A, SCALE, METADATA = "d", "a", "scale", "metadata"
SOURCE, TARGET = "source", "target"


@dataclass(frozen=True)
class Use:
    """How an operation uses cells of tensor memory.

    `op` is mma, cp or shift. `shape` is that of cp; for mma it is M, N and the first address of D: two mma
    with the same have the same accumulator. `operand` is what the cells are for mma or shift.
    """

    op: str
    shape: tuple[object, ...] = ()
    operand: str = ""


@cache
def in_order(first: Use, second: Use) -> bool:
    """Whether `second`, issued later by the same thread, uses the cells after `first` has.

    The ISA names mma after mma of the same accumulator and shape, after cp and after shift; cp.4x256b after
    shift; shift after mma. CUTLASS and Triton also overwrite what an earlier mma reads, by mma and by cp, and
    repeat a cp. K may differ between mma of the same shape, as in products with K = 96 and a rest of 64.
    """
    if first.op == "mma" and second.op == "mma":
        return first.operand != D or (second.operand == D and first.shape == second.shape)
    if second.op == "mma":
        return True
    if second.op == "shift":
        return first.op == "mma" or first.operand == SOURCE
    if first.op == "shift":
        return second.shape == ("4x256b",)
    return first.op == "cp" or first.operand != D
