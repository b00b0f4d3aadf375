"""Tiles in shared memory."""

from collections.abc import Iterator
from math import gcd
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES
from weft.dialects.tile import BufferType
from weft.errors import shown
from weft.isa.chips import CHIPS
from weft.isa.tensor_map import BOX_ALIGNMENT, SWIZZLED_ROWS
from weft.language import clusters, elements, trace
from weft.language.carried import Carried
from weft.language.dtypes import DType, i1, i8, i32
from weft.language.mistakes import check_value, mistake
from weft.language.scalars import as_scalar, dtype_of
from weft.layout import Layout
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.matrices import panels

_BARRIER_BYTES = 16  # of each stage: one that it is full, one that it is empty


class Buffer(Carried):
    """A tile of rows x columns in shared memory, or a part of one. `b.T` is it transposed, for `w.gemm`."""

    def __init__(
        self, value: ir.Value, *, transposed: bool = False, ring: Any = None, slot: Any = None
    ) -> None:
        check_value(value, "Buffer")
        self.value = value
        """The SSA value."""
        self.transposed = transposed
        self.ring, self.slot = ring, slot

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return dtype_of(self.value.type.element_type)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, of the transposed tile for `b.T`."""
        rows, columns = self.value.type.shape
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def layout(self) -> Layout:
        """Where its elements are."""
        return self.value.type.layout

    @property
    def T(self) -> "Buffer":
        """The transposed tile; nothing moves."""
        return Buffer(self.value, transposed=not self.transposed, ring=self.ring, slot=self.slot)

    def rows(self, first: Any, count: int) -> "Buffer":
        """`count` rows from `first` on, a multiple of `count`; where `count` doesn't divide the rows, of the
        greatest common divisor of both.
        """
        return self._part(0, first, count)

    def columns(self, first: Any, count: int) -> "Buffer":
        """`count` columns from `first` on, a multiple of `count`."""
        return self._part(1, first, count)

    def peer(self, rank: Any) -> "Buffer":
        """The buffer at the same address in another CTA of the cluster, by its rank, to load from or to store
        to. Between the accesses of two CTAs must be a `w.cluster_barrier()`, and one before the first store.
        """
        clusters.check("a buffer's peer")
        other = tile.peer(self.value, as_scalar(rank, i32).value)
        return Buffer(other, transposed=self.transposed, ring=self.ring, slot=self.slot)

    def check_full(self) -> None:
        """Raises WeftError for a buffer of a stage that nothing has waited for."""
        if self.slot is not None:
            self.slot.check_full("read")

    def read_by_lanes(self) -> None:
        """Notes that lanes read it, not only products."""
        self.check_full()
        if self.ring is not None:
            self.ring.read_by_lanes()

    def written_by_lanes(self) -> None:
        """Notes that lanes write it, where copies fill its stage again."""
        if self.slot is None or not self.slot.written:
            self.read_by_lanes()

    def _part(self, axis: int, first: Any, count: int) -> "Buffer":
        whole = self.shape
        known = isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= whole[axis]
        step = gcd(count, whole[axis]) if known else 0
        name = ("rows", "columns")[axis]
        what = f"{whole[axis]} {name}"
        axis ^= int(self.transposed)
        if not known or (step < count and (axis == 1 or step % SWIZZLED_ROWS)):
            raise mistake(f"a part must divide the {what} of the tile, got {shown(count)}")
        lines = (SWIZZLED_ROWS, self.value.type.groups[1][-1].extent)
        if self.layout.swizzle is not None and count % lines[axis]:
            raise mistake(
                f"a part of {self} must have a multiple of {lines[axis]} {name}, since its elements are "
                f"swizzled, got {count}"
            )
        shape = [count if number == axis else size for number, size in enumerate(self.value.type.shape)]
        if tuple(shape) == tuple(self.value.type.shape):
            if isinstance(first, int) and first != 0:
                raise mistake(f"a part of all {what} must begin at 0, got {first}")
            return self
        start = [emit.value(0)] * 2
        start[axis] = as_scalar(first, i32).value
        row_step = step if step < count else 0
        part = tile.slice_(self.value, start[0], start[1], (shape[0], shape[1]), row_step=row_step)
        return Buffer(part, transposed=self.transposed, ring=self.ring, slot=self.slot)

    def __getitem__(self, indices: Any) -> elements.Element | elements.Elements:
        return elements.of(self, indices)

    def __setitem__(self, indices: Any, value: Any) -> None:
        elements.store(self, indices, value)

    def __iter__(self) -> Any:
        raise mistake(f"can't loop over {self}: loop over w.range of its rows or columns")

    # Its address is known where it is used, so that loops and branches carry the buffer itself.

    def parts(self) -> list[Any]:
        return []

    def like(self, parts: Iterator[Any]) -> "Buffer":
        return self

    def complaint(self, other: "Buffer") -> str | None:
        if other.value == self.value and other.transposed == self.transposed:
            return None
        return (
            f"was {self} and becomes another one, {other}: make one buffer of both, and choose rows of it "
            "where they are used, as in b[i % 2, j] or b.rows(i % 2 * rows, rows)"
        )

    def __str__(self) -> str:
        return f"a buffer of {' x '.join(map(str, self.shape))} {self.dtype}"

    def __repr__(self) -> str:
        return f"<{self}, {self.layout}>"


def shared(rows: int, columns: int, dtype: DType) -> Buffer:
    """A tile in shared memory, for the whole kernel. Make it before the first role."""
    trace.current().check_before_roles("a buffer")
    kind = buffer_type(rows, columns, dtype)
    check_room(f"a buffer of {rows} x {columns} {dtype} takes", kind.bytes)
    with trace.current().before_barriers():
        return Buffer(tile.alloc(kind))


def buffer_type(rows: Any, columns: Any, dtype: DType, stages: int | None = None) -> Any:
    """The type of a tile, or of several: in panels as wide as the widest swizzle that a row fills."""
    for name, value in (("rows", rows), ("columns", columns)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise mistake(f"{name} of a buffer must be a positive number that Python knows, got {value}")
    if not isinstance(dtype, DType):
        raise mistake(f"the type of a buffer's elements must be one such as w.bf16, got {shown(dtype)}")
    if dtype == i1:
        raise mistake(f"the type of a buffer's elements can't be {i1}: use {i8}, with 0 and 1")
    if not any(columns * dtype.bytes % width == 0 for width in SWIZZLES):
        least = min(SWIZZLES) // dtype.bytes
        instead = "as copies fill what is outside of an array with 0"
        if stages is None and rows > 1 and rows * columns % least == 0:
            instead += (
                f"; or w.shared(1, {rows * columns}, {dtype}), with elements [row * {columns} + column]"
            )
        raise mistake(
            f"columns of a buffer of {dtype} must be a multiple of {least}, got {columns}: use "
            f"{-(-columns // least) * least}, {instead}"
        )
    if rows == 1:  # for lanes, which load vectors in any order
        step = -(-columns * dtype.bytes // BOX_ALIGNMENT) * BOX_ALIGNMENT // dtype.bytes  # of stages, for TMA
        text = f"S[({stages or 1},1,{columns}):({step},{columns},1)]"
    else:
        text = panels(rows, columns, dtype.bytes, stages or 1)
    whole = BufferType.of((stages or 1, rows, columns), dtype.type, Layout.parse(text))
    return tile.stage_type(whole) if stages is None else whole


def stages_complaint(kind: ir.Type) -> str | None:
    """Why stages of a buffer of this type can't be used: they begin within the pattern of their swizzle."""
    _, rows, columns = kind.shape
    one, apart = tile.stage_type(kind), tile.stage_bytes(kind)
    period = one.layout.swizzle.period if one is not None and one.layout.swizzle else 1
    if apart % period == 0:
        return None
    step = period // gcd(period, apart // rows)
    legal, dtype = -(-rows // step) * step, dtype_of(kind.element_type)
    return (
        f"rows of a buffer of {columns} {dtype} must be a multiple of {step} in a "
        f"ring, since the swizzle of its stages repeats after {step}, got {rows}: use {legal}"
    )


def check_room(what: str, each: int, count: int = 1) -> None:
    """Raises WeftError unless `count` times so many bytes of shared memory are left, of which `what` has the
    parts. Rings have barriers beside them, so that the compiler refuses some of what passes here.
    """
    current = trace.current()
    chip = CHIPS.get(current.chip)
    taken, current.shared_bytes = current.shared_bytes, current.shared_bytes + each * count
    if chip is None or current.shared_bytes <= chip.shared_bytes:
        return
    free = chip.shared_bytes - taken
    before = f", of which other buffers take {taken}" if taken else ""
    fitting = free // (each + _BARRIER_BYTES) if count > 1 else 0
    fewer = f"use at most {fitting} stage{'s' if fitting > 1 else ''}"
    raise mistake(
        f"{what} {each * count} bytes of shared memory, and a CTA on {current.chip} has "
        f"{chip.shared_bytes}{before}: {fewer if fitting else 'use smaller tiles'}"
    )
