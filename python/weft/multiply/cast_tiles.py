"""Tiles of 128 x 128 elements in the kernels that cast to fp8: loads, conversion, and stores of both results.

Each of 256 threads has 8 rows x 8 columns of a tile. To transpose, it permutes the bytes of its own elements
and passes them on through shared memory. A swizzle of 8-byte pieces keeps bank conflicts away.
"""

from dataclasses import dataclass
from typing import Any

from weft.isa.tensor_map import ROW_BYTES
from weft.mlir import arith, gpu, ir, llvm, nvvm
from weft.multiply import copied_bytes
from weft.multiply.copied_bytes import Bytes, i64
from weft.multiply.transposed_copies import transposed_bytes
from weft.passes.builders import addresses, emit

THREADS = 256
SIDE = 128
"""The rows and columns of a tile."""
OWN = 8
"""The rows and columns of a thread."""
ACROSS = SIDE // OWN
"""The threads that have the columns of a row: neighboring lanes."""
MAXIMA = SIDE * SIDE
"""The offset in shared memory of 16 x 128 f32, after the transposed tile."""
FACTORS = MAXIMA + 4 * ACROSS * SIDE
"""The offset of 128 f32."""
_SHARED_ROWS = (FACTORS + 4 * SIDE) // SIDE
_PIECE = 8  # bytes of a column that a thread has

Square = list[list[Any]]
"""The f32 values of a thread, by rows."""


def f32() -> ir.Type:
    return ir.F32Type.get()


def shared() -> ir.Value:
    """The address of a CTA's shared memory, which is allocated here."""
    return copied_bytes.shared(_SHARED_ROWS, SIDE)


def own() -> tuple[ir.Value, ir.Value]:
    """The number of this thread's group of rows, and that of its group of columns."""
    return emit.shift_right(emit.thread(), ACROSS.bit_length() - 1), emit.bit_and(emit.thread(), ACROSS - 1)


@dataclass(frozen=True)
class Source:
    """A matrix of `element` with contiguous rows, which begin at multiples of `unit` bytes. `stride` is that
    of its rows in bytes, an i64.
    """

    address: ir.Value
    stride: ir.Value
    rows: ir.Value
    columns: ir.Value
    element: str
    unit: int

    def load(self, row: ir.Value, column: ir.Value) -> Square:
        """This thread's elements of the tile that begins here. Those outside of the matrix repeat others of
        the tile in the same row or column.
        """
        group, part = own()
        row, column = emit.add(row, emit.mul(group, OWN)), emit.add(column, emit.mul(part, OWN))
        rows = [emit.minimum(emit.add(row, i), emit.sub(self.rows, 1)) for i in range(OWN)]
        of_rows = [arith.muli(i64(each), self.stride) for each in rows]
        size, per_vector = self._size, ROW_BYTES // self._size
        span = arith.muli(i64(emit.sub(self.rows, 1)), self.stride)
        span = arith.addi(span, i64(emit.mul(self.columns, size)))
        bytes_ = Bytes.of(llvm.addrspacecast(addresses.pointer_type(1), self.address), span, self.unit)
        last = emit.mul(emit.div(emit.sub(self.columns, 1), per_vector), per_vector)
        parts = [emit.minimum(emit.add(column, i), last) for i in range(0, OWN, per_vector)]
        starts = [arith.addi(bytes_.start, i64(emit.mul(each, size))) for each in parts]
        places = [[arith.addi(start, of_row) for start in starts] for of_row in of_rows]
        ends = (places[0][0], places[0][-1], places[-1][0], places[-1][-1])
        whole = emit.negate(emit.less(emit.sub(self.columns, parts[-1]), per_vector))
        for each in ends:
            whole = arith.andi(whole, bytes_.has_vectors(each))

        def left() -> list[ir.Value]:
            return [emit.minimum(emit.mul(emit.sub(self.columns, each), size), ROW_BYTES) for each in parts]

        words = bytes_.words_of_rows(whole, places, left, size)
        per_row = OWN * size // 4
        return [self._numbers(words[i : i + per_row]) for i in range(0, len(words), per_row)]

    @property
    def _size(self) -> int:
        return 4 if self.element == "f32" else 2

    def _numbers(self, words: list[ir.Value]) -> list[ir.Value]:
        """The elements in some words, as f32."""
        if self.element == "f32":
            return [arith.bitcast(f32(), word) for word in words]
        if self.element == "bf16":
            pairs = ((arith.shli(w, emit.value(16)), arith.andi(w, emit.value(-1 << 16))) for w in words)
            return [arith.bitcast(f32(), each) for pair in pairs for each in pair]
        pair = ir.VectorType.get([2], ir.F16Type.get())
        wide = ir.VectorType.get([2], f32())
        return [each for w in words for each in emit.elements(arith.extf(wide, llvm.bitcast(pair, w)))]


def converted(values: Square, factors: Square, element: str) -> list[list[ir.Value]]:
    """The products of values and factors in fp8: two words for each row. They round to nearest even and
    saturate.
    """
    rows = []
    for row, of_row in zip(values, factors, strict=True):
        scaled = [arith.mulf(x, factor) for x, factor in zip(row, of_row, strict=True)]
        halves = [_pair(scaled[i], scaled[i + 1], element) for i in range(0, OWN, 2)]
        rows.append([llvm.bitcast(emit.i32(), emit.vector_of(halves[i : i + 2])) for i in (0, 2)])
    return rows


def _pair(low: ir.Value, high: ir.Value, element: str) -> ir.Value:
    nearest, finite = (
        ir.Attribute.parse(f"#nvvm.{mode}>") for mode in ("fp_rnd_mode<rn", "sat_mode<satfinite")
    )
    i16, kind = ir.IntegerType.get_signless(16), ir.Type.parse(element)
    return nvvm.convert_f32x2_to_f8x2(i16, high, low, kind, rnd=nearest, sat=finite)


@dataclass(frozen=True)
class Target:
    """A matrix of fp8 whose rows are `pitch` bytes apart, a multiple of 16, all of which are allocated."""

    address: ir.Value
    pitch: ir.Value
    rows: ir.Value
    columns: ir.Value

    def store(self, words: list[list[ir.Value]], row: ir.Value, column: ir.Value) -> None:
        """Stores this thread's elements of the tile that begins here."""
        group, part = own()
        row, column = emit.add(row, emit.mul(group, OWN)), emit.add(column, emit.mul(part, OWN))
        for number, each in enumerate(words):
            self._store(each, emit.add(row, number), column)

    def store_transposed(
        self, words: list[list[ir.Value]], shared: ir.Value, row: ir.Value, column: ir.Value
    ) -> None:
        """Stores the transpose of the tile that begins here. `row` and `column` are those of the source."""
        group, part = own()
        for number, pieces in enumerate(_columns(words)):
            at = emit.mul(emit.add(emit.mul(part, OWN), number), SIDE)
            at = emit.add(at, emit.mul(emit.xor(group, part), _PIECE))
            llvm.store(emit.vector_of(pieces), addresses.offset(shared, at))
        gpu.barrier()
        per_row = SIDE // ROW_BYTES
        for number in range(SIDE * per_row // THREADS):
            index = emit.add(emit.thread(), number * THREADS)
            line = emit.shift_right(index, per_row.bit_length() - 1)
            vector = emit.bit_and(index, per_row - 1)
            key = emit.shift_right(line, OWN.bit_length() - 1)
            piece = emit.xor(vector, emit.shift_right(key, 1))
            at = emit.add(emit.mul(line, SIDE), emit.mul(piece, ROW_BYTES))
            kind = ir.VectorType.get([ROW_BYTES // 4], emit.i32())
            found = emit.elements(llvm.load(kind, addresses.offset(shared, at)))
            odd = emit.equal(emit.bit_and(key, 1), 1)
            found = [arith.select(odd, found[i ^ 2], found[i]) for i in range(4)]
            self._store(found, emit.add(column, line), emit.add(row, emit.mul(vector, ROW_BYTES)))

    def _store(self, words: list[ir.Value], row: ir.Value, column: ir.Value) -> None:
        """Stores bytes of a row that exists. They may extend into its padding."""
        at = arith.addi(arith.muli(i64(row), self.pitch), i64(column))
        address = addresses.offset(llvm.addrspacecast(addresses.pointer_type(1), self.address), at)
        with emit.when(arith.andi(emit.less(row, self.rows), emit.less(column, self.columns))):
            llvm.store(emit.vector_of(words), address)


def _columns(words: list[list[ir.Value]]) -> list[list[ir.Value]]:
    """The two words of each column."""
    found = []
    for across in range(OWN // 4):
        halves = [transposed_bytes(*(row[across] for row in words[i : i + 4])) for i in (0, 4)]
        found += [list(pair) for pair in zip(*halves, strict=True)]
    return found
