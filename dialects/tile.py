"""The `tile` dialect: matrix products and copies over tiles with layouts, above any instruction.

Its types, fragments and buffers, are those of `weft.dialects.tile_types`. Global operands are memrefs. What
is imported here is for users of the ops, too: all of the dialect under one name.
"""

from typing import TYPE_CHECKING

from weft.dialects.builders import TileBuilder, builders
from weft.dialects.effects import Pure, reads, writes
from weft.dialects.element_types import ELEMENT_TYPES
from weft.dialects.op import Op, Operand, Result
from weft.dialects.tile_async import wait_gemm
from weft.dialects.tile_buffers import (
    AddressOp,
    AllocOp,
    PeerOp,
    SliceOp,
    StageOp,
    slice_type,
    stage_bytes,
    stage_type,
)
from weft.dialects.tile_claims import ClaimOp
from weft.dialects.tile_constants import part_complaint
from weft.dialects.tile_copies import CopyAsyncOp, CopyOp, CopyOutOp, vector_complaint
from weft.dialects.tile_epilogue import (
    EpilogueOp,
    LoadElementOp,
    StoreElementOp,
    epilogue,
    load_element,
    store_element,
)
from weft.dialects.tile_flags import await_flag
from weft.dialects.tile_gemm import CONTAINER, GemmOp, GemmScaledOp, gemm
from weft.dialects.tile_launch_control import query_cancel
from weft.dialects.tile_matmul import MatmulOp, matmul
from weft.dialects.tile_roles import role
from weft.dialects.tile_sums import reading
from weft.dialects.tile_team import TeamOp
from weft.dialects.tile_tensor_memory import CopyTmemOp, TensorMemoryOp, tensor_memory
from weft.dialects.tile_types import (
    BufferType,
    FragmentType,
    MapType,
    RingType,
    Tile,
    element_complaint,
    index_complaint,
    is_buffer,
    is_fragment,
    is_free,
    is_map,
    is_memref,
    is_tensor_buffer,
    is_tile,
    matrix_complaint,
)
from weft.dialects.tile_values import BroadcastOp, ConvertLayoutOp, CoordinateOp, ReduceOp
from weft.isa.mma.matrix_moves import UNPACKED
from weft.mlir import ir


def _access_complaint(op: ir.OpView, fragment: ir.Value, ranks: tuple[int, ...] = (2,)) -> str | None:
    """Why a fragment, which must have one of these ranks, can't be loaded or stored."""
    if len(fragment.type.shape) not in ranks:
        legal = " or ".join(map(str, ranks))
        return f"expects a fragment of rank {legal}, got shape {list(fragment.type.shape)}"
    return vector_complaint(op, (0, 2, 4, 8, 16))


class LoadOp(Op, dialect=Tile, name="load", traits=[reads("source")]):
    """The fragment at (`row`, `column`) of a buffer or of a matrix, loaded by one warp, or by a warpgroup if
    it has four warps.

    In a buffer, the coordinates must be multiples of the fragment's shape. With `transpose` the buffer holds
    the transposed tile, and `row` and `column` are coordinates in the buffer. A matrix can hold it, too, if
    the tile's layout isn't decided yet. From a matrix, elements outside of it become zero; lanes may read its
    first element instead, unless `only_inside` is true. It must be if other threads may write that element
    meanwhile. With `any_row`, `row` may be negative.

    Elements of 4 or 6 bits, of which 16 take 16 bytes of a buffer, are loaded as bytes (i8) by `ldmatrix`:
    one for each element, as `tile.gemm_scaled` takes them.

    In tensor memory, warp w of a warpgroup can access lanes 32w to 32w + 31 only: the rows that it loads must
    be in these lanes. Of a buffer with copies, it loads its own. The fragment is complete after the load
    (`tcgen05.ld` and its wait); a `tcgen05.fence` or a ring must order it after what wrote the buffer.
    """

    source: Operand
    row: Operand
    column: Operand
    fragment: Result
    optional = {"transpose": False, "vector_bytes": 0, "only_inside": False, "any_row": False}  # noqa: RUF012
    decided_by_kind = True

    def check(self) -> str | None:
        if not is_fragment(self.fragment) and not (is_memref(self.source) and is_free(self.fragment)):
            return f"expects to return a tensor with a #tile.layout, got {self.fragment.type}"
        if is_memref(self.source):
            wrong = matrix_complaint("the source", self.source, ELEMENT_TYPES)
        else:
            legal = is_buffer(self.source)
            wrong = None if legal else f"expects a tile.buffer or a memref, got {self.source.type}"
        wrong = wrong or index_complaint([self.row, self.column])
        wrong = wrong or _access_complaint(self, self.fragment)
        if wrong:
            return wrong
        # It may load elements of 4 or 6 bits from shared memory as bytes.
        to_bytes = is_buffer(self.source) and str(self.fragment.type.element_type) == CONTAINER
        unpacks = to_bytes and self.source.type.element_type.width in UNPACKED
        if not unpacks and (wrong := element_complaint(self.source, self.fragment)):
            return wrong
        return _memory_complaint(self, "source", self.source)

    def check_constants(self) -> str | None:
        return _coordinate_complaint(self, self.source)

    @property
    def only_inside(self) -> bool:
        """Whether lanes read nothing for elements outside of a matrix."""
        return bool(self.attribute("only_inside"))


class LoadRowOp(Op, dialect=Tile, name="load_row", traits=[reads("source")]):
    """The elements of a vector from `column` on: a fragment of one dimension, or one of two, whose rows all
    hold them, loaded by one warp or warpgroup.

    The vector is a memref of rank 1, outside of which elements are zero, or a buffer of one row. With
    `vector_bytes` greater than an element's width, contiguous elements are loaded together if they are
    aligned and inside the vector.
    """

    source: Operand
    column: Operand
    fragment: Result
    optional = {"vector_bytes": 0}  # noqa: RUF012
    decided_by_kind = True

    def check(self) -> str | None:
        if not is_fragment(self.fragment) and not (is_memref(self.source) and is_free(self.fragment)):
            return f"expects to return a tensor with a #tile.layout, got {self.fragment.type}"
        if is_buffer(self.source):
            shape = self.source.type.shape
            if is_tensor_buffer(self.source):
                return f"expects a buffer in shared memory or a memref, got {self.source.type}"
            wrong = None if len(shape) == 2 and shape[0] == 1 else f"expects one row, got shape {list(shape)}"
        else:
            wrong = matrix_complaint("the source", self.source, ELEMENT_TYPES, 1)
        wrong = wrong or index_complaint([self.column])
        wrong = wrong or _access_complaint(self, self.fragment, (1, 2))
        return wrong or element_complaint(self.source, self.fragment)


class StoreRowOp(Op, dialect=Tile, name="store_row", traits=[writes("destination")]):
    """Stores a fragment of one dimension to a vector, a memref of rank 1, from `column` on. One of the lanes
    that hold an element stores it. Elements outside of the vector are not written.
    """

    fragment: Operand
    destination: Operand
    column: Operand
    decided_by_kind = True

    def check(self) -> str | None:
        if not is_tile(self.fragment) or len(self.fragment.type.shape) != 1:
            return f"expects a tile of one dimension, got {self.fragment.type}"
        wrong = matrix_complaint("the destination", self.destination, ELEMENT_TYPES, 1)
        return wrong or index_complaint([self.column]) or element_complaint(self.fragment, self.destination)


def _memory_complaint(op: ir.OpView, name: str, memory: ir.Value) -> str | None:
    """Why a fragment can't be moved from or to memory: a buffer must be a grid of whole fragments. In tensor
    memory, an access has no attributes about addresses in bytes.
    """
    transposes, width = op.attribute("transpose"), op.attribute("vector_bytes")
    if not is_buffer(memory):
        held = transposes and is_fragment(op.fragment)
        return f"transpose must be false where the {name} is a memref" if held else None
    if is_tensor_buffer(memory) and width:
        return f"vector_bytes must be 0 for a buffer in tensor memory, got {width}"
    if is_tensor_buffer(memory) and transposes:
        return "transpose must be false for a buffer in tensor memory"
    outer, inner = memory.type.shape, op.fragment.type.shape[:: -1 if transposes else 1]
    if len(outer) != 2:
        return f"expects a buffer of rank 2, got shape {list(outer)}"
    if any(big % small for big, small in zip(outer, inner, strict=True)):
        return f"expects a buffer whose shape is a multiple of {list(inner)}, got {list(outer)}"
    return None


def _coordinate_complaint(op: ir.OpView, memory: ir.Value) -> str | None:
    """Why constant coordinates aren't those of a fragment in a buffer."""
    if not is_buffer(memory):
        return None
    return part_complaint(op, memory.type, op.fragment.type, op.attribute("transpose"))


class StoreOp(Op, dialect=Tile, name="store", traits=[writes("destination")]):
    """One warp or warpgroup stores a fragment at (`row`, `column`) of a matrix, or of a buffer.

    Elements outside of a matrix are not written. With `vector_bytes` greater than an element's width,
    contiguous elements of a lane are stored together: rows, and the address of the fragment, must be aligned
    to it. With `any_row`, `row` may be negative. In a buffer, the coordinates must be multiples of the
    fragment's shape. With `transpose`, element (i, j) of the fragment is stored at (`row` + j, `column` + i)
    of a buffer in shared memory, and the coordinates must be multiples of the transposed shape.

    In tensor memory, warp w of a warpgroup can access lanes 32w to 32w + 31 only. Of a buffer with copies, it
    stores its own: all warps that have one must store the same. The store is complete (`tcgen05.st` and its
    wait); a `tcgen05.fence` or a ring must order it before an MMA that reads the buffer.
    """

    fragment: Operand
    destination: Operand
    row: Operand
    column: Operand
    optional = {"transpose": False, "vector_bytes": 0, "any_row": False}  # noqa: RUF012
    decided_by_kind = True

    def check(self) -> str | None:
        if not is_fragment(self.fragment) and not (is_memref(self.destination) and is_free(self.fragment)):
            return f"expects a tensor with a #tile.layout, got {self.fragment.type}"
        wrong = None
        if not is_buffer(self.destination):
            wrong = matrix_complaint("the destination", self.destination, ELEMENT_TYPES)
        wrong = wrong or index_complaint([self.row, self.column])
        wrong = wrong or _access_complaint(self, self.fragment)
        wrong = wrong or element_complaint(self.fragment, self.destination)
        return wrong or _memory_complaint(self, "destination", self.destination)

    def check_constants(self) -> str | None:
        return _coordinate_complaint(self, self.destination)


class FromLaneOp(Op, dialect=Tile, name="from_lane", traits=[Pure]):
    """A fragment from each lane's elements: a vector in the order of the layout's register offsets."""

    lane: Operand
    fragment: Result
    decided_by_kind = True

    def check(self) -> str | None:
        return _lane_complaint(self.fragment, self.lane)


class ToLaneOp(Op, dialect=Tile, name="to_lane", traits=[Pure]):
    """Each lane's elements of a fragment: a vector in the order of the layout's register offsets."""

    fragment: Operand
    lane: Result
    decided_by_kind = True

    @staticmethod
    def returns(fragment: ir.Value) -> list[ir.Type]:
        return [fragment.type.lane_type]

    def check(self) -> str | None:
        return _lane_complaint(self.fragment, self.lane)


def _lane_complaint(fragment: ir.Value, lane: ir.Value) -> str | None:
    if not is_fragment(fragment):
        return f"expects a tensor with a #tile.layout, got {fragment.type}"
    want = fragment.type.lane_type
    return None if lane.type == want else f"expects {want} for a lane of {fragment.type}, got {lane.type}"


if TYPE_CHECKING:
    from weft.dialects.tile_builders import *  # noqa: F403
else:
    _written = {*vars(), "yield_"}  # `epilogue` ends its region
    vars().update((name, each) for name, each in builders(Tile, TileBuilder).items() if name not in _written)
