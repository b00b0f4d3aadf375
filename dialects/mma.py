"""The `mma` dialect: one op for each warp-level matrix instruction, verified by the rows of `weft.isa.mma`.

Fragments are register groups (f16 pairs in vector<2xf16>, other packed types in i32, f32 and f64 unpacked) in
the order of the PTX ISA; a result of several registers is a struct of them.
"""

from typing import TYPE_CHECKING

from weft.dialects.builders import builders
from weft.dialects.effects import Pure, reads, writes
from weft.dialects.instruction import InstructionOp, SpaceOf
from weft.isa import mma as isa
from weft.mlir import ext


class Mma(ext.Dialect, name="mma"):
    """`mma.sync` and the instructions that feed it."""


class SyncOp(InstructionOp, dialect=Mma, name="sync", family=isa.SYNC, traits=[Pure]):
    """`mma.sync`: `d = a * b + c` over one warp."""

    signature = "a* b* c* -> d"


class SpSyncOp(
    InstructionOp, dialect=Mma, name="sp_sync", family=isa.SPARSE, immediates={"selector": 0}, traits=[Pure]
):
    """`mma.sp.sync`: as `mma.sync`, with half of A's elements, which metadata selects."""

    signature = "a* b* c* metadata -> d"


class BlockScaleOp(InstructionOp, dialect=Mma, name="block_scale", family=isa.SCALED, traits=[Pure]):
    """`mma.sync` with `.block_scale`: A and B are multiplied by the scales of their blocks.

    `byte_id` and `thread_id` (i16) select the byte of the registers, and the lanes of a quad, that hold
    the scales.
    """

    signature = "a* b* c* scale_a byte_id_a thread_id_a scale_b byte_id_b thread_id_b -> d"


class SpBlockScaleOp(
    InstructionOp,
    dialect=Mma,
    name="sp_block_scale",
    family=isa.SPARSE_SCALED,
    immediates={"selector": 0},
    traits=[Pure],
):
    """`mma.sp.sync` with `.block_scale`: as `mma.block_scale`, with half of A's elements,
    which metadata selects.
    """

    signature = "a* b* c* metadata scale_a byte_id_a thread_id_a scale_b byte_id_b thread_id_b -> d"


_SPACE = SpaceOf("address", {"!llvm.ptr<3>": "shared", "!llvm.ptr": "generic"})


class LdmatrixOp(InstructionOp, dialect=Mma, name="ldmatrix", family=isa.LDMATRIX, traits=[reads("address")]):
    """`ldmatrix`: loads `num` matrices from shared memory.

    Lane 8i + j provides the address of row j of matrix i. With `trans` the matrices are transposed.
    """

    derived = {"space": _SPACE}  # noqa: RUF012 (an annotation would make it a field)
    signature = "address -> d"


class StmatrixOp(
    InstructionOp, dialect=Mma, name="stmatrix", family=isa.STMATRIX, traits=[writes("address")]
):
    """`stmatrix`: stores `num` matrices to shared memory; the lanes have the addresses that
    `mma.ldmatrix` needs.
    """

    derived = {"space": _SPACE}  # noqa: RUF012 (an annotation would make it a field)
    signature = "address a*"


class MovmatrixOp(InstructionOp, dialect=Mma, name="movmatrix", family=isa.MOVMATRIX, traits=[Pure]):
    """`movmatrix`: an 8x8 matrix of 16-bit elements in the registers of a warp, transposed."""

    signature = "a -> d"


if TYPE_CHECKING:
    from weft.dialects.mma_builders import *  # noqa: F403
else:
    vars().update(builders(Mma))
