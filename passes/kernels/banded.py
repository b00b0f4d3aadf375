"""Reduction over GPUs whose sums copy engines send: a kernel stores those of other GPUs' rows in its own
GPU's memory, and sets a flag when a band of tiles is done, for which a copy waits.

So a multiprocessor has nothing to do with the links. The order of tiles and of sums is that of
`ScatteredReduction`.
"""

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.cluster import meet_warpgroup
from weft.passes.kernels.matrices import size, vector_of
from weft.passes.kernels.scattered import ScatteredReduction
from weft.passes.kernels.sent_sums import SentSums
from weft.passes.kernels.tile_order import Order, Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import Writer


class BandedReduction(ScatteredReduction):
    """Stores the sums of other GPUs' rows in bands of tiles that follow each other, and adds up those of this
    GPU's rows. The host numbers the calls, and selects a half of the memory.
    """

    def __init__(self, op: MatmulOp, sent: SentSums, tiles: Tiles[WarpgroupSchedule], writer: Writer) -> None:
        """Reads sizes at the insertion point."""
        super().__init__(op, sent, tiles, writer)
        assert isinstance(tiles.order, Order)
        self._done, self._of_tile = op.roles["bands"], self.schedule.ctas * self.schedule.warpgroups
        self._bands = size(self._done, 1)
        clusters = emit.mul(tiles.order.rows, tiles.order.columns)
        self._in_band = emit.mul(emit.ceil_div(clusters, self._bands), self._of_tile)

    def begin(self) -> list[ir.Value]:
        return self.kept(self.call())

    def await_count(self) -> None:
        return

    def part(self, at: Tile, warpgroup: ir.Value) -> ir.Value:
        """In the order in which tiles are computed, so that the parts of a band are contiguous."""
        number = emit.add(emit.mul(at.number, self.schedule.ctas), self.tiles.rank)
        return emit.add(emit.mul(number, self.schedule.warpgroups), warpgroup)

    def slot(self, call: ir.Value, source: ir.Value, part: ir.Value) -> ir.Value:
        return emit.add(emit.mul(self._among_others(source), self.parts), part)

    def memory_for(self, member: ir.Value) -> ir.Value:
        return self.data(self.team.rank)

    def sent_to(self, call: ir.Value, member: ir.Value, part: ir.Value) -> ir.Value:
        return emit.add(emit.mul(self._of_sums_sent(member), self.parts), part)

    def signal(self, call: ir.Value, member: ir.Value, part: ir.Value) -> None:
        """Sets the flag of a band, if this part is the last one of it."""
        band = emit.div(part, self._in_band)
        left = emit.sub(self.parts, emit.mul(band, self._in_band))
        count = emit.value(emit.minimum(left, self._in_band))
        with emit.when(tile.is_last(vector_of(self._done, member), emit.value(band), count)):
            flag = emit.add(emit.mul(self._of_sums_sent(member), self._bands), band)
            tile.signal(self.flags(self.team.rank), emit.value(flag), call)

    def await_others(self, call: ir.Value, part: ir.Value, warpgroup: ir.Value) -> None:
        member, is_other = self.other()
        band = emit.div(part, self._in_band)
        with emit.when(is_other):
            flag = emit.add(emit.mul(self._among_others(member), self._bands), band)
            self.team.await_(self.signals, flag, call)
        meet_warpgroup(warpgroup)

    def _among_others(self, member: ir.Value) -> ir.Value:
        """The number of another GPU among the others."""
        return emit.select(emit.less(self.team.rank, member), emit.sub(member, 1), member)

    def _of_sums_sent(self, member: ir.Value) -> ir.Value:
        """The part of the memory for another GPU's sums: after those for sums that come."""
        return emit.add(emit.sub(self.members, 1), self._among_others(member))
