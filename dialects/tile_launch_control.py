"""Cluster launch control in the `tile` dialect: how the CTAs of a running cluster take over the work of
clusters that haven't started, through a ring that `tile.make_ring` fills by "clc".
"""

from weft.dialects.effects import ORDERS, reads
from weft.dialects.op import Result, build
from weft.dialects.tile_rings import CLC, MakeRingOp, RingOp
from weft.dialects.tile_types import Tile
from weft.mlir import ir


class _CancelOp(RingOp):
    def misuse(self, maker: MakeRingOp) -> str | None:
        return None if maker.filler == CLC else f"the ring's filled_by must be clc, got {maker.filler}"


class TryCancelOp(_CancelOp, dialect=Tile, name="try_cancel", traits=[ORDERS]):
    """Requests the work of a cluster that hasn't started (`clusterlaunchcontrol.try_cancel`). If there is
    such a cluster, it will not start. The stage is full when the answer has arrived in all CTAs of the
    requesting cluster; all get the same answer.

    One thread of the cluster executes it, in the CTA of rank 0, after `tile.acquire`. This thread may also
    read the answers (`tile.query_cancel`), without a `tile.release`. After an answer without a cluster, it
    must not send another request.
    """


class QueryCancelOp(_CancelOp, dialect=Tile, name="query_cancel", traits=[reads("ring")]):
    """Reads the answer to a `tile.try_cancel`, between `tile.await` and `tile.release` of its stage.

    The first result (i1) is whether the answer has a cluster. The others (i32) are coordinates in the grid:
    those of the CTA of that cluster which has the same position in its cluster as this CTA. Without a
    cluster, they are 0.
    """

    exists: Result
    x: Result
    y: Result
    z: Result

    def check(self) -> str | None:
        kinds = [str(result.type) for result in self.results]
        if kinds != ["i1", "i32", "i32", "i32"]:
            return f"expects to return i1, i32, i32, i32, got {', '.join(kinds)}"
        return super().check()


def query_cancel(ring: ir.Value, stage: ir.Value) -> tuple[ir.Value, tuple[ir.Value, ir.Value, ir.Value]]:
    """Builds `tile.query_cancel` and returns whether there was a cluster, and the CTA's coordinates."""

    def results() -> list[ir.Type]:
        return [ir.IntegerType.get_signless(bits) for bits in (1, 32, 32, 32)]

    op = build(QueryCancelOp, operands=[ring, stage], results=results)
    return op.exists, (op.x, op.y, op.z)
