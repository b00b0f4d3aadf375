"""Single elements of buffers in shared memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft import mlir
from weft.dialects import tile
from weft.language import trace
from weft.language.dtypes import DType, i32
from weft.language.fragments import Fragment
from weft.language.gathers import Gathered, check_index
from weft.language.loaded import Loaded
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar, as_scalar, operand
from weft.language.single_threads import once
from weft.mlir import ir, llvm
from weft.passes.builders import addresses, emit
from weft.passes.builders.shared_tiles import Point, SharedTile


class Element(Loaded):
    """An element of a buffer. In arithmetic, it is the element's value."""

    def __init__(self, buffer: Any, row: ir.Value, column: ir.Value) -> None:
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
        return address(self.buffer, *self._at)

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

    def size(self, axis: int) -> Any:
        return self.matrix.shape[axis]

    def read(self, at: Sequence[ir.Value]) -> ir.Value:
        return _read(self.matrix, at)

    def write(self, element: ir.Value, at: Sequence[ir.Value]) -> None:
        _write(self.matrix, at, element)


def of(buffer: Any, indices: Any) -> Element | Elements:
    """An element of a buffer, or those at indices that fragments hold."""
    at = _indices(buffer, indices)
    buffer.read_by_lanes()
    if any(isinstance(each, Fragment) for each in at):
        return Elements(buffer, at)
    return Element(buffer, *(each.value for each in at))


def store(buffer: Any, indices: Any, value: Any) -> None:
    """Stores a number as an element of a buffer."""
    at = _indices(buffer, indices)
    if any(isinstance(each, Fragment) for each in at):
        raise mistake(f"elements of {buffer} at indices of a fragment are stored by w.store")
    if operand(value, buffer.dtype) is None:
        raise mistake(f"expects a number for an element of {buffer}, got {value}: use w.store for tiles")
    number = as_scalar(value, buffer.dtype).value
    buffer.written_by_lanes()
    once(lambda: _write(buffer, [each.value for each in at], number))


def address(buffer: Any, row: ir.Value, column: ir.Value) -> ir.Value:
    """A pointer to the element at these SSA values."""
    if buffer.transposed:
        row, column = column, row
    offset = SharedTile(buffer.value.type).offset(Point(row), Point(column))
    return addresses.offset(tile.address(buffer.value), emit.value(offset))


def _read(buffer: Any, at: Sequence[ir.Value]) -> ir.Value:
    kind = buffer.dtype.type
    load = llvm.load(addresses.stored_type(kind), address(buffer, *at), alignment=buffer.dtype.bytes)
    trace.current().removable.append((load, [load.owner]))
    return emit.bits(load, kind)


def _write(buffer: Any, at: Sequence[ir.Value], number: ir.Value) -> None:
    word = emit.bits(number, addresses.stored_type(number.type))
    llvm.store(word, address(buffer, *at), alignment=buffer.dtype.bytes)


def _indices(buffer: Any, given: Any) -> tuple[Fragment | Scalar, Any]:
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
    for what, each, size in (("row", row, buffer.shape[0]), ("column", column, buffer.shape[1])):
        check_index(each)
        known = mlir.constant(each.value) if isinstance(each, Scalar) else None
        if known is not None and not 0 <= known < size:
            raise mistake(f"{what} of an element of {buffer} must be in 0..{size - 1}, got {known}")
    return row, column
