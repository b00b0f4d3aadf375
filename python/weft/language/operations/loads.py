"""Loads and stores of tiles, and their prefetches."""

from collections.abc import Callable
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.errors import shown
from weft.isa.atomics import FENCES
from weft.isa.chips import WARPGROUP
from weft.isa.tensor_map import ROW_BYTES
from weft.language.capture import trace
from weft.language.messages.mistakes import check_flag, mistake
from weft.language.operations import flat_vectors, gathers, row_copies, tensor_tiles
from weft.language.operations.gathers import Gathered
from weft.language.operations.maths import chosen
from weft.language.operations.orders import ordered
from weft.language.operations.products import Pending
from weft.language.operations.roles import one_thread, warpgroup_barrier
from weft.language.values.bounds import existing, may_begin_before
from weft.language.values.buffers import Buffer, Elements
from weft.language.values.coordinates import column, of_lanes, row
from weft.language.values.dtypes import NUMBERS, DType, i32
from weft.language.values.fragments import Fragment, check_like, free_type, layout_for
from weft.language.values.matrices import Place
from weft.language.values.scalars import Scalar, as_scalar
from weft.language.values.tensor_memory import TensorMemory
from weft.layout import Layout
from weft.mlir import arith, gpu, ir, llvm, nvvm
from weft.passes.builders import addresses, atomics, emit, registers
from weft.passes.builders.addresses import Matrix
from weft.passes.builders.instructions import assembly
from weft.passes.kernels import matrices


def tile_may_begin_before(place: Place) -> bool:
    """Whether the first row or column of a tile may be less than 0."""
    return any(may_begin_before(each) for each in place.corner)


def load_tile(place: Place, shape: tuple[int, int], layout: Layout, outside: object) -> Fragment:
    """Loads a tile, of which elements on all sides may be outside of the array."""
    first_row, first_column = map(Scalar, place.corner)
    loaded = gathers.load(rows_of(place, shape, layout), shape, Fragment.of_layout(shape, layout))
    if isinstance(outside, (int, float)) and outside == 0:
        return loaded
    down, across = row(loaded) + first_row, column(loaded) + first_column
    has_row = (down >= 0) & (down < place.matrix.rows)
    inside = has_row & (across >= 0) & (across < place.matrix.columns)
    has_matrix, _ = existing(place.matrix.value, place.member)
    inside = inside if has_matrix is None else inside & Scalar(has_matrix)
    return chosen(inside, loaded, outside)


def store_tile(fragment: Fragment, to: Place, rows: ir.Value | None) -> None:
    """Stores a tile, but not its elements on all sides that are outside of the array, or not in the first
    `rows` rows, an SSA value or None for all.
    """
    gathers.store(fragment, rows_of(to, fragment.shape, fragment.layout, rows))


def copy_out(fragment: Fragment, via: Buffer, to: Place, rows: ir.Value | None) -> None:
    """Stores a tile by the lanes from a buffer that has it, in whole rows. A tile that may begin before the
    array is stored from registers.
    """
    if tile_may_begin_before(to):
        store_tile(fragment, to, rows)
        return
    first_row, first_column = to.corner
    tile.copy_out(via.value, limited(to.memref(), first_row, rows), first_row, first_column)


def limited(matrix: ir.Value, first_row: ir.Value, rows: ir.Value | None) -> ir.Value:
    """A matrix without what follows `rows` rows from one on; all of it if they are None."""
    return matrix if rows is None else matrices.with_rows(matrix, emit.add(first_row, rows))


def rows_of(place: Place, shape: tuple[int, ...], layout: Layout, rows: ir.Value | None = None) -> Gathered:
    """The rows of a tile as those of a gather or scatter, whose indices may be outside of the array."""
    first_row, first_column = map(Scalar, place.corner)
    local = of_lanes(Fragment.of_layout(shape[:1], registers.without_axis(layout, shape, 1)))
    numbers: Any = local + first_row
    if rows is not None:
        numbers = chosen(local < Scalar(emit.value(rows)), numbers, -1)
    outer = [Scalar(each) for each in place.member]
    return Gathered(place.matrix, (*outer, numbers, first_column))


def load(
    source: object, shape: object = None, *, like: Fragment | None = None, outside: object = 0
) -> Fragment:
    """Loads a tile by the lanes of a warpgroup, from a buffer, from tensor memory, or from an array at the
    tile's first element.

    The fragment has the layout of `like`. By default, that of a tile from a buffer or tensor memory is that
    of the sums of `w.gemm`, and that of one from an array is decided later. From an array it has this
    `shape`, and elements outside of the array are `outside`.

    A `shape` that is one number loads a flat vector: so many elements along the array's last dimension, which
    the threads of the warpgroup share, or in a kernel without roles, all threads of the CTA. It is a multiple
    of four times their number. A thread has eight elements, or four, that follow each other; or two, if the
    first vector of this size has 64 bits.

    An index may also be a fragment of i32: `w.load(x[rows, column], (64, 32))` loads a part of each row of a
    vector of 64 row numbers, and `w.load(table[t])` an element for each one of `t`. Elements outside are 0.
    """
    trace.current().check_whole("w.load")
    check_like(like)
    if isinstance(source, (Buffer, TensorMemory)):
        if shape not in (None, tuple(source.shape)):
            raise mistake(
                f"a buffer is loaded whole, got the shape {shown(shape)} beside {source}: leave it out, or "
                "load a part, buffer.rows(first, count) or buffer.columns(first, count)"
            )
        check_no_outside(outside)
        return _from_buffer(source, like) if isinstance(source, Buffer) else tensor_tiles.load(source, like)
    if isinstance(source, Gathered):
        if outside != 0:
            raise mistake("elements at indices of a fragment are 0 outside of the array: use w.where")
        return gathers.load(source, shape, like)
    if not isinstance(source, Place):
        raise mistake(f"w.load expects a buffer, or an element of an array as a[row, column], got {source}")
    shape = like.shape if shape is None and like is not None else shape
    shape = shape[0] if isinstance(shape, tuple) and len(shape) == 1 else shape
    if isinstance(shape, int):
        if like is not None and like.shape != (shape,):
            raise mistake(f"like must be a vector of {shape} elements, got {like}: leave it out")
        return flat_vectors.load(source, shape, like, outside)
    if (
        not isinstance(shape, tuple)
        or len(shape) != 2
        or not all(isinstance(each, int) and each > 1 for each in shape)
    ):
        raise mistake(flat_vectors.shape_complaint(shape))
    source.check_matrix("w.load_row and w.load_column load vectors")
    source.matrix.check_element(source.indices, "a tile's first index")
    kind = free_type(shape, source.dtype) if like is None else None
    if kind is None or tile_may_begin_before(source):
        layout = layout_for(shape, like)
        if tile_may_begin_before(source):
            return load_tile(source, shape, layout, outside)
        kind = FragmentType.of(shape, source.dtype.type, layout)
    first_row, first_column = source.corner
    matrix = source.memref()
    loaded = Fragment(
        tile.load(matrix, first_row, first_column, kind, vector_bytes=_vector_bytes(source, kind))
    )
    if is_zero(outside):
        return loaded
    inside = column(loaded) < Scalar(emit.sub(matrices.size(matrix, 1), first_column))
    last_row = row(loaded) < Scalar(emit.sub(matrices.size(matrix, 0), first_row))
    return chosen(inside & last_row, loaded, outside)


def check_no_outside(outside: object) -> None:
    """Raises WeftError for a value of elements outside, of a buffer."""
    if not is_zero(outside):
        raise mistake("outside is for elements beyond an array, and a buffer is loaded whole: leave it out")


def is_zero(outside: object) -> bool:
    """Whether elements outside are 0, as Python knows."""
    return isinstance(outside, NUMBERS) and outside == 0


def _from_buffer(source: Buffer, like: Fragment | None) -> Fragment:
    layout = layout_for(source.shape, like)
    kind = FragmentType.of(source.shape, source.dtype.type, layout)
    source.read_by_lanes()
    zero, wide = (
        emit.value(0),
        registers.run(layout, source.shape) * source.dtype.bytes % registers.MOST_BYTES == 0,
    )
    width = registers.MOST_BYTES if wide and not source.transposed else 0
    loaded = tile.load(source.value, zero, zero, kind, transpose=source.transposed, vector_bytes=width)
    return Fragment(loaded)


def _vector_bytes(place: Place, kind: ir.Type) -> int:
    """The bytes that a lane can access at once, at most where it has no layout yet; 0 for single elements."""
    if not place.matrix.aligned or place.matrix.rank <= 1:
        return 0
    return registers.access_bytes(kind) if isinstance(kind, FragmentType) else registers.MOST_BYTES


def store(
    fragment: object, to: object, *, via: Buffer | None = None, rows: object = None, waits: bool = True
) -> None:
    """Stores a tile to an array or to a buffer, by a warpgroup, or a vector of `w.load` to an array. Elements
    outside of the array are not written. With `rows`, only the first `rows` rows of the tile are stored.

    With `via`, a buffer of the tile's shape that no other warpgroup uses meanwhile, the tile goes through it
    and TMA stores it: rows are then written whole. TMA may still read a buffer of `w.shared` afterwards; the
    next store through it waits for that, and so does the end of the role. Through a stage of a ring, the
    store itself waits; with `waits=False` only the end of the role does, for a stage that isn't filled again.
    Without `via`, the lanes store their own elements.

    An index of an array may also be a fragment of i32, as for `w.load`.

    Rows at a vector of row numbers are copied to a buffer, `w.store(x[rows, column], buffer)`, and from one,
    `w.store(buffer, y[rows, column])`, 16 bytes of a lane at once. Rows must begin at multiples of 16 bytes.

    In `w.one_thread()`, `fragment` may also be a buffer, of a stage that the thread has taken. It waits until
    TMA has read the buffer.
    """
    if isinstance(fragment, Gathered) and isinstance(to, Buffer) and via is None and rows is None:
        row_copies.gather(fragment, to)
        return
    if isinstance(fragment, Buffer) and isinstance(to, Gathered) and via is None and rows is None:
        check_written(to, fragment.dtype)
        row_copies.scatter(fragment, to)
        return
    if isinstance(fragment, Buffer):
        if not isinstance(to, Place) or via is not None or rows is not None:
            raise mistake(f"a buffer is stored to a tile of an array, without via and rows, got {to}")
        copy_buffer(tile.store_async, fragment, to, "stored", "store")
        return
    trace.current().check_whole("w.store")
    check_flag("waits", waits)
    if isinstance(fragment, Pending):
        fragment._refuse()
    if not isinstance(fragment, Fragment):
        remedy = "an element is stored by d[i, j] = value"
        if isinstance(fragment, TensorMemory):
            remedy = "w.load it first"
        raise mistake(f"w.store expects a fragment, got {fragment}: {remedy}")
    if len(fragment.shape) != 2 and isinstance(to, (Place, Buffer)):
        has_copies = any(it.extent > 1 for it in fragment.layout.replica)
        if isinstance(to, Buffer) or has_copies:
            raise mistake(f"w.store expects a tile of rows and columns, got {fragment}: use w.store_column")
        check_written(to, fragment.dtype)
        flat_vectors.store(fragment, to, via, rows)
        return
    if isinstance(to, TensorMemory):
        if via is not None or rows is not None:
            raise mistake("via and rows are for stores to an array: a tile is stored whole to tensor memory")
        tensor_tiles.store(fragment, to)
        return
    if isinstance(to, Buffer):
        if rows is not None:
            raise mistake("rows is for stores to an array: a tile is stored whole to a buffer")
        to.written_by_lanes()
        _to_buffer(fragment, to)
        return
    if isinstance(to, Gathered):
        if via is not None or rows is not None:
            raise mistake("via and rows are for tiles of an array, not for elements at indices of a fragment")
        check_written(to, fragment.dtype)
        gathers.store(fragment, to)
        return
    if not isinstance(to, Place):
        raise mistake(f"w.store expects an element of an array, as d[row, column], or a buffer, got {to}")
    check_written(to, fragment.dtype)
    count = None if rows is None else as_scalar(rows, i32).value
    if via is not None:
        check_via(via)
        _through(fragment, to, via, count, waits)
        return
    to.check_matrix("w.store_row and w.store_column store vectors")
    to.matrix.check_element(to.indices, "a tile's first index")
    first_row, first_column = to.corner
    if tile_may_begin_before(to):
        store_tile(fragment, to, count)
        return
    vector_bytes = _vector_bytes(to, fragment.type)
    matrix = limited(to.memref(), first_row, count)
    tile.store(fragment.value, matrix, first_row, first_column, vector_bytes=vector_bytes)


def check_via(via: object) -> None:
    """Raises WeftError for what isn't a buffer through which TMA stores or adds a tile."""
    if not isinstance(via, Buffer):
        raise mistake(f"via must be a buffer, as w.shared makes one, or of a stage, got {shown(via)}")
    if via.transposed:
        raise mistake(f"via can't be transposed, got {via}: leave .T out")


def copy_buffer(copy: Callable[..., object], buffer: Buffer, to: Place, done: str, instead: str) -> None:
    """Lets TMA store or add a buffer, by `copy`, and waits until it has read it. Raises WeftError unless the
    thread that is built for may do that.
    """
    if not trace.current().one_thread or not trace.current().has_tma:
        raise mistake(f"a buffer must be {done} in w.one_thread(), on a chip with TMA: {instead} a fragment")
    if buffer.transposed:
        raise mistake(f"{buffer} can't be {done} transposed: leave .T out, or {instead} a fragment")
    buffer.check_full()
    check_written(to, buffer.dtype)
    to.check_aligned()
    copy(buffer.value, to.map(buffer.value.type), *to.corner)
    nvvm.cp_async_bulk_commit_group()
    nvvm.cp_async_bulk_wait_group(0, read=True)


def check_written(to: Place | Gathered, dtype: DType) -> None:
    if isinstance(to, Elements):
        if to.dtype != dtype:
            raise mistake(f"expects elements of {to.dtype}, got {dtype}: convert with .to({to.dtype})")
        return
    if not to.matrix.writes:
        raise mistake(f"'{to.matrix.name}' must be a w.Out argument to be written, got w.In")
    if to.dtype != dtype:
        raise mistake(
            f"'{to.matrix.name}' has elements of {to.dtype}, got {dtype}: convert with .to({to.dtype})"
        )


def _to_buffer(fragment: Fragment, buffer: Buffer) -> None:
    if tuple(buffer.shape) != fragment.shape or buffer.dtype != fragment.dtype:
        raise mistake(f"expects a buffer of the fragment's shape and type, {fragment}, got {buffer}")
    bits, run = buffer.dtype.bits, registers.run(fragment.layout, fragment.shape)
    bytes_ = min(run * buffer.dtype.bytes, registers.MOST_BYTES)
    is_wide = bytes_ == registers.MOST_BYTES or (bits == 8 and run > 1)
    width = bytes_ if is_wide and not buffer.transposed else 0
    zero, transpose = emit.value(0), buffer.transposed
    tile.store(fragment.value, buffer.value, zero, zero, transpose=transpose, vector_bytes=width)


def _through(fragment: Fragment, to: Place, via: Buffer, rows: ir.Value | None, waits: bool) -> None:
    """Stores through a buffer by TMA, or on chips without it by the lanes, which write rows whole."""
    to.check_aligned()
    if not trace.current().has_tma:
        warpgroup_barrier()  # others may still read what an earlier store put there
        _to_buffer(fragment, via)
        warpgroup_barrier()
        copy_out(fragment, via, to, rows)
        if via.ring is not None:
            warpgroup_barrier()
        return
    put_for_tma(fragment, via)
    map_ = to.map(via.value.type)
    by_lanes = _ends_ragged(to, via)
    if rows is not None:
        fewer = emit.less(rows, via.shape[0])
        by_lanes = fewer if by_lanes is None else arith.ori(by_lanes, fewer)

    def by_tma() -> None:
        with one_thread():
            tile.store_async(via.value, map_, *to.corner)
            nvvm.cp_async_bulk_commit_group()

    if by_lanes is None:
        by_tma()
    else:
        emit.branch(by_lanes, lambda: copy_out(fragment, via, to, rows), by_tma)
    if waits:
        end_of_tma(via)
    else:
        _await_at_the_end()


def _ends_ragged(to: Place, via: Buffer) -> ir.Value | None:
    """Whether rows of an array end in a tile of it, within 16 bytes, all of which TMA would write: an i1.
    None where the array is known to have rows of whole 16 bytes.
    """
    constant, bytes_ = to.matrix.known[-1], to.dtype.bytes
    if constant is not None and constant * bytes_ % ROW_BYTES == 0:
        return None
    columns = matrices.size(to.memref(), 1)
    inside = emit.less(0, emit.rem(emit.mul(columns, bytes_), ROW_BYTES))
    return arith.andi(inside, emit.less(columns, emit.add(to.corner[1], via.shape[1])))


def put_for_tma(fragment: Fragment, via: Buffer) -> None:
    """Stores a fragment to a buffer, from which TMA then copies it, when TMA has read the one before."""
    if via.ring is None:
        _await_stores()
        warpgroup_barrier()
        _await_at_the_end()
    _to_buffer(fragment, via)
    nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
    warpgroup_barrier()


def end_of_tma(via: Buffer) -> None:
    """Waits until TMA has read a stage of a ring; for other buffers, the next use of it does."""
    if via.ring is not None:
        _await_stores()
        warpgroup_barrier()


def _await_stores() -> None:
    """Waits until TMA has read what the warpgroup stores; in its thread that started the stores."""
    with one_thread():
        nvvm.cp_async_bulk_wait_group(0, read=True)


def _await_at_the_end() -> None:
    """Lets the role's end wait for its stores: shared memory must outlive them."""
    role = trace.current().role
    if role is not None and _await_stores not in role.finish:
        role.finish.append(_await_stores)


def clear_rows(buffer: object, first: object) -> None:
    """Sets the rows of a buffer from `first` on to zeros, by a warpgroup, and makes them visible to products.
    A barrier must follow.
    """
    if not isinstance(buffer, Buffer) or buffer.transposed:
        raise mistake(f"w.clear_rows expects a buffer in shared memory that isn't transposed, got {buffer}")
    trace.current().check_whole_in_role("w.clear_rows")
    rows, columns = buffer.layout.group(buffer.value.type.shape)
    if len(rows) != 1 or len(columns) > 2 or rows[0].stride != columns[-1].extent:
        raise mistake(f"rows of a buffer must be contiguous in its panels, got {buffer.layout}")
    buffer.read_by_lanes()
    row_bytes = rows[0].stride * buffer.dtype.bytes
    base, start = tile.address(buffer.value), emit.mul(as_scalar(first, i32).value, row_bytes)
    kind = ir.VectorType.get([registers.MOST_BYTES // 4], i32.type)
    zeros, lane = emit.constant(kind, 0), emit.mul(emit.rem(emit.thread(), WARPGROUP), registers.MOST_BYTES)
    count, distance = (columns[0].extent, columns[0].stride) if len(columns) > 1 else (1, 0)
    for step in range(0, rows[0].extent * row_bytes, WARPGROUP * registers.MOST_BYTES):
        offset = emit.add(lane, step)
        cleared = arith.andi(
            emit.less(emit.sub(start, 1), offset), emit.less(offset, rows[0].extent * row_bytes)
        )
        with emit.when(cleared):
            for panel in range(count):
                address = emit.add(offset, panel * distance * buffer.dtype.bytes)
                llvm.store(zeros, addresses.offset(base, emit.value(address)), alignment=registers.MOST_BYTES)
    fence()


def fence(*, order: str | None = None, scope: str | None = None) -> None:
    """Makes this thread's stores to shared memory visible to TMA and to products. A barrier must follow.

    With `order`, acq_rel or sc, or a `scope`, cta, cluster, gpu or sys, it is instead PTX's `fence` between
    what the thread accesses before and after it.
    """
    if (how := ordered("w.fence", order, scope, FENCES, FENCES[0])) is not None:
        atomics.fence(how)
    elif trace.current().has_tma:
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)


_LINE = 128  # bytes of L2 that are loaded at once


def prefetch(place: object, rows: object, columns: object) -> None:
    """Prefetches a tile of rows x columns of an array, from an element on, to L2. Nothing waits.

    All threads of the role execute it; outside of roles, all threads of the CTA. In a dependent kernel, it
    may come before the first role, where it overlaps with the previous launch. This is also correct for
    arrays which that launch writes, since L2 has the new contents.
    """
    if not isinstance(place, Place) or place.matrix.rank < 2:
        raise mistake(f"w.prefetch expects an element of a matrix, as a[row, column], got {place}")
    current = trace.current()
    if current.one_thread:
        raise mistake("w.prefetch is for all threads, so it can't be in w.one_thread()")
    matrix, (first_row, first_column) = Matrix(place.memref()), place.corner
    height, width = (as_scalar(each, i32).value for each in (rows, columns))
    height = emit.minimum(height, emit.sub(matrix.rows, first_row))
    bytes_ = emit.mul(emit.minimum(width, emit.sub(matrix.columns, first_column)), matrix.bytes)
    lines = emit.maximum(emit.ceil_div(emit.maximum(bytes_, 0), _LINE), 1)
    number: Any = emit.thread()
    step: Any = emit.as_i32(gpu.block_dim(gpu.Dimension.x))
    if current.role is not None:
        number, step = emit.sub(number, current.role.first * WARPGROUP), current.role.threads

    def ask(index: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        row, line = emit.add(first_row, emit.div(index, lines)), emit.rem(index, lines)
        start = matrix.element_of(matrix.row(row), first_column)
        address = addresses.offset(start, emit.value(emit.mul(line, _LINE)))
        assembly("prefetch.global.L2 [$0];", ["l"], [address], [])
        return []

    emit.loop(number, emit.mul(height, lines), step, [], ask)
