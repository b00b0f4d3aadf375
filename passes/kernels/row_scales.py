"""The float32 scales of promoted products of fp8 where each row of A and each column of B has its own: each
stage brings those of its K block.
"""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.mlir import arith, ir
from weft.passes.builders import emit
from weft.passes.kernels.fragments import transposed
from weft.passes.kernels.matrices import map_of_member
from weft.passes.kernels.tile_order import Tile


class _Staged:
    """A row of scales in each stage: of the left operand's rows of a tile, or of the right one's columns."""

    def __init__(self, matrix: Any, extent: int, schedule: WarpgroupSchedule) -> None:
        """Builds the buffer and the tensor map at the insertion point."""
        self.matrix, self.extent = matrix, extent
        layout = f"S[({schedule.stages},1,{extent}):({schedule.padded_scales(extent)},{extent},1)]"
        self.buffer = tile.alloc(BufferType.of((schedule.stages, 1, extent), ir.F32Type.get(), layout))
        self.map = tile.tensor_map(matrix, tile.stage_type(self.buffer.type))

    def copy(
        self, number: ir.Value | int, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value
    ) -> None:
        """Starts to copy the scales of tile `number` along this operand for a K block."""
        source, column = (
            map_of_member(self.matrix, self.map, at.member),
            emit.value(emit.mul(number, self.extent)),
        )
        tile.copy_async(source, emit.value(block), column, tile.stage(self.buffer, stage), barrier=barrier)


class RowScales:
    """The scales of A and of B, of which every stage holds a row each."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        """Builds the buffers and the tensor maps at the insertion point."""
        matrices = schedule.swapped(op.role("scale_a"), op.role("scale_b"))
        extents = schedule.block[:2]
        self.left, self.right = (_Staged(*each, schedule) for each in zip(matrices, extents, strict=True))

    def copy(self, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value) -> None:
        """Starts to copy the scales of a tile for a K block."""
        self.left.copy(at.row, at, block, stage, barrier)
        self.right.copy(at.column, at, block, stage, barrier)

    def of_tile(self, _: Tile, rows: list[ir.Value], kind: ir.Type) -> "TileRowScales":
        """The scales of a tile whose parts of 64 rows, of type `kind`, begin at `rows`."""
        return TileRowScales(self, rows, kind)


@dataclass
class TileRowScales:
    """The scales of one tile."""

    all: RowScales
    rows: list[ir.Value]
    kind: ir.Type

    def of_b(self, _: ir.Value | int) -> list[Any]:
        """Scales that are read from global memory: none."""
        return []

    @property
    def numbers(self) -> list[int]:
        """For each of a lane's products, the index of its factor: each has one of its own."""
        return list(range(self.kind.registers))

    def factors(self, part: int, stage: ir.Value, _: list[Any]) -> list[ir.Value]:
        """The factors of a lane's products of a part of 64 rows with the K block in a stage."""
        left, right = (tile.stage(each.buffer, stage) for each in (self.all.left, self.all.right))
        of_rows = tile.load_row(left, emit.value(self.rows[part]), transposed(self.kind))
        of_columns = tile.load_row(right, emit.value(0), self.kind)
        lanes = (emit.elements(tile.to_lane(each)) for each in (of_rows, of_columns))
        return [arith.mulf(*each) for each in zip(*lanes, strict=True)]
