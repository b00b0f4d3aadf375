"""Tiles of 8 bits as `wgmma` needs them: transposed in shared memory, and as left operand in registers."""

from functools import lru_cache
from math import gcd
from typing import Any

from weft.dialects import mma, tile
from weft.isa.chips import WARPS
from weft.isa.mma.matrix_moves import STMATRIX, Stmatrix
from weft.language import registers, trace
from weft.language.buffers import Buffer
from weft.language.fragments import Fragment
from weft.language.mistakes import mistake
from weft.layout import Layout
from weft.mlir import llvm, nvvm, vector
from weft.passes.builders import addresses, emit, thread_ids
from weft.passes.builders.shared_tiles import SharedTile, split_point

_MATRIX = 8  # rows of a matrix that ldmatrix loads
_UNIT = 16  # bytes of such a row
_ROWS, _COLUMNS = 32, 16  # of the source, in a step of a warp: four matrices
_EVEN, _ODD = 0x6420, 0x7531  # `prmt` takes every other byte of two words
_AT_ONCE = 2  # steps whose matrices are loaded before the first is stored
_FORM = Stmatrix("m8n8", 4, False)


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


def interleaved(x: Any) -> Fragment:
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
    return Fragment(lane, x.shape, registers.left_operand(x.shape, 8))


def transpose(source: Any, to: Any, *, interleaved: bool = False) -> None:
    """Transposes a buffer of 8-bit elements to another one, by a warpgroup. Elements of 16 bits need no
    copy: `w.gemm` reads those in both orders.

    With `interleaved`, the rows of the source are in the order of `w.interleaved`. In a stage of a ring,
    `ring.write()` makes the result visible to products; elsewhere `w.fence()` and a barrier do.
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
    if current.role is None or current.one_thread:
        raise mistake("w.transpose must be in a role, executed by whole warpgroups")
    if source.ring is not None:
        source.ring.read_by_lanes()
    _Transpose(source, to, interleaved).emit()


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
        self.loaded_row = lane if interleaved else self._sorted(lane)
        matrix, row = emit.div(lane, _MATRIX), emit.rem(lane, _MATRIX)
        # Lanes of the upper half store odd columns first: eight rows of `to` are then in all banks.
        odd = emit.xor(emit.div(row, _MATRIX // 2), emit.rem(matrix, 2))
        self.stored_row = emit.add(emit.mul(row, 2), odd)
        self.stored_column = emit.mul(emit.div(matrix, 2), _UNIT)
        lower = emit.less(lane, 4 * _MATRIX // 2)
        self.selectors = emit.select(lower, _EVEN, _ODD), emit.select(lower, _ODD, _EVEN)

    @staticmethod
    def _sorted(lane: Any) -> Any:
        """The row of the source whose address a lane gives, so that a lane's four bytes are of four rows that
        follow each other: of two matrices, one has rows 0 1 4 5 8 9 12 13.
        """
        row, matrix = emit.rem(lane, _MATRIX), emit.div(lane, _MATRIX)
        within = emit.add(emit.mul(emit.div(row, 2), 4), emit.rem(row, 2))
        within = emit.add(within, emit.mul(emit.rem(matrix, 2), 2))
        return emit.add(within, emit.mul(emit.div(matrix, 2), _UNIT))

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
                self._store(place, words)

    def _load(self, place: tuple[int, int]) -> list[Any]:
        at = emit.add(self.first[0], self.loaded_row), self.first[1]
        address = self._address(0, self.source, at, place)
        found = mma.ldmatrix(address=address, shape="m8n8", num=4, trans=True)
        return [llvm.extractvalue(emit.i32(), found, [number]) for number in range(4)]

    def _store(self, place: tuple[int, int], words: list[Any]) -> None:
        joined = [
            nvvm.prmt(low, emit.value(selector), nvvm.PermuteMode.DEFAULT, hi=high)
            for low, high in (words[:2], words[2:])
            for selector in self.selectors
        ]
        at = emit.add(self.first[1], self.stored_row), emit.add(self.first[0], self.stored_column)
        address = self._address(1, self.to, at, place[::-1])
        mma.stmatrix(address=address, a=joined, shape="m8n8", num=4, trans=False)

    def _address(self, number: int, shared: SharedTile, at: tuple[Any, Any], place: tuple[int, int]) -> Any:
        """The address of an element of a buffer: `at` is a lane's, `place` that of a step."""
        extents = self.step if number == 0 else self.step[::-1]
        whole = (self.rows, self.columns) if number == 0 else (self.columns, self.rows)
        points = [
            split_point(value, constant, set(range(extent)), size, digits)
            for value, constant, extent, size, digits in zip(
                at, place, extents, whole, shared.groups, strict=True
            )
        ]
        return addresses.offset(self.bases[number], shared.offset(*points))
