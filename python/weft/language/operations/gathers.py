"""Elements of arrays, and parts of rows, at indices that fragments hold: gathers and scatters."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from weft.language.messages.mistakes import mistake
from weft.language.values.bounds import existing
from weft.language.values.coordinates import of_lanes
from weft.language.values.dtypes import DType, i32
from weft.language.values.foreign import Foreign
from weft.language.values.fragments import Fragment, common, layout_for, spread, together
from weft.language.values.scalars import Scalar, as_scalar
from weft.mlir import arith, ir, llvm, memref
from weft.passes.builders import addresses, emit, registers, thread_ids
from weft.passes.kernels import matrices


@dataclass(frozen=True, eq=False)
class Gathered(Foreign):
    """Elements of an array at indices of which some are fragments. With vectors of rows and the first
    column, `x[rows, k]` or `x[images, lines, k]`, it is a tile of parts of rows.
    """

    matrix: Any
    indices: tuple[Scalar | Fragment, ...]

    @property
    def dtype(self) -> DType:
        """The type of the array's elements."""
        return self.matrix.dtype

    @property
    def is_of_rows(self) -> bool:
        """Whether it is a tile of parts of rows, whose number of columns isn't part of its indices."""
        return (
            bool(self.vectors)
            and all(len(each.shape) == 1 for each in self.vectors)
            and not isinstance(self.indices[-1], Fragment)
        )

    @property
    def vectors(self) -> list[Fragment]:
        """The fragments among the indices of rows."""
        return [each for each in self.indices[:-1] if isinstance(each, Fragment)]

    def size(self, axis: int) -> ir.Value | int:
        """The size that an index along an axis is less than."""
        return matrices.size(self.matrix.value, axis)

    def read(self, index: Sequence[ir.Value]) -> ir.Value:
        """Loads the element at these SSA values."""
        return memref.load(self.matrix.value, [emit.as_index(each) for each in index])

    def write(self, element: ir.Value, index: Sequence[ir.Value]) -> None:
        """Stores the element at these SSA values."""
        memref.store(element, self.matrix.value, [emit.as_index(each) for each in index])

    def _refuse(self, *_: object) -> NoReturn:
        raise mistake(f"load {self} by w.load first")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __neg__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __iter__ = to = _refuse

    def __str__(self) -> str:
        return f"elements of {self.matrix} at indices of a fragment"


def checked(matrix: Any, indices: Sequence[Scalar | Fragment]) -> Gathered:
    """Elements at these indices. Raises WeftError for fragments that can't be indices."""
    if len(indices) != matrix.rank:
        raise mistake(f"'{matrix.name}' has {matrix.rank} dimensions, got {len(indices)} indices")
    for each in indices:
        check_index(each)
    return Gathered(matrix, tuple(indices))


def check_index(index: object) -> None:
    """Raises WeftError for a fragment that can't be an index."""
    if isinstance(index, Fragment) and index.dtype != i32:
        raise mistake(f"fragments of indices must be of {i32}, got {index}: convert with .to({i32})")


def load(source: Gathered, shape: object, like: Fragment | None) -> Fragment:
    """Loads the elements, zeros where an index is outside of the array."""
    if source.is_of_rows and not shape is like is None:
        count = source.vectors[0].shape[0]
        shape = like.shape if shape is None and like is not None else shape
        if not isinstance(shape, tuple) or len(shape) != 2 or shape[0] != count:
            raise mistake(f"shape must be ({count}, columns), as there are {count} rows, got {shape}")
        return _Rows(source, shape, like).load()
    if shape is not None or like is not None:
        raise mistake(
            "shape and like are for tiles: elements have the shape and layout of their indices. To gather "
            "rows, pass vectors of rows, such as w.row(w.zeros(64)), and a number as the last index"
        )
    index_tile, indices = _spread(source)
    kind = source.dtype.type
    zero, elements = emit.constant(kind, 0), list[ir.Value]()
    for index in indices:
        elements += emit.either(
            _inside(source, index),
            [kind],
            lambda index=index: [source.read(index)],  # type: ignore[misc]
            lambda: [zero],
        )
    return Fragment.of_lane(emit.vector_of(elements), index_tile.shape, index_tile.layout)


def each_element(
    fragment: object, to: Gathered, build: Callable[[ir.Value, Sequence[ir.Value]], None]
) -> None:
    """Builds something for each element, or for a number at each index, with the indices, where these are
    inside of the array, in the lane that holds the first copy of its elements.
    """
    if to.is_of_rows and isinstance(fragment, Fragment) and len(fragment.shape) == 2:
        rows = _Rows(to, fragment.shape, fragment)
        fitted, indices = fragment, rows.indices()
    else:
        index_tile, indices = _spread(to)
        fitted = together(
            index_tile, fragment if isinstance(fragment, Fragment) else as_scalar(fragment, to.dtype)
        )[1]
        if fitted is None or fitted.shape != index_tile.shape:
            raise mistake(
                f"expects a number or a fragment of the shape of the indices, {index_tile}, got {fragment}"
            )
    with emit.when(thread_ids.first_of_copies(fitted.layout)):
        for element, index in zip(fitted.elements(), indices, strict=True):
            with emit.when(_inside(to, index)):
                build(element, index)


def store(fragment: Fragment, to: Gathered) -> None:
    """Stores the elements of a fragment, but not where an index is outside of the array."""
    if to.is_of_rows and len(fragment.shape) == 2:
        with emit.when(thread_ids.first_of_copies(fragment.layout)):
            _Rows(to, fragment.shape, fragment).store(fragment)
        return
    each_element(fragment, to, to.write)


def _spread(source: Gathered) -> tuple[Fragment, list[tuple[ir.Value, ...]]]:
    """The fragment of indices with most dimensions, and the indices of each of a lane's elements, in its
    shape and layout.
    """
    fragments = [each for each in source.indices if isinstance(each, Fragment)]
    largest = common(fragments)
    lists = []
    for each in source.indices:
        fitted = together(largest, each)[1] if each is not largest else each
        lists.append(fitted.elements())
    return largest, list(zip(*lists, strict=True))


def _inside(source: Gathered, index: Sequence[ir.Value]) -> ir.Value:
    """Whether indices are inside of the array: an i1."""
    return _within((each, source.size(axis)) for axis, each in enumerate(index))


def _within(pairs: Iterable[tuple[emit.Number, emit.Number]]) -> ir.Value:
    """Whether numbers are at least 0 and less than their limits: as unsigned ones, negative ones are not."""
    below = arith.CmpIPredicate.ult
    each = (arith.cmpi(below, emit.value(number), emit.value(limit)) for number, limit in pairs)
    return functools.reduce(arith.andi, each)


class _Rows:
    """A tile of parts of rows, in a layout: those elements of each row that a lane holds next to each other
    are accessed at once, where rows and the first column are aligned.
    """

    def __init__(self, of: Gathered, shape: tuple[int, ...], like: Fragment | None) -> None:
        self.of, self.shape = of, shape
        self.layout = layout_for(shape, like)
        tile = Fragment.of_layout(shape, self.layout)
        columns: Any = of_lanes(tile, 1) + of.indices[-1]
        self.start, self.offsets = columns.base.value, columns.offsets
        self.at = [self._elements(each) for each in of.indices[:-1]]
        value = of.matrix.value
        *outer, _ = (emit.value(0) if isinstance(each, Fragment) else each.value for each in of.indices[:-1])
        self.has_matrix, outer = existing(value, outer)
        self.matrix = addresses.Matrix(matrices.member(value, *outer) if outer else value)
        # Beside the rows: what it takes to find the matrix of each.
        self.matrices = [
            (self.at[axis], matrices.size(value, axis), matrices.distance(value, axis))
            for axis, each in enumerate(of.indices[:-2])
            if isinstance(each, Fragment)
        ]
        run = registers.run(self.layout, shape)
        self.width = min(run, registers.MOST_BYTES // self.matrix.bytes) if of.matrix.aligned else 1

    def _elements(self, index: Scalar | Fragment) -> list[ir.Value]:
        """An index of rows for each of a lane's elements."""
        if isinstance(index, Fragment):
            return spread(index, self.shape, self.layout).elements()
        return [index.value] * len(self.offsets)

    def indices(self) -> list[tuple[ir.Value, ...]]:
        """The indices in the array of each of a lane's elements."""
        columns = [emit.value(emit.add(self.start, each)) for each in self.offsets]
        return list(zip(*self.at, columns, strict=True))

    def load(self) -> Fragment:
        """The tile, with zeros for what is outside of the array."""
        kind = ir.VectorType.get([len(self.offsets)], self.matrix.element)
        (lane,) = self._either([kind], lambda width: [self._loaded(width)])
        return Fragment.of_lane(emit.bits(lane, self.of.dtype.type), self.shape, self.layout)

    def store(self, fragment: Fragment) -> None:
        """Stores a tile in this layout, but not what is outside of the array."""
        lane = emit.bits(fragment.lane, self.matrix.element)

        def stored(width: int) -> list[ir.Value]:
            elements = emit.elements(lane)
            for register, inside, address in self._runs(width):
                part = elements[register : register + width]
                with emit.when(inside):
                    llvm.store(part[0] if width == 1 else emit.vector_of(part), address)
            return []

        self._either([], stored)

    def _loaded(self, width: int) -> ir.Value:
        elements = list[ir.Value]()
        kind = self.matrix.element if width == 1 else ir.VectorType.get([width], self.matrix.element)
        for _, inside, address in self._runs(width):
            # Without a branch: what is outside is read from the array's first element.
            value = llvm.load(kind, arith.select(inside, address, self.matrix.base))
            elements += emit.elements(arith.select(inside, value, emit.constant(kind, 0)))
        return emit.vector_of(elements)

    def _either(self, kinds: list[ir.Type], build: Callable[[int], list[ir.Value]]) -> list[ir.Value]:
        """Accesses vectors where all are aligned and end inside of the array, otherwise single elements."""
        if self.width == 1:
            return build(1)
        bits = arith.ori(self.matrix.columns, emit.value(self.start))
        aligned = emit.equal(emit.bit_and(bits, self.width - 1), 0)
        return emit.either(aligned, kinds, lambda: build(self.width), lambda: build(1))

    def _runs(self, width: int) -> list[tuple[int, ir.Value, ir.Value]]:
        """The first register of each run of elements that are accessed at once, whether it is inside of the
        array, and its address.
        """
        lines, runs = dict[int, tuple[ir.Value, ir.Value]](), list[tuple[int, ir.Value, ir.Value]]()
        numbers = registers.registers_of(self.layout, self.shape)
        for register in range(0, len(self.offsets), width):
            line = numbers[register][0]
            if line not in lines:
                row, outer = self.at[-1][register], [(at[register], *rest) for at, *rest in self.matrices]
                start = self.matrix.element_of(self.matrix.row(row), self.start)
                for number, _, bytes_ in outer:
                    distance = arith.muli(arith.extsi(bytes_.type, number), bytes_)
                    start = addresses.offset(start, distance)
                exists = _within([(row, self.matrix.rows), *((number, size) for number, size, _ in outer)])
                exists = exists if self.has_matrix is None else arith.andi(exists, self.has_matrix)
                lines[line] = exists, start
            exists, start = lines[line]
            offset = self.offsets[register]
            inside = arith.andi(exists, _within([(emit.add(self.start, offset), self.matrix.columns)]))
            runs.append((register, inside, addresses.offset(start, offset * self.matrix.bytes)))
        return runs
