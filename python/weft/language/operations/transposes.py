"""Tiles of 8 bits as `wgmma` needs them: transposed in shared memory, and as left operand in registers."""

from functools import lru_cache
from math import gcd

from weft.dialects import mma, tile
from weft.isa.chips import WARPS
from weft.isa.mma.matrix_moves import STMATRIX, Stmatrix
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.values.buffers import Buffer
from weft.language.values.fragments import Fragment
from weft.layout import Layout
from weft.mlir import ir, llvm, nvvm, vector
from weft.passes.builders import addresses, emit, registers, thread_ids
from weft.passes.builders.instructions import assembly
from weft.passes.builders.shared_tiles import SharedTile, split_point

_MATRIX = 8  # rows of a matrix that ldmatrix loads
_UNIT = 16  # bytes of such a row
_ROWS, _COLUMNS = 32, 16  # of the source, in a step of a warp: four matrices
_EVEN, _ODD = 0x6420, 0x7531  # `prmt` takes every other byte of two words
_AT_ONCE = 2  # steps whose matrices are loaded before the first is stored
_FORM = Stmatrix("m8n8", 4, False)
_BLOCK, _PANEL = 16, 128  # rows and columns of what is swapped in place, and of a panel of a swizzled buffer


def interleaved_column(position: int) -> int:
    """The column at a position of `interleaved`."""
    block, within = divmod(position, _UNIT)
    return _UNIT * block + within // 4 * 2 + within % 4 // 2 * _MATRIX + within % 2


@lru_cache(maxsize=64)
def _of_operand(shape: tuple[int, int], layout: Layout) -> tuple[int, ...]:
    """For each register of the left operand, the one of a fragment that becomes it."""
    held = {at: number for number, at in enumerate(registers.registers_of(layout, shape))}
    wanted = registers.registers_of(registers.left_operand(shape, 8), shape)
    return tuple(held[row, interleaved_column(column)] for row, column in wanted)


def interleaved(x: Fragment) -> Fragment:
    """The fragment with its columns in the order in which the left operand of `w.gemm` has those of 8 bits:
    of each 16 columns, 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15. Nothing moves.

    Convert it with `.to(w.e4m3)`, and multiply it by a matrix with its rows in the same order, as
    `w.transpose(…, interleaved=True)` stores them.
    """
    if not isinstance(x, Fragment) or len(x.shape) != 2:
        raise mistake(f"w.interleaved expects a tile of rows and columns, got {x}")
    if x.shape[1] % _ROWS:
        raise mistake(
            f"w.interleaved expects a multiple of {_ROWS} columns, as a product of 8 bits has them, got {x}"
        )
    wanted = registers.sums(x.shape)
    if not registers.same(x.layout, wanted, x.shape):
        raise mistake(f"w.interleaved expects a fragment in layout {wanted}, that of sums, got {x.layout}")
    numbers = _of_operand(x.shape, wanted)
    lane = vector.shuffle(x.lane, x.lane, list(numbers))
    return Fragment.of_lane(lane, x.shape, registers.left_operand(x.shape, 8))


def transpose(source: Buffer, to: Buffer, *, interleaved: bool = False) -> None:
    """Transposes a buffer of 8-bit elements to another one, by a warpgroup. Elements of 16 bits need no
    copy: `w.gemm` reads those in both orders.

    With `interleaved`, the rows of the source are in the order of `w.interleaved`. In a stage of a ring,
    `ring.write()` makes the result visible to products; elsewhere `w.fence()` and a barrier do.

    From a stage to one of a ring over its ring, in the same memory, tiles of 128 rows and a multiple of 128
    columns are transposed in place.
    """
    for name, each in (("source", source), ("to", to)):
        if not isinstance(each, Buffer) or each.transposed or each.dtype.bits != 8:
            raise mistake(f"{name} of w.transpose must be a buffer of 8-bit elements, got {each}")
    if to.dtype != source.dtype or to.shape != source.shape[::-1]:
        raise mistake(f"w.transpose of {source} expects a buffer of its type and transposed shape, got {to}")
    (rows, columns), current = source.shape, trace.current()
    if rows % _ROWS or columns % _COLUMNS or rows * columns % (WARPS * _ROWS * _COLUMNS):
        raise mistake(
            f"w.transpose divides a buffer into {_ROWS} x {_COLUMNS} for {WARPS} warps, got {source}: rows "
            f"must be a multiple of {_ROWS}, columns of {_COLUMNS}, and one of both of more"
        )
    if current.chip not in STMATRIX.table[_FORM].chips:
        raise mistake(f"w.transpose needs stmatrix, which {current.chip} doesn't have: sm_90 and later do")
    current.check_whole_in_role("w.transpose")
    if source.ring is not None and to.ring is not None and to.ring.over is source.ring:
        if rows != _PANEL or columns % _PANEL:
            raise mistake(
                f"w.transpose in place needs {_PANEL} rows and a multiple of {_PANEL} columns, got {source}: "
                "write to a ring with its own memory"
            )
        _InPlace(source, interleaved).emit()
        return
    source.read_by_lanes()
    to.written_by_lanes()
    _Transpose(source, to, interleaved).emit()


def _sorted_row(lane: ir.Value) -> ir.Value:
    """The row of the source whose address a lane gives, so that a lane's four bytes are of four rows that
    follow each other: of two matrices, one has rows 0 1 4 5 8 9 12 13.
    """
    row, matrix = emit.rem(lane, _MATRIX), emit.div(lane, _MATRIX)
    within = emit.add(emit.mul(emit.div(row, 2), 4), emit.rem(row, 2))
    within = emit.add(within, emit.mul(emit.rem(matrix, 2), 2))
    return emit.add(within, emit.mul(emit.div(matrix, 2), _UNIT))


def _stored_row(lane: ir.Value) -> ir.Value:
    """The row of the result whose address a lane gives. Lanes of the upper half store odd columns of the
    source first: eight rows of the result are then in all banks.
    """
    matrix, row = emit.div(lane, _MATRIX), emit.rem(lane, _MATRIX)
    odd = emit.xor(emit.div(row, _MATRIX // 2), emit.rem(matrix, 2))
    return emit.add(emit.mul(row, 2), odd)


def _load(address: ir.Value) -> list[ir.Value]:
    matrices = mma.ldmatrix(address=address, shape="m8n8", num=4, trans=True)
    return [llvm.extractvalue(emit.i32(), matrices, [number]) for number in range(4)]


def _store(address: ir.Value, words: list[ir.Value]) -> None:
    """Stores what `_load` has loaded: pairs of matrices, each with its even and odd columns."""
    lower = emit.less(thread_ids.lane(), 4 * _MATRIX // 2)
    selectors = emit.select(lower, _EVEN, _ODD), emit.select(lower, _ODD, _EVEN)
    joined = [
        nvvm.prmt(low, emit.value(selector), nvvm.PermuteMode.DEFAULT, hi=high)
        for low, high in (words[:2], words[2:])
        for selector in selectors
    ]
    mma.stmatrix(address=address, a=joined, shape="m8n8", num=4, trans=False)


class _Transpose:
    """In a step, a warp loads four matrices of 8 rows with 16 bytes, as if they were 8 x 8 pairs of bytes,
    and transposes those. Lane 4 g + t then has bytes 2 g and 2 g + 1 of two rows of each, and `prmt` joins
    equal columns of two matrices.
    """

    def __init__(self, source: Buffer, to: Buffer, interleaved: bool) -> None:
        self.rows, self.columns = source.shape
        self.source, self.to = SharedTile(source.value.type), SharedTile(to.value.type)
        self.bases = tile.address(source.value), tile.address(to.value)
        lane, warp = thread_ids.lane(), thread_ids.warp()
        across = gcd(self.columns // _COLUMNS, WARPS)  # warps side by side
        self.step = _ROWS * WARPS // across, _COLUMNS * across
        self.first = emit.mul(emit.div(warp, across), _ROWS), emit.mul(emit.rem(warp, across), _COLUMNS)
        self.loaded_row = lane if interleaved else _sorted_row(lane)
        self.stored_row = _stored_row(lane)
        self.stored_column = emit.mul(emit.div(lane, 2 * _MATRIX), _UNIT)

    def emit(self) -> None:
        """All steps of a warp, some of them at once."""
        places = [
            (row, column)
            for column in range(0, self.columns, self.step[1])
            for row in range(0, self.rows, self.step[0])
        ]
        for first in range(0, len(places), _AT_ONCE):
            chosen = places[first : first + _AT_ONCE]
            for place, words in zip(chosen, [self._load(each) for each in chosen], strict=True):
                at = emit.add(self.first[1], self.stored_row), emit.add(self.first[0], self.stored_column)
                _store(self._address(1, self.to, at, place[::-1]), words)

    def _load(self, place: tuple[int, int]) -> list[ir.Value]:
        at = emit.add(self.first[0], self.loaded_row), self.first[1]
        return _load(self._address(0, self.source, at, place))

    def _address(
        self, number: int, shared: SharedTile, at: tuple[ir.Value, ir.Value], place: tuple[int, int]
    ) -> ir.Value:
        """The address of an element of a buffer: `at` is a lane's, `place` that of a step."""
        extents = self.step if number == 0 else self.step[::-1]
        sizes = (self.rows, self.columns) if number == 0 else (self.columns, self.rows)
        points = [
            split_point(value, constant, set(range(extent)), size, digits)
            for value, constant, extent, size, digits in zip(
                at, place, extents, sizes, shared.groups, strict=True
            )
        ]
        return addresses.offset(self.bases[number], shared.offset(*points))


class _InPlace:
    """Panels of 128 x 128 bytes, swizzled by 128 bytes, are transposed in place. In a step, a warp swaps two
    blocks of 16 x 16 of each panel, whose numbers of rows and columns differ by XOR with `distance`, and
    transposes both: matrices 0 and 1 of `ldmatrix` are one of them, 2 and 3 the other.
    """

    def __init__(self, source: Buffer, interleaved: bool) -> None:
        self.base, self.panels = tile.address(source.value), source.shape[1] // _PANEL
        # What depends on these alone would otherwise be computed before the loop around, and fill registers.
        lane, self.warp = _hidden(thread_ids.lane()), _hidden(thread_ids.warp())
        self.second = emit.less(2 * _MATRIX - 1, lane)  # of the two blocks
        self.loaded_row = emit.rem(lane if interleaved else _sorted_row(lane), _BLOCK)
        self.stored_row = _stored_row(lane)

    def emit(self) -> None:
        """All steps of a warp, some of them at once."""
        held = list[tuple[ir.Value, list[ir.Value]]]()
        for distance in range(_PANEL // _BLOCK):
            row, column = self._block(distance)
            source = self._address(row, self.loaded_row, column)
            to = self._address(column, self.stored_row, row)
            for panel in range(0, self.panels * _PANEL * _PANEL, _PANEL * _PANEL):
                held.append((addresses.offset(to, panel), _load(addresses.offset(source, panel))))
            if len(held) >= _AT_ONCE:
                for address, words in held:
                    _store(address, words)
                held.clear()

    def _block(self, distance: int) -> tuple[ir.Value, ir.Value]:
        """The row and column of a lane's block, in units of blocks."""
        if distance == 0:  # two blocks that stay
            number = emit.add(self.warp, emit.select(self.second, WARPS, 0))
            return number, number
        # Of two such numbers, the one without the highest digit of the distance.
        digit = 1 << (distance.bit_length() - 1)
        one = emit.add(emit.mul(emit.div(self.warp, digit), 2 * digit), emit.rem(self.warp, digit))
        other = emit.xor(one, distance)
        return emit.select(self.second, other, one), emit.select(self.second, one, other)

    def _address(self, row: ir.Value, within: ir.Value, column: ir.Value) -> ir.Value:
        """The address of a unit of 16 bytes, `within` the rows of a block of the first panel."""
        number = emit.add(emit.mul(row, _BLOCK), within)
        unit = emit.xor(column, emit.rem(within, _MATRIX))
        return addresses.offset(self.base, emit.add(emit.mul(number, _PANEL), emit.mul(unit, _UNIT)))


def _hidden(number: ir.Value) -> ir.Value:
    """The number, of which the compiler doesn't know that it is the same wherever it is used."""
    return assembly("", ["=r", "0"], [number], ["i32"])[0]
