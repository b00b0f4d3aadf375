"""How the CTAs of a cluster add up what each has multiplied of K, through their shared memories.

Each puts the sums of its block down as they lie in D, over the stages that it needs no more. Then each adds
up some of the rows, reading the same place of all, in vectors that follow each other from lane to lane.
"""

from collections.abc import Iterator
from math import gcd
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import BufferType, FragmentType
from weft.isa.chips import LANES, WARPS
from weft.passes.builders import emit
from weft.passes.kernels.product import add

VECTOR = 4  # neighbouring sums that a lane reads at once


class ClusterSums:
    """A block of sums in the shared memory of each CTA: rows and columns of it are D's."""

    def __init__(self, schedule: WarpgroupSchedule, element: Any, over: Any) -> None:
        """Makes the buffer at the insertion point, in the place of the buffer `over` and what follows it."""
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

    def put(self, sums: Any, number: Any) -> None:
        """Stores what warpgroup `number` has multiplied, a fragment of D, once all have read the stages."""
        row, column = self.schedule.swapped(emit.mul(number, self.schedule.rows), 0)
        # A lane's pairs of sums are neighbours in a row of D but for swapped blocks.
        width = 0 if self.schedule.swap else 8
        tile.store(sums, self.buffer, emit.value(row), emit.value(column), vector_bytes=width)

    def place(self, rank: Any, number: Any) -> tuple[Any, Any]:
        """The row and column in the block of what warpgroup `number` of CTA `rank` adds up."""
        rows, columns = self._part
        if self.schedule.swap:
            return emit.mul(rank, rows), emit.mul(number, columns)
        return emit.mul(emit.add(emit.mul(rank, self.schedule.warpgroups), number), rows), 0

    def total(self, rank: Any, number: Any) -> Any:
        """The sums of all CTAs for a warpgroup's part, once they have been put down.

        Each CTA begins with its own, so that no memory is read by all at once.
        """
        row, column = (emit.value(each) for each in self.place(rank, number))
        total = None
        for part in self._peers(rank):
            loaded = tile.load(part, row, column, self.part, vector_bytes=4 * VECTOR)
            total = tile.to_lane(loaded) if total is None else add(total, tile.to_lane(loaded))
        return tile.from_lane(total, self.part)

    def _peers(self, rank: Any) -> Iterator[Any]:
        for step in range(self.schedule.splits):
            peer = emit.rem(emit.add(rank, step), self.schedule.splits)
            yield tile.peer(self.buffer, emit.value(peer))


def share_layout(rows: int, columns: int) -> str:
    """The layout of a warpgroup's fragment in which lanes that follow each other hold neighbouring vectors of
    a row, as many as its length allows, and warps neighbouring rows.
    """
    vectors = columns // VECTOR
    across = gcd(vectors, LANES)
    down = LANES // across
    steps, turns = vectors // across, rows // (down * WARPS)
    of_rows = f"{steps * VECTOR},1@warpid,{across}@laneid"
    return f"S[({turns},{WARPS},{down},{steps},{across},{VECTOR}):({of_rows},{VECTOR},1@laneid,1)]"
