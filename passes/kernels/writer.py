"""The part of a kernel that stores finished tiles to D: from registers, or through shared memory by TMA."""

from itertools import chain
from typing import Any, Protocol

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa.chips import WARPGROUP, register_share
from weft.isa.tensor_map import ROW_BYTES
from weft.mlir import arith, ir, nvvm, scf
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels import epilogue
from weft.passes.kernels.cluster import meet_warpgroup
from weft.passes.kernels.epilogue import finish, split
from weft.passes.kernels.fragments import transposed
from weft.passes.kernels.matrices import (
    element_bytes,
    map_of_member,
    member,
    misaligned,
    panels,
    run_bytes,
    size,
)

_KEPT = 56  # registers of a thread for addresses and the like beside its sums


class Writer(Protocol):
    """Stores the sums of a warpgroup to D."""

    def write(self, sums: Any, row: Any, column: Any, index: Any, warpgroup: Any) -> None:
        """Stores sums at a row and a column of the left and the right operand; `index` is the batch's."""

    def ask(self, row: Any, column: Any, index: Any) -> None:
        """Asks L2, before a tile's products, for what `write` will read of C and the residual there."""

    def finish(self) -> None:
        """Waits, after the last tile, for stores that the kernel must not outlive."""


class DirectWriter:
    """Stores from registers."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        self.op, self.schedule = op, schedule

    def write(self, sums: Any, row: Any, column: Any, index: Any, warpgroup: Any) -> None:
        row, column = (emit.value(each) for each in self.schedule.swapped(row, column))
        run, ahead = run_of(self.schedule), spare(self.schedule)
        store(self.op, oriented(sums, self.schedule), row, column, index, run, ahead=ahead)

    def ask(self, row: Any, column: Any, index: Any) -> None:
        ask(self.op, self.schedule, row, column, index)

    def finish(self) -> None:
        pass


class StagedWriter:
    """Stores through shared memory: a warpgroup puts its tile together there, in one or more parts one after
    the other, and TMA stores them; threads do where rows of D aren't aligned for TMA.
    """

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        """Builds the buffer and the tensor map at the insertion point."""
        self.op, self.schedule = op, schedule
        self.parts = schedule.staging_parts(op.types)
        rows, columns = schedule.swapped(schedule.rows, schedule.block[1] // self.parts)
        layout = panels(rows, columns, op.types.output_bytes, schedule.warpgroups)
        shape = schedule.warpgroups, rows, columns
        self.buffer = tile.alloc(BufferType.of(shape, op.d.type.element_type, layout))
        self.map = tile.tensor_map(op.d, tile.stage_type(self.buffer.type), any_rows=True)

    def write(self, sums: Any, row: Any, column: Any, index: Any, warpgroup: Any) -> None:
        row, column = (emit.value(each) for each in self.schedule.swapped(row, column))
        sums = oriented(sums, self.schedule)
        if self.parts == 1:
            self._write(sums, row, column, index, warpgroup)
            return
        for part, below, right in split(sums, self.parts):
            at = emit.value(emit.add(row, below)), emit.value(emit.add(column, right))
            self._write(part, *at, index, warpgroup)

    def _write(self, sums: Any, row: Any, column: Any, index: Any, warpgroup: Any) -> None:
        """Stores sums that are as large as a warpgroup's part of the buffer."""
        part, run = tile.stage(self.buffer, warpgroup), run_of(self.schedule)
        pieces = finish(self.op, sums, row, column, run=run, number=index, ahead=spare(self.schedule))
        first = next(pieces)  # computed while the previous tile's store may still read the buffer
        with thread_ids.one_thread():
            nvvm.cp_async_bulk_wait_group(0, read=True)
        meet_warpgroup(warpgroup)
        # stmatrix stores 16-bit elements; 8-bit elements are stored in pairs.
        bytes_ = self.op.types.output_bytes == 1
        for done, row_offset, column_offset in chain([first], pieces):
            width = run_bytes(self.op.d, run, done.type) if bytes_ else 0
            tile.store(done, part, emit.value(row_offset), emit.value(column_offset), vector_bytes=width)
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        meet_warpgroup(warpgroup)
        end = emit.add(column, part.type.shape[1])
        ragged = arith.andi(self.ragged, emit.less(size(self.op.d, -1), end))
        branch = scf.IfOp(arith.ori(misaligned(self.op.d, ROW_BYTES), ragged), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            tile.copy_out(part, member(self.op.d, index), row, column)
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            with thread_ids.one_thread():
                tile.store_async(part, map_of_member(self.op.d, self.map, index), row, column)
                nvvm.cp_async_bulk_commit_group()
            scf.yield_([])

    def ask(self, row: Any, column: Any, index: Any) -> None:
        ask(self.op, self.schedule, row, column, index)

    @property
    def ragged(self) -> Any:
        """Whether rows of D end within 16 bytes, all of which TMA would write: an i1."""
        bytes_ = emit.mul(size(self.op.d, -1), element_bytes(self.op.d))
        return emit.less(0, emit.rem(bytes_, ROW_BYTES))

    def finish(self) -> None:
        with thread_ids.one_thread():
            nvvm.cp_async_bulk_wait_group(0, read=True)


def store(
    op: MatmulOp,
    sums: Any,
    row: Any,
    column: Any,
    index: Any,
    run: int,
    stored: int | None = None,
    shared: bool = False,
    alpha: Any = None,
    ahead: int = 0,
) -> None:
    """Finishes sums and stores them to D from registers. Of the elements of a lane, so many follow each other
    in a row and are accessed at once, but at most 16 bytes of them: `run`, or `stored` where D is written.
    `shared`: other warps may write other parts of D meanwhile. `alpha` and `ahead` are as `finish` has them.
    """
    d = member(op.d, index)
    for done, row_offset, column_offset in finish(
        op, sums, row, column, run=run, number=index, shared=shared, alpha=alpha, ahead=ahead
    ):
        at = emit.value(emit.add(row, row_offset)), emit.value(emit.add(column, column_offset))
        tile.store(done, d, *at, vector_bytes=run_bytes(op.d, stored or run, done.type))


def oriented(sums: Any, schedule: WarpgroupSchedule) -> Any:
    """The sums as a fragment of D, which `swap` transposes."""
    return tile.from_lane(tile.to_lane(sums), transposed(sums.type)) if schedule.swap else sums


def run_of(schedule: WarpgroupSchedule) -> int:
    """How many sums of a lane of `wgmma` follow each other in a row of D."""
    return 1 if schedule.swap else 2


def spare(schedule: WarpgroupSchedule) -> int:
    """The registers of a thread that are free for what the epilogue loads at once."""
    each = schedule.registers[1] or register_share(schedule.threads)
    sums = schedule.rows * schedule.block[1] // WARPGROUP
    return max(each - sums - _KEPT, 0)


def ask(op: MatmulOp, schedule: WarpgroupSchedule, row: Any, column: Any, index: Any) -> None:
    """Asks L2 for what the epilogue reads of C and the residual for a warpgroup's sums at a row and a column
    of the left and the right operand.
    """
    row, column = schedule.swapped(row, column)
    shape = schedule.swapped(schedule.rows, schedule.block[1])
    epilogue.ask(op, row, column, shape, index, emit.rem(emit.thread(), WARPGROUP))
