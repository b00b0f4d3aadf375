"""Reduction over GPUs: each computes a part of the sums of all rows, and adds up those of its own rows.

A GPU sends sums of rows of others to these GPUs' memory, in vectors that the same thread reads there, and
signals each tile. It computes its own rows last, when the sums of others have come, and adds them in the
order of ranks.
"""

from math import prod
from typing import Any

from weft.dialects import tile
from weft.mlir import nvvm
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import meet_warpgroup
from weft.passes.kernels.fragments import add, convert
from weft.passes.kernels.sent_sums import TeamReduction
from weft.passes.kernels.tile_order import Tile

_NOBODY = -1  # a rank


class ScatteredReduction(TeamReduction):
    """Sends the sums of other GPUs' rows, and adds up those of this GPU's. A warpgroup keeps the slot and the
    rank of the sums that it has sent last, until it signals them.
    """

    def begin(self) -> list[Any]:
        return [*super().begin(), *self._nothing_sent()]

    def _nothing_sent(self) -> list[Any]:
        return [] if self.sent.buffer is None else [emit.value(0), emit.value(_NOBODY)]

    def collect_next(
        self, sums: Any, at: Tile, row: Any, column: Any, warpgroup: Any, kept: list[Any]
    ) -> list[Any]:
        call, *sent = kept
        self._signal_last(call, sent)
        own, lane, part = emit.equal(at.member, self.team.rank), tile.to_lane(sums), self.part(at, warpgroup)

        def add_up() -> list[Any]:
            total = tile.from_lane(self._total(call, lane, part, warpgroup), sums.type)
            self.writer.write(total, row, column, None, warpgroup)
            return self._nothing_sent()

        def send() -> list[Any]:
            slot = emit.value(self.slot(call, self.team.rank, part))
            if self.sent.buffer is None:
                self._send(call, lane, at.member, slot, warpgroup)
                return []
            self._start_sending(lane, at.member, slot, warpgroup)
            return [slot, emit.value(at.member)]

        return [call, *emit.either(own, [each.type for each in sent], add_up, send)]

    def collect(self, sums: Any, at: Tile, row: Any, column: Any, warpgroup: Any) -> None:
        raise NotImplementedError  # `collect_next` does it

    def end(self, warpgroup: Any, kept: list[Any]) -> None:
        call, *sent = kept
        self._signal_last(call, sent)
        super().end(warpgroup, kept)

    def _signal_last(self, call: Any, sent: list[Any]) -> None:
        """Signals the sums that were sent last, once they have come."""
        if not sent:
            return
        slot, member = sent
        with thread_ids.one_thread():
            nvvm.cp_async_bulk_wait_group(0)
            with emit.when(emit.less(_NOBODY, member)):
                tile.signal(self.flags(member), slot, call)

    def _start_sending(self, lane: Any, member: Any, slot: Any, warpgroup: Any) -> None:
        """Copies a warpgroup's sums to another GPU."""
        part = tile.stage(self.sent.buffer, emit.value(warpgroup))
        fragment = tile.from_lane(self.sent.rounded(lane), self.sent.fragment)
        meet_warpgroup(warpgroup)  # the copy before has ended
        tile.store(fragment, part, emit.value(0), emit.value(0), vector_bytes=self.sent.vector_bytes)
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        meet_warpgroup(warpgroup)
        with thread_ids.one_thread():
            tile.send_async(part, self.data(member), emit.value(emit.mul(slot, prod(self.sent.shape))))
            nvvm.cp_async_bulk_commit_group()

    def _send(self, call: Any, lane: Any, member: Any, slot: Any, warpgroup: Any) -> None:
        """Stores a thread's sums in another GPU's memory, and signals those of the warpgroup."""
        self.store(emit.elements(self.sent.rounded(lane)), self.data(member), slot)
        meet_warpgroup(warpgroup)
        with thread_ids.one_thread():
            tile.signal(self.flags(member), slot, call)

    def _total(self, call: Any, lane: Any, part: Any, warpgroup: Any) -> Any:
        """A thread's sums of this GPU's rows: its own, and those of the others in the order of ranks."""
        others, count = emit.sub(self.members, 1), len(emit.elements(lane))

        def source(number: Any) -> Any:
            before = emit.less(number, self.team.rank)
            return self.slot(call, emit.select(before, number, emit.add(number, 1)), part)

        self.await_others(call, part, warpgroup)

        def add_one(number: Any, carried: list[Any]) -> list[Any]:
            return [add(carried[0], convert(self.read(source(number), count), lane.type))]

        return emit.loop(0, others, 1, [lane], add_one)[0]
