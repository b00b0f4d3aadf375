"""Reduction over GPUs where each GPU gets all sums: each sends those of every tile to all others, and adds up
those of all GPUs when they have come.

A CTA sends the sums of all of its tiles before it waits for any, so GPUs can't block each other. All of them
add the same rounded sums in the same order: they get the same bits.
"""

from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, ir
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import meet_warpgroup
from weft.passes.kernels.fragments import add, convert
from weft.passes.kernels.sent_sums import DATA, FLAGS, SentSums, TeamReduction
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import Writer

_AT_ONCE = 3  # GPUs whose sums a thread loads before it adds them


class AllReduction(TeamReduction):
    """Sends sums to all GPUs, then adds them up."""

    def __init__(self, op: MatmulOp, sent: SentSums, tiles: Tiles[WarpgroupSchedule], writer: Writer) -> None:
        """Reads sizes at the insertion point."""
        super().__init__(op, sent, tiles, writer)
        self._kinds: Any = None  # the types of a warpgroup's and of a thread's sums

    def begin(self) -> list[ir.Value]:
        """Lane i of each warp keeps the addresses of GPU i, so that nothing waits for them later."""
        member = emit.minimum(thread_ids.lane(), emit.sub(self.members, 1))
        return [*super().begin(), *(self.address(member, which) for which in (DATA, FLAGS))]

    def collect_next(
        self,
        sums: ir.Value,
        at: Tile,
        row: ir.Value,
        column: ir.Value,
        warpgroup: ir.Value,
        kept: list[ir.Value],
    ) -> list[ir.Value]:
        (call, data, flags), lane = kept, tile.to_lane(sums)
        self._kinds = sums.type, lane.type
        slot = self.slot(call, self.team.rank, self.part(at, warpgroup))
        numbers = emit.elements(self.sent.rounded(lane))
        self.store(numbers, self.partials, slot)

        def send(step: ir.Value, carried: list[Any]) -> list[Any]:
            member = emit.rem(emit.add(self.team.rank, step), self.members)
            self.store(numbers, tile.remote(emit.of_lane(data, member), self.sent.element), slot)
            return carried

        emit.loop(1, self.members, 1, [], send)
        meet_warpgroup(warpgroup)
        _, is_other = self.other()
        with emit.when(is_other):
            tile.signal(tile.remote(flags, emit.i32()), emit.value(slot), call)
        return kept

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        call, *_ = kept
        (m, n, _), start = self.schedule.block, emit.mul(warpgroup, self.schedule.rows)

        def one(at: Tile, carried: list[Any]) -> list[Any]:
            total = self._total(call, self.part(at, warpgroup), warpgroup)
            row, column = emit.add(emit.mul(at.row, m), start), emit.mul(at.column, n)
            self.writer.write(total, row, column, None, warpgroup)
            return carried

        self.tiles.walk([], one)
        super().end(warpgroup, kept)

    def _total(self, call: ir.Value, part: ir.Value, warpgroup: ir.Value) -> ir.Value:
        """A warpgroup's sums of all GPUs, in their order."""
        self.await_others(call, part, warpgroup)
        fragment, kind = self._kinds

        last = emit.sub(self.members, 1)

        def of(member: ir.Value | int) -> ir.Value:
            return self.read(self.slot(call, emit.minimum(member, last), part), kind.shape[0])

        def add_some(first: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            (total,) = carried
            members = [emit.add(first, number) for number in range(_AT_ONCE)]
            for member, each in zip(members, [of(member) for member in members], strict=True):
                total = arith.select(emit.less(last, member), total, add(total, convert(each, kind)))
            return [total]

        (total,) = emit.loop(1, self.members, _AT_ONCE, [convert(of(0), kind)], add_some)
        return tile.from_lane(total, fragment)
