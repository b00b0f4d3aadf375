"""The part of a matrix that the epilogue loads for a tile. TMA copies it while the tile is multiplied, into
the shared memory in which the tile of D is staged afterwards. Where TMA can't, threads do after the products.
"""

from math import prod

from weft.dialects import tile
from weft.dialects.product_types import ceil_div
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.dialects.tile_limits import STAGE_BARRIER_BYTES
from weft.isa.chips import MOST_SHARED_BYTES
from weft.isa.tensor_map import BOX_ALIGNMENT, ROW_BYTES
from weft.mlir import arith, ir, memref, nvvm
from weft.passes.builders import emit, row_copies, thread_ids
from weft.passes.kernels.cluster import await_stores, meet_warpgroup
from weft.passes.kernels.matrices import element_bytes, ends_ragged, map_of_member, member, misaligned, size
from weft.passes.kernels.tile_order import Corner


class Preload:
    """One matrix, each warpgroup's part of which is copied to where it stages D."""

    def __init__(self, matrix: ir.Value, d: ir.Value, buffer: ir.Value) -> None:
        """Builds the tensor map, and a ring with a stage for each warpgroup, at the insertion point."""
        self.matrix, self.buffer = matrix, buffer
        self.ring = tile.make_ring(buffer.type.shape[0], consumers=1)
        self.map = tile.tensor_map(matrix, tile.stage_type(buffer.type), any_rows=True)
        # Where threads store D, some may still read the buffer when another one begins a copy.
        by_threads = arith.ori(misaligned(d, ROW_BYTES), ends_ragged(d))
        strides = memref.extract_strided_metadata(matrix)[2 + matrix.type.rank : -1]
        columns = emit.as_index(size(matrix, -1))
        apart = [arith.cmpi(arith.CmpIPredicate.sge, stride, columns) for stride in strides]
        taken = emit.negate(misaligned(matrix, ROW_BYTES))
        for each in apart:
            taken = arith.andi(taken, each)
        self.by_tma = arith.andi(taken, emit.negate(by_threads))

    @classmethod
    def of(cls, op: MatmulOp, schedule: WarpgroupSchedule, buffer: ir.Value) -> "Preload | None":
        """That of the last matrix that has D's type. None if no matrix has it."""
        barriers = schedule.warpgroups * STAGE_BARRIER_BYTES
        before = ceil_div(schedule.shared_bytes(op.types), BOX_ALIGNMENT) * BOX_ALIGNMENT
        # The last tile of a group that ends divide is stored by threads: see `by_threads`.
        fits = before + barriers <= MOST_SHARED_BYTES and op.grouping != "row_ends"
        if not fits or op.types.output_bytes != 2:  # stmatrix and ldmatrix
            return None
        element = op.d.type.element_type
        fitting = [matrix for matrix in op.needs.matrices if matrix.type.element_type == element]
        return cls(fitting[-1], op.d, buffer) if fitting else None

    def begin(self, corner: Corner) -> None:
        """Starts to copy a warpgroup's part, at a corner of D, when the store before has read the memory."""
        warpgroup = corner.warpgroup
        with emit.when(self.by_tma), thread_ids.one_thread():
            nvvm.cp_async_bulk_wait_group(0, read=True)
            part = tile.stage(self.buffer, warpgroup)
            tile.expect(self.ring, warpgroup, prod(part.type.shape) * element_bytes(self.matrix))
            barrier = tile.full_barrier(self.ring, warpgroup)
            source = map_of_member(self.matrix, self.map, corner.index)
            tile.copy_async(source, emit.value(corner.row), emit.value(corner.column), part, barrier=barrier)

    def end(self, corner: Corner, phase: ir.Value) -> None:
        """Waits, in all threads of a warpgroup, for its part. If TMA doesn't copy the matrix, the threads do
        so now, with one copy of the code: with loads of each fragment, kernels take twice as long to compile.
        """
        warpgroup = corner.warpgroup

        def by_threads() -> None:
            await_stores(0, warpgroup)
            source = member(self.matrix, corner.index)
            row_copies.copy(source, corner.row, corner.column, tile.stage(self.buffer, warpgroup))
            meet_warpgroup(warpgroup)

        emit.branch(self.by_tma, lambda: tile.await_(self.ring, warpgroup, phase), by_threads)
