"""The kernel that `--expand-matmul` writes for a warpgroup schedule: persistent CTAs that multiply with
`wgmma`.

One warpgroup copies tiles of A and B by TMA into a ring of stages, the others multiply them. A CTA computes
tile after tile, so that the copies of the next tile overlap with the epilogue of the current one.
"""

from dataclasses import replace

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import gpu, ir, nvvm
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels import gate, writer
from weft.passes.kernels.accumulator import Accumulator, PromotedAccumulator, Together, Turns
from weft.passes.kernels.cluster import await_previous_launch, begin_cluster
from weft.passes.kernels.feed import Feed, make_ring
from weft.passes.kernels.loaded_operand import LoadedFeed, LoadedOperand, SkewedFeed, SkewedOperand
from weft.passes.kernels.promoted_scales import BlockScales, RowScales
from weft.passes.kernels.reduction import (
    ClusterReduction,
    GlobalReduction,
    NoReduction,
    Reduction,
    StreamReduction,
)
from weft.passes.kernels.sent_rows import RowSender
from weft.passes.kernels.staged_operand import JoinedOperand, StagedOperand, staged_operands
from weft.passes.kernels.team_sums import AllReduction, BandedReduction, ScatteredReduction
from weft.passes.kernels.tile_order import Corner, Tile
from weft.passes.kernels.tiles import Tiles
from weft.passes.kernels.writer import StagedWriter, StripWriter, Writer


def expand(op: MatmulOp) -> None:
    """Writes the kernel of a product at the insertion point. Raises WeftError where it lacks a workspace."""
    schedule, types = op.schedule, op.types
    assert isinstance(schedule, WarpgroupSchedule)
    # Memory first: buffers are laid out in this order.
    (of_a, of_b), feed_of = _feeding(schedule)
    operands = staged_operands(op, schedule, of_a, of_b)
    scales = (RowScales if types.scale_columns else BlockScales)(op, schedule) if types.scaled else None
    writer = _writer(op, gate.written(op, schedule))
    reduction = _reduction(op, schedule, writer, over=operands[0].buffer)
    ring = make_ring(schedule, types.scaled)
    # Then the parts that use it.
    tiles = Tiles(op, schedule)
    feed = feed_of(ring, tiles, types, operands, scales)
    accumulator = (PromotedAccumulator if types.promoted else Accumulator)(feed, types)
    reduction.use(tiles)
    sharing = (Turns if schedule.alternating else Together)(accumulator)
    if schedule.cluster != (1, 1):
        begin_cluster()
    else:
        gpu.barrier()
    copying, multiplying = schedule.registers
    sender = RowSender.of(op, tiles)
    # Consumers come first: ptxas gives the code of a later branch fewer registers.
    with tile.role(schedule.producers, schedule.warpgroups, registers=multiplying) as warpgroup:
        _multiply(op, tiles, sharing, reduction, warpgroup)
    with tile.role(0, schedule.producers, registers=copying):
        _copy(tiles, feed, reduction, sender, waits=types.grouped)
    reduction.finish()


def _writer(op: MatmulOp, schedule: WarpgroupSchedule) -> Writer:
    if not schedule.staged(op.types):
        return Writer(op, schedule)
    return StripWriter(op, schedule) if writer.takes(op, schedule) else StagedWriter(op, schedule)


_Kinds = tuple[type[StagedOperand], type[StagedOperand]]


def _feeding(schedule: WarpgroupSchedule) -> tuple[_Kinds, type[Feed[WarpgroupSchedule]]]:
    """What makes A and B, and what fills their stages."""
    if schedule.skewed:
        return (SkewedOperand, SkewedOperand), SkewedFeed
    if schedule.joined:
        return (JoinedOperand, StagedOperand), Feed
    if schedule.loaders:
        return (StagedOperand if schedule.copies_a else LoadedOperand, LoadedOperand), LoadedFeed
    return (StagedOperand, StagedOperand), Feed


def _reduction(op: MatmulOp, schedule: WarpgroupSchedule, writer: Writer, over: ir.Value) -> Reduction:
    """What adds up the sums that several CTAs, or GPUs, compute of a tile."""
    element = ir.Type.parse(op.types.sums)
    if schedule.splits > 1:
        return ClusterReduction(op, schedule, element, over)
    if schedule.global_splits > 1:
        return GlobalReduction(op, schedule, element)
    if op.is_scattered:
        of_gpus = ScatteredReduction if op.role("bands") is None else BandedReduction
        return of_gpus(op, schedule, writer)
    if op.is_all_reduced:
        return AllReduction(op, schedule, writer)
    return StreamReduction(op, schedule, element, writer) if schedule.stream_k else NoReduction(writer)


def _multiply(
    op: MatmulOp,
    tiles: Tiles[WarpgroupSchedule],
    sharing: Together | Turns,
    reduction: Reduction,
    warpgroup: ir.Value,
) -> None:
    """The role of the warpgroups that multiply."""
    m, n, _ = tiles.schedule.block
    await_previous_launch()
    nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)
    if sharing.count > 1:  # the stages depend on it
        warpgroup = emit.uniform(warpgroup)
    begun, start = sharing.begin(warpgroup), sharing.start(warpgroup)

    def one(at: Tile, carried: list[ir.Value]) -> list[ir.Value]:
        if isinstance(sharing.accumulator, Accumulator):
            # Read from a lane, so that LLVM divides before the products rather than after them.
            at = replace(at, row=emit.uniform(at.row), column=emit.uniform(at.column))
        position, kept = carried[: len(begun)], carried[len(begun) :]
        row, column = emit.add(at.first_row(m), start), at.first_column(n // op.columns_of_b)
        corner = Corner(row, column, at.member, warpgroup)
        reduction.prepare(at, corner, kept)
        sums, *position = sharing.multiply(at, warpgroup, position)
        return [*position, *reduction.collect(gate.gated(op, sums), at, corner, kept)]

    turn = sharing.first(warpgroup), sharing.count
    carried = tiles.walk([*begun, *reduction.begin()], one, turn=turn)
    reduction.end(warpgroup, carried[len(begun) :])


def _copy(
    tiles: Tiles[WarpgroupSchedule],
    feed: Feed[WarpgroupSchedule],
    reduction: Reduction,
    sender: RowSender | None,
    waits: bool,
) -> None:
    """The role of the warpgroups that copy: one thread keeps the ring full, or all that load do. Other warps
    send rows, if there is a `sender`, or what the `reduction` sends. It `waits` for the launch before where
    that may have written which tiles there are.
    """
    begun = [emit.value(0), emit.value(0)]
    if isinstance(feed, LoadedFeed):
        tiles.walk(begun, feed.load)
        reduction.finish_producer()
        return
    if sender is not None:
        assert feed.gate is not None
        feed.gate.call = sender.begin()
        sender.send(feed.gate.call)
    reduction.assist()
    with thread_ids.one_thread():
        if waits:
            await_previous_launch()
        position = tiles.walk(begun, feed.fill)
        if tiles.schedule.cluster != (1, 1):
            tile.drain(feed.ring, *position)  # peers signal this CTA's ring until then
    reduction.finish_producer()
