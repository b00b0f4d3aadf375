"""The ops of the `tile` dialect that allocate buffers, select parts of them, and return their addresses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.dialects.effects import Pure, allocates
from weft.dialects.kinds import of_type
from weft.dialects.op import Op, Operand, Result
from weft.dialects.tile_constants import constant_complaint, part_complaint
from weft.dialects.tile_types import (
    ADDRESS_SPACES,
    TMEM,
    BufferType,
    Tile,
    index_complaint,
    is_buffer,
    is_tensor_buffer,
)
from weft.isa.tcgen05.tensor_layouts import COLUMN_BITS
from weft.mlir import ir

TENSOR_MEMORY = "tile.tensor_memory"
STAGE_BYTES = 16  # the widest cp.async, and a row of ldmatrix, must be aligned in every stage


class AllocOp(Op, dialect=Tile, name="alloc", traits=[allocates("buffer")]):
    """A buffer in shared memory that lives as long as the kernel, aligned as its swizzle needs; or one in
    tensor memory that lives as long as the `tile.tensor_memory` in whose region it is directly.

    With an operand, it starts where that buffer starts, and overlaps it and everything that was allocated
    after it. The new buffer and the overlapped ones must not be in use at the same time, unless both are
    views of the same data.
    """

    over: Sequence[Operand]
    buffer: Result

    def check(self) -> str | None:
        if len(self.over) > 1:
            return f"expects at most one buffer to overlap, got {len(self.over)}"
        if not is_buffer(self.buffer):
            return f"expects to return a tile.buffer, got {self.buffer.type}"
        for value in (self.buffer, *self.over):
            if not is_buffer(value):
                return f"expects to overlap a tile.buffer, got {value.type}"
            if value.type.space not in ("shared", TMEM):
                return f"expects a shared buffer or one in tensor memory, got {value.type}"
            if value.type.space != self.buffer.type.space:
                return f"expects to overlap a buffer in the same memory, got {value.type}"
        return self._region_complaint() if is_tensor_buffer(self.buffer) else None

    def _region_complaint(self) -> str | None:
        """Why a buffer in tensor memory can't be here: what allocates its columns must know it."""
        holder = self.operation.parent
        if holder is None or holder.name != TENSOR_MEMORY:
            where = "no operation" if holder is None else f"'{holder.name}'"
            return f"expects a buffer in tensor memory directly in a '{TENSOR_MEMORY}', got it in {where}"
        for below in self.over:
            owner = below.owner
            if isinstance(owner, ir.Block) or owner.name != "tile.alloc" or owner.parent != holder:
                return "expects to overlap a buffer from an earlier tile.alloc in the same region"
        return None


class StageOp(Op, dialect=Tile, name="stage", traits=[Pure]):
    """One of the equal tiles that a buffer holds along its first dimension: `buffer[index]`."""

    buffer: Operand
    index: Operand
    tile: Result
    decided_by_kind = True

    @staticmethod
    def returns(buffer: Any) -> list[Any]:
        return _typed(buffer, stage_type)

    def check(self) -> str | None:
        if not (is_buffer(self.buffer) and is_buffer(self.tile)):
            return f"expects tile.buffer operand and result, got {self.buffer.type} and {self.tile.type}"
        if wrong := index_complaint([self.index]):
            return wrong
        want = stage_type(self.buffer.type)
        if want is None:
            return f"expects a buffer whose first dimension has one stride, got {self.buffer.type}"
        if want != self.tile.type:
            return f"expects to return {want}, got {self.tile.type}"
        if is_tensor_buffer(self.buffer):
            first = self.buffer.type.groups[0]
            return _columns_complaint("stages", self.buffer.type, {it.axis: it.stride for it in first})
        swizzle, apart = want.layout.swizzle, stage_bytes(self.buffer.type)
        if swizzle and apart % swizzle.period:
            return f"stages must be a multiple of {swizzle.period} bytes apart, got {apart}"
        if apart % STAGE_BYTES:
            return f"stages must be a multiple of {STAGE_BYTES} bytes apart, got {apart}"
        return None

    def check_constants(self) -> str | None:
        return constant_complaint("index", self.index, self.buffer.type.shape[0])


class SliceOp(Op, dialect=Tile, name="slice", traits=[Pure]):
    """The slice of a buffer of rank 2 at (`row`, `column`), which must be multiples of the result's shape.
    With a `row_step`, slices begin at multiples of that many rows instead, and may overlap.

    In tensor memory, slices must begin at whole columns.
    """

    buffer: Operand
    row: Operand
    column: Operand
    tile: Result
    optional = {"row_step": 0}  # noqa: RUF012
    decided_by_kind = True

    @staticmethod
    def returns(buffer: Any, shape: Sequence[int]) -> list[Any]:
        return _typed(buffer, lambda whole: slice_type(whole, shape))

    def check(self) -> str | None:
        if not (is_buffer(self.buffer) and is_buffer(self.tile)):
            return f"expects tile.buffer operand and result, got {self.buffer.type} and {self.tile.type}"
        if wrong := index_complaint([self.row, self.column]):
            return wrong
        whole, part = self.buffer.type, self.tile.type
        if len(whole.shape) != 2 or len(part.shape) != 2:
            return f"expects buffers of rank 2, got shapes {list(whole.shape)} and {list(part.shape)}"
        steps = (self.attribute("row_step") or part.shape[0], part.shape[1])
        if wrong := _steps_complaint(whole.shape, part.shape, steps):
            return wrong
        if (want := slice_type(whole, part.shape)) != part:
            return f"expects to return {want}, got {part}"
        return self._layout_complaint(steps)

    def check_constants(self) -> str | None:
        return part_complaint(self, self.buffer.type, self.tile.type)

    def _layout_complaint(self, steps: tuple[int, int]) -> str | None:
        """Why slices that begin at multiples of `steps` don't have one layout."""
        whole, part = self.buffer.type, self.tile.type
        plain = replace(whole.layout, swizzle=None)
        first = plain.slice(whole.shape, (0, 0), part.shape)
        unit = whole.layout.swizzle.period if whole.layout.swizzle else STAGE_BYTES
        rows, columns = (range(0, whole.shape[i] - part.shape[i] + 1, steps[i]) for i in range(2))
        for start in (*((row, 0) for row in rows), *((0, column) for column in columns)):
            other = plain.slice(whole.shape, start, part.shape)
            if other.shard != first.shard:
                return f"expects slices of one layout, got {replace(other, offset=())} at {list(start)}"
            position = plain.apply(start, whole.shape)
            if whole.space == TMEM:
                if wrong := _columns_complaint("slices", whole, position):
                    return wrong
                continue
            apart = position["m"] * whole.element_bits // 8
            if apart % unit:
                return f"slices must be a multiple of {unit} bytes apart, got {apart}"
        return None


def _steps_complaint(whole: Sequence[int], part: Sequence[int], steps: tuple[int, int]) -> str | None:
    """Why slices of shape `part` at multiples of `steps` don't cover a buffer of shape `whole`."""
    if steps[0] < 1:
        return f"row_step must be positive, got {steps[0]}"
    if steps[0] == part[0]:
        covered = all(big % small == 0 for big, small in zip(whole, part, strict=True))
        expected = f"whose shape is a multiple of {list(part)}"
    else:
        rest = whole[0] - part[0]
        covered = rest >= 0 and rest % steps[0] == 0 and whole[1] % part[1] == 0
        expected = f"of {part[0]} rows and a multiple of {steps[0]} more, and a multiple of {part[1]} columns"
    return None if covered else f"expects a buffer {expected}, got {list(whole)}"


def _columns_complaint(what: str, buffer: ir.Type, distance: Mapping[str, int]) -> str | None:
    """Why parts of a buffer in tensor memory at this distance don't begin at whole columns."""
    bits = distance.get("TCol", 0) * buffer.element_bits
    if bits % COLUMN_BITS == 0:
        return None
    return f"{what} must be a multiple of {COLUMN_BITS} bits apart in tensor memory, got {bits}"


class PeerOp(Op, dialect=Tile, name="peer", traits=[Pure]):
    """The buffer of another CTA of the cluster, selected by its rank: it has the same address there as the
    operand here.

    The other CTA must have written the buffer before a barrier of the cluster, and must not exit before
    another.
    """

    buffer: Operand
    rank: Operand
    peer: Result
    decided_by_kind = True

    @staticmethod
    def returns(buffer: Any) -> list[Any]:
        return _typed(buffer, lambda kind: peer_type(kind) if kind.space == "shared" else kind)

    def check(self) -> str | None:
        if not (is_buffer(self.buffer) and is_buffer(self.peer)):
            return f"expects tile.buffer operand and result, got {self.buffer.type} and {self.peer.type}"
        if self.buffer.type.space != "shared":
            return f"expects a buffer in the CTA's own shared memory, got {self.buffer.type}"
        if wrong := index_complaint([self.rank]):
            return wrong
        if peer_type(self.buffer.type) != self.peer.type:
            return f"expects to return {peer_type(self.buffer.type)}, got {self.peer.type}"
        return None


class AddressOp(Op, dialect=Tile, name="address", traits=[Pure]):
    """The address of a buffer's first byte, before any swizzle: an `!llvm.ptr<3>`, or `!llvm.ptr<7>`
    for a buffer of a peer. Of a buffer in tensor memory it is the `!llvm.ptr<6>` of its first lane and
    column, `lane << 16 | column`.
    """

    buffer: Operand
    address: Result
    decided_by_kind = True

    @staticmethod
    def returns(buffer: Any) -> list[Any]:
        return _typed(buffer, lambda kind: ir.Type.parse(_pointer(kind)))

    def check(self) -> str | None:
        if not is_buffer(self.buffer):
            return f"expects a tile.buffer, got {self.buffer.type}"
        want = _pointer(self.buffer.type)
        return (
            None if str(self.address.type) == want else f"expects to return {want}, got {self.address.type}"
        )


def _pointer(buffer: ir.Type) -> str:
    """The type of a buffer's address."""
    return f"!llvm.ptr<{ADDRESS_SPACES[buffer.space]}>"


def stage_type(buffer: ir.Type) -> ir.Type | None:
    """The type of one tile along the buffer's first dimension; None where that has more than one stride."""
    layout = _stage_layout(buffer)
    if layout is None:
        return None
    return BufferType.of(buffer.shape[1:], buffer.element_type, layout, buffer.space)


@of_type
def _stage_layout(buffer: ir.Type) -> str | None:
    """The notation of the layout of one tile along the buffer's first dimension, if that has one stride."""
    if len(buffer.shape) < 2:
        return None
    first, *rest = buffer.groups
    if len([i for i in first if i.extent > 1]) > 1:
        return None
    return str(replace(buffer.layout, shard=tuple(i for group in rest for i in group)))


@of_type
def stage_bytes(buffer: ir.Type) -> int:
    """The distance of a buffer's tiles along its first dimension, for a buffer that has a `stage_type` and
    isn't in tensor memory.
    """
    strides = [it.stride for it in buffer.groups[0]]
    return int(sum(strides) * buffer.element_bits // 8)


def slice_type(buffer: Any, shape: Sequence[int]) -> ir.Type:
    """The type of a slice of a buffer of rank 2. Raises LayoutError where no layout describes it."""
    inner = replace(buffer.layout, swizzle=None).slice(buffer.shape, (0, 0), shape)
    inner = replace(inner, swizzle=buffer.layout.swizzle)
    return BufferType.of(shape, buffer.element_type, inner, buffer.space)


def peer_type(buffer: ir.Type) -> ir.Type:
    """The type of a buffer like this one in another CTA of the cluster."""
    return BufferType.of(buffer.shape, buffer.element_type, buffer.layout, "cluster")


def _typed(buffer: ir.Value, result: Callable[[Any], Any]) -> list[Any]:
    """The type of an op's result by that of its buffer; None for other values, which the verifier refuses."""
    return [result(buffer.type) if is_buffer(buffer) and not buffer.type.complaint() else None]
