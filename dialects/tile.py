"""The `tile` dialect: matrix products and copies over tiles with layouts, above any instruction.

Its types, fragments and buffers, are those of `weft.dialects.tile_types`. Global operands are memrefs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weft.dialects.instruction import judge
from weft.dialects.op import Op, build
from weft.dialects.tile_async import (
    acquire,
    advance,
    await_,
    copy_multicast,
    expect,
    full_barrier,
    gemm_async,
    make_ring,
    release,
    release_peer,
    role,
    store_async,
    tensor_map,
    wait_gemm,
)
from weft.dialects.tile_matmul import MatmulOp, matmul
from weft.dialects.tile_types import (
    ADDRESS_SPACES,
    ELEMENT_TYPES,
    BufferType,
    FragmentType,
    MapType,
    RingType,
    Tile,
    index_complaint,
    is_buffer,
    is_fragment,
    is_map,
    is_memref,
    matrix_complaint,
    tensor_complaint,
    tile_complaint,
)
from weft.isa import async_copy
from weft.layout import Layout
from weft.mlir import ext

# What users of the ops need too: all of the dialect under one name.
__all__ = [
    "BufferType",
    "FragmentType",
    "MapType",
    "MatmulOp",
    "RingType",
    "Tile",
    "acquire",
    "advance",
    "await_",
    "copy_multicast",
    "expect",
    "full_barrier",
    "gemm_async",
    "is_buffer",
    "is_fragment",
    "is_map",
    "make_ring",
    "matmul",
    "release",
    "release_peer",
    "role",
    "store_async",
    "tensor_map",
    "wait_gemm",
]

STAGE_BYTES = 16  # the widest cp.async, and a row of ldmatrix, must be aligned in every stage


class GemmOp(Op, dialect=Tile, name="gemm"):
    """`D = alpha * A @ B + beta * C` on tiles of one warp: A is M x K, B is K x N, C and D are M x N.

    C is the third operand; with none, it has the place that D will take and must not be read (beta 0).
    """

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    c: Sequence[ext.Operand[Any]]
    d: ext.Result[Any]
    optional = {"alpha": 1.0, "beta": 0.0}  # noqa: RUF012

    @property
    def mnk(self) -> tuple[int, int, int]:
        m, k = self.a.type.shape
        return m, self.b.type.shape[1], k

    def check(self) -> str | None:
        tiles = [("A", self.a), ("B", self.b), *(("C", c) for c in self.c), ("D", self.d)]
        for name, value in tiles:
            if not (is_fragment(value) or is_buffer(value)):
                return f"expects {name} to be a tile.fragment or tile.buffer, got {value.type}"
        if found := tile_complaint([value for _, value in tiles]):
            return found
        for name, value in tiles:
            if len(value.type.shape) != 2:
                return f"expects {name} of rank 2, got shape {list(value.type.shape)}"
        if len(self.c) > 1:
            return f"expects A, B and at most one C, got {2 + len(self.c)} operands"
        if self.attribute("beta") != 0.0 and not len(self.c):
            return f"expects a C operand with beta {self.attribute('beta')}"
        m, n, k = self.mnk
        want = {"A": (m, k), "B": (k, n), "C": (m, n), "D": (m, n)}
        for name, value in tiles:
            if value.type.shape != want[name]:
                return (
                    f"expects {name} of shape {list(want[name])} beside A {list(self.a.type.shape)} and "
                    f"B {list(self.b.type.shape)}, got {list(value.type.shape)}"
                )
        return None


class AllocOp(Op, dialect=Tile, name="alloc"):
    """A buffer that lives as long as the kernel; it starts where its swizzle's pattern does."""

    buffer: ext.Result[Any]

    def check(self) -> str | None:
        if not is_buffer(self.buffer):
            return f"expects to return a tile.buffer, got {self.buffer.type}"
        if found := tile_complaint([self.buffer]):
            return found
        return (
            None if self.buffer.type.space == "shared" else f"expects a shared buffer, got {self.buffer.type}"
        )


class StageOp(Op, dialect=Tile, name="stage"):
    """One of the equal tiles that a buffer holds along its first dimension: `buffer[index]`."""

    buffer: ext.Operand[Any]
    index: ext.Operand[Any]
    tile: ext.Result[Any]

    def check(self) -> str | None:
        if not (is_buffer(self.buffer) and is_buffer(self.tile)):
            return f"expects tile.buffer operand and result, got {self.buffer.type} and {self.tile.type}"
        if found := tile_complaint([self.buffer, self.tile]) or index_complaint([self.index]):
            return found
        want = stage_type(self.buffer.type)
        if want is None:
            return f"expects a buffer whose first dimension is one stride apart, got {self.buffer.type}"
        if want != self.tile.type:
            return f"expects to return {want}, got {self.tile.type}"
        swizzle, apart = want.layout.swizzle, stage_bytes(self.buffer.type)
        if swizzle and apart % swizzle.period:
            return f"expects stages a multiple of {swizzle.period} bytes apart, got {apart}"
        if apart % STAGE_BYTES:
            return f"expects stages a multiple of {STAGE_BYTES} bytes apart, got {apart}"
        return None


class SliceOp(Op, dialect=Tile, name="slice"):
    """The part of a buffer of rank 2 at (`row`, `column`), multiples of the result's shape."""

    buffer: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    tile: ext.Result[Any]

    def check(self) -> str | None:
        if not (is_buffer(self.buffer) and is_buffer(self.tile)):
            return f"expects tile.buffer operand and result, got {self.buffer.type} and {self.tile.type}"
        found = tile_complaint([self.buffer, self.tile]) or index_complaint([self.row, self.column])
        if found:
            return found
        whole, part = self.buffer.type, self.tile.type
        if len(whole.shape) != 2 or len(part.shape) != 2:
            return f"expects buffers of rank 2, got shapes {list(whole.shape)} and {list(part.shape)}"
        if any(big % small for big, small in zip(whole.shape, part.shape, strict=True)):
            return f"expects whole tiles of {list(part.shape)} in the buffer, got shape {list(whole.shape)}"
        if (want := slice_type(whole, part.shape)) != part:
            return f"expects to return {want}, got {part}"
        plain = replace(whole.layout, swizzle=None)
        first = plain.slice(whole.shape, (0, 0), part.shape)
        unit = whole.layout.swizzle.period if whole.layout.swizzle else STAGE_BYTES
        rows, columns = (range(0, whole.shape[i], part.shape[i]) for i in range(2))
        for start in (*((row, 0) for row in rows), *((0, column) for column in columns)):
            other = plain.slice(whole.shape, start, part.shape)
            if other.shard != first.shard:
                return f"expects parts that lie alike, got {replace(other, offset=())} at {list(start)}"
            apart = plain.apply(start, whole.shape)["m"] * whole.element_bits // 8
            if apart % unit:
                return f"expects parts a multiple of {unit} bytes apart, got {apart}"
        return None


class PeerOp(Op, dialect=Tile, name="peer"):
    """The buffer of another CTA of the cluster, by its rank there: where it has the operand.

    Its CTA must have written it before a barrier of the cluster, and live until another.
    """

    buffer: ext.Operand[Any]
    rank: ext.Operand[Any]
    peer: ext.Result[Any]

    def check(self) -> str | None:
        if not (is_buffer(self.buffer) and is_buffer(self.peer)):
            return f"expects tile.buffer operand and result, got {self.buffer.type} and {self.peer.type}"
        if found := tile_complaint([self.buffer, self.peer]) or index_complaint([self.rank]):
            return found
        if self.buffer.type.space != "shared" or peer_type(self.buffer.type) != self.peer.type:
            return f"expects a shared buffer and {peer_type(self.buffer.type)}, got {self.buffer.type}"
        return None


class AddressOp(Op, dialect=Tile, name="address"):
    """The address of a buffer's first byte, before any swizzle: `!llvm.ptr<3>`, of a peer `!llvm.ptr<7>`."""

    buffer: ext.Operand[Any]
    address: ext.Result[Any]

    def check(self) -> str | None:
        if not is_buffer(self.buffer):
            return f"expects a tile.buffer, got {self.buffer.type}"
        want = f"!llvm.ptr<{ADDRESS_SPACES[self.buffer.type.space]}>"
        if str(self.address.type) != want:
            return f"expects to return {want}, got {self.address.type}"
        return tile_complaint([self.buffer])


def stage_type(buffer: Any) -> Any | None:
    """The type of one tile along the buffer's first dimension; None where that isn't one stride."""
    if len(buffer.shape) < 2:
        return None
    first, *rest = buffer.layout.group(buffer.shape)
    if len([i for i in first if i.extent > 1]) > 1:
        return None
    inner = Layout(tuple(i for group in rest for i in group), swizzle=buffer.layout.swizzle)
    return BufferType.of(buffer.shape[1:], buffer.element_type, inner, buffer.space)


def slice_type(buffer: Any, shape: Sequence[int]) -> Any:
    """The type of a part of a buffer of rank 2. Raises LayoutError where no layout says where it lies."""
    inner = replace(buffer.layout, swizzle=None).slice(buffer.shape, (0, 0), shape)
    inner = replace(inner, swizzle=buffer.layout.swizzle)
    return BufferType.of(shape, buffer.element_type, inner, buffer.space)


def peer_type(buffer: Any) -> Any:
    """The type of a buffer like this one in another CTA of the cluster."""
    return BufferType.of(buffer.shape, buffer.element_type, buffer.layout, "cluster")


def stage_bytes(buffer: Any) -> int:
    """The distance of a buffer's tiles along its first dimension, for a buffer that has a `stage_type`."""
    strides = [it.stride for it in buffer.layout.group(buffer.shape)[0]]
    return int(sum(strides) * buffer.element_bits // 8)


def _vector_complaint(op: Any, widths: Sequence[int]) -> str | None:
    width = op.attribute("vector_bytes")
    if width not in widths:
        return f"expects vector_bytes to be one of {', '.join(map(str, widths))}, got {width}"
    return None


def _access_complaint(op: Any, fragment: Any) -> str | None:
    """Why a fragment can't be loaded or stored whole: tiles in memory have two dimensions."""
    if len(fragment.type.shape) != 2:
        return f"expects a fragment of rank 2, got shape {list(fragment.type.shape)}"
    return _vector_complaint(op, (0, 2, 4, 8, 16))


def _copy_complaint(op: Any) -> str | None:
    if found := matrix_complaint("the source", op.source, ELEMENT_TYPES):
        return found
    if not is_buffer(op.tile):
        return f"expects the destination to be a tile.buffer, got {op.tile.type}"
    if found := tile_complaint([op.tile]) or index_complaint([op.row, op.column]):
        return found
    if len(op.tile.type.shape) != 2:
        return f"expects a destination of rank 2, got shape {list(op.tile.type.shape)}"
    if op.tile.type.element_type != op.source.type.element_type:
        return f"expects one element type, got {op.source.type} and {op.tile.type}"
    return None


class CopyAsyncOp(Op, dialect=Tile, name="copy_async"):
    """Starts to copy the tile at (`row`, `column`) of a matrix into a buffer; what lies outside of the matrix
    becomes zero.

    From a memref all threads of the CTA copy, `vector_bytes` at a time (cp.async): rows and tile must be
    aligned to it. The data is there after `nvvm.cp.async.commit.group`, `nvvm.cp.async.wait.group` and a
    barrier. From a `tile.map` one thread does (TMA), and the data is there when the mbarrier says so whose
    address (`!llvm.ptr<3>`, a stage's `tile.full_barrier`) is the operand after the tile: it must expect the
    bytes.
    """

    source: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    tile: ext.Operand[Any]
    barrier: Sequence[ext.Operand[Any]]
    optional = {"vector_bytes": 0}  # noqa: RUF012

    @property
    def form(self) -> async_copy.Copy:
        """The row's key: the instruction that copies one vector."""
        return async_copy.copy_of(self.attribute("vector_bytes"))

    def check(self) -> str | None:
        if is_map(self.source):
            return self._tensor_complaint()
        if len(self.barrier):
            return f"expects a barrier with a tile.map alone, got {self.source.type}"
        widths = [form.bytes for form in async_copy.CP_ASYNC.forms()]
        found = _copy_complaint(self) or _vector_complaint(self, tuple(dict.fromkeys(widths)))
        return found or judge(async_copy.CP_ASYNC, self)

    def _tensor_complaint(self) -> str | None:
        if [str(value.type) for value in self.barrier] != ["!llvm.ptr<3>"]:
            return f"expects one barrier (!llvm.ptr<3>) after the tile, got {len(self.barrier)} operands"
        if "vector_bytes" in self.attributes:
            return "has no vector_bytes with a tile.map"
        return tensor_complaint(self.source, self.tile) or index_complaint([self.row, self.column])


class CopyOp(Op, dialect=Tile, name="copy"):
    """All threads of the CTA copy the tile at (`row`, `column`) of a matrix into a buffer, element by
    element.

    What lies outside of the matrix becomes zero; nothing needs to be aligned. The data is there after a
    barrier.
    """

    source: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    tile: ext.Operand[Any]

    def check(self) -> str | None:
        return _copy_complaint(self)


class LoadOp(Op, dialect=Tile, name="load"):
    """The fragment at (`row`, `column`) of a buffer or of a matrix, loaded by one warp.

    From a buffer the coordinates must be multiples of the fragment's shape; with `transpose` the buffer holds
    the transposed tile (and `row`, `column` are the buffer's). From a matrix, what lies outside of it becomes
    zero.
    """

    source: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    fragment: ext.Result[Any]
    optional = {"transpose": False, "vector_bytes": 0}  # noqa: RUF012

    def check(self) -> str | None:
        if not is_fragment(self.fragment):
            return f"expects to return a tile.fragment, got {self.fragment.type}"
        if is_memref(self.source):
            found = matrix_complaint("the source", self.source, ELEMENT_TYPES)
        elif is_buffer(self.source):
            found = tile_complaint([self.source])
        else:
            found = f"expects a tile.buffer or a memref, got {self.source.type}"
        found = found or tile_complaint([self.fragment]) or index_complaint([self.row, self.column])
        found = found or _access_complaint(self, self.fragment)
        if found:
            return found
        if self.source.type.element_type != self.fragment.type.element_type:
            return f"expects one element type, got {self.source.type} and {self.fragment.type}"
        if is_buffer(self.source):
            return _parts_complaint(self.source.type, self.fragment.type, self.attribute("transpose"))
        return self._matrix_complaint()

    def _matrix_complaint(self) -> str | None:
        return "expects no transpose of a matrix" if self.attribute("transpose") else None


def _parts_complaint(buffer: Any, fragment: Any, transpose: bool) -> str | None:
    """Why a buffer doesn't hold whole fragments."""
    outer, inner = buffer.shape, fragment.shape[:: -1 if transpose else 1]
    if len(outer) != 2:
        return f"expects a buffer of rank 2, got shape {list(outer)}"
    if any(big % small for big, small in zip(outer, inner, strict=True)):
        return f"expects a buffer of whole tiles of {list(inner)}, got shape {list(outer)}"
    return None


class StoreOp(Op, dialect=Tile, name="store"):
    """One warp (or warpgroup) stores a fragment at (`row`, `column`) of a matrix, or of a buffer.

    What lies outside of a matrix is left out. `vector_bytes` more than an element's width stores runs of the
    lane's elements at once: rows, and the fragment's place, must be aligned to it. In a buffer the
    coordinates must be multiples of the fragment's shape.
    """

    fragment: ext.Operand[Any]
    destination: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    optional = {"vector_bytes": 0}  # noqa: RUF012

    def check(self) -> str | None:
        if not is_fragment(self.fragment):
            return f"expects a tile.fragment, got {self.fragment.type}"
        if is_buffer(self.destination):
            found = tile_complaint([self.destination])
        else:
            found = matrix_complaint("the destination", self.destination, ELEMENT_TYPES)
        found = found or tile_complaint([self.fragment]) or index_complaint([self.row, self.column])
        found = found or _access_complaint(self, self.fragment)
        if found:
            return found
        if self.destination.type.element_type != self.fragment.type.element_type:
            return f"expects one element type, got {self.fragment.type} and {self.destination.type}"
        if not is_buffer(self.destination):
            return None
        return _parts_complaint(self.destination.type, self.fragment.type, transpose=False)


class FromLaneOp(Op, dialect=Tile, name="from_lane"):
    """A fragment from what each lane holds of it: a vector in the order of the layout's register offsets."""

    lane: ext.Operand[Any]
    fragment: ext.Result[Any]

    def check(self) -> str | None:
        return _lane_complaint(self.fragment, self.lane)


class ToLaneOp(Op, dialect=Tile, name="to_lane"):
    """What each lane holds of a fragment: a vector in the order of the layout's register offsets."""

    fragment: ext.Operand[Any]
    lane: ext.Result[Any]

    def check(self) -> str | None:
        return _lane_complaint(self.fragment, self.lane)


def _lane_complaint(fragment: Any, lane: Any) -> str | None:
    if not is_fragment(fragment):
        return f"expects a tile.fragment, got {fragment.type}"
    if found := tile_complaint([fragment]):
        return found
    want = fragment.type.lane_type
    return None if lane.type == want else f"expects {want} for a lane of {fragment.type}, got {lane.type}"


def gemm(a: Any, b: Any, c: Any | None, d_type: Any, *, alpha: float = 1.0, beta: float = 0.0) -> Any:
    """Builds `tile.gemm` and returns D of type `d_type`. Raises WeftError where the tiles don't fit."""
    return build(
        GemmOp,
        operands=[a, b, *([] if c is None else [c])],
        results=[d_type],
        attributes={"alpha": float(alpha), "beta": float(beta)},
    ).d


def alloc(buffer_type: Any) -> Any:
    """Builds `tile.alloc` and returns the buffer."""
    return build(AllocOp, results=[buffer_type]).buffer


def peer(buffer: Any, rank: Any) -> Any:
    """Builds `tile.peer` and returns the peer's buffer."""
    return build(PeerOp, operands=[buffer, rank], results=[peer_type(buffer.type)]).peer


def stage(buffer: Any, index: Any) -> Any:
    """Builds `tile.stage` and returns `buffer[index]`."""
    return build(StageOp, operands=[buffer, index], results=[stage_type(buffer.type)]).tile


def slice_(buffer: Any, row: Any, column: Any, shape: Sequence[int]) -> Any:
    """Builds `tile.slice` and returns the part, of this shape."""
    return build(SliceOp, operands=[buffer, row, column], results=[slice_type(buffer.type, shape)]).tile


def copy_async(
    source: Any, row: Any, column: Any, tile: Any, *, vector_bytes: int = 0, barrier: Any = None
) -> Any:
    """Builds `tile.copy_async`; a `tile.map` needs the `barrier`."""
    return build(
        CopyAsyncOp,
        operands=[source, row, column, tile, *([] if barrier is None else [barrier])],
        attributes={"vector_bytes": vector_bytes},
    )


def copy(source: Any, row: Any, column: Any, tile: Any) -> Any:
    """Builds `tile.copy`."""
    return build(CopyOp, operands=[source, row, column, tile])


def load(
    source: Any, row: Any, column: Any, fragment: Any, *, transpose: bool = False, vector_bytes: int = 0
) -> Any:
    """Builds `tile.load` and returns the fragment, of type `fragment`."""
    return build(
        LoadOp,
        operands=[source, row, column],
        results=[fragment],
        attributes={"transpose": transpose, "vector_bytes": vector_bytes},
    ).fragment


def store(fragment: Any, destination: Any, row: Any, column: Any, *, vector_bytes: int = 0) -> Any:
    """Builds `tile.store`."""
    return build(
        StoreOp, operands=[fragment, destination, row, column], attributes={"vector_bytes": vector_bytes}
    )


def from_lane(lane: Any, fragment: Any) -> Any:
    """Builds `tile.from_lane` and returns the fragment, of type `fragment`."""
    return build(FromLaneOp, operands=[lane], results=[fragment]).fragment


def to_lane(fragment: Any) -> Any:
    """Builds `tile.to_lane` and returns the lane's vector."""
    return build(ToLaneOp, operands=[fragment], results=[fragment.type.lane_type]).lane
