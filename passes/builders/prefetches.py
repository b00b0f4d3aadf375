"""Requests that L2 loads what a kernel reads later."""

from weft.mlir import arith, ir, nvvm
from weft.passes.builders import addresses, emit
from weft.passes.builders.addresses import Matrix, Vector

_UNIT = 16  # bytes: addresses and sizes are multiples of it


def block(
    matrix: ir.Value, row: ir.Value, column: ir.Value, shape: tuple[int, int], thread: ir.Value, threads: int
) -> None:
    """Asks L2 for a block of a matrix, on sm_90 and later: each of `threads` threads for some of its rows.
    Rows that don't begin at a multiple of 16 bytes are left out, and so is what is outside of the matrix.
    """
    source, (rows, columns) = Matrix(matrix), shape
    present = emit.minimum(emit.sub(source.columns, column), columns)
    bytes_ = emit.bit_and(emit.mul(present, source.bytes), -_UNIT)

    with emit.each(thread, rows, threads) as number:
        at = emit.add(row, number)
        start = source.element_of(source.row(at), column)
        low = addresses.low_bits(start)
        exists = arith.andi(source.has_row(at), emit.less(0, bytes_))
        with emit.when(arith.andi(exists, emit.equal(emit.bit_and(low, _UNIT - 1), 0))):
            nvvm.CpAsyncBulkPrefetchOp(start, emit.value(bytes_))


def run(vector: ir.Value, first: ir.Value, count: int) -> None:
    """Asks L2, in one thread, for `count` elements of an array from one on: a multiple of 16 bytes, which
    begins at one.
    """
    source = Vector(vector)
    nvvm.CpAsyncBulkPrefetchOp(source.element_of(first), emit.value(count * source.bytes))
