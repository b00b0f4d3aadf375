"""Reduction over GPUs: each computes a part of the sums of all rows, or of all columns of K, and sends sums
to the others.

`ScatteredReduction`: a GPU sends sums of rows of others to these GPUs' memory, in vectors that the same
thread reads there, and signals each tile. It computes its own rows last, when the sums of others have come,
and adds them in the order of ranks.

`BandedReduction`: copy engines send the sums. A kernel stores those of other GPUs' rows in its own GPU's
memory, and sets a flag when a band of tiles is done, for which a copy waits. So a multiprocessor has
nothing to do with the links. The order of tiles and of sums is that of `ScatteredReduction`.
"""

from dataclasses import replace
from math import gcd, prod
from typing import Any, ClassVar

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.dialects.tile_types import BufferType, FragmentType
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.mlir import arith, gpu, ir, nvvm, vector
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
from weft.passes.kernels.matrices import VECTOR_BYTES, element_bytes, size, vector_of
from weft.passes.kernels.reduction import Reduction
from weft.passes.kernels.team import DATA, FLAGS
from weft.passes.kernels.tile_order import Corner, Order, Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import StagedWriter, Writer


class TeamReduction(Reduction):
    """A reduction over GPUs. Each part of a tile, one for each warpgroup, has a slot for each GPU, in both
    halves of the memory. Calls use these in turn. A warpgroup keeps the number of the call first.

    A warpgroup's sums are sent and read in vectors of 16 bytes (fewer if a thread has few sums), vector after
    vector of its threads. `buffer` is shared memory from which copies send them while the next tile is
    computed, the writer's; None where none do, or they don't fit in it, and threads store them.
    """

    copies: ClassVar[bool] = False

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule, writer: Writer) -> None:
        """Builds the buffer."""
        self.op = op
        self.schedule = schedule
        self.writer = writer
        self.partials = op.roles["partials"]
        self.signals = op.roles["signals"]
        self.element = self.partials.type.element_type
        bytes_ = element_bytes(self.partials)
        of_thread = schedule.rows * schedule.block[1] // WARPGROUP
        self.width = gcd(VECTOR_BYTES // bytes_, of_thread)
        self.vector_bytes, vectors = self.width * bytes_, of_thread // self.width
        self.shape = rows, columns = vectors * WARPGROUP, self.width
        layout = f"S[({vectors},{WARPS},{LANES},{columns}):({columns},1@warpid,1@laneid,1)]"
        self.fragment = FragmentType.of(self.shape, self.element, layout)
        self.buffer: Any = None
        fits = bytes_ <= op.types.output_bytes and not schedule.loaders
        if self.copies and fits and isinstance(writer, StagedWriter) and writer.parts == 1:
            dense = f"S[({schedule.warpgroups},{rows},{columns}):({rows * columns},{columns},1)]"
            kind = BufferType.of((schedule.warpgroups, rows, columns), self.element, dense)
            self.buffer = tile.alloc(kind, over=writer.buffer)

    def use(self, tiles: Tiles[WarpgroupSchedule]) -> None:
        assert tiles.team is not None
        self.tiles = tiles
        self.team = tiles.team
        (m, n, _), cluster = self.schedule.block, self.schedule.cluster
        sizes = self.schedule.swapped(size(self.op.d, -2), size(self.op.d, -1))
        rows, self._columns = (
            emit.mul(emit.ceil_div(extent, block * ctas), ctas)
            for extent, block, ctas in zip(sizes, (m, n), cluster, strict=True)
        )
        self.parts = emit.mul(emit.mul(rows, self._columns), self.schedule.warpgroups)
        self.members = self.team.members

    def rounded(self, lane: ir.Value) -> ir.Value:
        """A thread's sums as they are sent."""
        return convert(lane, ir.VectorType.get([len(emit.elements(lane))], self.element))

    @property
    def senders(self) -> int:
        """Warps of the warpgroup that copies which send sums; they, too, read the number of the call."""
        return 0

    def begin(self) -> list[ir.Value]:
        """Reads the number of the call, and counts it once all of this GPU's CTAs have read it. Other threads
        copy the first tiles meanwhile.
        """
        call, first = self.team.call(), self.schedule.producers * WARPGROUP
        meet_consumers(self.schedule.warpgroups, self.senders)
        with emit.when(emit.equal(emit.thread(), first)):
            self.team.count(emit.add(call, 1), emit.as_i32(gpu.grid_dim(gpu.Dimension.x)))
        return [call]

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        self.writer.finish()

    def slot(self, call: ir.Value, source: ir.Value, part: ir.Value) -> ir.Value:
        """The number of the sums that a GPU has sent for a warpgroup's part of a tile."""
        first = emit.mul(emit.bit_and(call, 1), self.members)
        return emit.add(emit.mul(emit.add(first, source), self.parts), part)

    def part(self, at: Tile, warpgroup: ir.Value) -> ir.Value:
        """The number of a warpgroup's part of a tile."""
        number = emit.add(emit.mul(at.row, self._columns), at.column)
        return emit.add(emit.mul(number, self.schedule.warpgroups), warpgroup)

    def other(self) -> tuple[ir.Value, ir.Value]:
        """A GPU for each of a warpgroup's first threads, and whether it is another one, an i1."""
        member = emit.rem(emit.thread(), WARPGROUP)
        different = emit.negate(emit.equal(member, self.team.rank))
        return member, arith.andi(emit.less(member, self.members), different)

    def await_others(self, call: ir.Value, part: ir.Value, warpgroup: ir.Value) -> None:
        """Waits for the sums of a part that other GPUs send: each of the first threads for one of them."""
        member, is_other = self.other()
        with emit.when(is_other):
            self.team.await_(self.signals, self.slot(call, member, part), call)
        meet_warpgroup(warpgroup)

    def store(self, numbers: list[ir.Value], memory: ir.Value, slot: ir.Value) -> None:
        """Stores a thread's sums, as they are sent, in a slot of a GPU's memory."""
        width = self.width
        for first in range(0, len(numbers), width):
            at, value = self._at(slot, first, len(numbers)), emit.vector_of(numbers[first : first + width])
            vector.StoreOp(value, memory, [at], alignment=self.vector_bytes)

    def read(self, slot: ir.Value, count: int) -> ir.Value:
        """A thread's sums in a slot of this GPU's memory: a vector of `count` elements."""
        kind = self.element
        width = self.width
        numbers = list[ir.Value]()
        for first in range(0, count, width):
            of_run, at = ir.VectorType.get([width], kind), self._at(slot, first, count)
            loaded = vector.LoadOp(of_run, self.partials, [at], alignment=self.vector_bytes).result
            numbers += emit.elements(loaded)
        return emit.vector_of(numbers)

    def _at(self, slot: ir.Value, first: int, count: int) -> ir.Value:
        """The index of a thread's vector from its sum number `first` of `count` on: those of a warpgroup's
        threads are contiguous.
        """
        thread = emit.mul(emit.rem(emit.thread(), WARPGROUP), self.width)
        begin = arith.muli(emit.as_index(slot), emit.index(WARPGROUP * count))
        return arith.addi(begin, emit.as_index(emit.add(thread, first * WARPGROUP)))


_WARPGROUP, _SENDER = range(2)  # who has a buffer


class ScatteredReduction(TeamReduction):
    """Sends the sums of other GPUs' rows, and adds up those of this GPU's.

    Where sums are copied from shared memory, a warp for each warpgroup sends them, and signals each copy as
    soon as it has ended, so that warpgroups don't wait. A warpgroup keeps whether that warp has its buffer.
    """

    copies = True

    @property
    def senders(self) -> int:
        return 0 if self.buffer is None else self.schedule.warpgroups

    def begin(self) -> list[ir.Value]:
        (call,) = super().begin()
        return self.kept(call)

    def kept(self, call: ir.Value) -> list[ir.Value]:
        """The values that a warpgroup keeps at first."""
        return [call, *self._buffer_is_with(_WARPGROUP)]

    def _buffer_is_with(self, who: int) -> list[ir.Value]:
        return [emit.value(who)] if self.senders else []

    def prepare(self, at: Tile, corner: Corner, kept: list[ir.Value]) -> None:
        """Asks for what this GPU's rows need, also for sums that haven't come yet: L2 has what is written."""
        with emit.when(emit.equal(at.member, self.team.rank)):
            self.writer.ask(replace(corner, index=None))
            member, is_other = self.other()
            with emit.when(is_other):
                part = self.part(at, corner.warpgroup)
                count = prod(self.shape)
                slot = self.slot(kept[0], member, part)
                prefetches.run(self.partials, emit.mul(slot, count), count)

    def collect(self, sums: ir.Value, at: Tile, corner: Corner, kept: list[ir.Value]) -> list[ir.Value]:
        (call, *holder), warpgroup = kept, corner.warpgroup
        own, lane, part = emit.equal(at.member, self.team.rank), tile.to_lane(sums), self.part(at, warpgroup)

        def add_up() -> list[ir.Value]:
            total = tile.from_lane(self._total(call, lane, part, warpgroup), sums.type)
            self._take_back(holder, warpgroup)
            self.writer.write(total, replace(corner, index=None))
            return self._buffer_is_with(_WARPGROUP)

        def send() -> list[ir.Value]:
            if self.senders:
                sent = tile.stage(self.buffer, emit.value(warpgroup))
                fragment = tile.from_lane(self.rounded(lane), self.fragment)
                self._take_back(holder, warpgroup)
                tile.store(fragment, sent, emit.value(0), emit.value(0), vector_bytes=self.vector_bytes)
                nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
                hand_over(warpgroup)
            else:
                slot = emit.value(self.sent_to(call, at.member, part))
                self.store(emit.elements(self.rounded(lane)), self.memory_for(at.member), slot)
                meet_warpgroup(warpgroup)
                with thread_ids.one_thread():
                    self.signal(call, at.member, part)
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

    def assist(self) -> None:
        """Sends what warpgroups put into their buffers: warp i what warpgroup i - 1 does."""
        if not self.senders:
            return
        warp = emit.uniform(emit.div(emit.thread(), LANES))
        sends = arith.andi(emit.less(0, warp), emit.less(warp, self.senders + 1))
        with emit.when(sends):
            await_previous_launch()
            call, warpgroup = self.team.call(), emit.sub(warp, 1)
            self.await_count()

            def one(at: Tile, carried: list[ir.Value]) -> list[ir.Value]:
                with emit.when(emit.negate(emit.equal(at.member, self.team.rank))):
                    self._send_buffer(call, at, warpgroup)
                return carried

            self.tiles.walk([], one)

    def _send_buffer(self, call: ir.Value, at: Tile, warpgroup: ir.Value) -> None:
        """Copies a warpgroup's sums to another GPU, and signals them."""
        part = self.part(at, warpgroup)
        slot = self.sent_to(call, at.member, part)
        buffer = tile.stage(self.buffer, emit.value(warpgroup))
        await_full(warpgroup)
        with thread_ids.elected():
            at_slot = emit.value(emit.mul(slot, prod(self.shape)))
            tile.send_async(buffer, self.memory_for(at.member), at_slot)
            nvvm.cp_async_bulk_commit_group()
            nvvm.cp_async_bulk_wait_group(0, read=True)
        nvvm.SyncWarpOp(emit.value(-1))
        hand_back(warpgroup)
        with thread_ids.elected():
            nvvm.cp_async_bulk_wait_group(0)
            self.signal(call, at.member, part)

    def memory_for(self, member: Any) -> ir.Value:
        """The memory to which sums for another GPU are stored."""
        return self.team.data(member, self.element)

    def sent_to(self, call: ir.Value, member: Any, part: ir.Value) -> ir.Value:
        """The slot of sums in this memory."""
        return self.slot(call, self.team.rank, part)

    def signal(self, call: ir.Value, member: Any, part: ir.Value) -> None:
        """Signals that sums for another GPU have been stored."""
        tile.signal(self.team.flags(member), emit.value(self.slot(call, self.team.rank, part)), call)

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


_AT_ONCE = 3  # GPUs whose sums a thread loads before it adds them


class AllReduction(TeamReduction):
    """Sends sums to all GPUs, then adds them up."""

    _kinds: Any = None  # the types of a warpgroup's and of a thread's sums

    def begin(self) -> list[ir.Value]:
        """Lane i of each warp keeps the addresses of GPU i, so that nothing waits for them later."""
        member = emit.minimum(thread_ids.lane(), emit.sub(self.members, 1))
        return [*super().begin(), *(self.team.address(member, which) for which in (DATA, FLAGS))]

    def collect(self, sums: ir.Value, at: Tile, corner: Corner, kept: list[ir.Value]) -> list[ir.Value]:
        (call, data, flags), lane, warpgroup = kept, tile.to_lane(sums), corner.warpgroup
        self._kinds = sums.type, lane.type
        slot = self.slot(call, self.team.rank, self.part(at, warpgroup))
        numbers = emit.elements(self.rounded(lane))
        self.store(numbers, self.partials, slot)

        with emit.each(1, self.members) as step:
            member = emit.rem(emit.add(self.team.rank, step), self.members)
            self.store(numbers, tile.remote(emit.of_lane(data, member), self.element), slot)
        meet_warpgroup(warpgroup)
        _, is_other = self.other()
        with emit.when(is_other):
            tile.signal(tile.remote(flags, emit.i32()), emit.value(slot), call)
        return kept

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        call, *_ = kept
        (m, n, _), start = self.schedule.block, emit.mul(warpgroup, self.schedule.rows)

        def one(at: Tile, carried: list[ir.Value]) -> list[ir.Value]:
            total = self._total(call, self.part(at, warpgroup), warpgroup)
            row, column = emit.add(emit.mul(at.row, m), start), emit.mul(at.column, n)
            self.writer.write(total, Corner(row, column, None, warpgroup))
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


class BandedReduction(ScatteredReduction):
    """Stores the sums of other GPUs' rows in bands of tiles that follow each other, and adds up those of this
    GPU's rows. The host numbers the calls, and selects a half of the memory.
    """

    def use(self, tiles: Tiles[WarpgroupSchedule]) -> None:
        super().use(tiles)
        assert isinstance(tiles.order, Order)
        self._done = self.op.roles["bands"]
        self._of_tile = self.schedule.ctas * self.schedule.warpgroups
        self._bands = size(self._done, 1)
        clusters = emit.mul(tiles.order.rows, tiles.order.columns)
        self._in_band = emit.mul(emit.ceil_div(clusters, self._bands), self._of_tile)

    def begin(self) -> list[ir.Value]:
        return self.kept(self.team.call())

    def await_count(self) -> None:
        return

    def part(self, at: Tile, warpgroup: ir.Value) -> ir.Value:
        """In the order in which tiles are computed, so that the parts of a band are contiguous."""
        number = emit.add(emit.mul(at.number, self.schedule.ctas), self.tiles.rank)
        return emit.add(emit.mul(number, self.schedule.warpgroups), warpgroup)

    def slot(self, call: ir.Value, source: ir.Value, part: ir.Value) -> ir.Value:
        return emit.add(emit.mul(self._among_others(source), self.parts), part)

    def memory_for(self, member: ir.Value) -> ir.Value:
        return self.team.data(self.team.rank, self.element)

    def sent_to(self, call: ir.Value, member: Any, part: ir.Value) -> ir.Value:
        return emit.add(emit.mul(self._of_sums_sent(member), self.parts), part)

    def signal(self, call: ir.Value, member: ir.Value, part: ir.Value) -> None:
        """Sets the flag of a band, if this part is the last one of it."""
        band = emit.div(part, self._in_band)
        left = emit.sub(self.parts, emit.mul(band, self._in_band))
        count = emit.value(emit.minimum(left, self._in_band))
        with emit.when(tile.is_last(vector_of(self._done, member), emit.value(band), count)):
            flag = emit.add(emit.mul(self._of_sums_sent(member), self._bands), band)
            tile.signal(self.team.flags(self.team.rank), emit.value(flag), call)

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
