"""Reduction over GPUs: each computes a part of the sums of all rows, and adds up those of its own rows.

A GPU sends sums of rows of others to these GPUs' memory, in vectors that the same thread reads there, and
signals each tile. It computes its own rows last, when the sums of others have come, and adds them in the
order of ranks.
"""

from math import prod
from typing import Any

from weft.dialects import tile
from weft.isa.chips import LANES
from weft.mlir import arith, ir, nvvm
from weft.passes.builders import emit, prefetches, thread_ids
from weft.passes.kernels.cluster import (
    await_empty,
    await_full,
    await_previous_launch,
    hand_back,
    hand_over,
    meet_consumers,
    meet_warpgroup,
)
from weft.passes.kernels.fragments import add, convert
from weft.passes.kernels.sent_sums import TeamReduction
from weft.passes.kernels.tile_order import Tile

_WARPGROUP, _SENDER = range(2)  # who has a buffer


class ScatteredReduction(TeamReduction):
    """Sends the sums of other GPUs' rows, and adds up those of this GPU's.

    Where sums are copied from shared memory, a warp for each warpgroup sends them, and signals each copy as
    soon as it has ended, so that warpgroups don't wait. A warpgroup keeps whether that warp has its buffer.
    """

    @property
    def senders(self) -> int:
        return 0 if self.sent.buffer is None else self.schedule.warpgroups

    def begin(self) -> list[ir.Value]:
        (call,) = super().begin()
        return self.kept(call)

    def kept(self, call: ir.Value) -> list[ir.Value]:
        """What a warpgroup keeps at first."""
        return [call, *self._buffer_is_with(_WARPGROUP)]

    def _buffer_is_with(self, who: int) -> list[ir.Value]:
        return [emit.value(who)] if self.senders else []

    def prepare(
        self, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value, kept: list[ir.Value]
    ) -> None:
        """Asks for what this GPU's rows need, also for sums that haven't come yet: L2 has what is written."""
        with emit.when(emit.equal(at.member, self.team.rank)):
            self.writer.ask(row, column, None, warpgroup)
            member, is_other = self.other()
            with emit.when(is_other):
                slot, count = self.slot(kept[0], member, self.part(at, warpgroup)), prod(self.sent.shape)
                prefetches.run(self.partials, emit.mul(slot, count), count)

    def collect_next(
        self,
        sums: ir.Value,
        at: Tile,
        row: ir.Value,
        column: ir.Value,
        warpgroup: ir.Value,
        kept: list[ir.Value],
    ) -> list[ir.Value]:
        call, *holder = kept
        own, lane, part = emit.equal(at.member, self.team.rank), tile.to_lane(sums), self.part(at, warpgroup)

        def add_up() -> list[ir.Value]:
            total = tile.from_lane(self._total(call, lane, part, warpgroup), sums.type)
            self._take_back(holder, warpgroup)
            self.writer.write(total, row, column, None, warpgroup)
            return self._buffer_is_with(_WARPGROUP)

        def send() -> list[ir.Value]:
            if self.senders:
                self._hand_over(lane, holder, warpgroup)
            else:
                self._send(call, lane, at.member, part, warpgroup)
            return self._buffer_is_with(_SENDER)

        return [call, *emit.either(own, [each.type for each in holder], add_up, send)]

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        call, *holder = kept
        self._take_back(holder, warpgroup)
        super().end(warpgroup, [call])

    def _take_back(self, holder: list[ir.Value], warpgroup: ir.Value) -> None:
        """Waits for the buffer, if the warp that sends has it."""
        for who in holder:
            with emit.when(emit.equal(who, _SENDER)):
                await_empty(warpgroup)

    def _hand_over(self, lane: ir.Value, holder: list[ir.Value], warpgroup: ir.Value) -> None:
        """Puts sums into the buffer for the warp that sends them."""
        part = tile.stage(self.sent.buffer, emit.value(warpgroup))
        fragment = tile.from_lane(self.sent.rounded(lane), self.sent.fragment)
        self._take_back(holder, warpgroup)
        tile.store(fragment, part, emit.value(0), emit.value(0), vector_bytes=self.sent.vector_bytes)
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        hand_over(warpgroup)

    def assist(self) -> None:
        """Sends what warpgroups put into their buffers: warp i what warpgroup i - 1 does."""
        if not self.senders:
            return
        warp = emit.uniform(emit.div(emit.thread(), LANES))
        sends = arith.andi(emit.less(0, warp), emit.less(warp, self.senders + 1))
        with emit.when(sends):
            await_previous_launch()
            call, warpgroup = self.call(), emit.sub(warp, 1)
            self.await_count()

            def one(at: Tile, carried: list[Any]) -> list[Any]:
                with emit.when(emit.negate(emit.equal(at.member, self.team.rank))):
                    self._send_buffer(call, at, warpgroup)
                return carried

            self.tiles.walk([], one)

    def _send_buffer(self, call: ir.Value, at: Tile, warpgroup: ir.Value) -> None:
        """Copies a warpgroup's sums to another GPU, and signals them."""
        part = self.part(at, warpgroup)
        slot, buffer = (
            self.sent_to(call, at.member, part),
            tile.stage(self.sent.buffer, emit.value(warpgroup)),
        )
        await_full(warpgroup)
        with thread_ids.elected():
            at_slot = emit.value(emit.mul(slot, prod(self.sent.shape)))
            tile.send_async(buffer, self.memory_for(at.member), at_slot)
            nvvm.cp_async_bulk_commit_group()
            nvvm.cp_async_bulk_wait_group(0, read=True)
        nvvm.SyncWarpOp(emit.value(-1))
        hand_back(warpgroup)
        with thread_ids.elected():
            nvvm.cp_async_bulk_wait_group(0)
            self.signal(call, at.member, part)

    def _send(self, call: ir.Value, lane: ir.Value, member: Any, part: ir.Value, warpgroup: ir.Value) -> None:
        """Stores a thread's sums in another GPU's memory, and signals those of the warpgroup."""
        slot = emit.value(self.sent_to(call, member, part))
        self.store(emit.elements(self.sent.rounded(lane)), self.memory_for(member), slot)
        meet_warpgroup(warpgroup)
        with thread_ids.one_thread():
            self.signal(call, member, part)

    def memory_for(self, member: Any) -> ir.Value:
        """The memory to which sums for another GPU are stored."""
        return self.data(member)

    def sent_to(self, call: ir.Value, member: Any, part: ir.Value) -> ir.Value:
        """The slot of sums in this memory."""
        return self.slot(call, self.team.rank, part)

    def signal(self, call: ir.Value, member: Any, part: ir.Value) -> None:
        """Signals that sums for another GPU have been stored."""
        tile.signal(self.flags(member), emit.value(self.slot(call, self.team.rank, part)), call)

    def await_count(self) -> None:
        """Lets the call be counted, whose number warps that send have read."""
        meet_consumers(self.schedule.warpgroups, self.senders)

    def _total(self, call: ir.Value, lane: ir.Value, part: ir.Value, warpgroup: ir.Value) -> ir.Value:
        """A thread's sums of this GPU's rows: its own, and those of the others in the order of ranks."""
        others, count = emit.sub(self.members, 1), len(emit.elements(lane))

        def source(number: ir.Value) -> ir.Value:
            before = emit.less(number, self.team.rank)
            return self.slot(call, emit.select(before, number, emit.add(number, 1)), part)

        self.await_others(call, part, warpgroup)

        def add_one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            return [add(carried[0], convert(self.read(source(number), count), lane.type))]

        return emit.loop(0, others, 1, [lane], add_one)[0]
