"""Loads of a part of a matrix whose rows begin at any element into a buffer in shared memory, by the threads
of a warpgroup. TMA doesn't copy such rows.
"""

from collections.abc import Iterator
from math import gcd

from weft.dialects import tile
from weft.isa.chips import LANES, WARPS
from weft.mlir import arith, ir, llvm
from weft.passes.builders import addresses, emit, late_ids
from weft.passes.builders.addresses import Matrix
from weft.passes.builders.shared_tiles import Point, SharedTile

_WORD = 4  # bytes that a lane stores at once
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
        turn for turn in range(1, rows // at_once + 1) if _fits(turn, rows // at_once, words // lanes)
    )
    warp, lane = late_ids.warp_and_lane()
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

    def some(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        for down, across, loaded in list(elements(number)):
            offset = shared.offset(Point(down), Point(across))
            llvm.store(emit.vector_of(loaded), addresses.offset(base, offset))
        return []

    emit.loop(first, rows, turns * at_once, [], some)


def _fits(turns: int, all_turns: int, words: int) -> bool:
    """Whether so many turns over rows, each of which loads as many words, make an iteration."""
    return turns == 1 or (all_turns % turns == 0 and turns * words <= _AT_ONCE)


def _element(
    source: Matrix, start: ir.Value, exists: ir.Value, column: ir.Value, across: ir.Value
) -> ir.Value:
    """An element of a row that begins at an address, or zero where the matrix has none."""
    inside = arith.andi(exists, source.has_column(emit.add(column, across)))
    wide = arith.extsi(ir.IntegerType.get_signless(64), emit.mul(across, source.bytes))
    address, kind = addresses.offset(start, wide), source.element
    return emit.either(inside, [kind], lambda: [llvm.load(kind, address)], lambda: [emit.constant(kind, 0)])[
        0
    ]
