"""The kernel that `--expand-matmul` writes for a schedule with consumer warps: persistent CTAs that multiply
with `mma.sync` what TMA copies.

One warpgroup copies tiles of A and B into a ring of stages. The warps of the others load their parts of a
stage into registers and multiply them. A CTA computes tile after tile, so that the copies of the next tile
overlap with the epilogue of the current one.
"""

from weft.dialects import tile
from weft.dialects.launch_contract import MIN_CTAS, STAGES
from weft.dialects.schedule import TmaMmaSchedule
from weft.dialects.tile import MatmulOp
from weft.isa.chips import LANES, WARPS
from weft.mlir import gpu, ir, nvvm
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import await_previous_launch
from weft.passes.kernels.epilogue import Finisher
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.staged_operand import staged_operands
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.warp_accumulator import (
    LoadedScales,
    PromotedWarpAccumulator,
    ReadOperand,
    TiledScales,
    UnitScales,
    WarpAccumulator,
    WarpScales,
)

_RUN = 2  # sums of a lane that follow each other in a row
_Feed = Feed[TmaMmaSchedule]


def expand(op: MatmulOp) -> None:
    """Writes the kernel of a product at the insertion point."""
    schedule, types = op.schedule, op.types
    assert isinstance(schedule, TmaMmaSchedule)
    operands = staged_operands(op, schedule)
    read = ReadOperand.of(operands[0], op.target), ReadOperand.of(operands[1], op.target)
    scales = TiledScales(op, schedule) if types.block_scaling else None
    ring = tile.make_ring(schedule.stages, emptied_by="warps", consumers=schedule.warps)

    def feed() -> _Feed:
        # Each role reads the sizes for itself: ptxas spills those that both roles need.
        return Feed(ring, Tiles(op, schedule), types, operands, scales)

    gpu.barrier()
    # ptxas ignores the roles' registers unless it knows with how many a kernel starts.
    kernel = op.operation.parent
    kernel.attributes[MIN_CTAS] = ir.IntegerAttr.get(emit.i32(), 1)
    STAGES.set(kernel, ir.IntegerAttr.get(emit.i32(), schedule.stages))
    copying, multiplying = schedule.registers
    # Consumers come first: ptxas gives the code of a later branch fewer registers.
    with tile.role(1, schedule.warpgroups, registers=multiplying):
        _multiply(op, feed(), read, scales)
    # One thread keeps the ring full.
    with tile.role(0, 1, registers=copying), thread_ids.one_thread():
        copies = feed()
        if types.grouped:  # the launch before may have written which tiles there are
            await_previous_launch()
        copies.tiles.walk([emit.value(0), emit.value(0)], copies.fill)


def _multiply(
    op: MatmulOp, feed: _Feed, operands: tuple[ReadOperand, ReadOperand], staged: TiledScales | None
) -> None:
    """The role of the warps that multiply, each its part of a tile."""
    schedule = feed.schedule
    (m, n, _), (rows, columns), across = schedule.block, schedule.warp_tile, schedule.consumers[1]
    await_previous_launch()
    nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)
    # The first warpgroup copies.
    warp = emit.uniform(emit.sub(emit.div(emit.thread(), LANES), WARPS))
    first = emit.mul(emit.div(warp, across), rows), emit.mul(emit.rem(warp, across), columns)
    scales: WarpScales | None = UnitScales(schedule) if schedule.unit_scales else None
    if staged is not None:
        scales = LoadedScales(staged, schedule, op.types, first)
    parts = feed, op.types, operands, first, scales
    accumulator = PromotedWarpAccumulator(op, *parts) if op.types.promoted else WarpAccumulator(*parts)

    def one(at: Tile, position: list[ir.Value]) -> list[ir.Value]:
        sums, *position = accumulator.multiply(at, position)
        row, column = emit.add(at.first_row(m), first[0]), emit.add(at.first_column(n), first[1])
        Finisher(op, at.member, _RUN).store(sums, row, column)
        return position

    feed.tiles.walk([emit.value(0), emit.value(0)], one)
