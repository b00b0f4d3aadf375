"""The part of a kernel that copies A, B and their scales by TMA for its consumers: a ring of stages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from weft.dialects import tile
from weft.dialects.product_types import Types
from weft.dialects.schedule import AnySchedule, TmaMmaSchedule, WarpgroupSchedule
from weft.isa.chips import WARPGROUP, WARPS
from weft.mlir import arith, ir, nvvm
from weft.passes.builders import emit
from weft.passes.kernels.cluster import await_previous_launch, meet_consumers
from weft.passes.kernels.promoted_scales import BlockScales
from weft.passes.kernels.staged_operand import StagedOperand
from weft.passes.kernels.team import RowGate
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles, each_k_block

_S = TypeVar("_S", bound=AnySchedule)


def make_ring(schedule: WarpgroupSchedule, scaled: bool) -> ir.Value:
    """The ring of stages: every consumer of every CTA that shares this one's copies must release a stage. In
    a cluster, a thread of each warpgroup does so for each CTA.
    """
    down, across = schedule.cluster
    warpgroups = schedule.sharers * (down + across - 1)
    if schedule.loaders:
        return tile.make_ring(schedule.stages, filled_by="warps", producers=WARPS, consumers=warpgroups)
    if scaled:  # lanes read the scales
        return tile.make_ring(schedule.stages, emptied_by="warps", consumers=warpgroups * WARPS)
    if schedule.cluster != (1, 1):
        return tile.make_ring(schedule.stages, emptied_by="threads", consumers=warpgroups, lanes_read=False)
    return tile.make_ring(schedule.stages, consumers=warpgroups)


class StagedScales(Protocol):
    """Scales that a stage holds in addition to A and B."""

    def copy(self, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value) -> None:
        """Starts to copy the scales of a tile for a K block into a stage."""


class Feed(Generic[_S]):
    """The stages of `left` and `right`, with `scales` where the operands have them."""

    def __init__(
        self,
        ring: ir.Value,
        tiles: Tiles[_S],
        types: Types,
        operands: tuple[StagedOperand, StagedOperand],
        scales: StagedScales | None,
    ) -> None:
        self.ring, self.tiles, self.schedule, self.scales = ring, tiles, tiles.schedule, scales
        self.left, self.right = operands
        self._bytes = self.schedule.copied_bytes(types)
        self.gate = RowGate.of(tiles.team, tiles.schedule, tiles.k_blocks)

    def fill(self, at: Tile, position: list[ir.Value]) -> list[ir.Value]:
        """Copies all K blocks of a tile into the ring; for one thread. Returns the ring's next position."""
        (m, n, k), ctas, half = self.schedule.block, self.schedule.cta_group, self.tiles.half
        left = emit.add(at.first_row(m), emit.mul(half, m // ctas))
        right = emit.add(at.first_column(n), emit.mul(half, n // ctas))
        row_in_cluster, column_in_cluster = self.tiles.row_in_cluster, self.tiles.column_in_cluster
        # The CTAs of a row of the cluster share the left operand, those of a column the right one.
        in_row, in_column = (self.tiles.sharing(along, half) for along in ("row", "column"))

        def copy(
            number: ir.Value | int, position: list[ir.Value], before: Callable[[], None] = lambda: None
        ) -> list[ir.Value]:
            stage, phase = position
            tile.acquire(self.ring, stage, phase)
            tile.expect(self.ring, stage, self._bytes)
            block = at.k_block(number)
            depth = emit.add(emit.mul(block, k), at.k_start)
            full = tile.full_barrier(self.ring, stage)
            before()
            if self.gate is not None:
                self.gate.await_block(at, block)
            self.left.copy(left, depth, at.member, stage, full, column_in_cluster, in_row)
            self.right.copy(right, depth, at.member, stage, full, row_in_cluster, in_column)
            if self.scales is not None:
                self.scales.copy(at, block, stage, full)
            return list(tile.advance(self.ring, stage, phase))

        def begin() -> None:
            await_previous_launch()
            if self.gate is not None:
                member = self.gate.await_rows(at)
                for operand in (self.left, self.right):
                    operand.begin_member(member)
                if isinstance(self.scales, BlockScales):
                    self.scales.begin_member(member)

        # The first block's coordinates take some hundred instructions, so they are computed before the wait.
        assert at.k_span is not None
        return each_k_block(at, copy(at.k_span[0], position, begin), copy)

    def prepare(self, at: Tile, number: ir.Value | int, stage: ir.Value, phase: ir.Value) -> None:
        """Waits for what else a stage needs before the products of K block `number` of a tile; for all
        consumers.
        """
        if at.k_count is None:
            return
        assert isinstance(self.schedule, WarpgroupSchedule | TmaMmaSchedule)
        consumers = self.schedule.warpgroups
        thread = emit.sub(emit.thread(), WARPGROUP)  # the first warpgroup copies
        with self.clears(at, number, stage, thread, WARPGROUP * consumers):
            meet_consumers(consumers)

    @contextmanager
    def clears(
        self, at: Tile, number: ir.Value | int, stage: ir.Value, thread: ir.Value, threads: int
    ) -> Iterator[None]:
        """If K block `number` of a tile has elements of other groups, sets them to zero in a stage. `threads`
        threads run this, each with its number `thread`; in the `with` block they must wait for each other.
        """
        before = emit.mul(number, self.schedule.block[2])
        block_k = self.schedule.block[2]
        first, end = emit.sub(at.k_skip, before), emit.sub(at.k_count, before)
        some = emit.less(end, block_k)
        if not isinstance(at.k_skip, int):
            some = arith.ori(some, emit.less(0, first))
        with emit.when(some):
            for operand in (self.left, self.right):
                operand.keep_only(first, end, stage, thread, threads)
            nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
            yield

    def release(self, stage: ir.Value) -> None:
        """Releases a stage to every CTA that copies into it."""
        down, across = self.schedule.cluster
        if (down, across) == (1, 1):
            tile.release(self.ring, stage)
            return
        if self.scales is None:  # a thread for each CTA, all at once
            number = emit.rem(emit.thread(), WARPGROUP)
            with emit.when(emit.less(number, down + across - 1)):
                tile.release_peer(self.ring, stage, emit.value(self._sharer(number)))
            return
        for number in range(down + across - 1):
            tile.release_peer(self.ring, stage, emit.value(self._sharer(number)))

    def _sharer(self, number: ir.Value | int) -> ir.Value:
        """The rank of a CTA that copies into this one: first those of its row of the cluster, from its own
        on, then the others of its column.
        """
        down, across = self.schedule.cluster
        own_row, own_column = self.tiles.row_in_cluster, self.tiles.column_in_cluster
        in_row = emit.add(emit.mul(emit.rem(emit.add(own_column, number), across), down), own_row)
        below = emit.rem(emit.add(own_row, emit.sub(number, across - 1)), down)
        in_column = emit.add(emit.mul(own_column, down), below)
        return emit.select(emit.less(number, across), in_row, in_column)
