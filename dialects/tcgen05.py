"""The `tcgen05` dialect: Blackwell's tensor cores and tensor memory, verified by the rows of
`weft.isa.tcgen05`.

Addresses in tensor memory are `!llvm.ptr<6>`. Matrices in shared memory are i64 descriptors. A vector of
registers is one operand.
"""

from math import prod
from typing import TYPE_CHECKING, Any

from weft.dialects.builders import builders
from weft.dialects.descriptor import DescriptorOp
from weft.dialects.effects import reads
from weft.dialects.instruction import InstructionOp, Lookup, SpaceOf
from weft.dialects.op import Related
from weft.isa.family import Verdict
from weft.isa.tcgen05 import control, copy
from weft.isa.tcgen05 import mma_rows as mma_isa
from weft.isa.tcgen05.descriptors import BlockScaledDescriptor, InstructionDescriptor
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor
from weft.mlir import ext, ir


class Tcgen05(ext.Dialect, name="tcgen05"):
    """Tensor memory, and products that accumulate in it."""


def _in_shared(operand: str, space: str) -> SpaceOf:
    """`space` for a pointer to shared memory, "" for a generic pointer."""
    return SpaceOf(operand, {"!llvm.ptr<3>": space, "!llvm.ptr": ""})


def _memory_of_a(lookup: Lookup) -> str:
    return "tensor" if str(lookup("a")[0].type) == "!llvm.ptr<6>" else "shared"


def _mask_bits(lookup: Lookup) -> int:
    mask = lookup("mask")
    # The check of registers refuses a mask that isn't an integer.
    return int(mask[0].type.width) if mask and isinstance(mask[0].type, ir.IntegerType) else 16 * len(mask)


def _mask_registers(lookup: Lookup) -> int:
    mask = lookup("disable_output_lane")
    return prod(mask[0].type.shape) if mask and isinstance(mask[0].type, ir.VectorType) else len(mask)


def _has(name: str) -> Any:
    """Whether an optional operand or immediate is present."""

    def is_present(lookup: Lookup) -> bool:
        value = lookup(name)
        return bool(value) if isinstance(value, list) else value is not None

    return is_present


class AllocOp(InstructionOp, dialect=Tcgen05, name="alloc", family=control.ALLOC):
    """`tcgen05.alloc`: a warp allocates `columns` (i32) of tensor memory and writes their address to
    shared memory.
    """

    derived = {"space": _in_shared("address", "shared::cta")}  # noqa: RUF012 (an annotation would make it a field)
    signature = "address columns"


class DeallocOp(InstructionOp, dialect=Tcgen05, name="dealloc", family=control.DEALLOC):
    """`tcgen05.dealloc`: a warp frees columns."""

    signature = "address columns"


class RelinquishAllocPermitOp(
    InstructionOp, dialect=Tcgen05, name="relinquish_alloc_permit", family=control.RELINQUISH_ALLOC_PERMIT
):
    """`tcgen05.relinquish_alloc_permit`: the CTA gives up its right to allocate tensor memory."""


class CommitOp(InstructionOp, dialect=Tcgen05, name="commit", family=control.COMMIT):
    """`tcgen05.commit`: signals an mbarrier when the thread's earlier tcgen05 work is done.

    With `mask` (i16, one bit for each CTA of the cluster) it signals the mbarriers at that address in
    the CTAs whose bits are set.
    """

    derived = {  # noqa: RUF012 (an annotation would make it a field)
        "space": _in_shared("mbarrier", "shared::cluster"),
        "multicast": _mask_bits,
    }
    signature = "mbarrier mask*"


class WaitOp(InstructionOp, dialect=Tcgen05, name="wait", family=control.WAIT):
    """`tcgen05.wait`: blocks until the thread's earlier `tcgen05.ld` (or `st`) are done."""


class FenceOp(InstructionOp, dialect=Tcgen05, name="fence", family=control.FENCE):
    """`tcgen05.fence`: orders asynchronous tcgen05 work with respect to a synchronization of threads."""


class CpOp(InstructionOp, dialect=Tcgen05, name="cp", family=copy.CP):
    """`tcgen05.cp`: copies a matrix from shared memory, given by its descriptor, to tensor memory."""

    signature = "address descriptor"


class ShiftOp(InstructionOp, dialect=Tcgen05, name="shift", family=copy.SHIFT):
    """`tcgen05.shift`: moves the rows of tensor memory down by one."""

    signature = "address"


class LdOp(
    InstructionOp,
    dialect=Tcgen05,
    name="ld",
    family=copy.LD,
    immediates={"offset": 0},
    traits=[reads("address")],
):
    """`tcgen05.ld`: a warp loads registers from tensor memory. Only the shape `16x32bx2` has an `offset`."""

    signature = "address -> data"


class StOp(InstructionOp, dialect=Tcgen05, name="st", family=copy.ST, immediates={"offset": 0}):
    """`tcgen05.st`: a warp stores registers to tensor memory. Only the shape `16x32bx2` has an `offset`."""

    signature = "address data"


class LdRedOp(
    InstructionOp,
    dialect=Tcgen05,
    name="ld_red",
    family=copy.LD_RED,
    immediates={"offset": 0},
    traits=[reads("address")],
):
    """`tcgen05.ld.red`: as `tcgen05.ld`. It also reduces each lane's columns to one value."""

    signature = "address -> data reduced"


class LdSpcompressOp(
    InstructionOp, dialect=Tcgen05, name="ld_spcompress", family=copy.LD_SPCOMPRESS, traits=[reads("address")]
):
    """`tcgen05.ld.spcompress`: as `tcgen05.ld` of f32, but it keeps only the two largest (or smallest)
    of every four columns. Two bits of `metadata` identify the column of each. With `red`, each lane's columns
    are also reduced to one value.
    """

    signature = "address -> metadata data reduced*"


_MMA_AXES = {
    "a": _memory_of_a,
    "disable_output_lane": _mask_registers,
    "scale_input_d": _has("scale_input_d"),
}


class ProductOp(InstructionOp):
    """A `tcgen05.mma`, whose `idesc` must be the descriptor of such a product."""

    def check_constants(self) -> str | Related | None:
        return super().check_constants() or self._other_product()

    def _other_product(self) -> Related | None:
        """A complaint about an `idesc` that is computed, as one sees, for another product."""
        owner = self.idesc.owner
        described = None if isinstance(owner, ir.Block) else owner.opview
        if not isinstance(described, DescriptorOp):
            return None
        form, name = self.form, described.OPERATION_NAME
        for axis in ("kind", "cta_group", "sparse"):
            wanted, got = getattr(form, axis), described.attribute(axis)
            if wanted != got:
                message = f"expects idesc of {axis} {_spelled(wanted)}, got {_spelled(got)}"
                return Related(message, described, f"'{name}' op has {axis} {_spelled(got)}")
        return None


def _spelled(value: object) -> str:
    return str(value).lower()


class MmaOp(ProductOp, dialect=Tcgen05, name="mma", family=mma_isa.MMA, immediates={"scale_input_d": None}):
    """`tcgen05.mma`: `d = a * b`, plus d where `enable_input_d` (i1) is true, in tensor memory.

    A is an i64 descriptor or an address in tensor memory, B a descriptor, `idesc` the instruction descriptor;
    `disable_output_lane` masks lanes of d. With `scale_input_d` n, the old d is divided by 2^n before the
    sum.
    """

    derived = _MMA_AXES
    signature = "d a b lut* idesc disable_output_lane* enable_input_d"


class SpMmaOp(
    ProductOp, dialect=Tcgen05, name="sp_mma", family=mma_isa.MMA_SP, immediates={"scale_input_d": None}
):
    """`tcgen05.mma.sp`: as `tcgen05.mma`, with half of A's elements, which metadata in tensor memory
    selects.
    """

    derived = _MMA_AXES
    signature = "d a b lut* metadata idesc disable_output_lane* enable_input_d"


class MmaBlockScaleOp(ProductOp, dialect=Tcgen05, name="mma_block_scale", family=mma_isa.MMA_BLOCK_SCALE):
    """`tcgen05.mma` with block scale: `d = (a * scale_a) * (b * scale_b)`, scales in tensor memory."""

    derived = {"a": _memory_of_a}  # noqa: RUF012 (an annotation would make it a field)
    signature = "d a b lut* idesc scale_a scale_b enable_input_d"


class SpMmaBlockScaleOp(
    ProductOp, dialect=Tcgen05, name="sp_mma_block_scale", family=mma_isa.MMA_SP_BLOCK_SCALE
):
    """`tcgen05.mma.sp` with block scale: as `tcgen05.mma_block_scale`, with half of A's elements, which
    metadata in tensor memory selects.
    """

    derived = {"a": _memory_of_a}  # noqa: RUF012 (an annotation would make it a field)
    signature = "d a b lut* metadata idesc scale_a scale_b enable_input_d"


_WS_AXES = {"a": _memory_of_a, "zero_column_mask": _has("zero_column_mask")}


class MmaWsOp(ProductOp, dialect=Tcgen05, name="mma_ws", family=mma_isa.MMA_WS):
    """`tcgen05.mma.ws`: keeps B, the weights, in one of four collector buffers."""

    derived = _WS_AXES
    signature = "d a b idesc enable_input_d zero_column_mask*"


class SpMmaWsOp(ProductOp, dialect=Tcgen05, name="sp_mma_ws", family=mma_isa.MMA_WS_SP):
    """`tcgen05.mma.ws.sp`: as `tcgen05.mma.ws`, with half of A's elements, which metadata in tensor
    memory selects.
    """

    derived = _WS_AXES
    signature = "d a b metadata idesc enable_input_d zero_column_mask*"


class _Descriptor(DescriptorOp):
    """A descriptor whose fields the target decides about, too."""

    def complaint(self) -> Verdict | None:
        return self.fields.complaint(self.target.chip.name if self.target else None)


class InstructionDescriptorOp(
    _Descriptor, dialect=Tcgen05, name="instruction_descriptor", record=InstructionDescriptor
):
    """The i32 instruction descriptor of `tcgen05.mma`: shape, element types, and which operands are
    transposed.
    """


class BlockScaledDescriptorOp(
    _Descriptor, dialect=Tcgen05, name="block_scaled_descriptor", record=BlockScaledDescriptor
):
    """The i32 instruction descriptor of a block-scaled `tcgen05.mma`: shape, element types, type and ids of
    the scales.
    """


class SharedMemoryDescriptorOp(
    _Descriptor, dialect=Tcgen05, name="shared_memory_descriptor", record=SharedMemoryDescriptor
):
    """The i64 descriptor of a matrix in shared memory."""


if TYPE_CHECKING:
    from weft.dialects.tcgen05_builders import *  # noqa: F403
else:
    vars().update(builders(Tcgen05))
