"""Parts of rows at indices, copied between an array and shared memory, 16 bytes of a lane at once."""

from collections.abc import Iterator
from typing import NamedTuple

from weft import mlir
from weft.isa.async_copy import CP_ASYNC
from weft.isa.chips import LANES, describe
from weft.isa.tensor_map import ROW_BYTES
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations.gathers import Gathered
from weft.language.values.bounds import existing, may_begin_before
from weft.language.values.buffers import Buffer, element_address
from weft.language.values.coordinates import of_lanes
from weft.language.values.dtypes import f32, i32
from weft.language.values.fragments import Fragment
from weft.mlir import arith, ir, llvm, nvvm
from weft.passes.builders import addresses, emit
from weft.passes.builders.fragment_registers import lane_elements
from weft.passes.kernels import matrices


class _Part(NamedTuple):
    """16 bytes of a row."""

    inside: ir.Value
    """How many of its elements are in the array."""
    address: ir.Value
    """Where these are in the array."""
    shared: ir.Value
    """Where they are in the buffer."""


def gather(source: Gathered, to: Buffer) -> None:
    """Copies parts of rows to a buffer by `cp.async`, zeros for what is outside of the array, and waits for
    them. All of a lane's copies are on their way at once.
    """
    chip = trace.current().chip
    if chip not in CP_ASYNC.chips():
        raise mistake(
            f"copies of rows need {describe(CP_ASYNC.chips())}, got {chip}: w.load them, and w.store the tile"
        )
    if to.dtype == f32:
        raise mistake(
            "copies of rows don't round, as products of f32 need it: w.load them, and w.store the tile"
        )
    to.written_by_lanes()
    for part in _parts(source, to):
        bytes_ = emit.mul(part.inside, to.dtype.bytes)
        cache = nvvm.LoadCacheModifierKind.CG
        nvvm.CpAsyncOp(part.shared, part.address, ROW_BYTES, cache, cpSize=emit.value(bytes_))
    nvvm.cp_async_commit_group()
    nvvm.cp_async_wait_group(0)


def scatter(buffer: Buffer, to: Gathered) -> None:
    """Stores the rows of a buffer to parts of rows, but not what is outside of the array."""
    buffer.read_by_lanes()
    element, count = addresses.stored_type(buffer.dtype.type), ROW_BYTES // buffer.dtype.bytes
    whole = ir.VectorType.get([ROW_BYTES // i32.bytes], i32.type)

    def store_all(part: _Part) -> list[ir.Value]:
        loaded = llvm.load(whole, part.shared, alignment=ROW_BYTES)
        llvm.store(loaded, part.address, alignment=ROW_BYTES)
        return []

    def store_some(part: _Part) -> list[ir.Value]:
        for number in range(count):
            with emit.when(emit.less(number, part.inside)):
                offset = number * buffer.dtype.bytes
                loaded = llvm.load(element, addresses.offset(part.shared, offset))
                llvm.store(loaded, addresses.offset(part.address, offset))
        return []

    for part in _parts(to, buffer):
        is_whole = emit.equal(part.inside, count)
        emit.either(is_whole, [], lambda part=part: store_all(part), lambda part=part: store_some(part))  # type: ignore[misc]


def _parts(at: Gathered, buffer: Buffer) -> Iterator[_Part]:
    """The parts that a lane copies. Lanes with the same row numbers share the rows."""
    rows = _checked(at, buffer)
    *others, _, first = at.indices
    outer = [each.value for each in others]
    has_matrix, outer = existing(at.matrix.value, outer)
    matrix = addresses.Matrix(matrices.member(at.matrix.value, *outer) if outer else at.matrix.value)
    held = lane_elements(rows.layout, rows.shape)
    sharing = next(n for n in (32, 16, 8, 4, 2, 1) if all(held[k] == held[k - k % n] for k in range(LANES)))
    elements = ROW_BYTES // buffer.dtype.bytes
    of_row, numbers, own = buffer.shape[1] // elements, of_lanes(rows), emit.rem(emit.thread(), sharing)
    for number, offset in zip(rows.elements(), numbers.offsets, strict=True):
        row = emit.value(emit.add(numbers.base.value, offset))
        exists = arith.andi(emit.less(-1, number), emit.less(number, matrix.rows))
        exists = exists if has_matrix is None else arith.andi(exists, has_matrix)
        for part in range(0, of_row, sharing):
            column = emit.value(emit.mul(emit.add(own, part), elements))
            across = emit.value(emit.add(first.value, column))
            inside = emit.maximum(emit.minimum(emit.sub(matrix.columns, across), elements), 0)
            inside = emit.value(emit.select(exists, inside, 0))
            if may_begin_before(first.value):
                inside = emit.value(emit.select(emit.less(across, 0), 0, inside))
            address = matrix.element_of(matrix.row(number), across)
            if part + sharing <= of_row:
                yield _Part(inside, address, element_address(buffer, row, column))
                continue
            with emit.when(emit.less(emit.add(own, part), of_row)):
                yield _Part(inside, address, element_address(buffer, row, column))


def _checked(at: Gathered, buffer: Buffer) -> Fragment:
    """The vector of row numbers. Raises WeftError for rows that can't be copied so."""
    trace.current().check_whole("a copy of rows")
    vectors, name = [each for each in at.indices if isinstance(each, Fragment)], at.matrix.name
    is_last = len(at.indices) > 1 and len(vectors) == 1 and vectors[0] is at.indices[-2]
    if not is_last or len(vectors[0].shape) != 1 or vectors[0].has_columns:
        raise mistake(f"rows are copied at a vector of row numbers, as {name}[rows, column], got {at}")
    height, width = buffer.shape
    if buffer.transposed or vectors[0].shape != (height,) or buffer.dtype != at.dtype:
        count = vectors[0].shape[0]
        raise mistake(
            f"the buffer must have {count} rows, one for each row number, and elements of {at.dtype}, as "
            f"'{name}' has, got {buffer}"
        )
    column = mlir.constant(at.indices[-1].value) or 0
    if not at.matrix.aligned or any(each * buffer.dtype.bytes % ROW_BYTES for each in (width, column)):
        raise mistake(
            f"parts of rows of '{name}' must begin and end at multiples of {ROW_BYTES} bytes to be copied: "
            "w.load them, and w.store the tile"
        )
    return vectors[0]
