"""`wgmma.fence`, `commit_group` and `wait_group`: the order of a warpgroup's asynchronous products (PTX ISA,
"Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").
"""

from dataclasses import dataclass

from weft.isa.family import Family, Form, Registers, Support
from weft.isa.mma import modifiers
from weft.isa.template import Template
from weft.isa.wgmma.mma_async import ALIGNED, CHIPS


class _Ordering(Form):
    """What the instructions without axes share."""

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.{self.ptx}"


@dataclass(frozen=True)
class Fence(_Ordering):
    """`wgmma.fence`: orders registers and shared memory before the first `mma_async` that uses them."""

    templates = (Template("wgmma.fence", modifiers.SYNC, ALIGNED),)


@dataclass(frozen=True)
class CommitGroup(_Ordering):
    """`wgmma.commit_group`: makes a group of this warp's `mma_async` that aren't in a group yet."""

    templates = (Template("wgmma.commit_group", modifiers.SYNC, ALIGNED),)


@dataclass(frozen=True)
class WaitGroup(_Ordering):
    """`wgmma.wait_group`: waits until at most N of the latest groups are in flight.

    ptxas accepts any N, and replaces one above 7 by 7.
    """

    templates = (Template("wgmma.wait_group", modifiers.SYNC, ALIGNED),)
    assembly = "{group}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """How many groups may still be in flight."""
        return (Registers("group", 1, "i64", role="immediate", values=range(1 << 31)),)  # type: ignore[arg-type]


_ORDERING = Support(CHIPS, (8, 0))
FENCE = Family("wgmma.fence", Fence, lambda: ((Fence(), _ORDERING),))
COMMIT_GROUP = Family("wgmma.commit_group", CommitGroup, lambda: ((CommitGroup(), _ORDERING),))
WAIT_GROUP = Family("wgmma.wait_group", WaitGroup, lambda: ((WaitGroup(), _ORDERING),))


FAMILIES = (FENCE, COMMIT_GROUP, WAIT_GROUP)
