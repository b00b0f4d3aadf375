"""Rows of A that a kernel sends to other GPUs while it multiplies: threads of the warpgroup that copies store
them there, which have nothing else to do.

They send one slice of K after the other, so that tiles of the other GPUs can begin with the first one. All
CTAs send a part of each slice, and the last CTA to finish one raises its flags.
"""

from functools import partial

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.isa.chips import LANES, WARPGROUP
from weft.mlir import arith, gpu, ir, memref, nvvm, vector
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import await_previous_launch, meet_producers, meet_senders
from weft.passes.kernels.matrices import VECTOR_BYTES, element_bytes, size
from weft.passes.kernels.team import ARRIVED, CALL, SLICES, each_other
from weft.passes.kernels.team_sums import DATA, FLAGS
from weft.passes.kernels.tile_order import element
from weft.passes.kernels.tiles import Tiles

SENDERS = WARPGROUP - LANES  # threads: all warps but the one that copies
_AT_ONCE = 2  # vectors that a thread loads before it stores them


class RowSender:
    """Sends this GPU's rows of A."""

    def __init__(self, op: MatmulOp, tiles: Tiles[WarpgroupSchedule]) -> None:
        """Reads sizes at the insertion point."""
        assert tiles.team is not None
        roles, schedule = op.roles, tiles.schedule
        self._a, self._team, self._state, self._peers = op.a, tiles.team, roles["team"], roles["peers"]
        self._rows, self._columns = size(op.a, 0), size(op.a, 1)
        self._members, self._slices = size(self._peers, 0), size(roles["arrivals"], -1)
        self._width = VECTOR_BYTES // element_bytes(op.a)
        blocks = emit.ceil_div(tiles.k_blocks, self._slices)
        self._slice_columns = emit.mul(blocks, schedule.block[2])
        self._ctas = emit.as_i32(gpu.grid_dim(gpu.Dimension.x))

    @staticmethod
    def of(op: MatmulOp, tiles: Tiles[WarpgroupSchedule]) -> "RowSender | None":
        """The sender of a product that sends its rows; otherwise None."""
        return RowSender(op, tiles) if op.is_sending else None

    def begin(self) -> ir.Value:
        """Reads the number of the call, after the launch before, and counts it once all of this GPU's CTAs
        have read it; for all threads of the warpgroup that copies.
        """
        await_previous_launch()
        call = emit.add(element(self._state, CALL), 1)
        meet_producers()
        first = emit.equal(emit.thread(), LANES)
        with emit.when(first), emit.when(tile.is_last(self._state, emit.value(ARRIVED), self._ctas)):
            memref.store(call, self._state, [emit.as_index(CALL)])
        return call

    def send(self, call: ir.Value) -> None:
        """Sends all slices, in the warps that don't copy."""
        half = emit.mul(emit.bit_and(call, 1), self._members)
        matrix = emit.mul(emit.add(half, self._team.rank), emit.mul(self._rows, self._columns))

        def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            self._send_slice(number, matrix)
            meet_senders(SENDERS)
            self._signal(number, call)
            return carried

        warp = emit.uniform(emit.div(emit.thread(), LANES))
        with emit.when(emit.less(0, warp)):
            emit.loop(0, self._slices, 1, [], one)

    def _send_slice(self, number: ir.Value, matrix: ir.Value) -> None:
        """Stores this CTA's part of a slice in the memory of all other GPUs."""
        begin = emit.minimum(emit.mul(number, self._slice_columns), self._columns)
        columns = emit.minimum(emit.sub(self._columns, begin), self._slice_columns)
        in_row = emit.maximum(emit.div(columns, self._width), 1)
        vectors = emit.mul(self._rows, emit.div(columns, self._width))
        kind = ir.VectorType.get([self._width], self._a.type.element_type)
        cta, step = emit.as_i32(gpu.block_id(gpu.Dimension.x)), emit.mul(self._ctas, SENDERS)
        first = emit.add(emit.mul(cta, SENDERS), emit.sub(emit.thread(), LANES))
        last = emit.sub(vectors, 1)

        def some(start: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            numbers = [emit.add(start, emit.mul(step, each)) for each in range(_AT_ONCE)]
            places = list[tuple[ir.Value, ir.Value]]()
            for each in numbers:
                inside = emit.minimum(each, last)
                column = emit.add(begin, emit.mul(emit.rem(inside, in_row), self._width))
                places.append((emit.div(inside, in_row), column))
            found = [
                vector.LoadOp(kind, self._a, [*map(emit.as_index, at)], alignment=VECTOR_BYTES).result
                for at in places
            ]
            store = partial(self._store, matrix, numbers, vectors, places, found)
            each_other(self._team.rank, self._members, store)
            return carried

        emit.loop(first, vectors, emit.mul(step, _AT_ONCE), [], some)

    def _store(
        self,
        matrix: ir.Value,
        numbers: list[ir.Value],
        vectors: ir.Value,
        places: list[tuple[ir.Value, ir.Value]],
        found: list[ir.Value],
        member: ir.Value,
    ) -> None:
        """Stores vectors in the memory of a GPU."""
        to = tile.remote(self._address(member, DATA), self._a.type.element_type)
        for number, (row, column), value in zip(numbers, places, found, strict=True):
            with emit.when(emit.less(number, vectors)):
                at = emit.add(matrix, emit.mul(row, self._columns), column)
                vector.StoreOp(value, to, [emit.as_index(at)], alignment=VECTOR_BYTES)

    def _signal(self, number: ir.Value, call: ir.Value) -> None:
        """Raises the flags of a slice, one for each other GPU, in the last CTA that has sent its part: each
        lane of a warp raises one of them.
        """
        with emit.when(emit.less(emit.thread(), 2 * LANES)):
            lane = thread_ids.lane()

            def arrive() -> list[ir.Value]:
                counter = emit.value(emit.add(number, SLICES))
                last = tile.is_last(self._state, counter, self._ctas)
                return [arith.extui(emit.i32(), last)]

            def nothing() -> list[ir.Value]:
                return [emit.value(0)]

            (last,) = emit.either(emit.equal(lane, 0), [emit.i32()], arrive, nothing)
            last = emit.of_lane(last, 0)
            nvvm.SyncWarpOp(emit.value(-1))  # lanes see what lane 0 has seen
            other = arith.andi(emit.less(lane, self._members), emit.negate(emit.equal(lane, self._team.rank)))
            with emit.when(arith.andi(other, emit.equal(last, 1))):
                flags = tile.remote(self._address(lane, FLAGS), emit.i32())
                flag = emit.add(emit.mul(self._team.rank, self._slices), number)
                tile.signal(flags, emit.value(flag), call)

    def _address(self, member: ir.Value, which: int) -> ir.Value:
        """An address of a GPU's memory: of its rows or its flags."""
        at = [emit.as_index(member), arith.constant(ir.IndexType.get(), which)]
        return memref.load(self._peers, at)
