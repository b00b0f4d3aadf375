"""The float32 scales of promoted products of fp8: each stage brings those of A, and consumers read those of
B. Where each column of B has its own, stages bring them, too.
"""

from dataclasses import dataclass
from functools import partial
from math import gcd

from weft.dialects import tile
from weft.dialects.product_types import PROMOTED
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa.computed import computed
from weft.mlir import arith, ir, memref
from weft.passes.builders import emit, thread_ids
from weft.passes.builders.fragment_registers import coordinates
from weft.passes.kernels.fragments import transposed
from weft.passes.kernels.matrices import StagedMatrix, member, size
from weft.passes.kernels.team import Team
from weft.passes.kernels.tile_order import Tile


class BlockScales:
    """The scales of A, of which every stage holds a row, and of B, which stay in global memory."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        """Builds the buffer and the tensor map of A's scales at the insertion point."""
        self.schedule, self.of_b = schedule, op.role("scale_b")
        self.extent = schedule.rows_of_d  # rows of A in a tile
        self.of_a, self._others = _staged(op.role("scale_a"), self.extent, schedule), None
        self._member: ir.Value | None = None
        if (others := op.role("gathered_scales")) is not None:
            self._team, self._others = Team.of(op), self.of_a.of_others(others)

    def begin_member(self, member: ir.Value) -> None:
        """Begins to copy the scales of a matrix of a team's other GPUs, by its index."""
        self._member = member

    def copy(self, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value) -> None:
        """Starts to copy the scales of a tile's rows of A for a K block."""
        column = (at.first_column if self.schedule.swap else at.first_row)(self.extent)
        if self._others is None:
            self.of_a.copy(at.member, block, column, stage, barrier)
            return
        assert self._team is not None
        own, other = (
            partial(matrix.copy, member, block, column, stage, barrier)
            for matrix, member in ((self.of_a, at.member), (self._others, self._member))
        )
        emit.branch(emit.equal(at.member, self._team.rank), own, other)

    def of_tile(self, at: Tile, rows: list[ir.Value], kind: ir.Type) -> "TileScales":
        """The scales of a tile whose parts of 64 rows, of type `kind`, begin at `rows`."""
        m, n, _ = self.schedule.block
        if self.schedule.swap:
            starts = [emit.add(emit.mul(at.row, m), row) for row in rows]
            blocks = [emit.div(start, PROMOTED) for start in starts]
            return TileScales(self, at, rows, kind, blocks, 0)
        first, unit = emit.mul(at.column, n), gcd(n, PROMOTED)
        # Where `n` divides 128 or 128 divides `n`, a tile lies within a block of B or begins with one.
        inside = 0 if unit in (n, PROMOTED) else emit.rem(first, PROMOTED)
        most = (0 if isinstance(inside, int) else PROMOTED - unit) + n - 1
        block = emit.div(first, PROMOTED)
        blocks = [emit.add(block, i) for i in range(most // PROMOTED + 1)]
        return TileScales(self, at, rows, kind, blocks, inside)


@dataclass
class TileScales:
    """The scales of one tile. `blocks` are the rows of B's scales that it needs; it begins `inside` elements
    into the first of them.
    """

    all: BlockScales
    tile: Tile
    rows: list[ir.Value]
    kind: ir.Type
    blocks: list[ir.Value]
    inside: ir.Value | int

    def of_b(self, number: ir.Value | int) -> list[ir.Value]:
        """The scales of B for the tile's K block `number`. Beyond the last block of columns or of K, where
        there are none, the last block's.
        """
        matrix = member(self.all.of_b, self.tile.member)
        deep = emit.minimum(self.tile.k_block(number), emit.sub(size(matrix, 1), 1))
        rows = [emit.minimum(block, emit.sub(size(matrix, 0), 1)) for block in self.blocks]
        return [memref.load(matrix, [emit.as_index(row), emit.as_index(deep)]) for row in rows]

    def of_lanes(self, number: ir.Value | int) -> list[ir.Value]:
        """The scales of B for as many K blocks as a warp has lanes: one block's in each lane."""
        return self.of_b(emit.add(number, thread_ids.lane()))

    @computed
    def numbers(self) -> list[int]:
        """For each of a lane's products, the index of its factor: products with the same scales share one."""
        swap, unit = self.all.schedule.swap, gcd(self.kind.shape[1], PROMOTED)
        scales = [column if swap else (row, column // unit) for row, column in coordinates(self.kind)]
        indices = {each: index for index, each in enumerate(dict.fromkeys(scales))}
        return [indices[each] for each in scales]

    def factors(self, part: int, stage: ir.Value, of_b: list[ir.Value]) -> list[ir.Value]:
        """The factors of a lane's products of a part of 64 rows with the K block in a stage."""
        kind, row_of_stage = self.kind, tile.stage(self.all.of_a.buffer, stage)
        if self.all.schedule.swap:
            of_a = tile.load_row(row_of_stage, emit.value(0), kind)
            of_columns = [of_b[part]] * len(self.numbers)
        else:
            of_a = tile.load_row(row_of_stage, emit.value(self.rows[part]), transposed(kind))
            of_columns = self._of_columns(of_b, [column for _, column in coordinates(kind)])
        of_rows = emit.elements(tile.to_lane(of_a))
        first_of = [self.numbers.index(number) for number in range(max(self.numbers) + 1)]
        return [arith.mulf(of_rows[product], of_columns[product]) for product in first_of]

    def _of_columns(self, of_b: list[ir.Value], columns: list[int]) -> list[ir.Value]:
        """The scale of B of each of a tile's columns. In a tile, blocks of B begin at multiples of `unit`."""
        n = self.kind.shape[1]
        unit, of_units = gcd(n, PROMOTED), []
        for start in range(0, n, unit):
            block, beyond = divmod(start, PROMOTED)
            scale = of_b[block]
            if beyond and not isinstance(self.inside, int):
                follows = emit.less(PROMOTED - 1, emit.add(self.inside, beyond))
                scale = arith.select(follows, of_b[block + 1], scale)
            of_units.append(scale)
        return [of_units[column // unit] for column in columns]


def _staged(matrix: ir.Value, extent: int, schedule: WarpgroupSchedule) -> StagedMatrix:
    """A row of scales in each stage: of the left operand's rows of a tile, or of the right one's columns."""
    layout = f"S[({schedule.stages},1,{extent}):({schedule.padded_scales(extent)},{extent},1)]"
    return StagedMatrix(matrix, BufferType.of((schedule.stages, 1, extent), ir.F32Type.get(), layout))


class RowScales:
    """The scales of A and of B, of which every stage holds a row each."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        """Builds the buffers and the tensor maps at the insertion point."""
        matrices = schedule.swapped(op.role("scale_a"), op.role("scale_b"))
        self._extents = schedule.block[:2]
        self.left, self.right = (
            _staged(*each, schedule) for each in zip(matrices, self._extents, strict=True)
        )

    def copy(self, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value) -> None:
        """Starts to copy the scales of a tile for a K block."""
        rows, columns = self._extents
        self.left.copy(at.member, block, at.first_row(rows), stage, barrier)
        self.right.copy(at.member, block, at.first_column(columns), stage, barrier)

    def of_tile(self, _: Tile, rows: list[ir.Value], kind: ir.Type) -> "TileRowScales":
        """The scales of a tile whose parts of 64 rows, of type `kind`, begin at `rows`."""
        return TileRowScales(self, rows, kind)


@dataclass
class TileRowScales:
    """The scales of one tile."""

    all: RowScales
    rows: list[ir.Value]
    kind: ir.Type

    def of_b(self, _: ir.Value | int) -> list[ir.Value]:
        """Scales that are read from global memory: none."""
        return []

    @property
    def numbers(self) -> list[int]:
        """For each of a lane's products, the index of its factor: each has one of its own."""
        return list(range(self.kind.registers))

    def factors(self, part: int, stage: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        """The factors of a lane's products of a part of 64 rows with the K block in a stage."""
        left, right = (tile.stage(each.buffer, stage) for each in (self.all.left, self.all.right))
        of_rows = tile.load_row(left, emit.value(self.rows[part]), transposed(self.kind))
        of_columns = tile.load_row(right, emit.value(0), self.kind)
        lanes = (emit.elements(tile.to_lane(each)) for each in (of_rows, of_columns))
        return [arith.mulf(*each) for each in zip(*lanes, strict=True)]
