"""Copies of tiles by the threads of a warpgroup, between shared memory and matrices of any alignment."""

import functools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from math import gcd

from weft.dialects import tile
from weft.dialects.tile import CopyOutOp
from weft.isa.chips import LANES, WARPS
from weft.mlir import arith, ir, llvm
from weft.passes.builders import addresses, emit, thread_ids
from weft.passes.builders.addresses import Matrix
from weft.passes.builders.shared_tiles import Point, SharedTile
from weft.passes.builders.shifted_words import BYTES, WORDS, shifted

_WORD = 4  # bytes that a lane stores at once; to a matrix where vectors of the buffer aren't contiguous
_AT_ONCE = 8  # words of a lane that are loaded before any is stored


def copy(matrix: ir.Value, row: ir.Value, column: ir.Value, part: ir.Value) -> None:
    """Fills a buffer with the part of a matrix at (`row`, `column`), and with zeros outside of the matrix. A
    barrier must follow. Rows of the buffer are whole words, each contiguous.
    """
    source, (rows, columns) = Matrix(matrix), part.type.shape
    per = _WORD // source.bytes  # elements of a word
    words = columns // per
    lanes = gcd(words, LANES)  # of a row
    at_once = WARPS * LANES // lanes  # rows
    turns = max(
        turn
        for turn in range(1, rows // at_once + 1)
        if (turn == 1 or ((rows // at_once) % turn == 0 and turn * (words // lanes) <= _AT_ONCE))
    )
    warp, lane = thread_ids.late_warp_and_lane()
    first = emit.add(emit.mul(warp, LANES // lanes), emit.div(lane, lanes))
    own = emit.mul(emit.rem(lane, lanes), per)
    shared, base = SharedTile(part.type), tile.address(part)

    def elements(number: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, list[ir.Value]]]:
        for turn in range(turns):
            down = emit.add(number, turn * at_once)
            at = emit.add(row, down)
            start, exists = source.element_of(source.row(at), column), source.has_row(at)
            for right in range(0, columns, lanes * per):
                across = emit.add(own, right)
                yield (
                    down,
                    across,
                    [_element(source, start, exists, column, emit.add(across, i)) for i in range(per)],
                )

    with emit.each(first, rows, turns * at_once) as number:
        for down, across, loaded in list(elements(number)):
            offset = shared.offset(Point(down), Point(across))
            llvm.store(emit.vector_of(loaded), addresses.offset(base, offset))


def _element(
    source: Matrix, start: ir.Value, exists: ir.Value, column: ir.Value, across: ir.Value
) -> ir.Value:
    """An element of a row that begins at an address, or zero where the matrix has none."""
    inside = arith.andi(exists, source.has_column(emit.add(column, across)))
    wide = arith.extsi(emit.i64(), emit.mul(across, source.bytes))
    return addresses.loaded(addresses.offset(start, wide), inside, source.element)


class RowStores:
    """The copy of a buffer to (`op.row`, `op.column`) of a matrix, as far as the matrix goes."""

    def __init__(self, op: CopyOutOp) -> None:
        self.matrix, self.shared = Matrix(op.destination), SharedTile(op.tile.type)
        self.rows, self.columns = op.tile.type.shape
        self.any_row = op.attribute("any_row")
        self.base, self.row, self.column = tile.address(op.tile), op.row, op.column
        self.bytes = self.matrix.bytes
        inside = emit.minimum(emit.sub(self.matrix.columns, op.column), self.columns)
        self.count = emit.maximum(inside, 0)  # of each row's elements that the matrix has
        self.warp, self.lane = thread_ids.late_warp_and_lane()

    def emit(self) -> None:
        """Copies all rows: in aligned vectors of 16 bytes where the buffer allows."""
        swizzle, per = self.shared.swizzle, BYTES // self.bytes
        whole = swizzle is None or 1 << swizzle.base >= BYTES
        if whole and self.columns % per == 0 and self.shared.run_complaint(per) is None:
            self._by_vectors(per)
        else:
            self._by_words()

    def _by_vectors(self, per: int) -> None:
        """The lanes of a row store the vectors of `per` elements that are aligned in the matrix, then the
        elements before and after them, one each.
        """
        vectors, most_apart = self.columns // per, 2 * (per - 1)
        lanes = min(1 << (max(vectors, most_apart, 1) - 1).bit_length(), LANES)
        at_once, own = LANES // lanes, emit.rem(self.lane, lanes)

        def row(number: ir.Value) -> None:
            start = self._start(number)
            lead = self._lead(start, BYTES)
            whole = emit.div(emit.sub(self.count, lead), per)
            for first in range(0, vectors, lanes):
                of_lane = emit.add(own, first)
                with emit.when(emit.less(of_lane, whole)):
                    kind = ir.VectorType.get([WORDS], emit.i32())
                    # Where `lead` is 0, the second vector isn't used, and may not exist.
                    pair = of_lane, emit.minimum(emit.add(of_lane, 1), vectors - 1)
                    loaded = [llvm.load(kind, self._address(number, emit.mul(each, per))) for each in pair]
                    words = [word for each in loaded for word in emit.elements(each)]
                    words = shifted(emit.mul(lead, self.bytes), words, self.bytes)
                    column = emit.add(lead, emit.mul(of_lane, per))
                    self._store(start, column, emit.vector_of(words))
            inside = emit.mul(whole, per)
            with emit.when(emit.less(own, emit.sub(self.count, inside))):
                column = emit.add(own, emit.select(emit.less(own, lead), 0, inside))
                self._store(start, column, self._element(number, column))

        self._each_row(emit.add(emit.mul(self.warp, at_once), emit.div(self.lane, lanes)), at_once, row)

    def _by_words(self) -> None:
        """The lanes of a warp store words of 4 bytes from the first multiple of 4 on, and single elements
        before and after them.
        """
        packed = max(_WORD // self.bytes, 1)
        whole = ir.IntegerType.get_signless(8 * packed * self.bytes)

        def row(number: ir.Value) -> None:
            start = self._start(number)
            lead = self._lead(start, _WORD) if packed > 1 else 0
            words = emit.div(emit.sub(self.count, lead), packed)
            for first in range(0, emit.div(self.columns, packed), LANES):
                of_lane = emit.add(self.lane, first)
                with emit.when(emit.less(of_lane, words)):
                    column = emit.add(lead, emit.mul(of_lane, packed))
                    elements = [self._element(number, emit.add(column, i)) for i in range(packed)]
                    wide = [arith.extui(whole, each) if packed > 1 else each for each in elements]
                    bits = (arith.constant(whole, 8 * self.bytes * i) for i in range(1, packed))
                    parts = [arith.shli(each, by) for each, by in zip(wide[1:], bits, strict=True)]
                    self._store(start, column, functools.reduce(arith.ori, parts, wide[0]))
            if packed > 1:
                after = emit.add(lead, emit.mul(words, packed))
                for first, stop in ((0, lead), (after, self.count)):
                    column = emit.add(first, self.lane)
                    with emit.when(emit.less(column, stop)):
                        self._store(start, column, self._element(number, column))

        self._each_row(emit.value(self.warp), 1, row)

    def _each_row(self, first: ir.Value, at_once: int, body: Callable[[ir.Value], None]) -> None:
        """A loop over every row of the tile that a lane has a part of, from `first` on."""
        end = emit.minimum(emit.sub(self.matrix.rows, self.row), self.rows)
        with emit.each(first, end, WARPS * at_once) as number:
            inside = emit.when(emit.less(-1, emit.add(self.row, number))) if self.any_row else nullcontext()
            with inside:
                body(number)

    def _start(self, row: ir.Value) -> ir.Value:
        """Where a row of the tile begins in the matrix."""
        return self.matrix.element_of(self.matrix.row(emit.add(self.row, row)), self.column)

    def _lead(self, start: ir.Value, bytes_: int) -> ir.Value:
        """The elements of a row before the first multiple of `bytes_`."""
        low = addresses.low_bits(start)
        lead = emit.div(emit.bit_and(emit.sub(0, low), bytes_ - 1), self.bytes)
        return emit.minimum(lead, self.count)

    def _address(self, row: ir.Value, column: ir.Value) -> ir.Value:
        return addresses.offset(self.base, self.shared.offset(Point(row), Point(column)))

    def _element(self, row: ir.Value, column: ir.Value) -> ir.Value:
        return llvm.load(ir.IntegerType.get_signless(8 * self.bytes), self._address(row, column))

    def _store(self, start: ir.Value, column: ir.Value, value: ir.Value) -> None:
        wide = arith.extsi(emit.i64(), emit.mul(column, self.bytes))
        llvm.store(value, addresses.offset(start, wide))
