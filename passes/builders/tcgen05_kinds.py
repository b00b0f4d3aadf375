"""The kind of `tcgen05.mma` for the types, scales and packing of a `tile.gemm_async`."""

from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.tile_async import GemmAsyncOp
from weft.dialects.tile_types import TMEM
from weft.isa.tcgen05.descriptors import KINDS, BlockScaledDescriptor, Kind
from weft.isa.tcgen05.mma_rows import scale_vecs
from weft.isa.tcgen05.tensor_layouts import SCALES_OF_COLUMN
from weft.isa.types import ELEMENT_TYPES
from weft.mlir import ir

BYTE = 8
_UNIT = 16  # elements of 4 or 6 bits that have 16 bytes where each takes a byte
SIZES = (32, 16)
"""How many elements along K may share a scale."""


def kind_of(op: GemmAsyncOp) -> str | None:
    """The kind for A's and B's types, and for their scales if they have some; None where no kind has them."""
    return next((kind.name for kind in KINDS.values() if _multiplies(kind, op)), None)


def _multiplies(kind: Kind, op: GemmAsyncOp) -> bool:
    types = (PTX_INPUTS.get(str(each.type.element_type)) for each in (op.a, op.b))
    if (kind.scales is None) != (op.scales is None) or not all(t in kind.elements for t in types):
        return False
    if kind.scales is None or op.scales is None:
        return True
    if is_packed_kind(kind.name) != all(container_bits(each.type) < BYTE for each in (op.a, op.b)):
        return False
    scale = PTX_SCALES.get(str(op.scales[0].type.element_type), "")
    return scale in kind.scales and scale_vec(kind.name, scale, scale_size(op)) is not None


def is_packed_kind(kind: str) -> bool:
    """Whether a kind has two elements of 4 bits in a byte, where others have one."""
    return KINDS[kind].scales is not None and not KINDS[kind].transposes


def container_of(kind: str, element: str) -> int:
    """The bits that an element of this PTX type takes of its memory."""
    bits = ELEMENT_TYPES[element].bits
    return bits if is_packed_kind(kind) else max(bits, BYTE)


def container_bits(buffer: ir.Type) -> int:
    """The bits that an element of a buffer of this type takes of its memory: a byte for elements of 6 bits,
    and for those of 4 bits where 16 have 16 bytes.
    """
    bits = int(buffer.element_bits)
    if bits >= BYTE:
        return bits
    in_tensor_memory = buffer.space == TMEM
    axis = "TCol" if in_tensor_memory else "m"
    runs = [it.extent for it in buffer.layout.canonical().shard if it.axis == axis and it.stride == 1]
    return BYTE if runs == ([] if in_tensor_memory else [_UNIT]) else bits


def scale_size(op: GemmAsyncOp) -> int | None:
    """How many elements along K share a scale; None where the scales of A have another number of columns:
    one for each group of elements, padded to a multiple of 4 unless they are 1 or 2. With `scale_block`, how
    many an instruction multiplies with one.
    """
    assert op.scales is not None
    k, columns = op.mnk[2], op.scales[0].type.shape[1]
    if block := op.attribute("scale_block"):
        fits = columns == SCALES_OF_COLUMN and k % block == 0 and k <= columns * block
        return SIZES[0] if fits else None
    return next((size for size in SIZES if columns == scale_columns(k, size)), None)


def scale_columns(k: int, size: int) -> int:
    """The columns of a buffer of scales for K elements, of which `size` share one."""
    groups = -(-k // size)
    return groups if groups in (1, 2) else -(-groups // SCALES_OF_COLUMN) * SCALES_OF_COLUMN


def scale_vec(kind: str, scale: str, size: int | None) -> str | None:
    """The modifier of an instruction whose scales, of this PTX type, are shared by `size` elements; None
    where the kind has none. It is one that every chip has, and not the kind's own, which has no modifier: the
    ptxas of CUDA 13.0 refuses that before PTX 8.8, that of CUDA 13.5 doesn't.
    """
    element = next(iter(KINDS[kind].elements))
    for spelled in filter(None, scale_vecs(kind)):
        record = BlockScaledDescriptor(kind, 128, 128, element, element, scale, scale_vec=spelled)
        every_chip = not spelled.endswith("X")
        if every_chip and record.depth // record.scales == size and record.complaint() is None:
            return spelled
    return None
