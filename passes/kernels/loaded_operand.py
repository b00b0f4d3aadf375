"""A and B whose rows may begin at any element of the matrices.

Where threads load them, `cp.async` copies the aligned vectors of 16 bytes that contain a row's part, and
lanes shift these to where `wgmma` reads them. Where TMA copies them, copies begin at the multiple of 16
bytes before them, where a tensor map must begin. Both begin at the same distance from it. So both have more
elements along K, the first of which aren't theirs. Consumers set these to zero.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import BufferType
from weft.isa.async_copy import copy_of
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.mlir import arith, ir, llvm, nvvm, vector
from weft.passes.builders import addresses, emit, thread_ids
from weft.passes.builders.addresses import Matrix
from weft.passes.builders.shared_tiles import Point, SharedTile
from weft.passes.builders.shifted_words import BYTES, WORDS, first_bytes, from_byte, shifted
from weft.passes.kernels.cluster import await_previous_launch, meet_consumers
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.matrices import element_bytes, member, panel_width, skew
from weft.passes.kernels.register_copies import RegisterCopy
from weft.passes.kernels.staged_operand import StagedOperand
from weft.passes.kernels.tile_order import Tile


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

    def _active(self, warp: ir.Value) -> AbstractContextManager[None]:
        """A block for the warps that have some rows."""
        return emit.when(emit.less(emit.mul(warp, self._rows), self.unshifted.rows))

    def store(self, loaded: ir.Value, stage: ir.Value | int, warp: ir.Value) -> None:
        target, row = tile.stage(self.buffer, emit.value(stage)), emit.value(emit.mul(warp, self._rows))
        tile.store(loaded, target, row, emit.value(0), vector_bytes=BYTES)

    def _part(self, row: ir.Value, column: ir.Value, stage: ir.Value, warp: ir.Value) -> ir.Value:
        """The warp's part of a stage as a fragment."""
        source, unshifted = Matrix(self.matrix), self.unshifted
        kind, last = ir.VectorType.get([WORDS], emit.i32()), emit.sub(source.rows, 1)
        down, across = self.of_lane(warp)
        words = list[list[ir.Value]]()
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
        return [arith.andi(word, first_bytes(emit.sub(bytes_, 4 * i))) for i, word in enumerate(words)]


class _Aligned:
    """The aligned vectors that a lane copies: those with the first bytes of its vectors. The last lane of a
    row copies the one after them, too.
    """

    def __init__(self, copy: ShiftedCopy, row: ir.Value, column: ir.Value, warp: ir.Value) -> None:
        self._copy, self._source = copy, (source := Matrix(copy.matrix))
        self._down, self._across = copy.of_lane(warp)
        last = emit.sub(source.rows, 1)
        self._end = addresses.number(source.element_of(source.row(last), source.columns))
        begin = emit.add(column, self._across)
        # Rows beyond the matrix have the address of the last row.
        rows = {
            below: addresses.number(
                source.element_of(source.row(emit.minimum(emit.add(row, self._down, below), last)), begin)
            )
            for below, _ in copy.positions
        }
        each = (arith.addi(rows[below], _i64(beside * source.bytes)) for below, beside in copy.positions)
        self._vectors = [arith.andi(address, _i64(-BYTES)) for address in each]

    def copy(self, stage: ir.Value) -> None:
        """Starts all copies to a stage."""
        copy = self._copy
        per_row = [beside // copy._vector for _, beside in copy.positions]
        first = emit.div(self._across, copy._vector)
        targets = [
            copy.unshifted.address(stage, emit.add(self._down, below), emit.add(first, number))
            for (below, _), number in zip(copy.positions, per_row, strict=True)
        ]
        # Later rows and columns have greater addresses. A vector in which the matrix begins is read whole.
        inside = arith.cmpi(arith.CmpIPredicate.uge, self._end, _further(self._vectors[-1], 2))
        emit.branch(inside, lambda: self._start(targets, _copy), lambda: self._start(targets, self._part))

    @property
    def _row_ends(self) -> Sequence[int]:
        """The numbers of the vectors that are the last ones of a row."""
        widest = max(beside for _, beside in self._copy.positions)
        return [number for number, (_, beside) in enumerate(self._copy.positions) if beside == widest]

    def _start(self, targets: list[ir.Value], start: Callable[[ir.Value, ir.Value], None]) -> None:
        """Starts each copy by `start`."""
        for address, target in zip(self._vectors, targets, strict=True):
            start(address, target)
        with emit.when(self._copy.last_in_row):
            for number in self._row_ends:
                start(_further(self._vectors[number], 1), addresses.offset(targets[number], BYTES))

    def _part(self, address: ir.Value, target: ir.Value) -> None:
        """Starts to copy the bytes of a vector that are before the end of the matrix. Others aren't read, and
        become 0.
        """
        left = arith.maxsi(arith.minsi(arith.subi(self._end, address), _i64(BYTES)), _i64(0))
        _copy(address, target, arith.trunci(emit.i32(), left))


def _copy(address: ir.Value, target: ir.Value, bytes_: ir.Value | None = None) -> None:
    """Starts to copy an aligned vector to shared memory, or its first `bytes_`."""
    cache = nvvm.LoadCacheModifierKind[copy_of(BYTES).cache.upper()]
    nvvm.CpAsyncOp(target, llvm.inttoptr(addresses.pointer_type(1), address), BYTES, cache, cpSize=bytes_)


def _i64(number: int) -> ir.Value:
    return arith.constant(emit.i64(), number)


def _further(address: ir.Value, vectors: int) -> ir.Value:
    return arith.addi(address, _i64(BYTES * vectors))


@dataclass
class LoadedOperand(StagedOperand):
    """A or B: its buffers, built at the insertion point. No tensor map fills them."""

    unshifted: Unshifted = field(init=False)

    def __post_init__(self) -> None:
        self.buffer = tile.alloc(self._buffer_type)
        stages, rows, columns = self.buffer.type.shape
        self.unshifted = Unshifted(stages, rows, columns, self.matrix.type.element_type)

    def copy_of(self, index: ir.Value | None, warps: int) -> ShiftedCopy:
        """How so many warps copy tiles of matrix number `index` of a batch."""
        width = panel_width(self.unshifted.columns, element_bytes(self.matrix))
        matrix = member(self.matrix, index)
        return ShiftedCopy(matrix, self.buffer, width, warps, self.unshifted, self.k_major)


class LoadedFeed(Feed[WarpgroupSchedule]):
    """The stages of `left` and `right`, which several warpgroups fill together. What they don't load, TMA
    copies to stages with a ring of their own, which has the same positions.
    """

    def __init__(self, *parts: Any) -> None:
        """`parts` are those of `Feed`."""
        super().__init__(*parts)
        self._copies: Any = None
        if not all(isinstance(each, LoadedOperand) for each in (self.left, self.right)):
            self._copies = tile.make_ring(self.schedule.stages, consumers=self.schedule.warpgroups)

    def prepare(self, at: Tile, number: ir.Value | int, stage: ir.Value, phase: ir.Value) -> None:
        if self._copies is not None:
            tile.await_(self._copies, stage, phase)

    def release(self, stage: ir.Value) -> None:
        super().release(stage)
        if self._copies is not None:
            tile.release(self._copies, stage)

    def load(self, at: Tile, position: list[ir.Value]) -> list[ir.Value]:
        """Loads all K blocks of a tile into the ring; for all warps that load. A warpgroup loads the stages
        whose number is its own modulo the number of warpgroups. Its copies run ahead by all its stages but
        one. Returns the ring's next position.
        """
        schedule = self.schedule
        (m, n, _), loaders = schedule.block, schedule.loaders
        own = schedule.stages // loaders - 1
        ahead = own * loaders
        number_of_warp = emit.uniform(emit.div(emit.thread(), LANES))  # loaders come first
        warp, warpgroup = emit.rem(number_of_warp, WARPS), emit.div(number_of_warp, WARPS)
        starts = at.first_row(m), at.first_column(n)
        pairs = list(zip((self.left, self.right), starts, strict=True))
        copies = [(o.copy_of(at.member, WARPS), s) for o, s in pairs if isinstance(o, LoadedOperand)]
        copied = [(o, s) for o, s in pairs if not isinstance(o, LoadedOperand)]
        assert at.k_span is not None
        first, after = at.k_span

        def begin(number: ir.Value, stage: ir.Value) -> None:
            with emit.when(emit.less(number, after)):
                for copy, row, column in self._corners(copies, at, number):
                    copy.begin(row, column, stage, warp)
            nvvm.SyncWarpOp(emit.value(-1))  # lanes form their groups together
            nvvm.cp_async_commit_group()

        def block(number: ir.Value, position: list[ir.Value]) -> list[ir.Value]:
            stage, phase = position
            with self._when_own(stage, warpgroup):
                for operand, start in copied:
                    with emit.when(emit.equal(warp, 0)), thread_ids.one_thread():
                        self._copy(operand, at, number, start, stage, phase)
                nvvm.cp_async_wait_group(own - 1)
                nvvm.SyncWarpOp(emit.value(-1))
                begin(emit.add(number, ahead), self._after(stage, ahead))
                tile.acquire(self.ring, stage, phase)
                for copy, row, column in self._corners(copies, at, number):
                    copy.end(row, column, stage, warp)
                tile.commit(self.ring, stage)
            return list(tile.advance(self.ring, stage, phase))

        await_previous_launch()  # the first time

        def early(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            with self._when_own(carried[0], warpgroup):
                begin(number, carried[0])
            return [self._after(carried[0], 1)]

        emit.loop(first, emit.add(first, ahead), 1, position[:1], early)
        return emit.loop(first, after, 1, position, block)

    def _when_own(self, stage: ir.Value, warpgroup: ir.Value) -> AbstractContextManager[None]:
        """A block for the warpgroup that loads a stage."""
        loaders = self.schedule.loaders
        return emit.when(emit.equal(emit.rem(stage, loaders), warpgroup)) if loaders > 1 else nullcontext()

    def _corners(
        self, copies: list[tuple[ShiftedCopy, ir.Value]], at: Tile, number: ir.Value
    ) -> list[tuple[ShiftedCopy, ir.Value, ir.Value]]:
        """Each copy, and the first row and column of its tile for a K block."""
        depth = emit.mul(at.k_block(number), self.schedule.block[2])
        return [(c, *((start, depth) if c.k_major else (depth, start))) for c, start in copies]

    def _copy(
        self,
        operand: StagedOperand,
        at: Tile,
        number: ir.Value,
        start: ir.Value,
        stage: ir.Value,
        phase: ir.Value,
    ) -> None:
        """Starts to copy a K block of what isn't loaded; for one thread."""
        depth = emit.mul(at.k_block(number), self.schedule.block[2])
        tile.acquire(self._copies, stage, phase)
        _, rows, columns = operand.buffer.type.shape
        tile.expect(self._copies, stage, rows * columns * element_bytes(operand.matrix))
        operand.copy(start, depth, at.member, stage, tile.full_barrier(self._copies, stage), 0, None)

    def _after(self, stage: ir.Value, count: int) -> ir.Value:
        """The stage so many after one."""
        following, stages = emit.add(stage, count), self.schedule.stages
        return emit.select(emit.less(following, stages), following, emit.sub(following, stages))


class SkewedOperand(StagedOperand):
    """A or B: its map begins at the multiple of 16 bytes before it."""

    skewed = True

    def clear(self, stage: ir.Value, thread: ir.Value, threads: int) -> None:
        """Sets the first elements of a stage's rows, which are before those of the matrix, to zero; for some
        threads, by their number.
        """
        buffer = self.buffer.type
        shared, base = SharedTile(tile.stage_type(buffer)), tile.address(tile.stage(self.buffer, stage))
        before = emit.mul(skew(self.matrix), element_bytes(self.matrix))
        kind = ir.VectorType.get([WORDS], emit.i32())
        for first in range(0, self.extent, threads):
            row = emit.add(thread, first)
            with emit.when(emit.less(row, self.extent)):
                address = addresses.offset(base, shared.offset(Point(row), Point(0)))
                words = enumerate(emit.elements(llvm.load(kind, address)))
                kept = [arith.andi(word, from_byte(emit.sub(before, 4 * number))) for number, word in words]
                llvm.store(emit.vector_of(kept), address)


class SkewedFeed(Feed[WarpgroupSchedule]):
    """The stages of such operands."""

    def prepare(self, at: Tile, number: ir.Value | int, stage: ir.Value, phase: ir.Value) -> None:
        first = arith.andi(emit.equal(at.k_block(number), 0), emit.less(0, skew(self.left.matrix)))
        with emit.when(first):
            thread = emit.sub(emit.thread(), WARPGROUP * self.schedule.producers)
            for operand in (self.left, self.right):
                assert isinstance(operand, SkewedOperand)
                operand.clear(stage, thread, WARPGROUP * self.schedule.warpgroups)
            nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
            meet_consumers(self.schedule.warpgroups)
