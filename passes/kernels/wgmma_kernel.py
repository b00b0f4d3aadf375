"""The body of a kernel for `wgmma`, in tile ops: what `--expand-matmul` writes for a warpgroup schedule.

One warpgroup copies blocks of A and B by TMA into a ring of stages, the others multiply them. A CTA goes from
tile to tile, so that the copies of the next one run beside the epilogue of this. With splits, the CTAs of a
cluster multiply a part of K each, and add up what they have through their shared memories.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import BufferType, FragmentType, MatmulOp
from weft.isa import wgmma
from weft.isa.chips import WARPGROUP, WARPS
from weft.isa.tensor_map import ROW_BYTES
from weft.layout import Layout
from weft.mlir import arith, gpu, ir, nvvm, scf
from weft.passes.builders import emit, places
from weft.passes.kernels import promoted
from weft.passes.kernels.block_scales import BlockScales
from weft.passes.kernels.cluster_sums import VECTOR, ClusterSums
from weft.passes.kernels.epilogue import finish
from weft.passes.kernels.global_sums import GlobalSums, Slots
from weft.passes.kernels.product import (
    element_bytes,
    map_of_member,
    member,
    pair_bytes,
    panels,
    size,
    sum_type,
    turned,
    unset,
)
from weft.passes.kernels.staged_operand import StagedOperand
from weft.passes.kernels.stream_order import StreamOrder
from weft.passes.kernels.stream_sums import StreamSums
from weft.passes.kernels.tile_order import Body, GroupedOrder, MaskedOrder, Order, Parts, Place, span

_ALL = 15  # the barrier of all that multiply: the last, behind those of the CTA and of each warpgroup
_AnyOrder = Order | GroupedOrder | MaskedOrder | StreamOrder


@dataclass
class WgmmaKernel:
    """The values that all parts of one kernel's body share.

    `left` gives the rows of a block and `right` its columns: A and B, or with `swap` the other way round.
    """

    op: MatmulOp
    schedule: WarpgroupSchedule
    left: StagedOperand
    right: StagedOperand
    # What `emit` builds: parts that not every schedule has, and what all have.
    scales: BlockScales | None = None
    staging: Any = None  # where warpgroups put their parts of D together, and the map of D that stores these
    d_map: Any = None
    cluster_sums: ClusterSums | None = None
    global_sums: GlobalSums | None = None
    stream_sums: StreamSums | None = None
    ring: Any = field(init=False)
    blocks: Any = field(init=False)  # of K
    first: Any = field(init=False)  # tile of this cluster, and how far it is to the next
    step: Any = field(init=False)
    rank: Any = field(init=False)  # of this CTA in its cluster
    place: tuple[Any, Any] = field(init=False)  # row and column in a cluster that shares its copies
    order: _AnyOrder = field(init=False)
    k_first: Any = field(init=False)  # of the tile's blocks (see `Place`), and the one behind the last
    k_end: Any = field(init=False)

    @classmethod
    def of(cls, op: MatmulOp) -> "WgmmaKernel":
        schedule = op.schedule
        assert isinstance(schedule, WarpgroupSchedule)
        m, n, k = schedule.block
        a, b = (op.a, not op.attribute("transpose_a")), (op.b, bool(op.attribute("transpose_b")))
        left, right = (
            StagedOperand(matrix, inside, extent, k, schedule.stages, parts, schedule.global_splits)
            for (matrix, inside), extent, parts in zip(
                schedule.swapped(a, b), (m, n), schedule.cluster[::-1], strict=True
            )
        )
        return cls(op, schedule, left, right)

    def emit(self) -> None:
        """Writes the body at the insertion point."""
        self.left.place()
        self.right.place()
        if self.op.types.scaled:
            self.scales = BlockScales(self)
            self.scales.place()
        self.staging = self._staging()
        if self.schedule.splits > 1:
            self.cluster_sums = ClusterSums(self.schedule, self.sums_type.element_type, self.left.buffer)
        if self.schedule.global_splits > 1:
            self.global_sums = GlobalSums(self.op, self.sums_type.element_type)
        if self.schedule.stream_k:
            self.stream_sums = StreamSums(self.op, self.sums_type.element_type)
        down, across = self.schedule.cluster
        consumers = self.schedule.warpgroups * (down + across - 1) * (WARPS if self.scales else 1)
        self.ring = tile.make_ring(self.schedule.stages, consumers=consumers)
        self._sizes()
        if self._shares:
            _meet_cluster()
        else:
            gpu.barrier()
        copying, multiplying = self.schedule.registers
        # Those that multiply come first: behind a branch ptxas takes less for the same in a warp.
        with tile.role(1, self.schedule.warpgroups, registers=multiplying) as number:
            _await_launch_before()
            nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)
            self._consume(number)
            if self.cluster_sums is not None:
                self._add_up(self.cluster_sums, number)
        with tile.role(0, 1, registers=copying):
            self._produce()
            if self.cluster_sums is not None:
                _meet_cluster()
                nvvm.ClusterArriveOp()
        if self.cluster_sums is not None:
            nvvm.ClusterWaitOp()  # what peers read here must live as long
        elif self._shares:
            _meet_cluster()  # what others copy here, or say of their rings, must not come too late

    @property
    def _shares(self) -> bool:
        """Whether CTAs copy for each other."""
        return self.schedule.cluster != (1, 1)

    def _sizes(self) -> None:
        """Reads the launch's sizes: how many tiles there are, and blocks of K."""
        op, k = self.op, self.schedule.block[2]
        ctas = self.schedule.ctas
        depth = size(op.a, -2 if op.attribute("transpose_a") else -1)
        self.blocks = emit.ceil_div(depth, k)
        cta, count = (emit.as_i32(read(gpu.Dimension.x)) for read in (gpu.block_id, gpu.grid_dim))
        self.first, self.step = emit.div(cta, ctas), emit.div(count, ctas)
        self.rank = emit.rem(cta, ctas)
        self.order = self._order()
        down, across = self.schedule.cluster
        sharing = emit.rem(self.rank, down * across)
        self.place = emit.rem(sharing, down), emit.div(sharing, down)
        self.k_first, self.k_end = 0, self.blocks
        if self.schedule.splits > 1:
            self.k_first, self.k_end = span(self.blocks, self.rank, self.schedule.splits)

    def _order(self) -> _AnyOrder:
        """The tiles, in clusters that share their copies."""
        op, (m, n, _), (down, across) = self.op, self.schedule.block, self.schedule.cluster
        rows, columns = self.schedule.swapped(size(op.d, -2), size(op.d, -1))
        height, width, group = m * down, n * across, self.schedule.group
        members = size(op.d, 0) if op.d.type.rank == 3 else None
        down, across = emit.ceil_div(rows, height), emit.ceil_div(columns, width)
        whole = Order(down, across, group, members, self.schedule.global_splits, self.blocks)
        if self.schedule.stream_k:
            return StreamOrder.of(whole, self.blocks, self.first, self.step)
        if (groups := op.role("groups")) is None:
            return whole
        turned, of_group = self.schedule.swap, width if self.schedule.swap else height
        if members is None:
            return GroupedOrder(whole, groups, of_group, turned)
        most, columns = size(op.d, -2), down if turned else across
        return MaskedOrder(groups, most, members, of_group, columns, group, turned)

    def _staging(self) -> Any:
        """Where the warpgroups put their parts of D together; None where they don't."""
        types, schedule = self.op.types, self.schedule
        if not schedule.staged(types):
            return None
        rows, columns = schedule.swapped(schedule.rows, schedule.block[1])
        layout = panels(rows, columns, types.output_bytes, schedule.warpgroups)
        buffer = tile.alloc(
            BufferType.of((schedule.warpgroups, rows, columns), self.op.d.type.element_type, layout)
        )
        self.d_map = tile.tensor_map(self.op.d, tile.stage_type(buffer.type))
        return buffer

    @property
    def sums_type(self) -> Any:
        """The accumulators of a warpgroup."""
        return self._sums(self.schedule.block[1])

    def _sums(self, columns: int) -> Any:
        """The type of some columns of a warpgroup's accumulators."""
        form = replace(self.schedule, block=(wgmma.M, columns, wgmma.M)).form(self.op.types)
        d, shape = form.operands[0], (self.schedule.rows, columns)
        layout = Layout.parse(d.layout).tile_to(shape, d.shape)
        return FragmentType.of(shape, sum_type(form), layout)

    # The warpgroup that copies

    def _produce(self) -> None:
        """One thread keeps the ring full."""
        with places.one_thread():
            if self.op.types.grouped:
                _await_launch_before()  # which rows there are is read from memory
            self._each_tile([emit.value(0), emit.value(0)], self._copy_tile)

    def _each_tile(self, carried: list[Any], body: Body) -> None:
        """A loop over this CTA's tiles, or over its parts of them."""

        def one(cluster: Place, carried: list[Any]) -> list[Any]:
            if cluster.span is not None:
                self.k_first, self.k_end = cluster.span
            return body(self._in_cluster(cluster), carried)

        self.order.walk(self.first, self.step, carried, one)

    def _in_cluster(self, cluster: Place) -> Place:
        """This CTA's tile of a cluster's."""
        (down, across), (below, beside) = self.schedule.cluster, self.place
        row = emit.add(emit.mul(cluster.row, down), below)
        return replace(cluster, row=row, column=emit.add(emit.mul(cluster.column, across), beside))

    def each_block(
        self,
        carried: list[Any],
        body: Callable[[Any, list[Any]], list[Any]],
        together: int = 1,
    ) -> list[Any]:
        """A loop over the blocks of K behind the first, so many `together` while there are as many; returns
        what it leaves.
        """
        first, end = emit.add(self.k_first, 1), emit.sub(self.k_end, together - 1)
        return emit.loop(first, end, together, carried, body)

    def _copy_tile(self, place: Place, position: list[Any]) -> list[Any]:
        m, n, k = self.schedule.block
        left, right = emit.mul(place.row, m), emit.mul(place.column, n)
        (down, across), (below, beside) = self.schedule.cluster, self.place
        # Those in this CTA's row of the cluster share its rows of blocks, those in its column the columns.
        in_row = _bits(sum(1 << down * other for other in range(across)), below)
        in_column = _bits((1 << down) - 1, emit.mul(beside, down))

        def copy(number: Any, position: list[Any], before: Callable[[], None] = lambda: None) -> list[Any]:
            stage, phase = position
            tile.acquire(self.ring, stage, phase)
            tile.expect(self.ring, stage, self.schedule.copied_bytes(self.op.types))
            block = place.block_of_k(number)
            depth = emit.mul(block, k)
            full = tile.full_barrier(self.ring, stage)
            before()
            self.left.copy(left, depth, place.member, stage, full, beside, in_row)
            self.right.copy(right, depth, place.member, stage, full, below, in_column)
            if self.scales is not None:
                self.scales.copy(place, block, stage, full)
            return list(tile.advance(self.ring, stage, phase))

        # Where the first block lies takes some hundred instructions to reckon: that is done before it waits.
        return self.each_block(copy(self.k_first, position, _await_launch_before), copy)

    # The warpgroups that multiply

    def _consume(self, number: Any) -> None:
        start = emit.mul(number, self.schedule.rows)

        def consume(place: Place, position: list[Any]) -> list[Any]:
            sums, *position = self._multiply(place, start, position)
            m, n, _ = self.schedule.block
            at = emit.add(emit.mul(place.row, m), start), emit.mul(place.column, n)
            if self.cluster_sums is not None:
                self._meet_all()  # the stages that the sums take the place of have been read
                self.cluster_sums.put(self._oriented(sums), number)
            elif self.global_sums is not None:
                self._add_up_globally(self.global_sums, sums, number, place, *at)
            elif self.stream_sums is not None:
                self._add_up_parts(self.stream_sums, sums, number, place, *at)
            else:
                self._write_whole(sums, number, place, *at)
            return position

        self._each_tile([emit.value(0), emit.value(0)], consume)
        if self.staging is not None:
            with places.one_thread():
                nvvm.cp_async_bulk_wait_group(0, read=True)  # what is written is there when the launch ends

    def _write_whole(self, sums: Any, number: Any, place: Place, row: Any, column: Any) -> None:
        """Stores to D what a warpgroup has multiplied of a tile."""
        if self.staging is not None:
            self._write_staged(number, sums, row, column, place.member)
        else:
            self._write(sums, row, column, place.member)

    def _multiply(self, place: Place, start: Any, position: list[Any]) -> list[Any]:
        """All blocks of K of a tile: the sums, and where the ring stands.

        The first block begins the sums: were they set before, on a way around the loop too, ptxas would have
        every product wait for the one before. With `overlaps` a block's products are left under way while
        the next one's start, and a stage is released one block late; two warpgroups run beside each other's
        waits.
        """
        if self.op.types.promoted:
            return promoted.multiply(self, place, start, position)
        late = self.schedule.overlaps

        def multiply(sums: Any, stage: Any, phase: Any, accumulate: int) -> Any:
            tile.await_(self.ring, stage, phase)
            return tile.gemm_async(
                self.left.part(stage, start, self.schedule.rows),
                self.right.part(stage, 0, self.right.extent),
                sums,
                emit.constant(emit.i1(), accumulate),
                transpose_a=not self.left.k_inside,
                transpose_b=self.right.k_inside,
            )

        def further(_: Any, carried: list[Any]) -> list[Any]:
            sums, last, stage, phase = carried
            sums = multiply(sums, stage, phase, 1)
            tile.wait_gemm(pending=int(late))
            self.release(last if late else stage)
            return [sums, stage, *tile.advance(self.ring, stage, phase)]

        stage, phase = position
        sums = multiply(unset(self.sums_type), stage, phase, 0)
        if not late:
            tile.wait_gemm()
            self.release(stage)
        carried = [sums, stage, *tile.advance(self.ring, stage, phase)]
        sums, last, *position = self.each_block(carried, further)
        (sums,) = tile.wait_gemm(sums)
        if late:
            self.release(last)
        return [sums, *position]

    def release(self, stage: Any) -> None:
        """Tells all who copy into this CTA that a stage has been read."""
        (down, across), (below, beside) = self.schedule.cluster, self.place
        by_warps = self.scales is not None  # which lanes read themselves
        if not self._shares:
            tile.release(self.ring, stage, by_warps=by_warps)
            return
        others = [(emit.rem(emit.add(beside, step), across), below) for step in range(across)]
        others += [(beside, emit.rem(emit.add(below, step), down)) for step in range(1, down)]
        for column, row in others:
            rank = emit.value(emit.add(emit.mul(column, down), row))
            tile.release_peer(self.ring, stage, rank, by_warps=by_warps)

    def _oriented(self, sums: Any) -> Any:
        """The sums as a fragment of D: with swap, of the transposed shape."""
        if not self.schedule.swap:
            return sums
        return tile.from_lane(tile.to_lane(sums), turned(sums.type))

    def _write(self, sums: Any, row: Any, column: Any, number: Any) -> None:
        """Stores a block's sums to D from registers, or to number `number` of a batch."""
        row, column = (emit.value(each) for each in self.schedule.swapped(row, column))
        self._store(self._oriented(sums), row, column, number, self._width)

    def _store(self, sums: Any, row: Any, column: Any, number: Any, width: int) -> None:
        """Stores a fragment of D, of which a lane has `width` bytes together in a row (0: one element)."""
        d = member(self.op.d, number)
        for done, below, beside in finish(self.op, sums, row, column, aligned=width > 0, number=number):
            place = emit.value(emit.add(row, below)), emit.value(emit.add(column, beside))
            tile.store(done, d, *place, vector_bytes=width)

    @property
    def _width(self) -> int:
        """The bytes in D of a lane's pairs of sums, where these are neighbours in a row of it; else 0."""
        return 0 if self.schedule.swap else pair_bytes(self.op.d)

    def _write_staged(self, number: Any, sums: Any, row: Any, column: Any, product: Any) -> None:
        """Stores a block's sums to D by TMA, by way of shared memory that the last tile's store has read."""
        row, column = (emit.value(each) for each in self.schedule.swapped(row, column))
        sums, part = self._oriented(sums), tile.stage(self.staging, number)
        # Of 8 bits, pairs are stored; stmatrix stores what has 16.
        width = self._width if self.op.types.output_bytes == 1 else 0
        pieces = finish(self.op, sums, row, column, aligned=self._width > 0, number=product)
        first = next(pieces)  # made while the last tile's store may still read
        with places.one_thread():
            nvvm.cp_async_bulk_wait_group(0, read=True)
        self._meet(number)
        for done, below, beside in chain([first], pieces):
            tile.store(done, part, emit.value(below), emit.value(beside), vector_bytes=width)
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        self._meet(number)
        end = emit.add(column, part.type.shape[1])
        ragged = arith.andi(self.ragged, emit.less(size(self.op.d, -1), end))
        branch = scf.IfOp(ragged, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            tile.copy_out(part, member(self.op.d, product), row, column)
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            with places.one_thread():
                tile.store_async(part, map_of_member(self.op.d, self.d_map, product), row, column)
                nvvm.cp_async_bulk_commit_group()
            scf.yield_([])

    @property
    def ragged(self) -> Any:
        """Whether rows of D end within 16 bytes, all of which TMA would write: an i1."""
        bytes_ = emit.mul(size(self.op.d, -1), element_bytes(self.op.d))
        return emit.less(0, emit.rem(bytes_, ROW_BYTES))

    def _meet(self, number: Any) -> None:
        """A barrier of one warpgroup; 0 is the CTA's."""
        identity = emit.value(emit.add(number, 1))
        nvvm.BarrierOp(barrierId=identity, numberOfThreads=emit.value(WARPGROUP))

    def _meet_all(self) -> None:
        """A barrier of all warpgroups that multiply."""
        threads = emit.value(self.schedule.warpgroups * WARPGROUP)
        nvvm.BarrierOp(barrierId=emit.value(_ALL), numberOfThreads=threads)

    # Splits

    def _add_up(self, sums: ClusterSums, number: Any) -> None:
        """Each CTA of the cluster adds up some of the rows of D, and writes them."""
        _meet_cluster()
        total = sums.total(self.rank, number)
        nvvm.ClusterArriveOp()  # the peers' sums have been read
        m, n, _ = self.schedule.block
        assert isinstance(self.order, Order)  # groups have no splits
        place = self.order.at(self.first)
        row, column = self.schedule.swapped(emit.mul(place.row, m), emit.mul(place.column, n))
        below, beside = sums.place(self.rank, number)
        at = emit.value(emit.add(row, below)), emit.value(emit.add(column, beside))
        self._store(total, *at, place.member, VECTOR * element_bytes(self.op.d))

    def _add_up_globally(
        self, memory: GlobalSums, sums: Any, number: Any, place: Place, row: Any, column: Any
    ) -> None:
        """Writes this part's sums, and of those of all parts to D what is this CTA's."""
        block = emit.add(emit.mul(place.number, self.schedule.ctas), self.rank)
        count = self.schedule.global_splits
        parts = Parts(block, place.part, count, emit.mul(block, count))
        memory.write(tile.to_lane(sums), emit.add(parts.slot, parts.number), number)
        with memory.shares(parts, number) as piece:
            self._write_piece(memory, memory.total(parts, piece, number), piece, place, row, column)

    def _add_up_parts(
        self, memory: StreamSums, sums: Any, number: Any, place: Place, row: Any, column: Any
    ) -> None:
        """Writes to D what is the sum of a whole tile, or of its parts where it falls to this CTA."""
        assert isinstance(self.order, StreamOrder)
        lane = tile.to_lane(sums)
        branch = scf.IfOp(emit.less(emit.sub(self.k_end, self.k_first), self.blocks), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            parts = self.order.parts(place.number)
            kept = memory.put(lane, parts, number)
            with memory.pieces(parts, number) as piece:
                total = memory.total(lane, kept, parts, piece, number)
                self._write_piece(memory, total, piece, place, row, column)
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            self._write_whole(sums, number, place, row, column)
            scf.yield_([])

    def _write_piece(
        self, memory: Slots, total: Any, piece: Any, place: Place, row: Any, column: Any
    ) -> None:
        """Stores to D what a thread has of the sums of a piece of a tile."""
        columns = 8 * memory.together
        beside = emit.add(column, emit.mul(piece, columns))
        self._write(tile.from_lane(total, self._sums(columns)), row, beside, place.member)


def _bits(mask: int, shift: Any) -> Any:
    """`mask << shift` as i16."""
    i16 = ir.IntegerType.get_signless(16)
    if isinstance(shift, int):
        return arith.constant(i16, mask << shift)
    return arith.trunci(i16, arith.shli(emit.value(mask), shift))


def _await_launch_before() -> None:
    """All above runs beside what was queued before; all below may read what that has written."""
    nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.wait)


def _meet_cluster() -> None:
    """All threads of all CTAs of the cluster wait for each other, and see what the others have written."""
    nvvm.ClusterArriveOp()
    nvvm.ClusterWaitOp()
