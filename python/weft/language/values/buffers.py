"""Tiles in shared memory, and their elements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, NoReturn, Protocol, Self

from weft import mlir
from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES
from weft.dialects.tile import BufferType
from weft.errors import shown
from weft.isa.chips import CHIPS
from weft.isa.tensor_map import BOX_ALIGNMENT, EXPANDED_ROW, SWIZZLED_ROWS
from weft.language.capture import trace
from weft.language.capture.carried import Carried
from weft.language.messages.mistakes import check_value, mistake
from weft.language.operations import clusters
from weft.language.operations.gathers import Gathered, check_index
from weft.language.operations.roles import once
from weft.language.values.dtypes import COPIED, DType, i1, i8, i32
from weft.language.values.fragments import Fragment
from weft.language.values.scalars import Loaded, Scalar, as_scalar, dtype_of, operand
from weft.layout import Layout
from weft.mlir import ir, llvm
from weft.passes.builders import addresses, emit
from weft.passes.builders.shared_tiles import Point, SharedTile
from weft.passes.builders.tcgen05_operands import BYTE, container_bits
from weft.passes.kernels.matrices import narrow_panels, panels


class Element(Loaded):
    """An element of a buffer. In arithmetic, it is the element's value."""

    def __init__(self, buffer: "Buffer", row: ir.Value, column: ir.Value) -> None:
        self.buffer, self._at = buffer, (row, column)
        # At once, so that the element is that of now. Removed at the end if nothing needs it.
        self.element = Scalar(_read(buffer, self._at))

    @property
    def dtype(self) -> DType:
        """The type of the buffer's elements."""
        return self.buffer.dtype

    @property
    def address(self) -> ir.Value:
        """A pointer to it: an SSA value."""
        return element_address(self.buffer, *self._at)

    def loaded(self) -> Scalar:
        assert self.element is not None
        return self.element

    def noun(self) -> str:
        return f"an element of {self.buffer}"


@dataclass(frozen=True, eq=False)
class Elements(Gathered):
    """Elements of a buffer at indices of which some are fragments."""

    @property
    def is_of_rows(self) -> bool:
        return False

    def size(self, axis: int) -> int:
        return self.matrix.shape[axis]

    def read(self, index: Sequence[ir.Value]) -> ir.Value:
        return _read(self.matrix, index)

    def write(self, element: ir.Value, index: Sequence[ir.Value]) -> None:
        _write(self.matrix, index, element)


def element_of(buffer: "Buffer", indices: object) -> Element | Elements:
    """An element of a buffer, or those at indices that fragments hold."""
    index = _element_indices(buffer, indices)
    buffer.read_by_lanes()
    if any(isinstance(each, Fragment) for each in index):
        return Elements(buffer, index)
    return Element(buffer, *(each.value for each in index))


def store_element(buffer: "Buffer", indices: object, value: object) -> None:
    """Stores a number as an element of a buffer."""
    index = _element_indices(buffer, indices)
    if any(isinstance(each, Fragment) for each in index):
        raise mistake(f"elements of {buffer} at indices of a fragment are stored by w.store")
    if operand(value, buffer.dtype) is None:
        raise mistake(f"expects a number for an element of {buffer}, got {value}: use w.store for tiles")
    number = as_scalar(value, buffer.dtype).value
    buffer.written_by_lanes()
    once(lambda: _write(buffer, [each.value for each in index], number))


def element_address(buffer: "Buffer", row: ir.Value, column: ir.Value) -> ir.Value:
    """A pointer to the element at these SSA values."""
    if buffer.transposed:
        row, column = column, row
    offset = SharedTile(buffer.value.type).offset(Point(row), Point(column))
    return addresses.offset(tile.address(buffer.value), emit.value(offset))


def _read(buffer: "Buffer", index: Sequence[ir.Value]) -> ir.Value:
    kind = buffer.dtype.type
    load = llvm.load(
        addresses.stored_type(kind), element_address(buffer, *index), alignment=buffer.dtype.bytes
    )
    trace.current().removable.append((load, [load.owner]))
    return emit.bits(load, kind)


def _write(buffer: "Buffer", index: Sequence[ir.Value], number: ir.Value) -> None:
    word = emit.bits(number, addresses.stored_type(number.type))
    llvm.store(word, element_address(buffer, *index), alignment=buffer.dtype.bytes)


def _element_indices(buffer: "Buffer", given: object) -> tuple[Fragment | Scalar, Fragment | Scalar]:
    """The row and column of an element. Of a buffer of one row, the column suffices."""
    given = given if isinstance(given, tuple) else (given,)
    if len(given) == 1 and buffer.shape[0] == 1:
        given = (0, *given)
    if len(given) != 2 or any(isinstance(each, slice) for each in given):
        raise mistake(
            f"an element of {buffer} is at [row, column]: w.load loads the buffer as a tile, .rows(first, "
            "count) and .columns(first, count) are parts of it"
        )
    row, column = (each if isinstance(each, Fragment) else as_scalar(each, i32) for each in given)
    for axis, each, size in (("row", row, buffer.shape[0]), ("column", column, buffer.shape[1])):
        check_index(each)
        constant = mlir.constant(each.value) if isinstance(each, Scalar) else None
        if constant is not None and not 0 <= constant < size:
            raise mistake(f"{axis} of an element of {buffer} must be in 0..{size - 1}, got {constant}")
    return row, column


_BARRIER_BYTES = 16  # of each stage: one that it is full, one that it is empty


class Filled(Protocol):
    """A ring of whose stages buffers are parts."""

    over: Any

    def read_by_lanes(self) -> None:
        """Notes that lanes read the stages, not only products."""

    def read_by_product(self) -> None:
        """Notes that products which one thread starts read the stages."""


class Stage(Protocol):
    """A stage that was taken."""

    written: bool
    ring: Any

    def check_full(self, done: str) -> None:
        """Raises WeftError if no wait comes before the stage is read or released (`done`)."""

    def multiplied(self, product: int) -> None:
        """Notes that a product, by its number, reads the stage."""


class Memory(Carried):
    """A tile of rows x columns in shared or tensor memory, or a part of one."""

    noun: str
    instead: str
    """The end of a message: what to do where a loop or branch would choose between two."""
    transposed = False

    def __init__(self, value: ir.Value, ring: Filled | None = None, slot: Stage | None = None) -> None:
        check_value(value, type(self).__name__)
        self.value = value
        """The SSA value."""
        self.ring, self.slot = ring, slot

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return dtype_of(self.value.type.element_type)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.value.type.shape
        return rows, columns

    @property
    def layout(self) -> Layout:
        """Where its elements are."""
        return self.value.type.layout

    def check_full(self) -> None:
        """Raises WeftError for a buffer of a stage that nothing has waited for."""
        if self.slot is not None:
            self.slot.check_full("read")

    # Its address is known where it is used, so that loops and branches carry the buffer itself.

    def parts(self) -> list[ir.Value]:
        return []

    def like(self, parts: Iterator[ir.Value]) -> Self:
        return self

    def complaint(self, other: "Memory") -> str | None:
        if other.value == self.value and other.transposed == self.transposed:
            return None
        return f"was {self} and becomes another one, {other}: {self.instead}"

    def __str__(self) -> str:
        return f"{self.noun} of {' x '.join(map(str, self.shape))} {self.dtype}"

    def __repr__(self) -> str:
        return f"<{self}, {self.layout}>"


class Buffer(Memory):
    """A tile of rows x columns in shared memory, or a part of one. `b.T` is it transposed, for `w.gemm`."""

    noun = "a buffer"
    instead = (
        "make one buffer of both, and choose rows of it where they are used, as in b[i % 2, j] or "
        "b.rows(i % 2 * rows, rows)"
    )

    def __init__(
        self,
        value: ir.Value,
        *,
        transposed: bool = False,
        ring: Filled | None = None,
        slot: Stage | None = None,
    ) -> None:
        super().__init__(value, ring, slot)
        self.transposed = transposed

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, of the transposed tile for `b.T`."""
        rows, columns = self.value.type.shape
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def T(self) -> "Buffer":
        """The transposed tile; nothing moves."""
        return Buffer(self.value, transposed=not self.transposed, ring=self.ring, slot=self.slot)

    def rows(self, first: object, count: int) -> "Buffer":
        """`count` rows from `first` on, a multiple of `count`; where `count` doesn't divide the rows, of the
        greatest common divisor of both.
        """
        return self._part(0, first, count)

    def columns(self, first: object, count: int) -> "Buffer":
        """`count` columns from `first` on, a multiple of `count`."""
        return self._part(1, first, count)

    def peer(self, rank: object) -> "Buffer":
        """The buffer at the same address in another CTA of the cluster, by its rank, to load from or to store
        to. Between the accesses of two CTAs must be a `w.cluster_barrier()`, and one before the first store.
        """
        clusters.check("a buffer's peer")
        other = tile.peer(self.value, as_scalar(rank, i32).value)
        return Buffer(other, transposed=self.transposed, ring=self.ring, slot=self.slot)

    def read_by_lanes(self, *, as_operand: bool = False) -> None:
        """Notes that lanes read it, for themselves or as an operand of `mma.sync`."""
        self.check_full()
        if self.dtype in COPIED and not as_operand:
            raise mistake(f"lanes can't read or write {self}: only w.gemm takes elements of {self.dtype}")
        if self.ring is not None:
            self.ring.read_by_lanes()

    def written_by_lanes(self) -> None:
        """Notes that lanes write it, where copies fill its stage again."""
        if self.slot is None or not self.slot.written:
            self.read_by_lanes()

    def _part(self, axis: int, first: object, count: int) -> "Buffer":
        whole = self.shape
        is_legal = isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= whole[axis]
        step = gcd(count, whole[axis]) if is_legal else 0
        name = ("rows", "columns")[axis]
        size_text = f"{whole[axis]} {name}"
        if self.dtype.bits < 8 and axis != self.transposed and count != whole[axis]:
            raise mistake(f"a part of {self} must have all of its {size_text}, got {shown(count)}")
        axis ^= int(self.transposed)
        if not is_legal or (step < count and (axis == 1 or step % SWIZZLED_ROWS)):
            raise mistake(f"a part must divide the {size_text} of the tile, got {shown(count)}")
        lines = (SWIZZLED_ROWS, self.value.type.groups[1][-1].extent)
        if self.layout.swizzle is not None and count % lines[axis]:
            raise mistake(
                f"a part of {self} must have a multiple of {lines[axis]} {name}, since its elements are "
                f"swizzled, got {count}"
            )
        shape = [count if number == axis else size for number, size in enumerate(self.value.type.shape)]
        if tuple(shape) == tuple(self.value.type.shape):
            if isinstance(first, int) and first != 0:
                raise mistake(f"a part of all {size_text} must begin at 0, got {first}")
            return self
        start = [emit.value(0)] * 2
        start[axis] = as_scalar(first, i32).value
        row_step = step if step < count else 0
        part = tile.slice_(self.value, start[0], start[1], (shape[0], shape[1]), row_step=row_step)
        return Buffer(part, transposed=self.transposed, ring=self.ring, slot=self.slot)

    def __getitem__(self, indices: object) -> Element | Elements:
        return element_of(self, indices)

    def __setitem__(self, indices: object, value: object) -> None:
        store_element(self, indices, value)

    def __iter__(self) -> NoReturn:
        raise mistake(f"can't loop over {self}: loop over w.range of its rows or columns")


def shared(rows: int, columns: int, dtype: DType) -> Buffer:
    """A tile in shared memory, for the whole kernel. Make it before the first role."""
    trace.current().check_before_roles("a buffer")
    if dtype in COPIED:
        raise mistake(f"a buffer of {dtype} must be one of a ring, which ring.fill copies to")
    kind = buffer_type(rows, columns, dtype)
    check_room(f"a buffer of {rows} x {columns} {dtype} takes", kind.bytes)
    with trace.current().before_barriers():
        return Buffer(tile.alloc(kind))


def buffer_type(
    rows: int, columns: int, dtype: DType, stages: int | None = None, *, expanded: bool = False
) -> ir.Type:
    """The type of a tile, or of several: in panels as wide as the widest swizzle that a row fills. With
    `expanded`, elements of 4 bits have a byte each, as those of 6 bits do.
    """
    for name, value in (("rows", rows), ("columns", columns)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise mistake(f"{name} of a buffer must be a positive number that Python knows, got {value}")
    if not isinstance(dtype, DType):
        raise mistake(f"the type of a buffer's elements must be one such as w.bf16, got {shown(dtype)}")
    if dtype == i1:
        raise mistake(f"the type of a buffer's elements can't be {i1}: use {i8}, with 0 and 1")
    expanded |= dtype.bits == 6
    widths = [EXPANDED_ROW] if expanded else [width * 8 // dtype.bits for width in SWIZZLES]
    if not any(columns % width == 0 for width in widths):
        least = min(widths)
        instead = "as copies fill what is outside of an array with 0"
        if stages is None and rows > 1 and rows * columns % least == 0:
            instead += (
                f"; or w.shared(1, {rows * columns}, {dtype}), with elements [row * {columns} + column]"
            )
        raise mistake(
            f"columns of a buffer of {dtype} must be a multiple of {least}, got {columns}: use "
            f"{-(-columns // least) * least}, {instead}"
        )
    if rows == 1 and dtype not in COPIED:  # for lanes, which load vectors in any order
        step = -(-columns * dtype.bytes // BOX_ALIGNMENT) * BOX_ALIGNMENT // dtype.bytes  # of stages, for TMA
        text = f"S[({stages or 1},1,{columns}):({step},{columns},1)]"
    elif dtype.bits < 8:
        text = narrow_panels(rows, columns, dtype.bits, stages or 1, expanded=expanded)
    else:
        text = panels(rows, columns, dtype.bytes, stages or 1)
    type_of_stages = BufferType.of((stages or 1, rows, columns), dtype.type, Layout.parse(text))
    one = type_of_stages if stages is not None else tile.stage_type(type_of_stages)
    assert one is not None
    return one


def is_packed(buffer: Memory | Fragment) -> bool:
    """Whether two elements share a byte."""
    return container_bits(buffer.value.type) < BYTE


def stages_complaint(kind: ir.Type) -> str | None:
    """Says why stages of a buffer can't be used, if they begin within the pattern of their swizzle."""
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


def check_room(subject: str, each: int, stages: int = 0) -> None:
    """Raises WeftError unless so many bytes of shared memory are left, or those of `stages` with their
    barriers.
    """
    current = trace.current()
    chip, needed = CHIPS.get(current.chip), (each + _BARRIER_BYTES) * stages or each
    taken, current.shared_bytes = current.shared_bytes, current.shared_bytes + needed
    if chip is None or current.shared_bytes <= chip.shared_bytes:
        return
    beside = " with barriers" if stages else ""
    free = chip.shared_bytes - taken
    before = f", of which other buffers take {taken}" if taken else ""
    fitting = free // (each + _BARRIER_BYTES) if stages > 1 else 0
    fewer = f"use at most {fitting} stage{'s' if fitting > 1 else ''}"
    smaller = f"use smaller tiles{' or fewer stages' if taken else ''}"
    raise mistake(
        f"{subject} {needed} bytes of shared memory{beside}, and a CTA on {current.chip} has "
        f"{chip.shared_bytes}{before}: {fewer if fitting else smaller}"
    )
