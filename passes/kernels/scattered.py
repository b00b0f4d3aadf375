"""Reduction over GPUs: each computes a part of the sums of all rows, and adds up those of its own rows.

A GPU sends sums of rows of others to these GPUs' memory, in vectors that the same thread reads there, and
signals each tile. It computes its own rows last, when the sums of others have come, and adds them in the
order of ranks.
"""

from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.isa.chips import WARPGROUP
from weft.mlir import arith, ir, memref, vector
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import meet_warpgroup
from weft.passes.kernels.fragments import add, convert
from weft.passes.kernels.matrices import VECTOR_BYTES, element_bytes, size
from weft.passes.kernels.reduction import Reduction
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import Writer

DATA, FLAGS = range(2)  # the columns of the operand `peers`


class ScatteredReduction(Reduction):
    """Sends the sums of other GPUs' rows, and adds up those of this GPU's."""

    def __init__(self, op: MatmulOp, tiles: Tiles[WarpgroupSchedule], writer: Writer) -> None:
        """Reads sizes at the insertion point."""
        assert tiles.team is not None
        self.tiles, self.team, self.schedule, self.writer = tiles, tiles.team, tiles.schedule, writer
        roles = op.roles
        self.partials, self.signals, self.peers = roles["partials"], roles["signals"], roles["peers"]
        (m, n, _), cluster = self.schedule.block, self.schedule.cluster
        sizes = self.schedule.swapped(size(op.d, -2), size(op.d, -1))
        rows, self._columns = (
            emit.mul(emit.ceil_div(extent, block * ctas), ctas)
            for extent, block, ctas in zip(sizes, (m, n), cluster, strict=True)
        )
        self._parts = emit.mul(emit.mul(rows, self._columns), self.schedule.warpgroups)
        self._members = size(op.a, 0)

    def collect(self, sums: Any, at: Tile, row: Any, column: Any, warpgroup: Any) -> None:
        number = emit.add(emit.mul(at.row, self._columns), at.column)
        part = emit.add(emit.mul(number, self.schedule.warpgroups), warpgroup)
        own, lane = emit.equal(at.member, self.team.rank), tile.to_lane(sums)

        def add_up() -> list[Any]:
            total = tile.from_lane(self._total(lane, part, warpgroup), sums.type)
            self.writer.write(total, row, column, None, warpgroup)
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
        numbers = emit.elements(convert(lane, ir.VectorType.get([len(emit.elements(lane))], kind)))
        for index, run in enumerate(self._runs(numbers)):
            value = vector.from_elements(ir.VectorType.get([len(run)], kind), run)
            vector.StoreOp(value, memory, [self._at(slot, index, numbers)], alignment=VECTOR_BYTES)
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
            loaded = vector.LoadOp(of_run, self.partials, [at], alignment=VECTOR_BYTES).result
            found += emit.elements(loaded)
        return vector.from_elements(ir.VectorType.get([len(numbers)], kind), found)

    def _runs(self, numbers: list[Any]) -> list[list[Any]]:
        """The elements of each vector of 16 bytes."""
        width = VECTOR_BYTES // element_bytes(self.partials)
        return [list(numbers[start : start + width]) for start in range(0, len(numbers), width)]

    def _at(self, slot: Any, vector_index: int, numbers: list[Any]) -> Any:
        """The index of a thread's vector: those of a warpgroup's threads are contiguous."""
        width = VECTOR_BYTES // element_bytes(self.partials)
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
