"""The block scales of an operand as TMA copies them: in tiles (`weft.isa.block_scales`)."""

from dataclasses import dataclass

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.isa.block_scales import GROUPS, ROWS, TILE_BYTES, Stages
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.matrices import StagedMatrix


@dataclass(frozen=True)
class ScaleTiles:
    """Stages of `deep` tiles along K each, also as rows x groups."""

    staged: StagedMatrix
    rows: ir.Value
    deep: int

    @staticmethod
    def of(matrix: ir.Value, stages: int, blocks: int, deep: int, width: int, **how: int) -> "ScaleTiles":
        """Stages of `blocks` tiles of rows, built at the insertion point. A box has rows of `width` bytes."""
        element, each = matrix.type.element_type, Stages(stages, blocks, deep, width)
        staged = StagedMatrix(matrix, BufferType.of(each.shape, element, each.bytes_layout), **how)
        kind = BufferType.of((stages, blocks * ROWS, deep * GROUPS), element, each.rows_layout)
        return ScaleTiles(staged, tile.alloc(kind, over=staged.buffer), deep)

    def copy(
        self, index: ir.Value | None, row: ir.Value, block: ir.Value | int, stage: ir.Value, barrier: ir.Value
    ) -> None:
        """Starts to copy the scales of a K block, from a row of the operand on, into a stage."""
        of_tiles, column = emit.div(row, ROWS), emit.mul(block, self.deep * TILE_BYTES)
        self.staged.copy(index, of_tiles, column, stage, barrier)
