"""The part of a `wgmma` kernel that multiplies a tile: sums in the registers of a warpgroup."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from weft.dialects import tile
from weft.dialects.product_types import Types
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import FragmentType
from weft.isa import wgmma
from weft.layout import Layout
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.fragments import undefined, widened
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import every_k_block


def sums_type(schedule: WarpgroupSchedule, types: Types, columns: int | None = None) -> ir.Type:
    """The type of a warpgroup's sums, or of `columns` columns of them, as the epilogue has them."""
    columns = columns or schedule.block[1]
    form = replace(schedule, block=(wgmma.M, columns, wgmma.M)).form(types)
    d, shape = form.operands[0], (schedule.rows, columns)
    layout = Layout.parse(d.layout).tile_to(shape, d.shape)
    return FragmentType.of(shape, ir.Type.parse(types.sums), layout)


class Accumulator:
    """Sums that stay in the accumulators of `wgmma` from a tile's first K block to its last.

    With `overlaps` the products of a K block are still in flight when the next ones start, and a stage is
    released one block late. Otherwise another warpgroup's products fill the waits.
    """

    def __init__(self, feed: Feed[WarpgroupSchedule], types: Types) -> None:
        self.feed, self.schedule = feed, feed.schedule
        wide = sums_type(self.schedule, types)
        self.kind = FragmentType.of(wide.shape, ir.Type.parse(types.instruction_sums), wide.layout)

    def multiply(
        self,
        at: Tile,
        start: ir.Value | int,
        position: list[ir.Value],
        started: Callable[[], None] = lambda: None,
    ) -> list[ir.Value]:
        """Multiplies all K blocks of a warpgroup's rows from `start` on; returns the sums and the ring's next
        position. Calls `started` when all products have started.
        """
        ring, late = self.feed.ring, self.schedule.overlaps

        def block(number: ir.Value, continues: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            last, stage, phase = carried
            tile.await_(ring, stage, phase)
            self.feed.prepare(at, number, stage, phase)
            self._start(start, stage, continues)
            tile.wait_gemm(pending=int(late))
            with emit.when(continues) if late else nullcontext():
                self.feed.release(last if late else stage)
            return [stage, *tile.advance(ring, stage, phase)]

        # The first block starts the sums: if they were zeroed first, ptxas would serialize all products.
        last, *position = every_k_block(at, [position[0], *position], block)
        started()
        tile.wait_gemm()
        if late:
            self.feed.release(last)
        return [widened(tile.read_sums(self.kind, 0)), *position]

    def _start(self, start: ir.Value | int, stage: ir.Value, accumulate: ir.Value) -> None:
        """Starts the products of a stage, in named registers."""
        left, right = self.feed.left, self.feed.right
        tile.gemm_async(
            left.part(stage, start, self.schedule.rows),
            right.part(stage, 0, right.extent),
            undefined(self.kind),
            accumulate,
            first_sum=0,
            transpose_a=not left.k_major,
            transpose_b=right.k_major,
        )
