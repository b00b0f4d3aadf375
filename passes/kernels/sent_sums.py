"""What kernels that add up sums of several GPUs have in common: how sums are sent, and where they are."""

from math import gcd
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.dialects.tile_types import BufferType, FragmentType
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.mlir import arith, gpu, ir, memref, vector
from weft.passes.builders import emit
from weft.passes.kernels.cluster import meet_consumers, meet_warpgroup
from weft.passes.kernels.fragments import convert
from weft.passes.kernels.matrices import VECTOR_BYTES, element_bytes, size
from weft.passes.kernels.reduction import Reduction
from weft.passes.kernels.team import ARRIVED, CALL
from weft.passes.kernels.tile_order import Tile, element
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import StagedWriter, Writer

DATA, FLAGS = range(2)  # the columns of the operand `peers`


class SentSums:
    """A warpgroup's sums in vectors of 16 bytes (fewer if a thread has few sums), as they are sent and read:
    vector after vector of its threads. `buffer` is shared memory from which copies send them while the next
    tile is computed, the writer's; None without it and where they don't fit in it, and threads store them.
    """

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule, writer: Writer | None = None) -> None:
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
        fits = element_bytes(self.partials) <= op.types.output_bytes
        if fits and isinstance(writer, StagedWriter) and writer.parts == 1 and not schedule.loaders:
            rows, columns = self.shape
            dense = f"S[({schedule.warpgroups},{rows},{columns}):({rows * columns},{columns},1)]"
            shape = schedule.warpgroups, *self.shape
            self.buffer = tile.alloc(BufferType.of(shape, self.element, dense), over=writer.buffer)

    def rounded(self, lane: ir.Value) -> ir.Value:
        """A thread's sums as they are sent."""
        return convert(lane, ir.VectorType.get([len(emit.elements(lane))], self.element))


class TeamReduction(Reduction):
    """A reduction over GPUs. Each part of a tile, one for each warpgroup, has a slot for each GPU, in both
    halves of the memory. Calls use these in turn. A warpgroup keeps the number of the call first.
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
        self.parts = emit.mul(emit.mul(rows, self._columns), self.schedule.warpgroups)
        self.members, self._state = size(self.peers, 0), roles["team"]

    @property
    def senders(self) -> int:
        """Warps of the warpgroup that copies which send sums; they, too, read the number of the call."""
        return 0

    def call(self) -> ir.Value:
        """The number of the call, before it is counted."""
        return element(self._state, CALL)

    def begin(self) -> list[ir.Value]:
        """Reads the number of the call, and counts it once all of this GPU's CTAs have read it. Other threads
        copy the first tiles meanwhile.
        """
        call, first = self.call(), self.schedule.producers * WARPGROUP
        meet_consumers(self.schedule.warpgroups, self.senders)
        with emit.when(emit.equal(emit.thread(), first)):
            ctas = emit.as_i32(gpu.grid_dim(gpu.Dimension.x))
            with emit.when(tile.is_last(self._state, emit.value(ARRIVED), ctas)):
                memref.store(emit.add(call, 1), self._state, [emit.as_index(CALL)])
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

    def address(self, member: ir.Value, which: int) -> ir.Value:
        """An address of a GPU's memory: of its data or its flags."""
        return memref.load(self.peers, [emit.as_index(member), _index(which)])

    def flags(self, member: ir.Value) -> ir.Value:
        """The flags of another GPU."""
        return tile.remote(self.address(member, FLAGS), emit.i32())

    def data(self, member: ir.Value) -> ir.Value:
        """The memory of another GPU for sums."""
        return tile.remote(self.address(member, DATA), self.sent.element)

    def store(self, numbers: list[ir.Value], memory: ir.Value, slot: ir.Value) -> None:
        """Stores a thread's sums, as they are sent, in a slot of a GPU's memory."""
        for index, run in enumerate(self._runs(numbers)):
            value = vector.from_elements(ir.VectorType.get([len(run)], self.sent.element), run)
            vector.StoreOp(value, memory, [self._at(slot, index, numbers)], alignment=self.sent.vector_bytes)

    def read(self, slot: ir.Value, count: int) -> ir.Value:
        """A thread's sums in a slot of this GPU's memory: a vector of `count` elements."""
        kind, numbers = self.sent.element, [None] * count
        found = list[Any]()
        for index, run in enumerate(self._runs(numbers)):
            of_run, at = ir.VectorType.get([len(run)], kind), self._at(slot, index, numbers)
            loaded = vector.LoadOp(of_run, self.partials, [at], alignment=self.sent.vector_bytes).result
            found += emit.elements(loaded)
        return vector.from_elements(ir.VectorType.get([count], kind), found)

    def _runs(self, numbers: list[Any]) -> list[list[Any]]:
        """The elements of each vector."""
        width = self.sent.width
        return [list(numbers[start : start + width]) for start in range(0, len(numbers), width)]

    def _at(self, slot: ir.Value, vector_index: int, numbers: list[Any]) -> ir.Value:
        """The index of a thread's vector: those of a warpgroup's threads are contiguous."""
        width = self.sent.width
        thread = emit.mul(emit.rem(emit.thread(), WARPGROUP), width)
        first = arith.muli(emit.as_index(slot), _index(WARPGROUP * len(numbers)))
        inside = emit.as_index(emit.add(thread, vector_index * WARPGROUP * width))
        return arith.addi(first, inside)


def _index(number: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number)
