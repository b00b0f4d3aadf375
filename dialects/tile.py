"""The `tile` dialect: matrix products and copies over tiles with layouts, above any instruction.

Its types, fragments and buffers, are those of `weft.dialects.tile_types`. Global operands are memrefs.
"""

from collections.abc import Sequence
from ctypes import c_float
from math import isfinite
from typing import Any

from weft.dialects.instruction import judge
from weft.dialects.op import Op, build
from weft.dialects.schedule import Schedule
from weft.dialects.tile_types import (
    INPUT_TYPES,
    OUTPUT_TYPES,
    BufferType,
    FragmentType,
    Tile,
    is_buffer,
    is_fragment,
    is_memref,
    matrix_complaint,
    tile_complaint,
)
from weft.errors import WeftError
from weft.isa import async_copy
from weft.layout import Layout
from weft.mlir import ext, ir

__all__ = ["BufferType", "FragmentType", "Tile", "is_buffer", "is_fragment"]  # what users of the ops need too

STAGE_BYTES = 16  # the widest cp.async, and a row of ldmatrix, must be aligned in every stage


class MatmulOp(Op, dialect=Tile, name="matmul"):
    """`D = alpha * A @ B + beta * C`: a whole product of matrices in global memory.

    A is M x K, B is K x N (N x K with `transpose_b`), D is M x N. C is the operand after D; with a beta and
    no C, D is read and updated. Products accumulate in f32.
    """

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    d: ext.Operand[Any]
    inputs: Sequence[ext.Operand[Any]]
    optional = {"transpose_b": False, "alpha": 1.0, "beta": 0.0, "schedule": None}  # noqa: RUF012

    @property
    def c(self) -> Any | None:
        """The matrix that beta scales: C, else D; None where beta is 0."""
        if self.attribute("beta") == 0.0:
            return None
        return self.inputs[0] if len(self.inputs) else self.d

    @property
    def schedule(self) -> Schedule | None:
        """The schedule, where one was chosen."""
        found = self.attribute("schedule")
        return None if found is None else Schedule.of(found)

    @property
    def static_mnk(self) -> tuple[int | None, int | None, int | None]:
        """M, N and K as far as the operand types tell."""
        rows_b, cols_b = _dims(self.b)
        if self.attribute("transpose_b"):
            rows_b, cols_b = cols_b, rows_b
        (m_a, k_a), (m_d, n_d) = _dims(self.a), _dims(self.d)
        return m_a or m_d, cols_b or n_d, k_a or rows_b

    def check(self) -> str | None:
        if len(self.inputs) > 1:
            return f"expects A, B, D and at most one C, got {3 + len(self.inputs)} operands"
        named = [("A", self.a, INPUT_TYPES), ("B", self.b, INPUT_TYPES), ("D", self.d, OUTPUT_TYPES)]
        named += [("C", c, OUTPUT_TYPES) for c in self.inputs]
        for name, value, elements in named:
            if found := matrix_complaint(name, value, elements):
                return found
        for name in ("alpha", "beta"):
            if not isfinite(c_float(self.attribute(name)).value):
                return f"expects {name} to be finite in f32, got {self.attribute(name)}"
        for name, value in (("A", self.a), ("B", self.b)):
            if value == self.d:
                return f"has one matrix as {name} and D: it would overwrite what it reads"
        if self.a.type.element_type != self.b.type.element_type:
            return f"expects A and B of one element type, got {self.a.type} and {self.b.type}"
        return self._shape_complaint() or self._schedule_complaint()

    def _shape_complaint(self) -> str | None:
        (m, k), (m_d, n_d), b = _dims(self.a), _dims(self.d), _dims(self.b)
        k_b, n = reversed(b) if self.attribute("transpose_b") else b
        pairs = [("M", "A", m, "D", m_d), ("N", "B", n, "D", n_d), ("K", "A", k, "B", k_b)]
        for c in self.inputs:
            pairs += [("M", "D", m_d, "C", _dims(c)[0]), ("N", "D", n_d, "C", _dims(c)[1])]
        for dim, x, x_size, y, y_size in pairs:
            if x_size and y_size and x_size != y_size:
                form = "N x K" if self.attribute("transpose_b") else "K x N"
                found = f"{dim} is {x_size} in {x} and {y_size} in {y}"
                return f"expects A (M x K), B ({form}) and D (M x N) to agree: {found}"
        return None

    def _schedule_complaint(self) -> str | None:
        found = self.attribute("schedule")
        if found is None:
            return None
        try:
            schedule = Schedule.of(found)
        except WeftError as error:
            return error.diagnostics[0].message
        return schedule.complaint(self.target)


def _dims(value: Any) -> tuple[int | None, int | None]:
    kind = value.type
    rows, cols = (None if kind.is_dynamic_dim(i) else kind.shape[i] for i in range(2))
    return rows, cols


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
    """A buffer that lives as long as the kernel; shared buffers start on 1024 bytes, so that every swizzle
    fits.
    """

    buffer: ext.Result[Any]

    def check(self) -> str | None:
        if not is_buffer(self.buffer):
            return f"expects to return a tile.buffer, got {self.buffer.type}"
        return tile_complaint([self.buffer])


class StageOp(Op, dialect=Tile, name="stage"):
    """One of the equal tiles that a buffer holds along its first dimension: `buffer[index]`."""

    buffer: ext.Operand[Any]
    index: ext.Operand[Any]
    tile: ext.Result[Any]

    def check(self) -> str | None:
        if not (is_buffer(self.buffer) and is_buffer(self.tile)):
            return f"expects tile.buffer operand and result, got {self.buffer.type} and {self.tile.type}"
        if found := tile_complaint([self.buffer, self.tile]) or _index_complaint([self.index]):
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


class AddressOp(Op, dialect=Tile, name="address"):
    """The address of a buffer's first byte, before any swizzle: an `!llvm.ptr<3>`."""

    buffer: ext.Operand[Any]
    address: ext.Result[Any]

    def check(self) -> str | None:
        if not is_buffer(self.buffer):
            return f"expects a tile.buffer, got {self.buffer.type}"
        if str(self.address.type) != "!llvm.ptr<3>":
            return f"expects to return !llvm.ptr<3>, got {self.address.type}"
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


def stage_bytes(buffer: Any) -> int:
    """The distance of a buffer's tiles along its first dimension, for a buffer that has a `stage_type`."""
    strides = [it.stride for it in buffer.layout.group(buffer.shape)[0]]
    return int(sum(strides) * buffer.element_bits // 8)


def _index_complaint(values: Sequence[Any]) -> str | None:
    for value in values:
        if str(value.type) != "i32":
            return f"expects i32 coordinates, got {value.type}"
    return None


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
    if found := matrix_complaint("the source", op.source, OUTPUT_TYPES):
        return found
    if not is_buffer(op.tile):
        return f"expects the destination to be a tile.buffer, got {op.tile.type}"
    if found := tile_complaint([op.tile]) or _index_complaint([op.row, op.column]):
        return found
    if len(op.tile.type.shape) != 2:
        return f"expects a destination of rank 2, got shape {list(op.tile.type.shape)}"
    if op.tile.type.element_type != op.source.type.element_type:
        return f"expects one element type, got {op.source.type} and {op.tile.type}"
    return None


class CopyAsyncOp(Op, dialect=Tile, name="copy_async"):
    """All threads of the CTA start to copy the tile at (`row`, `column`) of a matrix into a buffer
    (cp.async).

    What lies outside of the matrix becomes zero. Each thread copies `vector_bytes` at a time: rows and tile
    must be aligned to it. The data is there after `nvvm.cp.async.commit.group`, `nvvm.cp.async.wait.group`
    and a barrier.
    """

    source: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    tile: ext.Operand[Any]
    vector_bytes: ir.IntegerAttr

    @property
    def form(self) -> async_copy.Copy:
        """The row's key: the instruction that copies one vector."""
        return async_copy.copy_of(self.attribute("vector_bytes"))

    def check(self) -> str | None:
        widths = [form.bytes for form in async_copy.CP_ASYNC.forms()]
        found = _copy_complaint(self) or _vector_complaint(self, tuple(dict.fromkeys(widths)))
        return found or judge(async_copy.CP_ASYNC, self)


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
            found = matrix_complaint("the source", self.source, OUTPUT_TYPES)
        elif is_buffer(self.source):
            found = tile_complaint([self.source])
        else:
            found = f"expects a tile.buffer or a memref, got {self.source.type}"
        found = found or tile_complaint([self.fragment]) or _index_complaint([self.row, self.column])
        found = found or _access_complaint(self, self.fragment)
        if found:
            return found
        if self.source.type.element_type != self.fragment.type.element_type:
            return f"expects one element type, got {self.source.type} and {self.fragment.type}"
        return self._buffer_complaint() if is_buffer(self.source) else self._matrix_complaint()

    def _matrix_complaint(self) -> str | None:
        return "expects no transpose of a matrix" if self.attribute("transpose") else None

    def _buffer_complaint(self) -> str | None:
        outer, inner = self.source.type.shape, self.fragment.type.shape
        if len(outer) != 2:
            return f"expects a buffer of rank 2, got shape {list(outer)}"
        if self.attribute("transpose"):
            inner = inner[::-1]
        if any(big % small for big, small in zip(outer, inner, strict=True)):
            return f"expects a buffer of whole tiles of {list(inner)}, got shape {list(outer)}"
        return None


class StoreOp(Op, dialect=Tile, name="store"):
    """One warp stores a fragment at (`row`, `column`) of a matrix; what lies outside of the matrix is left
    out.

    `vector_bytes` more than an element's width stores runs of the lane's elements at once: rows, and the
    fragment's place, must be aligned to it.
    """

    fragment: ext.Operand[Any]
    destination: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    optional = {"vector_bytes": 0}  # noqa: RUF012

    def check(self) -> str | None:
        if not is_fragment(self.fragment):
            return f"expects a tile.fragment, got {self.fragment.type}"
        found = matrix_complaint("the destination", self.destination, OUTPUT_TYPES)
        found = found or tile_complaint([self.fragment]) or _index_complaint([self.row, self.column])
        found = found or _access_complaint(self, self.fragment)
        if found:
            return found
        if self.destination.type.element_type != self.fragment.type.element_type:
            return f"expects one element type, got {self.fragment.type} and {self.destination.type}"
        return None


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


def matmul(
    a: Any,
    b: Any,
    d: Any,
    c: Any | None = None,
    *,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    schedule: Schedule | None = None,
) -> Any:
    """Builds `tile.matmul` (see `MatmulOp`). Raises WeftError where the operands don't fit."""
    return build(
        MatmulOp,
        operands=[a, b, d, *([] if c is None else [c])],
        attributes={
            "transpose_b": transpose_b,
            "alpha": float(alpha),
            "beta": float(beta),
            "schedule": schedule and schedule.attribute(),
        },
    )


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


def stage(buffer: Any, index: Any) -> Any:
    """Builds `tile.stage` and returns `buffer[index]`."""
    return build(StageOp, operands=[buffer, index], results=[stage_type(buffer.type)]).tile


def copy_async(source: Any, row: Any, column: Any, tile: Any, *, vector_bytes: int) -> Any:
    """Builds `tile.copy_async`."""
    return build(CopyAsyncOp, operands=[source, row, column, tile], attributes={"vector_bytes": vector_bytes})


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
