"""The `wmma` dialect: warp-level matrices in fragments of opaque layout, verified by the rows of
`weft.isa.wmma`.

`wmma.load` returns a fragment as a struct of registers, or as a single register. `wmma.mma` and `wmma.store`
take each register as one operand.
"""

from typing import TYPE_CHECKING

from weft.dialects.builders import builders
from weft.dialects.effects import Pure, reads, writes
from weft.dialects.instruction import InstructionOp, Lookup, SpaceOf
from weft.isa import wmma as isa
from weft.mlir import ext

_SPACE = SpaceOf("address", {pointer: space for space, pointer in isa.SPACES.items()})


class Wmma(ext.Dialect, name="wmma"):
    """Loads, multiplies and stores matrices in the registers of a warp."""


def _has_stride(lookup: Lookup) -> bool:
    return len(lookup("stride")) > 0


class LoadOp(InstructionOp, dialect=Wmma, name="load", family=isa.LOAD, traits=[reads("address")]):
    """`wmma.load`: a warp reads fragment a, b or c; `stride` (i32, in elements) is the leading
    dimension.
    """

    derived = {"space": _SPACE, "stride": _has_stride}  # noqa: RUF012 (an annotation would make it a field)
    signature = "address stride* -> d"


class StoreOp(InstructionOp, dialect=Wmma, name="store", family=isa.STORE, traits=[writes("address")]):
    """`wmma.store`: a warp writes the registers of fragment d; `stride` as in `wmma.load`."""

    derived = {"space": _SPACE, "stride": _has_stride}  # noqa: RUF012 (an annotation would make it a field)
    signature = "address d* stride*"


class MmaOp(InstructionOp, dialect=Wmma, name="mma", family=isa.MMA, traits=[Pure]):
    """`wmma.mma`: `d = a * b + c` over one warp; each fragment is a list of registers."""

    signature = "a* b* c* -> d"


if TYPE_CHECKING:
    from weft.dialects.wmma_builders import *  # noqa: F403
else:
    vars().update(builders(Wmma))
