"""`w.prefetch`: tiles of arrays that a kernel will read, asked for in L2."""

from typing import Any

from weft.isa.chips import WARPGROUP
from weft.language import trace
from weft.language.dtypes import i32
from weft.language.matrices import Place
from weft.language.mistakes import mistake
from weft.language.scalars import as_scalar
from weft.mlir import gpu, ir
from weft.passes.builders import addresses, emit
from weft.passes.builders.addresses import Matrix
from weft.passes.builders.instructions import assembly

_LINE = 128  # bytes of L2 that are loaded at once


def prefetch(place: Any, rows: Any, columns: Any) -> None:
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

    def ask(index: ir.Value, _: list[Any]) -> list[Any]:
        row, line = emit.add(first_row, emit.div(index, lines)), emit.rem(index, lines)
        start = matrix.element_of(matrix.row(row), first_column)
        address = addresses.offset(start, emit.value(emit.mul(line, _LINE)))
        assembly("prefetch.global.L2 [$0];", ["l"], [address], [])
        return []

    emit.loop(number, emit.mul(height, lines), step, [], ask)
