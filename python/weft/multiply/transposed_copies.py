"""The copy of an MN-major matrix to a K-major one: a part of the kernel of `copy_kernels`.

A CTA copies a tile of 128 rows with 128 bytes each. A thread loads 16 bytes of each of four rows, transposes
them in registers, and stores them to shared memory, column by column. Then each thread copies 16 bytes of a
column at a time to memory. A swizzle of 16-byte vectors keeps bank conflicts away from both.
"""

from typing import Any

from weft.isa.tensor_map import ROW_BYTES
from weft.mlir import arith, gpu, ir, llvm, nvvm
from weft.multiply.copied_bytes import Bytes, i64, shared
from weft.multiply.row_copies import THREADS, TRANSPOSED_TILE
from weft.passes.builders import addresses, emit

_ROWS, _WIDTH = TRANSPOSED_TILE
_AT_ONCE = 4  # rows of which a thread loads a vector
_ACROSS = _WIDTH // ROW_BYTES  # vectors in a row of a tile
_LOW, _HIGH = 0x5140, 0x7362  # `prmt` interleaves the lower or upper bytes of two words,
_FIRST, _SECOND = 0x5410, 0x7632  # and joins their lower or upper halves


def emitted_ctas(members: ir.Value, count: ir.Value, width: ir.Value) -> ir.Value:
    """`Columns.ctas` of i32 values in a kernel."""
    return emit.mul(members, emit.mul(emit.ceil_div(count, _ROWS), emit.ceil_div(width, _WIDTH)))


def buffer() -> ir.Value:
    """The address of shared memory for a tile, which is allocated here."""
    return shared(_ROWS, _WIDTH)


class TransposedCopy:
    """The copy of a matrix with elements of `size` bytes, whose rows begin at multiples of `unit` bytes."""

    def __init__(self, values: list[ir.Value], size: int, unit: int, batched: bool, shared: Any) -> None:
        source, target, span, self.member_stride, self.stride, *numbers = values
        self.members, self.count, self.width, self.pitch = numbers
        space = addresses.pointer_type(1)
        self.target = llvm.addrspacecast(space, target)
        self.bytes = Bytes.of(llvm.addrspacecast(space, source), span, unit)
        self.size, self.batched, self.shared = size, batched, shared
        self.per_vector = ROW_BYTES // size  # elements

    def emit(self, cta: ir.Value) -> None:
        """Copies the tile of this CTA."""
        across, member = emit.ceil_div(self.width, _WIDTH), 0
        if self.batched:
            each = emit.mul(across, emit.ceil_div(self.count, _ROWS))
            member = emit.div(cta, each)
            cta = emit.sub(cta, emit.mul(member, each))
        down = emit.div(cta, across)
        row, column = emit.mul(down, _ROWS), emit.mul(emit.sub(cta, emit.mul(down, across)), _WIDTH)
        self._store_shared(self._load(member, row, column))
        gpu.barrier()
        self._store(member, row, column)

    @property
    def _own(self) -> tuple[ir.Value, ir.Value]:
        """This thread's group of rows in the tile, and its vector in these rows."""
        thread = emit.thread()
        return emit.shift_right(thread, _ACROSS.bit_length() - 1), emit.bit_and(thread, _ACROSS - 1)

    def _load(self, member: Any, row: ir.Value, column: ir.Value) -> list[list[ir.Value]]:
        """The words of this thread's vectors in four rows. Beyond the matrix they are those of others."""
        group, part = self._own
        column = emit.add(column, emit.mul(part, ROW_BYTES))
        last = emit.mul(emit.sub(emit.ceil_div(self.width, ROW_BYTES), 1), ROW_BYTES)
        column = emit.minimum(column, last)
        start = arith.addi(self.bytes.start, i64(column))
        if self.batched:
            start = arith.addi(start, arith.muli(i64(member), self.member_stride))
        row, end = emit.add(row, emit.mul(group, _AT_ONCE)), emit.sub(self.count, 1)
        rows = [emit.minimum(emit.add(row, i), end) for i in range(_AT_ONCE)]
        places = [arith.addi(start, arith.muli(i64(each), self.stride)) for each in rows]
        bytes_ = emit.minimum(emit.sub(self.width, column), ROW_BYTES)
        # Strides aren't negative: what the first and the last row have, those between have, too.
        inside = arith.andi(*(self.bytes.has_vectors(places[i]) for i in (0, -1)))
        words = self.bytes.words_of_rows(inside, [[each] for each in places], lambda: [bytes_], self.size)
        return [list(words[i : i + 4]) for i in range(0, len(words), 4)]

    def _store_shared(self, rows: list[list[ir.Value]]) -> None:
        """Stores the four elements of each of this thread's columns together."""
        group, part = self._own
        within = emit.xor(emit.mul(group, _AT_ONCE * self.size), emit.mul(part, ROW_BYTES))
        start = emit.add(emit.mul(part, self.per_vector * _ROWS * self.size), within)
        for number, words in enumerate(self._columns(rows)):
            at = addresses.offset(self.shared, emit.add(start, number * _ROWS * self.size))
            llvm.store(emit.vector_of(words) if len(words) > 1 else words[0], at)

    def _columns(self, rows: list[list[ir.Value]]) -> list[list[ir.Value]]:
        """The words of each column of some rows."""
        if self.size == 4:
            return [list(column) for column in zip(*rows, strict=True)]
        return [[word] for words in zip(*rows, strict=True) for word in transposed_bytes(*words)]

    def _store(self, member: Any, row: ir.Value, column: ir.Value) -> None:
        """Copies columns of the tile to rows of the copy, which has its bytes beyond the matrix undefined."""
        per_column = _ROWS * self.size // ROW_BYTES
        column, end = emit.div(column, self.size), emit.div(self.width, self.size)
        bytes_, kind = emit.mul(self.count, self.size), ir.VectorType.get([ROW_BYTES // 4], emit.i32())
        for number in range(_ROWS * _ACROSS // THREADS):
            index = emit.add(emit.thread(), number * THREADS)
            own = emit.shift_right(index, per_column.bit_length() - 1)
            part = emit.bit_and(index, per_column - 1)
            swizzled = emit.xor(part, emit.shift_right(own, self.per_vector.bit_length() - 1))
            offset = emit.add(emit.mul(own, _ROWS * self.size), emit.mul(swizzled, ROW_BYTES))
            to_row = emit.add(column, own)
            to_byte = emit.add(emit.mul(row, self.size), emit.mul(part, ROW_BYTES))
            with emit.when(arith.andi(emit.less(to_row, end), emit.less(to_byte, bytes_))):
                to = i64(to_row)
                if self.batched:
                    to = arith.addi(to, arith.muli(i64(member), i64(end)))
                to = arith.addi(arith.muli(to, i64(self.pitch)), i64(to_byte))
                found = llvm.load(kind, addresses.offset(self.shared, offset))
                llvm.store(found, addresses.offset(self.target, to))


def transposed_bytes(*rows: ir.Value) -> list[ir.Value]:
    """The four columns of four words, as words."""
    low, high = ([_joined(each, *pair) for pair in (rows[:2], rows[2:])] for each in (_LOW, _HIGH))
    return [_joined(selector, *pairs) for pairs in (low, high) for selector in (_FIRST, _SECOND)]


def _joined(selector: int, first: ir.Value, second: ir.Value) -> ir.Value:
    return nvvm.prmt(first, emit.value(selector), nvvm.PermuteMode.DEFAULT, hi=second)
