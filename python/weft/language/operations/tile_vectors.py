"""Loads and stores of vectors of the rows or the columns of tiles."""

from collections.abc import Iterator

from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.isa.chips import WARPS
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations.loads import check_no_outside, check_written, is_zero
from weft.language.values.bounds import inside, may_begin_before
from weft.language.values.buffers import Buffer
from weft.language.values.coordinates import of_lanes
from weft.language.values.dtypes import i32
from weft.language.values.fragments import Fragment, check_like
from weft.language.values.matrices import Matrix, Place
from weft.language.values.scalars import as_scalar
from weft.layout import Layout
from weft.mlir import ir, llvm, memref
from weft.passes.builders import addresses, emit, registers, thread_ids
from weft.passes.kernels import matrices


def load_row(source: object, *, like: Fragment, outside: object = 0) -> Fragment:
    """Loads a vector for the columns of a tile, from an element of an array whose last dimension is these
    columns, such as `bias[column]`, or from a buffer of one row.

    Elements outside of the array are `outside`.
    """
    check_like(like)
    if isinstance(source, Buffer):
        check_no_outside(outside)
        if source.shape[0] != 1 or source.shape[1] < like.shape[-1]:
            raise mistake(f"w.load_row expects a buffer of 1 x {like.shape[-1]} or more, got {source}")
        return _vector_of_buffer(source, _of_columns(like), like.columns)
    place = _element(source, "w.load_row")
    if not is_zero(outside) or _is_special(place):
        return _by_elements(place, _of_columns(like), like.columns, outside)
    _check_columns(like)
    if like.is_free:
        return _free(place, like.columns, 1)
    kind = FragmentType.of((like.columns,), place.dtype.type, _of_columns(like))
    return Fragment(tile.load_row(_along(place), place.indices[-1].value, kind))


def _is_special(place: Place) -> bool:
    """Whether a vector from this element on may begin before the array, or be of a row that doesn't exist."""
    return may_begin_before(place.indices[-1].value) or place.row()[0] is not None


def _along(place: Place) -> ir.Value:
    """The vector of an array's elements along the last dimension, a memref of rank 1."""
    if place.matrix.rank == 1:
        return place.matrix.value
    return matrices.vector_of(place.matrix.value, *[each.value for each in place.indices[:-1]])


def _free(place: Place, count: int, axis: int) -> Fragment:
    """A vector of an array that has no layout yet."""
    kind = ir.RankedTensorType.get([count], place.dtype.type)
    bytes_ = registers.MOST_BYTES if place.matrix.aligned or place.matrix.whole else 0
    return Fragment(tile.load_row(_along(place), place.indices[-1].value, kind, vector_bytes=bytes_), axis)


def _check_columns(like: object) -> None:
    """Raises WeftError for a fragment without columns."""
    if not isinstance(like, Fragment) or not like.has_columns:
        hint = ": use w.load_column for it" if isinstance(like, Fragment) else ""
        raise mistake(f"like must be a tile with columns, or a vector of columns, got {like}{hint}")


def _of_columns(like: Fragment) -> Layout:
    """The layout of a vector of the columns of a fragment."""
    _check_columns(like)
    return like.layout if len(like.shape) == 1 else registers.without_axis(like.layout, like.shape, 0)


def _vector_of_buffer(source: Buffer, layout: Layout, columns: int) -> Fragment:
    """The first elements of the only row of a buffer as a vector in this layout."""
    source.read_by_lanes()
    kind = FragmentType.of((columns,), source.dtype.type, layout)
    width = registers.access_bytes(kind)
    return Fragment(tile.load_row(source.value, emit.value(0), kind, vector_bytes=width))


def load_column(source: object, *, like: Fragment, outside: object = 0) -> Fragment:
    """Loads a vector for the rows of a tile, or one like another vector, from an element of an array whose
    last dimension is these rows, or from a buffer of one row. Fewer elements of a buffer, which divide the
    rows, are repeated.

    Elements outside of the array are `outside`.
    """
    if isinstance(source, Buffer):
        check_no_outside(outside)
    if not isinstance(like, Fragment):
        raise mistake(f"like must be a tile, got {like}")
    rows = like.shape[0]
    if like.is_free and not isinstance(source, Buffer):
        place = _element(source, "w.load_column")
        if is_zero(outside) and not _is_special(place):
            return _free(place, rows, 0)
    layout = like.layout if len(like.shape) == 1 else registers.without_axis(like.layout, like.shape, 1)
    if isinstance(source, Buffer):
        if source.shape[0] != 1 or rows % source.shape[1]:
            raise mistake(f"w.load_column expects a buffer of 1 x {rows} or a divisor of it, got {source}")
        # A fragment of one row, as `_vector_of_buffer` loads it, is that of a warp or a warpgroup.
        singly = source.shape[1] < rows or layout.span("warpid") not in (1, WARPS)
        return (_repeated if singly else _vector_of_buffer)(source, layout, rows)
    return _by_elements(_element(source, "w.load_column"), layout, rows, outside)


def _by_elements(source: Place, layout: Layout, count: int, outside: object) -> Fragment:
    """Loads a vector along the last dimension of an array, each element on its own."""
    numbers, limit = vector_indices(Fragment.of_layout((count,), layout), source)
    elements = []
    for number in numbers:
        exists = inside(number, limit, source.indices[-1].value)
        default = as_scalar(outside, source.dtype).value
        elements += emit.either(
            exists,
            [source.dtype.type],
            lambda number=number: [memref.load(source.matrix.value, element_at(source, number))],  # type: ignore[misc]
            lambda default=default: [default],  # type: ignore[misc]
        )
    return Fragment.of_lane(emit.vector_of(elements), (count,), layout)


def _repeated(source: Buffer, layout: Layout, rows: int) -> Fragment:
    """The elements of the only row of a buffer, which follow each other again and again."""
    source.read_by_lanes()
    kind, count = addresses.stored_type(source.dtype.type), source.shape[1]
    base, numbers = tile.address(source.value), of_lanes(Fragment.of_layout((rows,), layout))
    elements = []
    for offset in numbers.offsets:
        number = emit.rem(emit.add(numbers.base.value, offset), count)
        address = addresses.offset(base, emit.value(emit.mul(number, source.dtype.bytes)))
        elements.append(llvm.load(kind, address, alignment=source.dtype.bytes))
    return Fragment.of_lane(emit.bits(emit.vector_of(elements), source.dtype.type), (rows,), layout)


def vector_indices(vector: Fragment, place: Place) -> tuple[list[ir.Value], ir.Value]:
    """The index along the last dimension of each of a lane's elements of a vector of rows, and its end."""
    base = of_lanes(vector)
    start = emit.add(base.base.value, place.indices[-1].value)
    return [emit.add(start, each) for each in base.offsets], place.row()[2]


def elements_inside(
    vector: Fragment, to: Place, rows: object = None
) -> Iterator[tuple[ir.Value, list[ir.Value]]]:
    """Each of a lane's elements of a vector of rows, with its indices in the array, to build something where
    these are inside of it, in the first of the lanes that hold the element. With `rows`, of so many elements.
    """
    numbers, limit = vector_indices(vector, to)
    start = to.indices[-1].value
    if rows is not None:
        limit = emit.minimum(limit, emit.add(start, as_scalar(rows, i32).value))
    with emit.when(thread_ids.first_of_copies(vector.layout)):
        for number, element in zip(numbers, vector.elements(), strict=True):
            with emit.when(inside(number, limit, start)):
                yield element, element_at(to, number)


def element_at(place: Place, number: ir.Value) -> list[ir.Value]:
    return [*(emit.as_index(each.value) for each in place.indices[:-1]), emit.as_index(number)]


def _element(place: object, name: str) -> Place:
    """An element of an array. Raises WeftError for anything else."""
    if isinstance(place, Place) and place.element is not None:
        return place
    first = ""
    if isinstance(place, Matrix):
        first = f": write {place.name}[{', '.join('0' * place.rank)}] for its first"
    raise mistake(f"{name} expects an element of an array, with all its indices, got {place}{first}")


def store_column(vector: Fragment, to: object, *, rows: object = None) -> None:
    """Stores a vector of rows to an array whose last dimension is these rows, or to a buffer of one row. One
    of the lanes that hold an element stores it; elements outside of the array are not written. With `rows`,
    only the first `rows` elements are, of an array.
    """
    trace.current().check_whole_warps("a store of a vector")
    if not isinstance(vector, Fragment) or len(vector.shape) != 1:
        raise mistake(f"expects a vector, as w.sum(x, axis=1), got {vector}")
    if isinstance(to, Buffer):
        _vector_to_buffer(vector, to, rows)
        return
    if not isinstance(to, Place) or len(to.indices) != to.matrix.rank:
        raise mistake(f"expects an element of an array, with all its indices, or a buffer, got {to}")
    check_written(to, vector.dtype)
    if vector.is_free and rows is None and not _is_special(to):
        tile.store_row(vector.value, _along(to), to.indices[-1].value)
        return
    for element, indices in elements_inside(vector, to, rows):
        memref.store(element, to.matrix.value, indices)


def _vector_to_buffer(vector: Fragment, buffer: Buffer, rows: object) -> None:
    """Stores a vector to the only row of a buffer."""
    if rows is not None:
        raise mistake("rows is for stores to an array: a vector is stored whole to a buffer")
    shape = (1, *vector.shape)
    if buffer.shape != shape or buffer.dtype != vector.dtype:
        raise mistake(f"expects a buffer of {' x '.join(map(str, shape))} {vector.dtype}, got {buffer}")
    buffer.written_by_lanes()
    base, numbers = tile.address(buffer.value), of_lanes(vector)
    elements = emit.elements(emit.bits(vector.lane, addresses.stored_type(vector.dtype.type)))
    with emit.when(thread_ids.first_of_copies(vector.layout)):
        for offset, element in zip(numbers.offsets, elements, strict=True):
            number = emit.add(numbers.base.value, offset)
            address = addresses.offset(base, emit.value(emit.mul(number, buffer.dtype.bytes)))
            llvm.store(element, address, alignment=buffer.dtype.bytes)


def store_row(vector: Fragment, to: object) -> None:
    """Stores a vector of columns, such as `w.sum(x, axis=0)`, to an array whose last dimension is these
    columns, or to a buffer of one row. Elements outside of the array are not written.
    """
    store_column(vector, to)
