"""The `wgmma` dialect: asynchronous products of a warpgroup, held to the rows of `weft.isa.wgmma`."""

from typing import TYPE_CHECKING

from weft.dialects.builders import builders
from weft.dialects.descriptor import DescriptorOp
from weft.dialects.instruction import InstructionOp, Lookup
from weft.isa import wgmma as isa
from weft.isa.chips import describe
from weft.isa.family import Verdict
from weft.isa.wgmma.descriptors import MatrixDescriptor
from weft.mlir import ext

LAST_SUM = (1 << 16) - 1
"""The largest number of a named register: more than any kernel needs."""
_IMMEDIATES = {"scale_a": 1, "scale_b": 1, "trans_a": 0, "trans_b": 0}


class Wgmma(ext.Dialect, name="wgmma"):
    """`wgmma.mma_async` and the instructions that order it."""


def _a_registers(lookup: Lookup) -> bool:
    """Whether A is a fragment in registers and not a descriptor."""
    return [str(value.type) for value in lookup("a")] != ["i64"]


class MmaAsyncOp(
    InstructionOp, dialect=Wgmma, name="mma_async", family=isa.MMA_ASYNC, immediates=_IMMEDIATES
):
    """`wgmma.mma_async`: `d = a * b + inouts`, or `a * b` where `scale_d` (i1) is false.

    `inouts` and the result are structs of the accumulators. A is an i64 descriptor or four registers, B an
    i64 descriptor. The result must not be used before a `wgmma.wait_group`.

    With `first_sum`, the accumulators are the named registers of the kernel from that number on, which
    `tile.clear_sums` and `tile.read_sums` access. `inouts` isn't read, and the result is undefined.
    """

    derived = {"a_registers": _a_registers}  # noqa: RUF012 (an annotation would make it a field)
    optional = {"first_sum": -1}  # noqa: RUF012
    signature = "inouts a* b scale_d -> d"

    def check(self) -> str | None:
        if not -1 <= (first := self.attribute("first_sum")) <= LAST_SUM:
            return f"first_sum must be in 0..{LAST_SUM}, or -1 for sums that are values, got {first}"
        return super().check()


class SpMmaAsyncOp(
    InstructionOp,
    dialect=Wgmma,
    name="sp_mma_async",
    family=isa.MMA_ASYNC_SPARSE,
    immediates=_IMMEDIATES | {"selector": 0},
):
    """`wgmma.mma_async.sp`: as `wgmma.mma_async`, with half of A's elements, which metadata selects."""

    derived = {"a_registers": _a_registers}  # noqa: RUF012 (an annotation would make it a field)
    signature = "inouts a* b metadata scale_d -> d"


class FenceOp(InstructionOp, dialect=Wgmma, name="fence", family=isa.FENCE):
    """`wgmma.fence`: orders registers and shared memory before the `wgmma.mma_async` that use them."""


class CommitGroupOp(InstructionOp, dialect=Wgmma, name="commit_group", family=isa.COMMIT_GROUP):
    """`wgmma.commit_group`: ends a group, which contains all `wgmma.mma_async` that no earlier group
    contains.
    """


class WaitGroupOp(
    InstructionOp, dialect=Wgmma, name="wait_group", family=isa.WAIT_GROUP, immediates={"group": 0}
):
    """`wgmma.wait_group`: waits until at most `group` of the latest groups are in flight."""


class MatrixDescriptorOp(DescriptorOp, dialect=Wgmma, name="descriptor", record=MatrixDescriptor):
    """The i64 descriptor of a matrix in shared memory; see `weft.isa.wgmma.descriptors.MatrixDescriptor`."""

    def complaint(self) -> Verdict | None:
        if self.target is not None and self.target.chip.name not in isa.FENCE.chips():
            legal = describe(isa.FENCE.chips())
            return Verdict("target", f"is on {legal} only, got {self.target.chip.name}")
        return super().complaint()


if TYPE_CHECKING:
    from weft.dialects.wgmma_builders import *  # noqa: F403
else:
    vars().update(builders(Wgmma))
