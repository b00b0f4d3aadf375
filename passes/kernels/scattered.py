"""Reduction over GPUs: each computes a part of the sums of all rows, and adds up those of its own rows.

A GPU sends sums of rows of others to these GPUs' memory, in vectors that the same thread reads there, and
signals each tile. It computes its own rows last, when the sums of others have come, and adds them in the
order of ranks.
"""

from math import gcd, prod
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.dialects.tile_types import BufferType, FragmentType
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.mlir import arith, ir, memref, nvvm, vector
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import meet_warpgroup
from weft.passes.kernels.fragments import add, convert
from weft.passes.kernels.matrices import VECTOR_BYTES, element_bytes, size
from weft.passes.kernels.reduction import Reduction
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import StagedWriter, Writer

_NOBODY = -1  # a rank
DATA, FLAGS = range(2)  # the columns of the operand `peers`


class SentSums:
    """A warpgroup's sums in vectors of 16 bytes (fewer if a thread has few sums), as they are sent and read:
    vector after vector of its threads. `buffer` is shared memory from which copies send them while the next
    tile is computed, the writer's; None where they don't fit in it, and threads store them.
    """

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule, writer: Writer) -> None:
        """Builds the buffer at the insertion point."""
        self.partials = op.roles["partials"]
        self.element, bytes_ = self.partials.type.element_type, element_bytes(self.partials)
        of_thread = schedule.rows * schedule.block[1] // WARPGROUP
        self.width = gcd(VECTOR_BYTES // bytes_, of_thread)
        self.vector_bytes, vectors = self.width * bytes_, of_thread // self.width
        self.shape = vectors * WARPGROUP, self.width
        layout = f"S[({vectors},{WARPS},{LANES},{self.width}):({self.width},1@warpid,1@laneid,1)]"
        self.fragment = FragmentType.of(self.shape, self.element, layout)
        self.buffer = None
        if isinstance(writer, StagedWriter) and element_bytes(self.partials) <= op.types.output_bytes:
            rows, columns = self.shape
            dense = f"S[({schedule.warpgroups},{rows},{columns}):({rows * columns},{columns},1)]"
            shape = schedule.warpgroups, *self.shape
            self.buffer = tile.alloc(BufferType.of(shape, self.element, dense), over=writer.buffer)

    def rounded(self, lane: Any) -> Any:
        """A thread's sums as they are sent."""
        return convert(lane, ir.VectorType.get([len(emit.elements(lane))], self.element))


class ScatteredReduction(Reduction):
    """Sends the sums of other GPUs' rows, and adds up those of this GPU's. A warpgroup keeps the slot and the
    rank of the sums that it has sent last, until it signals them.
    """

    def __init__(self, op: MatmulOp, sent: SentSums, tiles: Tiles[WarpgroupSchedule], writer: Writer) -> None:
        """Reads sizes at the insertion point."""
        assert tiles.team is not None
        self.tiles, self.team, self.schedule, self.writer = tiles, tiles.team, tiles.schedule, writer
        self.sent, roles = sent, op.roles
        self.partials, self.signals, self.peers = roles["partials"], roles["signals"], roles["peers"]
        (m, n, _), cluster = self.schedule.block, self.schedule.cluster
        sizes = self.schedule.swapped(size(op.d, -2), size(op.d, -1))
        rows, self._columns = (
            emit.mul(emit.ceil_div(extent, block * ctas), ctas)
            for extent, block, ctas in zip(sizes, (m, n), cluster, strict=True)
        )
        self._parts = emit.mul(emit.mul(rows, self._columns), self.schedule.warpgroups)
        self._members = size(op.a, 0)

    def begin(self) -> list[Any]:
        return [] if self.sent.buffer is None else [emit.value(0), emit.value(_NOBODY)]

    def collect_next(
        self, sums: Any, at: Tile, row: Any, column: Any, warpgroup: Any, kept: list[Any]
    ) -> list[Any]:
        if self.sent.buffer is None:
            return super().collect_next(sums, at, row, column, warpgroup, kept)
        self._signal_last(kept)
        own, lane, part = emit.equal(at.member, self.team.rank), tile.to_lane(sums), self._part(at, warpgroup)

        def add_up() -> list[Any]:
            self._add_up(lane, sums.type, part, row, column, warpgroup)
            return self.begin()

        def send() -> list[Any]:
            slot = emit.value(self._slot(self.team.rank, part))
            self._start_sending(lane, at.member, slot, warpgroup)
            return [slot, emit.value(at.member)]

        return emit.either(own, [emit.i32()] * 2, add_up, send)

    def end(self, warpgroup: Any, kept: list[Any]) -> None:
        self._signal_last(kept)
        self.finish_consumers(warpgroup)

    def _signal_last(self, kept: list[Any]) -> None:
        """Signals the sums that were sent last, once they have come."""
        if not kept:
            return
        slot, member = kept
        with thread_ids.one_thread():
            nvvm.cp_async_bulk_wait_group(0)
            with emit.when(emit.less(_NOBODY, member)):
                tile.signal(tile.remote(self._address(member, FLAGS), emit.i32()), slot, self.team.call)

    def _start_sending(self, lane: Any, member: Any, slot: Any, warpgroup: Any) -> None:
        """Copies a warpgroup's sums to another GPU."""
        part = tile.stage(self.sent.buffer, emit.value(warpgroup))
        fragment = tile.from_lane(self.sent.rounded(lane), self.sent.fragment)
        meet_warpgroup(warpgroup)  # the copy before has ended
        tile.store(fragment, part, emit.value(0), emit.value(0), vector_bytes=self.sent.vector_bytes)
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        meet_warpgroup(warpgroup)
        with thread_ids.one_thread():
            memory = tile.remote(self._address(member, DATA), self.sent.element)
            tile.send_async(part, memory, emit.value(emit.mul(slot, prod(self.sent.shape))))
            nvvm.cp_async_bulk_commit_group()

    def _part(self, at: Tile, warpgroup: Any) -> Any:
        """The number of a warpgroup's part of a tile."""
        number = emit.add(emit.mul(at.row, self._columns), at.column)
        return emit.add(emit.mul(number, self.schedule.warpgroups), warpgroup)

    def _add_up(self, lane: Any, kind: Any, part: Any, row: Any, column: Any, warpgroup: Any) -> None:
        """Writes this GPU's rows of the sums of all GPUs."""
        total = tile.from_lane(self._total(lane, part, warpgroup), kind)
        self.writer.write(total, row, column, None, warpgroup)

    def collect(self, sums: Any, at: Tile, row: Any, column: Any, warpgroup: Any) -> None:
        own, lane, part = emit.equal(at.member, self.team.rank), tile.to_lane(sums), self._part(at, warpgroup)

        def add_up() -> list[Any]:
            self._add_up(lane, sums.type, part, row, column, warpgroup)
            return []

        def send() -> list[Any]:
            self._send(lane, at.member, part, warpgroup)
            return []

        emit.either(own, [], add_up, send)

    def finish_consumers(self, warpgroup: Any) -> None:
        self.writer.finish()

    def _send(self, lane: Any, member: Any, part: Any, warpgroup: Any) -> None:
        """Stores a thread's sums in another GPU's memory, and signals those of the warpgroup."""
        kind = self.partials.type.element_type
        slot = self._slot(self.team.rank, part)
        memory = tile.remote(self._address(member, DATA), kind)
        numbers = emit.elements(self.sent.rounded(lane))
        for index, run in enumerate(self._runs(numbers)):
            value = vector.from_elements(ir.VectorType.get([len(run)], kind), run)
            vector.StoreOp(value, memory, [self._at(slot, index, numbers)], alignment=self.sent.vector_bytes)
        meet_warpgroup(warpgroup)
        with thread_ids.one_thread():
            flags = tile.remote(self._address(member, FLAGS), emit.i32())
            tile.signal(flags, emit.value(slot), self.team.call)

    def _total(self, lane: Any, part: Any, warpgroup: Any) -> Any:
        """A thread's sums of this GPU's rows: its own, and those of the others in the order of ranks."""
        others = emit.sub(self._members, 1)

        def source(number: Any) -> Any:
            before = emit.less(number, self.team.rank)
            return self._slot(emit.select(before, number, emit.add(number, 1)), part)

        def await_(number: Any, carried: list[Any]) -> list[Any]:
            self.team.await_(self.signals, source(number))
            return carried

        with thread_ids.one_thread():
            emit.loop(0, others, 1, [], await_)
        meet_warpgroup(warpgroup)

        def add_one(number: Any, carried: list[Any]) -> list[Any]:
            return [add(carried[0], convert(self._read(source(number), lane), lane.type))]

        return emit.loop(0, others, 1, [lane], add_one)[0]

    def _read(self, slot: Any, lane: Any) -> Any:
        """A thread's sums that another GPU has sent: a vector."""
        kind, numbers = self.partials.type.element_type, emit.elements(lane)
        found = list[Any]()
        for index, run in enumerate(self._runs(numbers)):
            of_run, at = ir.VectorType.get([len(run)], kind), self._at(slot, index, numbers)
            loaded = vector.LoadOp(of_run, self.partials, [at], alignment=self.sent.vector_bytes).result
            found += emit.elements(loaded)
        return vector.from_elements(ir.VectorType.get([len(numbers)], kind), found)

    def _runs(self, numbers: list[Any]) -> list[list[Any]]:
        """The elements of each vector."""
        width = self.sent.width
        return [list(numbers[start : start + width]) for start in range(0, len(numbers), width)]

    def _at(self, slot: Any, vector_index: int, numbers: list[Any]) -> Any:
        """The index of a thread's vector: those of a warpgroup's threads are contiguous."""
        width = self.sent.width
        thread = emit.mul(emit.rem(emit.thread(), WARPGROUP), width)
        first = arith.muli(emit.as_index(slot), _index(WARPGROUP * len(numbers)))
        inside = emit.as_index(emit.add(thread, vector_index * WARPGROUP * width))
        return arith.addi(first, inside)

    def _slot(self, source: Any, part: Any) -> Any:
        """The number of the sums that a GPU has sent for a warpgroup's part of a tile."""
        return emit.add(emit.mul(source, self._parts), part)

    def _address(self, member: Any, which: int) -> Any:
        """An address of another GPU's memory."""
        return memref.load(self.peers, [emit.as_index(member), _index(which)])


def _index(number: int) -> Any:
    return arith.constant(ir.IndexType.get(), number)
