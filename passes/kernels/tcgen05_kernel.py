"""The kernel that `--expand-matmul` writes for a schedule of tensor memory: persistent CTAs, alone or in
pairs, that multiply with `tcgen05.mma`.

In a CTA's first warpgroup, one warp copies tiles of A and B by TMA into a ring of stages, and another issues
the products of each stage, whose sums are in tensor memory. The other warpgroups finish the sums of a tile
slice by slice while the next tile is multiplied.
"""

from contextlib import nullcontext

from weft.dialects import tile
from weft.dialects.launch_contract import MIN_CTAS, STAGES
from weft.dialects.product_types import Types
from weft.dialects.schedule import TensorMemorySchedule
from weft.dialects.schedule.tcgen05 import ANSWERS
from weft.dialects.tile import MatmulOp
from weft.isa.chips import LANES as WARP_LANES
from weft.isa.chips import WARPS
from weft.isa.tcgen05.tensor_layouts import LANES
from weft.mlir import ir, nvvm
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import await_previous_launch, begin_cluster, meet_cluster
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.slice_writer import SliceWriter, StagedSlices
from weft.passes.kernels.staged_operand import staged_operands
from weft.passes.kernels.tcgen05_scales import TensorScales, WordScales
from weft.passes.kernels.tensor_epilogue import Epilogue
from weft.passes.kernels.tensor_sums import TensorSums
from weft.passes.kernels.tile_order import DynamicOrder, Tile
from weft.passes.kernels.tiles import Tiles

COPYING, MULTIPLYING, ALLOCATING, ASSIGNING = range(4)
"""The warps of the first warpgroup, by what they do."""


def expand(op: MatmulOp) -> None:
    """Writes the kernel of a product at the insertion point."""
    schedule, types = op.schedule, op.types
    assert isinstance(schedule, TensorMemorySchedule)
    # Without it, ptxas spills rather than use more registers than two CTAs of a multiprocessor could.
    kernel = op.operation.parent
    kernel.attributes[MIN_CTAS] = ir.IntegerAttr.get(emit.i32(), 1)
    STAGES.set(kernel, ir.IntegerAttr.get(emit.i32(), schedule.stages))
    # Memory first: buffers are laid out in this order.
    operands = staged_operands(op, schedule)
    scales = (WordScales if types.words else TensorScales)(op, schedule) if types.scale else None
    words = scales if isinstance(scales, WordScales) else None
    writer = (StagedSlices if schedule.staged(types) else SliceWriter)(op, schedule)
    # The products of every CTA that shares this one's copies empty a stage.
    down, across = schedule.cluster
    stages = tile.make_ring(
        schedule.stages, consumers=down + across - 1, emptied_by="mma", cta_group=schedule.cta_group
    )
    shared = schedule.shared_columns(types)
    # Warps of the epilogue that share columns take turns as the ring's only stage: it's empty when the
    # shared columns have been read, and with them all columns of the accumulator before.
    full = tile.make_ring(
        schedule.accumulators if shared == 0 else 1,
        consumers=schedule.epilogues * WARPS,
        filled_by="mma",
        emptied_by="warps",
        cta_group=schedule.cta_group,
    )
    # Those that copy, multiply and finish, and that with words of scales, read which tiles there are.
    answers, readers = None, 2 + (types.words > 0) + WARPS * schedule.epilogues
    if schedule.dynamic:
        answers = tile.make_ring(ANSWERS, filled_by="clc", emptied_by="warps", consumers=readers)
    if words is not None:
        words.make_ring()
    # Then the parts that use it.
    tiles = Tiles(op, schedule, answers)
    feed = Feed(stages, tiles, types, operands, scales if isinstance(scales, TensorScales) else None)
    if scales is not None:
        scales.half = tiles.half
    if schedule.cluster != (1, 1) and schedule.cta_group == 1:
        begin_cluster()
    with tile.tensor_memory(warp=ALLOCATING, cta_group=schedule.cta_group):
        sums = TensorSums(schedule, types, shared)
        if scales is not None:
            scales.allocate()
        products = Products(feed, full, sums, types, scales)
        epilogue = Epilogue(op, tiles, full, sums, writer)
        first, others = schedule.registers(types)
        # The epilogue comes first: ptxas gives the code of a later branch fewer registers.
        with tile.role(1, schedule.epilogues, registers=others) as warpgroup:
            await_previous_launch()
            nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)
            tiles.walk(_zeros(3), lambda at, carried: epilogue.run(at, carried, warpgroup))
            epilogue.consumer.finish()
        with tile.role(0, 1, registers=first) if first else nullcontext():
            _feed_tensor_cores(tiles, feed, products, words, types.grouped)
    if schedule.cluster != (1, 1):
        meet_cluster()  # peers copy into this CTA's memory and signal its ring until they end


def _feed_tensor_cores(
    tiles: Tiles[TensorMemorySchedule],
    feed: Feed[TensorMemorySchedule],
    products: "Products",
    words: WordScales | None,
    waits: bool,
) -> None:
    """The roles of the first warpgroup's warps. They wait for the launch before where that may have written
    which tiles there are (`waits`).
    """
    schedule = products.schedule
    with tile.role(COPYING, warps=1), thread_ids.elected():
        if waits:
            await_previous_launch()
        # Nothing may signal the memory of a CTA that has exited.
        tile.drain(feed.ring, *tiles.walk(_zeros(2), feed.fill, late=True))
    if words is not None:  # a warp writes scales to shared memory
        with tile.role(ALLOCATING, warps=1):
            await_previous_launch()
            words.drain(tiles.walk(_zeros(2), words.fill))
    with tile.role(MULTIPLYING, warps=1):
        alone = thread_ids.elected_if(not products.by_warp)
        with thread_ids.leader() if schedule.cta_group > 1 else nullcontext(), alone:
            if waits:
                await_previous_launch()
            tiles.walk(_zeros(6 if words else 4), products.multiply, late=not products.by_warp)
        if schedule.dynamic and schedule.cta_group > 1:
            with emit.when(emit.negate(thread_ids.leads_pair())), thread_ids.elected():
                tiles.walk([], lambda at, carried: carried)  # it must read all answers
    if isinstance(tiles.order, DynamicOrder):
        with tile.role(ASSIGNING, warps=1), emit.when(emit.equal(tiles.rank, 0)), thread_ids.elected():
            await_previous_launch()  # CTAs that start before it ends would take over most tiles
            tiles.order.ask()


class Products:
    """The products of a tile, for the thread that issues them, or its warp, which sets to zero what follows
    a group along K. If they are promoted, those of each K block have an accumulator of their own.
    """

    def __init__(
        self,
        feed: Feed[TensorMemorySchedule],
        full: ir.Value,
        sums: TensorSums,
        types: Types,
        scales: TensorScales | WordScales | None,
    ) -> None:
        self.scales = scales
        self.promoted = types.promoted
        self.by_warp = types.divides_k_blocks
        self.feed, self.full, self.sums = feed, full, sums
        self.schedule = sums.schedule
        down, across = self.schedule.cluster
        self._mask = feed.tiles.reached() if down * across > 1 else None

    def multiply(self, at: Tile, carried: list[ir.Value]) -> list[ir.Value]:
        """Multiplies all K blocks of a tile into the next accumulators; `carried` are the positions of the
        ring of stages, of that of words if there is one, and of that of accumulators. Returns the next ones.
        """
        assert at.k_span is not None
        begin, end = at.k_span

        def promoted(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            stages, accumulator = carried[:2], carried[2:]
            tile.acquire(self.full, *accumulator)
            stages = self._block(at, number, accumulator[0], emit.constant(emit.i1(), 0), stages)
            tile.commit(self.full, accumulator[0])
            return [*stages, *tile.advance(self.full, *accumulator)]

        if self.promoted:
            return emit.loop(begin, end, 1, carried, promoted)
        stages, accumulator = carried[:-2], carried[-2:]
        tile.acquire(self.full, *accumulator)
        slot = self.sums.slot(*accumulator)
        stages = emit.loop(
            *(begin, end, 1, stages),
            lambda number, stages: self._block(at, number, slot, emit.less(begin, number), stages),
        )
        with thread_ids.elected_if(self.by_warp):
            tile.commit(self.full, accumulator[0])
        return [*stages, *tile.advance(self.full, *accumulator)]

    def _block(
        self, at: Tile, number: ir.Value, slot: ir.Value, accumulate: ir.Value, position: list[ir.Value]
    ) -> list[ir.Value]:
        """Multiplies K block `number`, at a position of the ring of stages, after which that of the words may
        follow; returns the next position.
        """
        (stage, phase), of_words = position[:2], position[2:]
        left, right, rows = self.feed.left, self.feed.right, min(self.schedule.cta_rows, LANES)
        tile.await_(self.feed.ring, stage, phase)
        if at.k_count is not None:
            with self.feed.clears(at, number, stage, thread_ids.lane(), WARP_LANES):
                nvvm.SyncWarpOp(emit.value(-1))
        if self.scales is not None:
            of_words = self.scales.load(at, number, stage, of_words)
        with thread_ids.elected_if(self.by_warp):
            for part in range(self.schedule.parts):
                scales = {} if self.scales is None else self.scales.of_part(part, at, number)
                tile.gemm_async(
                    left.part(stage, part * rows, rows),
                    right.part(stage, 0, right.extent),
                    self.sums.part(slot, part),
                    accumulate,
                    transpose_a=not left.k_major,
                    transpose_b=right.k_major,
                    cta_group=self.schedule.cta_group,
                    **scales,
                )
            tile.release(self.feed.ring, stage, self._mask)
        return [*tile.advance(self.feed.ring, stage, phase), *of_words]


def _zeros(count: int) -> list[ir.Value]:
    return [emit.value(0) for _ in range(count)]
