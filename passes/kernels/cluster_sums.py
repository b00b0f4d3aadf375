"""Reduction in a cluster: its CTAs multiply a K slice each and add up their sums through shared memory.

Each CTA stores the sums of the tile in the order of D, over stages that it no longer needs. Then each adds up
some of the rows, reading the same vectors of all CTAs, contiguous from lane to lane.
"""

from collections.abc import Iterator
from math import gcd

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import BufferType, FragmentType, MatmulOp
from weft.isa.chips import LANES, WARPS
from weft.mlir import ir, nvvm
from weft.passes.builders import emit
from weft.passes.kernels.cluster import meet_cluster, meet_consumers
from weft.passes.kernels.fragments import add
from weft.passes.kernels.reduction import Reduction
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.workspace_sums import VECTOR
from weft.passes.kernels.writer import oriented, store


class ClusterSums:
    """A tile of sums in the shared memory of each CTA, with the rows and columns of D."""

    def __init__(self, schedule: WarpgroupSchedule, element: ir.Type, over: ir.Value) -> None:
        """Builds the buffer at the insertion point, over the buffer `over` and those after it."""
        self.schedule = schedule
        rows, columns = self.shape = schedule.swapped(*schedule.block[:2])
        layout = f"S[({rows},{columns}):({schedule.sums_stride},1)]"
        self.buffer = tile.alloc(BufferType.of(self.shape, element, layout), over=over)
        self.part = FragmentType.of(self._part, element, share_layout(*self._part))

    @property
    def _part(self) -> tuple[int, int]:
        """Rows and columns that one warpgroup adds up."""
        rows, columns = self.shape[0] // self.schedule.splits, self.shape[1]
        warpgroups = self.schedule.warpgroups
        return (rows, columns // warpgroups) if self.schedule.swap else (rows // warpgroups, columns)

    def put(self, sums: ir.Value, number: ir.Value) -> None:
        """Stores the sums of warpgroup `number`, a fragment of D, once all have read the stages."""
        row, column = self.schedule.swapped(emit.mul(number, self.schedule.rows), 0)
        # A lane's pairs of sums are contiguous in a row of D, except with `swap`.
        width = 0 if self.schedule.swap else 8
        tile.store(sums, self.buffer, emit.value(row), emit.value(column), vector_bytes=width)

    def origin(self, rank: ir.Value, number: ir.Value) -> tuple[ir.Value, int]:
        """The row and column in the tile where warpgroup `number` of CTA `rank` begins to add up."""
        rows, columns = self._part
        if self.schedule.swap:
            return emit.mul(rank, rows), emit.mul(number, columns)
        return emit.mul(emit.add(emit.mul(rank, self.schedule.warpgroups), number), rows), 0

    def total(self, rank: ir.Value, number: ir.Value) -> ir.Value:
        """The sums of all CTAs for a warpgroup's part, once all have stored theirs.

        Each CTA begins with its own, so that the CTAs do not all read the same memory at once.
        """
        row, column = (emit.value(each) for each in self.origin(rank, number))
        total = None
        for part in self._peers(rank):
            loaded = tile.load(part, row, column, self.part, vector_bytes=4 * VECTOR)
            total = tile.to_lane(loaded) if total is None else add(total, tile.to_lane(loaded))
        return tile.from_lane(total, self.part)

    def _peers(self, rank: ir.Value) -> Iterator[ir.Value]:
        for step in range(self.schedule.splits):
            peer = emit.rem(emit.add(rank, step), self.schedule.splits)
            yield tile.peer(self.buffer, emit.value(peer))


class ClusterReduction(Reduction):
    """Adds up the sums of a cluster's CTAs, after the one tile that each has computed a K slice of."""

    def __init__(self, op: MatmulOp, sums: ClusterSums, tiles: Tiles[WarpgroupSchedule]) -> None:
        self.op, self.sums, self.tiles, self.schedule = op, sums, tiles, tiles.schedule

    def collect(self, sums: ir.Value, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value) -> None:
        meet_consumers(self.schedule.warpgroups)  # all have read the stages that the sums overwrite
        self.sums.put(oriented(sums, self.schedule), warpgroup)

    def finish_consumers(self, warpgroup: ir.Value) -> None:
        meet_cluster()
        total = self.sums.total(self.tiles.rank, warpgroup)
        nvvm.ClusterArriveOp()  # the peers' sums have been read
        m, n, _ = self.schedule.block
        at = self.tiles.first()
        row, column = self.schedule.swapped(emit.mul(at.row, m), emit.mul(at.column, n))
        row_offset, column_offset = self.sums.origin(self.tiles.rank, warpgroup)
        start = emit.value(emit.add(row, row_offset)), emit.value(emit.add(column, column_offset))
        store(self.op, total, *start, at.member, run=2, stored=VECTOR)

    def finish_producer(self) -> None:
        meet_cluster()
        nvvm.ClusterArriveOp()

    def finish(self) -> None:
        nvvm.ClusterWaitOp()  # peers may still read this CTA's shared memory


def share_layout(rows: int, columns: int) -> str:
    """The layout of a warpgroup's fragment in which consecutive lanes hold consecutive vectors of a row, as
    many as its length allows, and consecutive warps hold consecutive rows.
    """
    vectors = columns // VECTOR
    across = gcd(vectors, LANES)
    down = LANES // across
    steps, turns = vectors // across, rows // (down * WARPS)
    of_rows = f"{steps * VECTOR},1@warpid,{across}@laneid"
    return f"S[({turns},{WARPS},{down},{steps},{across},{VECTOR}):({of_rows},{VECTOR},1@laneid,1)]"
