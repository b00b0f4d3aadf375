"""Block scales in the 128x4 layout (`weft.isa.block_scales`) that a stage brings to shared memory."""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import TmaMmaSchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa.block_scales import GROUPS, ROWS, TILE_BYTES, Stages
from weft.isa.tensor_map import MOST_BOX
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.matrices import map_of_member
from weft.passes.kernels.tile_order import Tile


@dataclass(frozen=True)
class _Side:
    """The scales of A, or of B: their matrix, its map, and the stages as tiles and as rows x groups."""

    matrix: ir.Value
    map: Any
    tiles: Any
    rows: Any
    extent: int
    deep: int


class TiledScales:
    """The scales of A and B: every stage has the tiles of scales of its rows and columns."""

    def __init__(self, op: MatmulOp, schedule: TmaMmaSchedule) -> None:
        """Builds the buffers and the tensor maps at the insertion point."""
        sides = []
        for role, extent in zip(("scale_a", "scale_b"), schedule.block, strict=False):
            down, deep = schedule.scale_tiles(op.types, extent)
            matrix: Any = op.role(role)
            stages = Stages(schedule.stages, down, deep, MOST_BOX)
            element = matrix.type.element_type
            raw = tile.alloc(BufferType.of(stages.shape, element, stages.bytes_layout))
            shape = schedule.stages, down * ROWS, deep * GROUPS
            view_type = BufferType.of(shape, element, stages.rows_layout)
            view = tile.alloc(view_type, over=raw)
            map_ = tile.tensor_map(matrix, tile.stage_type(raw.type))
            sides.append(_Side(matrix, map_, raw, view, extent, deep))
        self._sides = tuple(sides)
        self.element = element

    @property
    def views(self) -> tuple[ir.Value, ir.Value]:
        """The stages of the scales of A and of B, as rows x groups."""
        a, b = (side.rows for side in self._sides)
        return a, b

    def copy(self, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value) -> None:
        """Starts to copy the scales of a tile for a K block into a stage."""
        for side, number in zip(self._sides, (at.row, at.column), strict=True):
            source = map_of_member(side.matrix, side.map, at.member)
            row = emit.div(emit.mul(number, side.extent), ROWS)
            column = emit.mul(block, side.deep * TILE_BYTES)
            buffer = tile.stage(side.tiles, stage)
            tile.copy_async(source, emit.value(row), emit.value(column), buffer, barrier=barrier)
