"""The part of a kernel that adds up what several CTAs have computed of a tile, and has it written.

In a cluster, CTAs multiply a K slice each and add up their sums through shared memory: each stores the sums
of the tile in the order of D, over stages that it no longer needs. Then each adds up some of the rows,
reading the same vectors of all CTAs, contiguous from lane to lane.

Through global memory, CTAs or clusters write the sums of their slice of a tile, in vectors that the same
thread of every CTA reads again. Once all are there, each adds up a share of the tile's columns, in the
order of the slices.

With stream-K, the CTA with a tile's first slice adds the others to it. The others write theirs and
continue. The first waits for them for a while with its own sums in registers; if it gives up, it writes its
own too, and the last CTA to finish adds all slices, in the same order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from math import gcd
from typing import Any

from weft.dialects import tile
from weft.dialects.launch_contract import CTA_WORKSPACE, WORKSPACE
from weft.dialects.op import refuse
from weft.dialects.product_types import Types
from weft.dialects.schedule import OTHER_REGISTERS, WarpgroupSchedule
from weft.dialects.tile import BufferType, FragmentType, MatmulOp
from weft.dialects.tile_limits import COUNTER_STRIDE
from weft.isa.chips import LANES, WARPGROUP, WARPS, register_share
from weft.mlir import arith, ir, memref, nvvm, vector
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.accumulator import sums_type
from weft.passes.kernels.cluster import meet_cluster, meet_consumers
from weft.passes.kernels.epilogue import Finisher
from weft.passes.kernels.fragments import add
from weft.passes.kernels.tile_order import Corner, Slices, StreamOrder, Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import Writer, oriented

VECTOR = 4
"""Contiguous sums that a lane reads at once."""


def workspace_types(element: ir.Type) -> list[ir.Type]:
    """The types of the arguments that a kernel with K slices has after its own: vectors of sums, a row of
    which has one for each thread of a warpgroup, and counters.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    sums = ir.MemRefType.get([dynamic, WARPGROUP], ir.VectorType.get([VECTOR], element))
    return [sums, ir.MemRefType.get([dynamic], emit.i32())]


Write = Callable[[ir.Value, ir.Value | int], object]
"""Writes a fragment of a warpgroup's sums, by its first column among them."""


class Reduction:
    """Takes a warpgroup's sums of a tile. It builds its memory first, at the insertion point."""

    tiles: Tiles[WarpgroupSchedule]

    def use(self, tiles: Tiles[WarpgroupSchedule]) -> None:
        """Reads sizes at the insertion point."""
        self.tiles = tiles

    def begin(self) -> list[ir.Value]:
        """The values that a warpgroup keeps from one tile to the next, before the first."""
        return []

    def prepare(self, at: Tile, corner: Corner, kept: list[ir.Value]) -> None:
        """Asks L2, before a tile's products, for what `collect` will read."""
        return

    def collect(self, sums: ir.Value, at: Tile, corner: Corner, kept: list[ir.Value]) -> list[ir.Value]:
        """Takes a warpgroup's sums of a tile, and what the warpgroup keeps. Returns what it keeps then."""
        raise NotImplementedError

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        """Ends the consumers' role, after all tiles, with what the warpgroup keeps."""
        return

    def assist(self) -> None:
        """What warps of the warpgroup that copies do, all but the first one."""
        return

    def finish_producer(self) -> None:
        """Ends the producer's role."""
        return

    def finish(self) -> None:
        """Ends the kernel, in all threads."""
        return


class NoReduction(Reduction):
    """One CTA computes all of a tile, and writes it."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def use(self, tiles: Tiles[WarpgroupSchedule]) -> None:
        self.preloads = self.writer.preload()

    def begin(self) -> list[ir.Value]:
        return [emit.value(0)] if self.preloads else []

    def prepare(self, at: Tile, corner: Corner, kept: list[ir.Value]) -> None:
        self.writer.ask(corner)

    def collect(self, sums: ir.Value, at: Tile, corner: Corner, kept: list[ir.Value]) -> list[ir.Value]:
        phase = self.writer.write(sums, corner, *kept)
        return [phase] if self.preloads else []

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        self.writer.finish()


class ClusterReduction(Reduction):
    """Adds up the sums of a cluster's CTAs, after the one tile that each has computed a K slice of, in a tile
    of sums in the shared memory of each, with the rows and columns of D.
    """

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule, element: ir.Type, over: ir.Value) -> None:
        """Builds the buffer over the buffer `over` and those after it."""
        self.op, self.schedule = op, schedule
        rows, columns = shape = schedule.swapped(*schedule.block[:2])
        layout = f"S[({rows},{columns}):({schedule.sums_stride},1)]"
        self.buffer = tile.alloc(BufferType.of(shape, element, layout), over=over)
        rows = rows // schedule.splits
        each = schedule.warpgroups
        # Rows and columns that one warpgroup adds up.
        self._part = (rows, columns // each) if schedule.swap else (rows // each, columns)
        self._fragment = FragmentType.of(self._part, element, share_layout(*self._part))

    def collect(self, sums: ir.Value, at: Tile, corner: Corner, kept: list[ir.Value]) -> list[ir.Value]:
        meet_consumers(self.schedule.warpgroups)  # all have read the stages that the sums overwrite
        sums = oriented(sums, self.schedule)
        row, column = self.schedule.swapped(emit.mul(corner.warpgroup, self.schedule.rows), 0)
        # A lane's pairs of sums are contiguous in a row of D, except with `swap`.
        width = 0 if self.schedule.swap else 8
        tile.store(sums, self.buffer, emit.value(row), emit.value(column), vector_bytes=width)
        return kept

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        meet_cluster()
        rank = self.tiles.rank
        (down, right) = self._origin(warpgroup)
        row, column = emit.value(down), emit.value(right)
        parts = (
            tile.load(each, row, column, self._fragment, vector_bytes=4 * VECTOR)
            for each in self._peers(rank)
        )
        total = tile.from_lane(reduce(add, map(tile.to_lane, parts)), self._fragment)
        nvvm.ClusterArriveOp()  # the peers' sums have been read
        m, n, _ = self.schedule.block
        at = self.tiles.first()
        row, column = self.schedule.swapped(emit.mul(at.row, m), emit.mul(at.column, n))
        down, right = self._origin(warpgroup)
        start = emit.value(emit.add(row, down)), emit.value(emit.add(column, right))
        Finisher(self.op, at.member, 2).store(total, *start, stored=VECTOR)

    def _origin(self, warpgroup: ir.Value) -> tuple[ir.Value, ir.Value | int]:
        """The row and column in the tile where a warpgroup begins to add up."""
        (rows, columns), rank = self._part, self.tiles.rank
        if self.schedule.swap:
            return emit.mul(rank, rows), emit.mul(warpgroup, columns)
        return emit.mul(emit.add(emit.mul(rank, self.schedule.warpgroups), warpgroup), rows), 0

    def _peers(self, rank: ir.Value) -> Iterator[ir.Value]:
        """The sums of all CTAs. Each begins with its own, so that they don't all read the same memory."""
        for step in range(self.schedule.splits):
            peer = emit.rem(emit.add(rank, step), self.schedule.splits)
            yield tile.peer(self.buffer, emit.value(peer))

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


@dataclass(frozen=True)
class ThreadSums:
    """How the threads of `warpgroups` hold the sums of a tile: `vectors` of four each, `across` of which are
    side by side in a row. Each of these belongs to `unit` columns of the tile. `fragment` returns the type of
    a warpgroup's sums of so many columns.
    """

    warpgroups: int
    vectors: int
    across: int
    unit: int
    fragment: Callable[[int], ir.Type]

    @staticmethod
    def of_warpgroups(schedule: WarpgroupSchedule, types: Types) -> "ThreadSums":
        """Those in the accumulators of `wgmma`."""
        across = schedule.block[1] // 8
        return ThreadSums(
            schedule.warpgroups, schedule.vectors, across, 8, partial(sums_type, schedule, types)
        )

    def widest(self, columns: int, most: int) -> int:
        """The largest divisor of `columns` vectors side by side that have at most `most` sums of a thread, at
        least 1.
        """
        each = VECTOR * self.vectors // self.across
        return max(w for w in range(1, columns + 1) if columns % w == 0 and (w * each <= most or w == 1))


class Slots:
    """The memory that a launch provides for sums: a slot for each slice of a tile, and counters."""

    attribute = WORKSPACE
    at_once: int  # vectors side by side that are added up at once

    def __init__(self, op: MatmulOp, element: ir.Type, held: ThreadSums) -> None:
        """Raises WeftError for an `op` whose kernel has no such memory."""
        self.held, self.across = held, held.across
        kernel = op.operation.parent.opview
        arguments, wanted = kernel.body.blocks[0].arguments, workspace_types(element)
        if not self.attribute.on(kernel) or [a.type for a in arguments][-2:] != wanted:
            kinds = " and ".join(map(str, wanted))
            raise refuse(
                op, f"expects a kernel with '{self.attribute.name}' whose last arguments are {kinds}"
            )
        self.sums, self.counters = list(arguments)[-2:]
        self.element = element

    def write(self, lane: ir.Value, slot: ir.Value, number: ir.Value, first: int = 0) -> None:
        """Writes a thread's sums to a slot: those of a tile, or those from vector `first` on."""
        numbers = emit.elements(lane)
        kind = self.sums.type.element_type
        row = emit.as_index(emit.add(self._row(slot, number), first))
        thread = emit.as_index(emit.rem(emit.thread(), WARPGROUP))
        for index in range(len(numbers) // VECTOR):
            run = list(numbers[VECTOR * index : VECTOR * (index + 1)])
            memref.store(vector.from_elements(kind, run), self.sums, [_further(row, index), thread])

    def read(self, slot: ir.Value, number: ir.Value, column: ir.Value) -> ir.Value:
        """A thread's sums of a slot from the column of vectors `column` on: a vector."""
        thread = emit.as_index(emit.rem(emit.thread(), WARPGROUP))
        first, numbers = emit.as_index(emit.add(self._row(slot, number), column)), list[ir.Value]()
        for index in self.vectors(0):
            numbers += emit.elements(memref.load(self.sums, [_further(first, index), thread]))
        return vector.from_elements(ir.VectorType.get([len(numbers)], self.element), numbers)

    def fragment(self, total: ir.Value, piece: ir.Value) -> tuple[ir.Value, ir.Value]:
        """A thread's sums of a piece as a fragment, and the piece's first column in the tile."""
        columns = self.held.unit * self.at_once
        return tile.from_lane(total, self.held.fragment(columns)), emit.mul(piece, columns)

    def vectors(self, column: int) -> list[int]:
        """The indices of a thread's vectors of sums in the columns of vectors from `column` on."""
        return [
            down + column + across
            for down in range(0, self.held.vectors, self.across)
            for across in range(self.at_once)
        ]

    def counter(self, block: ir.Value | int, number: ir.Value) -> ir.Value:
        """The counter of this warp of a warpgroup, for a tile."""
        warpgroup = emit.add(emit.mul(block, self.held.warpgroups), number)
        return emit.mul(emit.add(emit.mul(warpgroup, WARPS), thread_ids.warp()), COUNTER_STRIDE)

    def claimed(self, slices: Slices, number: ir.Value, shares: int) -> ir.Value:
        """Signals that this warp's slice is written; returns the mask of the tile's shares that it must add
        up.
        """
        index = self.counter(slices.tile, number)
        party, parties = emit.value(slices.number), emit.value(slices.count)
        return tile.claim(self.counters, emit.value(index), party, parties, shares=shares)

    def _row(self, slot: ir.Value, number: ir.Value) -> ir.Value:
        """The first row of a warpgroup's sums in a slot."""
        return emit.mul(emit.add(emit.mul(slot, self.held.warpgroups), number), self.held.vectors)


class GlobalSums(Slots):
    """The sums of all slices of a tile."""

    def __init__(self, op: MatmulOp, element: ir.Type, held: ThreadSums, dealt: tuple[int, int]) -> None:
        """`dealt` has the columns of vectors in a piece, and the number of CTAs that add up pieces. Raises
        WeftError for an `op` whose kernel has no such memory.
        """
        super().__init__(op, element, held)
        self.at_once, self._shares = dealt

    @staticmethod
    def slices(at: Tile, tiles: Tiles[Any]) -> Slices:
        """The K slices of the tile that this CTA computes one of."""
        count = tiles.schedule.global_splits
        block = emit.add(emit.mul(at.number, tiles.schedule.ctas), tiles.rank)
        return Slices(block, at.slice, count, emit.mul(block, count))

    def add_up(self, slices: Slices, number: ir.Value, write: Write) -> None:
        """Waits for the other slices, adds up the pieces of this warp's shares, and writes them. The pieces
        of a share are as far apart as there are shares. They are added slice by slice, so that the result
        doesn't depend on the order in which CTAs finish.
        """
        claimed = self.claimed(slices, number, self._shares)

        with emit.each(0, self._shares) as share:
            mine = emit.equal(emit.bit_and(arith.shrui(claimed, share), 1), 1)
            with emit.when(mine), emit.each(share, self.across // self.at_once, self._shares) as piece:
                column, slots = emit.mul(piece, self.at_once), range(slices.count)
                parts = [self.read(emit.add(slices.slot, each), number, column) for each in slots]
                write(*self.fragment(reduce(add, parts), piece))


class GlobalReduction(Reduction):
    """Adds up the sums of all K slices of a tile, each warp a share of its columns."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule, element: ir.Type) -> None:
        held = ThreadSums.of_warpgroups(schedule, op.types)
        self.sums = GlobalSums(op, element, held, schedule.dealt)
        self.writer = Writer(op, schedule)

    def collect(self, sums: ir.Value, at: Tile, corner: Corner, kept: list[ir.Value]) -> list[ir.Value]:
        slices, warpgroup = self.sums.slices(at, self.tiles), corner.warpgroup
        self.sums.write(tile.to_lane(sums), emit.add(slices.slot, slices.number), warpgroup)
        self.sums.add_up(slices, warpgroup, self.writer.write_part(corner))
        return kept


def _further(index: ir.Value, distance: int) -> ir.Value:
    return arith.addi(index, arith.constant(ir.IndexType.get(), distance))


_LOADED = 8, 32  # sums that a thread loads of a slice: at least, and at most


def columns_at_once(schedule: WarpgroupSchedule, held: ThreadSums) -> int:
    """The columns of vectors that are added up at once: two slices of them must fit in registers beside all
    sums of the first slice.
    """
    registers = schedule.registers[1] or register_share(schedule.threads)
    free = (registers - OTHER_REGISTERS - VECTOR * schedule.vectors) // 2
    return held.widest(held.across, min(max(free, _LOADED[0]), _LOADED[1]))


class StreamSums(Slots):
    """The sums of the tiles that CTAs share."""

    attribute = CTA_WORKSPACE

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule, element: ir.Type) -> None:
        """Raises WeftError for an `op` whose kernel has no such memory."""
        super().__init__(op, element, ThreadSums.of_warpgroups(schedule, op.types))
        self.at_once = columns_at_once(schedule, self.held)
        self._pieces = self.across // self.at_once

    def put(self, lane: ir.Value, slices: Slices, number: ir.Value) -> ir.Value:
        """Writes a thread's sums of a slice, unless it is the first slice and all others arrive in time.
        Returns whether they did, an i1.
        """

        def others_are_there() -> list[ir.Value]:
            index, count = emit.value(self.counter(slices.tile, number)), emit.value(slices.count)
            return [tile.await_others(self.counters, index, count)]

        first, i1 = emit.equal(slices.number, 0), emit.i1()
        (kept,) = emit.either(first, [i1], others_are_there, lambda: [emit.constant(i1, 0)])
        with emit.when(emit.negate(kept)):
            self.write(lane, emit.add(slices.slot, slices.number), number)
        return kept

    def add_up(self, lane: ir.Value, kept: ir.Value, slices: Slices, number: ir.Value, write: Write) -> None:
        """Adds up and writes the pieces of a tile, in the warp that does: the first slice's, or the last to
        finish. The sums of the first slice are in `lane` where `kept`.
        """
        has = emit.equal(self.claimed(slices, number, shares=1), 1)
        with emit.when(has), emit.each(0, self._pieces) as piece:
            write(*self.fragment(self._total(lane, kept, slices, piece, number), piece))

    def _total(
        self, lane: ir.Value, kept: ir.Value, slices: Slices, piece: ir.Value, number: ir.Value
    ) -> ir.Value:
        """A thread's sums of a piece, added slice by slice. Each is loaded while the one before is added."""
        own = self._own(lane, piece)
        (begun,) = emit.either(
            kept, [own.type], lambda: [own], lambda: [self._slice(slices, 0, piece, number)]
        )

        def next_slice(each: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            loaded = self._slice(slices, each, piece, number)
            return [add(*carried), loaded]

        carried = [begun, self._slice(slices, 1, piece, number)]
        return add(*emit.loop(2, slices.count, 1, carried, next_slice))

    def _own(self, lane: ir.Value, piece: ir.Value) -> Any:
        """A piece of a thread's sums in registers. These have no index, and separate code for each piece
        would take longer to fetch than to run.
        """
        elements, chosen = emit.elements(lane), None
        for number in range(self._pieces):
            vectors = self.vectors(number * self.at_once)
            run = [each for v in vectors for each in elements[VECTOR * v : VECTOR * (v + 1)]]
            each = vector.from_elements(ir.VectorType.get([len(run)], self.element), run)
            chosen = each if chosen is None else arith.select(emit.equal(piece, number), each, chosen)
        return chosen

    def _slice(self, slices: Slices, slice_: ir.Value | int, piece: ir.Value, number: ir.Value) -> ir.Value:
        return self.read(emit.add(slices.slot, slice_), number, emit.mul(piece, self.at_once))


class StreamReduction(Reduction):
    """Writes whole tiles, and adds up the slices of the others."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule, element: ir.Type, writer: Writer) -> None:
        self.sums = StreamSums(op, schedule, element)
        self.writer = writer
        self.direct = Writer(op, schedule)

    def collect(self, sums: ir.Value, at: Tile, corner: Corner, kept: list[ir.Value]) -> list[ir.Value]:
        assert at.k_span is not None
        begin, end = at.k_span
        lane = tile.to_lane(sums)

        def add_up() -> None:
            assert isinstance(self.tiles.order, StreamOrder)
            slices = self.tiles.order.slices(at.number)
            has_own = self.sums.put(lane, slices, corner.warpgroup)
            self.sums.add_up(lane, has_own, slices, corner.warpgroup, self.direct.write_part(corner))

        is_slice = emit.less(emit.sub(end, begin), self.tiles.k_blocks)
        emit.branch(is_slice, add_up, lambda: self.writer.write(sums, corner))
        return kept

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        self.writer.finish()
