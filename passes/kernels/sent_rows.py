"""Rows of A that a kernel sends to other GPUs while it multiplies: threads of the warpgroup that copies store
them there, which have nothing else to do.

They send one slice of K after the other, so that tiles of the other GPUs can begin with the first one. All
CTAs send a part of each slice, and the last CTA to finish one raises its flags.
"""

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.isa.chips import LANES, WARPGROUP
from weft.mlir import arith, gpu, ir, nvvm, vector
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import await_previous_launch, meet_producers, meet_senders
from weft.passes.kernels.matrices import VECTOR_BYTES, element_bytes, size
from weft.passes.kernels.team import SLICES, each_other
from weft.passes.kernels.tiles import Tiles

SENDERS = WARPGROUP - LANES  # threads: all warps but the one that copies
_AT_ONCE = 2  # vectors that a thread loads before it stores them


class RowSender:
    """Sends this GPU's rows of A."""

    def __init__(self, op: MatmulOp, tiles: Tiles[WarpgroupSchedule]) -> None:
        """Reads sizes at the insertion point."""
        assert tiles.team is not None
        roles, schedule = op.roles, tiles.schedule
        self._a, self._team, self._state = op.a, tiles.team, roles["team"]
        self._rows, self._columns = size(op.a, 0), size(op.a, 1)
        self._members, self._slices = tiles.team.members, size(roles["arrivals"], -1)
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
        call = emit.add(self._team.call(), 1)
        meet_producers()
        with emit.when(emit.equal(emit.thread(), LANES)):
            self._team.count(call, self._ctas)
        return call

    def send(self, call: ir.Value) -> None:
        """Sends all slices, in the warps that don't copy."""
        half = emit.mul(emit.bit_and(call, 1), self._members)
        matrix = emit.mul(emit.add(half, self._team.rank), emit.mul(self._rows, self._columns))

        warp = emit.uniform(emit.div(emit.thread(), LANES))
        with emit.when(emit.less(0, warp)), emit.each(0, self._slices) as number:
            self._send_slice(number, matrix)
            meet_senders(SENDERS)
            self._signal(number, call)

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

        with emit.each(first, vectors, emit.mul(step, _AT_ONCE)) as start:
            numbers = [emit.add(start, emit.mul(step, each)) for each in range(_AT_ONCE)]
            coordinates = list[tuple[ir.Value, ir.Value]]()
            for each in numbers:
                inside = emit.minimum(each, last)
                column = emit.add(begin, emit.mul(emit.rem(inside, in_row), self._width))
                coordinates.append((emit.div(inside, in_row), column))
            loaded = [
                vector.LoadOp(kind, self._a, [*map(emit.as_index, at)], alignment=VECTOR_BYTES).result
                for at in coordinates
            ]

            def store(member: ir.Value) -> None:
                to = self._team.data(member, self._a.type.element_type)
                for each, (row, column), value in zip(numbers, coordinates, loaded, strict=True):
                    with emit.when(emit.less(each, vectors)):
                        at = emit.add(matrix, emit.mul(row, self._columns), column)
                        vector.StoreOp(value, to, [emit.as_index(at)], alignment=VECTOR_BYTES)

            each_other(self._team.rank, self._members, store)

    def _signal(self, number: ir.Value, call: ir.Value) -> None:
        """Raises the flags of a slice, one for each other GPU, in the last CTA that has sent its part: each
        lane of a warp raises one of them.
        """
        with emit.when(emit.less(emit.thread(), 2 * LANES)):
            lane = thread_ids.lane()

            def arrive() -> list[ir.Value]:
                counter = emit.value(emit.add(number, SLICES))
                return [arith.extui(emit.i32(), tile.is_last(self._state, counter, self._ctas))]

            (last,) = emit.either(emit.equal(lane, 0), [emit.i32()], arrive, lambda: [emit.value(0)])
            last = emit.of_lane(last, 0)
            nvvm.SyncWarpOp(emit.value(-1))  # lanes see what lane 0 has seen
            other = arith.andi(emit.less(lane, self._members), emit.negate(emit.equal(lane, self._team.rank)))
            with emit.when(arith.andi(other, emit.equal(last, 1))):
                flags = self._team.flags(lane)
                flag = emit.add(emit.mul(self._team.rank, self._slices), number)
                tile.signal(flags, emit.value(flag), call)
