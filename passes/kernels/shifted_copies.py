"""Copies of tiles of matrices whose rows begin at any element: `cp.async` copies the aligned vectors of 16
bytes that contain a row's part, and lanes shift these to where `wgmma` reads them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.isa.async_copy import copy_of
from weft.isa.chips import LANES
from weft.mlir import arith, ir, llvm, nvvm, vector
from weft.passes.builders import addresses, emit, thread_ids
from weft.passes.builders.addresses import Matrix
from weft.passes.builders.shifted_words import BYTES, WORDS, shifted
from weft.passes.kernels.register_copies import RegisterCopy


@dataclass
class Unshifted:
    """The aligned vectors of an operand's tiles in shared memory, built at the insertion point: for each
    stage rows of the tile with `BYTES` more.
    """

    stages: int
    rows: int
    columns: int
    element: ir.Type
    buffer: ir.Value = field(init=False)

    def __post_init__(self) -> None:
        rows, pitch = self.rows, self.columns + BYTES * 8 // self.element.width
        layout = f"S[({self.stages},{rows},{pitch}):({rows * pitch},{pitch},1)]"
        self.buffer = tile.alloc(BufferType.of((self.stages, rows, pitch), self.element, layout))
        self.row_bytes = pitch * self.element.width // 8

    def address(self, stage: ir.Value, row: ir.Value, vector_: ir.Value) -> ir.Value:
        """The address of an aligned vector of a tile's row."""
        offset = emit.mul(emit.add(emit.mul(stage, self.rows), row), self.row_bytes)
        return addresses.offset(
            tile.address(self.buffer), emit.value(emit.add(offset, emit.mul(vector_, BYTES)))
        )


@dataclass(frozen=True)
class ShiftedCopy(RegisterCopy):
    """How the warps of a CTA copy tiles of a matrix, each warp some rows, in two steps.

    `k_major`: rows of the matrix follow K. Beyond the end of K, the copy is zero. What is beyond the other
    side of the matrix isn't defined: no element of D depends on it.
    """

    unshifted: Unshifted
    k_major: bool

    def begin(self, row: ir.Value, column: ir.Value, stage: ir.Value, warp: ir.Value) -> None:
        """Starts to copy the warp's part of the tile at (`row`, `column`) of the matrix to a stage."""
        with self._active(warp):
            _Aligned(self, row, column, warp).copy(stage)

    def end(self, row: ir.Value, column: ir.Value, stage: ir.Value, warp: ir.Value) -> None:
        """Writes what `begin` has copied for the same tile to its stage of the buffer."""
        with self._active(warp):
            self.store(self._part(row, column, stage, warp), stage, warp)

    def _active(self, warp: ir.Value) -> Any:
        """A block for the warps that have some rows."""
        return emit.when(emit.less(emit.mul(warp, self._rows), self.unshifted.rows))

    def store(self, loaded: ir.Value, stage: ir.Value, warp: ir.Value) -> None:
        target, row = tile.stage(self.buffer, emit.value(stage)), emit.value(emit.mul(warp, self._rows))
        tile.store(loaded, target, row, emit.value(0), vector_bytes=BYTES)

    def _part(self, row: ir.Value, column: ir.Value, stage: ir.Value, warp: ir.Value) -> ir.Value:
        """The warp's part of a stage as a fragment."""
        source, unshifted = Matrix(self.matrix), self.unshifted
        kind, last = ir.VectorType.get([WORDS], emit.i32()), emit.sub(source.rows, 1)
        down, across = self.of_lane(warp)
        words = list[list[Any]]()
        for below, beside in self.positions:
            inside = emit.add(down, below)
            first = emit.add(emit.div(across, self._vector), beside // self._vector)
            pair = [unshifted.address(stage, inside, emit.add(first, number)) for number in range(2)]
            loaded = [word for each in pair for word in emit.elements(llvm.load(kind, each))]
            # Columns are multiples of 16 bytes from the row's first element.
            at = source.low_bits(emit.minimum(emit.add(row, inside), last))
            start = emit.mul(column, source.bytes)
            words.append(shifted(emit.add(at, start), loaded, source.bytes))

        def masked() -> list[ir.Value]:
            return [
                word
                for (below, beside), each in zip(self.positions, words, strict=True)
                for word in self._inside(
                    source, each, emit.add(row, down, below), emit.add(column, across, beside)
                )
            ]

        here, block = (column, self.unshifted.columns) if self.k_major else (row, self.unshifted.rows)
        beyond = emit.less(source.columns if self.k_major else source.rows, emit.add(here, block))
        flat = [word for each in words for word in each]
        flat = emit.either(beyond, [emit.i32()] * len(flat), masked, lambda: flat)
        fragment = self._fragment
        lane = vector.bitcast(ir.VectorType.get([fragment.registers], source.element), emit.vector_of(flat))
        same = lane.type == fragment.lane_type
        return tile.from_lane(lane if same else vector.bitcast(fragment.lane_type, lane), fragment)

    @property
    def positions(self) -> list[tuple[int, int]]:
        """The rows and columns of a lane's vectors, relative to its first one."""
        at_once = LANES // self._lanes_of_row
        panels = range(0, self.unshifted.columns, self.width)
        return [(row, column) for row in range(0, self._rows, at_once) for column in panels]

    def of_lane(self, warp: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The row and column of the lane's first vector in the tile."""
        lane, across = thread_ids.lane(), self._lanes_of_row
        down = emit.add(emit.mul(warp, self._rows), emit.div(lane, across))
        return down, emit.mul(emit.rem(lane, across), self._vector)

    @property
    def last_in_row(self) -> ir.Value:
        """Whether the lane has the last vectors of its rows, an i1."""
        return emit.equal(emit.rem(thread_ids.lane(), self._lanes_of_row), self._lanes_of_row - 1)

    def _inside(
        self, source: Matrix, words: list[ir.Value], row: ir.Value, column: ir.Value
    ) -> list[ir.Value]:
        """The words of a vector, zero beyond the end of K."""
        if not self.k_major:
            return [arith.select(source.has_row(row), word, emit.value(0)) for word in words]
        bytes_ = emit.mul(emit.sub(source.columns, column), source.bytes)
        return [arith.andi(word, _mask(emit.sub(bytes_, 4 * i))) for i, word in enumerate(words)]


class _Aligned:
    """The aligned vectors that a lane copies: those with the first bytes of its vectors. The last lane of a
    row copies the one after them, too.
    """

    def __init__(self, copy: ShiftedCopy, row: ir.Value, column: ir.Value, warp: ir.Value) -> None:
        self._copy, self._source = copy, (source := Matrix(copy.matrix))
        self._down, self._across = copy.of_lane(warp)
        last = emit.sub(source.rows, 1)
        self._end = _integer(source.element_of(source.row(last), source.columns))
        begin = emit.add(column, self._across)
        # Rows beyond the matrix have the address of the last row.
        rows = {
            below: _integer(
                source.element_of(source.row(emit.minimum(emit.add(row, self._down, below), last)), begin)
            )
            for below, _ in copy.positions
        }
        each = (arith.addi(rows[below], _i64(beside * source.bytes)) for below, beside in copy.positions)
        self._vectors = [arith.andi(address, _i64(-BYTES)) for address in each]

    def copy(self, stage: ir.Value) -> None:
        """Starts all copies to a stage."""
        targets = self._targets(stage)
        # Later rows and columns have greater addresses. A vector in which the matrix begins is read whole.
        inside = arith.cmpi(arith.CmpIPredicate.uge, self._end, _further(self._vectors[-1], 2))
        emit.either(inside, [], lambda: self._whole(targets), lambda: self._parts(targets))

    def _targets(self, stage: ir.Value) -> list[ir.Value]:
        copy = self._copy
        per_row = [beside // copy._vector for _, beside in copy.positions]
        first = emit.div(self._across, copy._vector)
        return [
            copy.unshifted.address(stage, emit.add(self._down, below), emit.add(first, number))
            for (below, _), number in zip(copy.positions, per_row, strict=True)
        ]

    @property
    def _row_ends(self) -> Sequence[int]:
        """The numbers of the vectors that are the last ones of a row."""
        widest = max(beside for _, beside in self._copy.positions)
        return [number for number, (_, beside) in enumerate(self._copy.positions) if beside == widest]

    def _whole(self, targets: list[ir.Value]) -> list[Any]:
        for address, target in zip(self._vectors, targets, strict=True):
            _copy(address, target)
        with emit.when(self._copy.last_in_row):
            for number in self._row_ends:
                _copy(_further(self._vectors[number], 1), addresses.offset(targets[number], BYTES))
        return []

    def _parts(self, targets: list[ir.Value]) -> list[Any]:
        """As `_whole`, where the matrix may end inside of a vector: what is after it isn't read."""
        for address, target in zip(self._vectors, targets, strict=True):
            self._part(address, target)
        with emit.when(self._copy.last_in_row):
            for number in self._row_ends:
                self._part(_further(self._vectors[number], 1), addresses.offset(targets[number], BYTES))
        return []

    def _part(self, address: ir.Value, target: ir.Value) -> None:
        """Starts to copy the bytes of a vector that are before the end of the matrix; the others become 0."""
        left = arith.maxsi(arith.minsi(arith.subi(self._end, address), _i64(BYTES)), _i64(0))
        _copy(address, target, arith.trunci(emit.i32(), left))


def _copy(address: ir.Value, target: ir.Value, bytes_: ir.Value | None = None) -> None:
    """Starts to copy an aligned vector to shared memory, or its first `bytes_`."""
    cache = nvvm.LoadCacheModifierKind[copy_of(BYTES).cache.upper()]
    nvvm.CpAsyncOp(target, llvm.inttoptr(addresses.pointer_type(1), address), BYTES, cache, cpSize=bytes_)


def _mask(bytes_: ir.Value) -> ir.Value:
    """A word whose first `bytes_` are ones: none if that is negative, all if there are more than four."""
    bits = emit.mul(emit.minimum(emit.maximum(bytes_, 0), 3), 8)
    low = arith.subi(arith.shli(emit.value(1), emit.value(bits)), emit.value(1))
    return arith.select(emit.less(3, bytes_), emit.value(-1), low)


def _integer(pointer: ir.Value) -> ir.Value:
    return llvm.ptrtoint(ir.IntegerType.get_signless(64), pointer)


def _i64(number: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(64), number)


def _further(address: ir.Value, vectors: int) -> ir.Value:
    return arith.addi(address, _i64(BYTES * vectors))
