"""The arrays in global memory that a kernel gets, and places in them."""

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NoReturn

from weft import mlir
from weft.dialects import tile
from weft.errors import shown
from weft.isa.chips import describe
from weft.isa.cluster_features import GATHER
from weft.isa.tensor_map import ROW_BYTES
from weft.language.capture import trace
from weft.language.capture.carried import Fixed
from weft.language.messages.mistakes import mistake
from weft.language.operations.gathers import Gathered
from weft.language.operations.gathers import checked as gathered
from weft.language.operations.roles import once
from weft.language.values.bounds import existing
from weft.language.values.dtypes import COPIED, DType, i32
from weft.language.values.foreign import Foreign
from weft.language.values.fragments import Fragment
from weft.language.values.scalars import Loaded, Scalar, as_scalar, dtype_of, operand
from weft.mlir import ir, memref
from weft.passes.builders import addresses, emit
from weft.passes.kernels import matrices


@dataclass(frozen=True, eq=False)
class Matrix(Fixed, Foreign):
    """An array argument: a vector, a matrix, a batch of matrices, or a batch of batches. `a[row, column]` is
    a place in it.
    """

    value: ir.Value
    """The SSA value, a memref."""
    name: str
    sizes: tuple[str, ...]
    known: tuple[int | None, ...]  # sizes that are known when the kernel is compiled
    aligned: bool
    whole: bool
    """Whether its rows begin at multiples of 16 bytes, and are such multiples."""
    writes: bool
    scaled: tuple[str, ...] = ()
    """The sizes of the array whose block scales it has, in tiles."""

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return dtype_of(self.value.type.element_type)

    @property
    def rank(self) -> int:
        """The number of its dimensions."""
        return len(self.sizes)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Its sizes: Python's numbers where they are known when the kernel is compiled."""
        return tuple(self.size(number) for number in range(self.rank))

    def size(self, dimension: int | str) -> Any:
        """Returns a size by its number or by its name."""
        if self.scaled:
            raise mistake(f"'{self.name}' has tiles of scales: use the sizes of the array that they scale")
        if isinstance(dimension, str):
            if dimension not in self.sizes:
                raise mistake(f"'{self.name}' has the sizes {', '.join(self.sizes)}, got '{dimension}'")
            dimension = self.sizes.index(dimension)
        number = isinstance(dimension, Integral) and not isinstance(dimension, bool)
        if not number or not -self.rank <= dimension < self.rank:
            raise mistake(
                f"a size of '{self.name}' must be one of {', '.join(self.sizes)}, or a number in "
                f"0..{self.rank - 1}, got {shown(dimension)}"
            )
        dimension %= self.rank
        constant = self.known[dimension]
        return Scalar(matrices.size(self.value, dimension)) if constant is None else constant

    def at_rows(self, index: object, column: object = 0) -> "RowsPlace":
        """Parts of rows for `ring.fill`, from a column on: `x.at_rows(index[i], column)` has those of rows
        `index[i]`, `index[i + 1]` and so on, with zeros for numbers of rows that there aren't, or beyond the
        end of `index`, an array of i32 (`cp.async.bulk.tensor` with `.tile::gather4`).
        """
        chip = trace.current().chip
        if chip not in GATHER.chips:
            raise mistake(
                f"TMA copies rows at indices on {describe(GATHER.chips)}, got {chip}: elsewhere, "
                "w.store(x[rows, column], stage.a) copies them in a role that writes a ring (ring.write)"
            )
        if not isinstance(index, Place) or index.matrix.rank != 1 or index.dtype != i32 or self.rank != 2:
            raise mistake(
                f"x.at_rows expects a matrix x and an element of an array of {i32} of one dimension, got "
                f"{self} and {index}"
            )
        return RowsPlace(self, index, as_scalar(column, i32))

    @property
    def rows(self) -> Scalar:
        """The number of rows, of a vector that of its elements."""
        return self.size(max(self.rank - 2, 0))

    @property
    def columns(self) -> Scalar:
        """The number of columns."""
        return self.size(self.rank - 1)

    @property
    def matrices(self) -> Scalar:
        """The number of matrices of a batch, or of a batch of batches."""
        return math.prod(self.shape[:-2])

    def __getitem__(self, indices: object) -> "TilePlace | Gathered":
        checked = self._indices(indices)
        if self.dtype in COPIED or self.scaled:
            return CopiedPlace(self, checked)
        if any(isinstance(each, Fragment) for each in checked):
            return gathered(self, checked)
        return Place(self, checked)

    def __setitem__(self, indices: object, value: object) -> None:
        if not self.writes:
            raise mistake(f"'{self.name}' must be a w.Out argument to be written, got w.In")
        checked = self._indices(indices)
        if any(isinstance(each, Fragment) for each in checked):
            raise mistake(f"elements of '{self.name}' at indices of a fragment are stored by w.store")
        if len(checked) != self.rank:
            raise mistake(f"an element of '{self.name}' has {self.rank} indices, got {len(checked)}")
        if operand(value, self.dtype) is None:
            got = shown(value) if isinstance(value, (str, tuple, list)) else value
            raise mistake(
                f"expects a number for an element of '{self.name}', got {got}: use w.store for tiles"
            )
        self.check_element(checked)
        number, indices = as_scalar(value, self.dtype).value, [emit.as_index(each.value) for each in checked]
        once(lambda: memref.store(number, self.value, indices))

    def check_element(self, indices: tuple[Scalar, ...], subject: str = "an index") -> None:
        """Raises WeftError for an index that is known to be before the first element."""
        for number, each in enumerate(indices):
            constant = mlir.constant(each.value)
            if constant is not None and constant < 0:
                raise mistake(
                    f"{subject} of '{self.name}' must be at least 0, got {constant}: the last one is "
                    f"{self.name}.size({number}) - 1"
                )

    def __iter__(self) -> NoReturn:
        raise mistake(f"can't loop over '{self.name}': loop over w.range of one of its sizes")

    def _indices(self, indices: object) -> tuple[Any, ...]:
        given = indices if isinstance(indices, tuple) else (indices,)
        if not 1 <= len(given) <= self.rank:
            raise mistake(f"'{self.name}' has {self.rank} dimensions, got {len(given)} indices")
        for each in given:
            if isinstance(each, slice):
                first = ", ".join(_first(each) for each in given)
                raise mistake(
                    f"'{self.name}' has no slices: write its first element, {self.name}[{first}]. w.load "
                    "takes the tile's shape as an argument, and w.store has that of the fragment"
                )
        return tuple(each if isinstance(each, Fragment) else as_scalar(each, i32) for each in given)

    def __str__(self) -> str:
        return f"the array '{self.name}'"

    def __repr__(self) -> str:
        return f"<{self}>"


def _first(index: object) -> str:
    """Where a slice begins, in a message."""
    start = index.start if isinstance(index, slice) else index
    return "0" if start is None else str(start) if isinstance(start, int) else "…"


class TilePlace:
    """The first element of a tile or vector of an array."""

    def __init__(self, matrix: Matrix, indices: tuple[Scalar, ...]) -> None:
        self.matrix, self.indices = matrix, indices

    @property
    def dtype(self) -> DType:
        """The type of the array's elements."""
        return self.matrix.dtype

    def check_matrix(self, instead: str) -> None:
        """Raises WeftError for an array of one dimension, which has no tiles."""
        if self.matrix.rank < 2:
            raise mistake(f"a tile needs an array with rows and columns, got '{self.matrix.name}': {instead}")

    @property
    def corner(self) -> tuple[ir.Value, ir.Value]:
        """The row and column of a tile's first element: SSA values."""
        if self.matrix.rank == 1:
            return emit.value(0), self.indices[0].value
        rest = [each.value for each in self.indices[self.matrix.rank - 2 :]]
        rest = [*rest, *[emit.value(0)] * (2 - len(rest))]
        return rest[0], rest[1]

    @property
    def member(self) -> list[ir.Value]:
        """The indices of the matrix in a batch, or in a batch of batches: SSA values, those left out 0."""
        count = max(self.matrix.rank - 2, 0)
        given = [each.value for each in self.indices[:count]]
        return [*given, *[emit.value(0)] * (count - len(given))]

    @property
    def outer(self) -> list[ir.Value]:
        """The indices of all dimensions but the last, as SSA values; those left out are 0."""
        given = [each.value for each in self.indices[: self.matrix.rank - 1]]
        return [*given, *[emit.value(0)] * (self.matrix.rank - 1 - len(given))]

    def row(self, like: ir.Value | None = None) -> tuple[ir.Value | None, list[ir.Value], ir.Value]:
        """Whether the array has the row of a vector, and its indices, as `existing` returns them. And the
        number of its elements, which may be read from an array with rows `like` these: 0 if the array doesn't
        have the row.
        """
        has_row, outer = existing(self.matrix.value, self.outer)
        size = matrices.size(like or self.matrix.value, -1)
        return has_row, outer, size if has_row is None else emit.select(has_row, size, 0)

    def memref(self) -> ir.Value:
        """The matrix of two dimensions in which it is. One that the batch doesn't have is without rows."""
        if not self.member:
            return self.matrix.value
        has_matrix, indices = existing(self.matrix.value, self.member)
        member = matrices.member(self.matrix.value, *indices)
        if has_matrix is None:
            return member
        return matrices.with_rows(member, emit.select(has_matrix, matrices.size(member, 0), 0))

    def map(self, buffer: ir.Type, chunk: int = 0) -> ir.Value:
        """The matrix as TMA copies it to and from buffers of this type, in chunks if that isn't 0."""
        self.check_aligned(columns=not chunk)
        maps = trace.current().maps
        key = self.matrix.value, buffer
        if key not in maps:
            with trace.current().at_entry():
                maps[key] = tile.tensor_map(self.matrix.value, buffer, chunk=chunk)
        return matrices.map_of_member(self.matrix.value, maps[key], *self.member)

    def check_aligned(self, *, columns: bool = False) -> None:
        """Raises WeftError where TMA can't copy from or to the array. With `columns`, also for a first column
        that Python knows, and at which TMA and `cp.async` can't begin.
        """
        if self.matrix.rank < 2:
            raise mistake(f"TMA copies matrices, got the vector '{self.matrix.name}': use w.load_row")
        by = "TMA" if trace.current().has_tma else "cp.async"
        elements = ROW_BYTES * 8 // self.dtype.bits
        column = mlir.constant(self.indices[-1].value) if len(self.indices) == self.matrix.rank else 0
        if columns and column and column % elements:
            raise mistake(
                f"{by} copies tiles whose first column is at a multiple of {ROW_BYTES} bytes, {elements} "
                f"elements of {self.dtype}, got column {column}: copy by w.load and w.store, without a ring "
                "or via="
            )
        if not self.matrix.aligned:
            instead = "copy by w.load, in a role that writes the stages of a ring (ring.write)"
            if self.matrix.writes:
                instead = "store or add a fragment, without via="
            raise mistake(
                f"rows of '{self.matrix.name}' must begin at multiples of {ROW_BYTES} bytes for {by}: make "
                f"the array wider, to a multiple of {elements} elements of {self.dtype}, and pass a view of "
                f"its columns; or {instead}"
            )


class RowsPlace(TilePlace):
    """Parts of rows whose numbers are in an array."""

    def __init__(self, matrix: Matrix, index: "Place", column: Scalar) -> None:
        super().__init__(matrix, (as_scalar(0, i32), column))
        self.index = index

    def map(self, buffer: ir.Type, chunk: int = 0) -> ir.Value:
        self.check_aligned(columns=True)
        maps, key = trace.current().maps, (self.matrix.value, buffer, "indexed")
        if key not in maps:
            with trace.current().at_entry():
                maps[key] = tile.tensor_map(self.matrix.value, buffer, indexed=True)
        return maps[key]


class Place(TilePlace, Loaded):
    """An element of an array, or the first element of a tile. In arithmetic, it is the element's value."""

    def __init__(self, matrix: Matrix, indices: tuple[Scalar, ...]) -> None:
        super().__init__(matrix, indices)
        self.element = None
        if len(indices) == matrix.rank:
            # At once, so that the element is that of now. Removed at the end if nothing needs it.
            load = memref.load(matrix.value, [emit.as_index(each.value) for each in indices])
            trace.current().removable.append((load, [load.owner]))
            self.element = Scalar(load)

    @property
    def address(self) -> ir.Value:
        """A pointer to the element: an SSA value."""
        return addresses.element(self.matrix.value, [emit.as_index(each.value) for each in self.indices])

    def loaded(self) -> Scalar:
        """The element."""
        if self.element is None:
            rank, got = self.matrix.rank, len(self.indices)
            raise mistake(f"an element of '{self.matrix.name}' has {rank} indices, got {got}")
        self.matrix.check_element(self.indices)
        return self.element

    def noun(self) -> str:
        return f"an element of {self.matrix}"


class CopiedPlace(TilePlace):
    """The first element of a tile whose elements are no numbers of the language."""

    def _refuse(self, *_: object) -> NoReturn:
        raise mistake(f"expects a number, got {self}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __neg__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __iter__ = to = bitcast = _refuse

    def __str__(self) -> str:
        return f"a place in {self.matrix} of {self.dtype}, from which only ring.fill copies"
