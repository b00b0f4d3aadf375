"""A and B in a kernel whose threads load them: rows of the matrices may begin at any element."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from weft.dialects import tile
from weft.dialects.product_types import Types
from weft.dialects.schedule import SWIZZLES, WarpgroupSchedule
from weft.isa.chips import LANES, WARPS
from weft.mlir import ir, nvvm
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import await_previous_launch
from weft.passes.kernels.feed import Feed, StagedScales
from weft.passes.kernels.matrices import element_bytes, member
from weft.passes.kernels.shifted_copies import ShiftedCopy, Unshifted
from weft.passes.kernels.staged_operand import StagedOperand
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles


@dataclass
class LoadedOperand(StagedOperand):
    """A or B: its buffers, built at the insertion point. No tensor map fills them."""

    unshifted: Unshifted = field(init=False)

    def __post_init__(self) -> None:
        self.buffer = tile.alloc(self._buffer_type)
        stages, rows, columns = self.buffer.type.shape
        self.unshifted = Unshifted(stages, rows, columns, self.matrix.type.element_type)

    def copy_of(self, index: Any, warps: int) -> ShiftedCopy:
        """How so many warps copy tiles of matrix number `index` of a batch."""
        columns, bytes_ = self.unshifted.columns, element_bytes(self.matrix)
        width = next(w // bytes_ for w in SWIZZLES if columns * bytes_ % w == 0)
        matrix = member(self.matrix, index)
        return ShiftedCopy(matrix, self.buffer, width, warps, self.unshifted, self.k_major)


class LoadedFeed(Feed[WarpgroupSchedule]):
    """The stages of `left` and `right`, which several warpgroups fill together. What they don't load, TMA
    copies to stages with a ring of their own, which has the same positions.
    """

    def __init__(
        self,
        ring: ir.Value,
        tiles: Tiles[WarpgroupSchedule],
        types: Types,
        operands: tuple[StagedOperand, StagedOperand],
        scales: StagedScales | None,
    ) -> None:
        super().__init__(ring, tiles, types, operands, scales)
        self._copies: Any = None
        if not all(isinstance(each, LoadedOperand) for each in operands):
            self._copies = tile.make_ring(self.schedule.stages, consumers=self.schedule.warpgroups)

    def prepare(self, at: Tile, number: ir.Value, stage: ir.Value, phase: ir.Value) -> None:
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
        starts = emit.mul(at.row, m), emit.mul(at.column, n)
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

    def _when_own(self, stage: ir.Value, warpgroup: ir.Value) -> Any:
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
        self, operand: StagedOperand, at: Tile, number: Any, start: Any, stage: ir.Value, phase: Any
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
