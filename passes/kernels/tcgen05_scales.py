"""The block scales of a `tcgen05` kernel: each stage brings those of both operands, and the thread that
issues the products copies them to tensor memory before the products of the stage.

Scales lie in tiles of 128 rows and 4 groups, of 512 bytes (`weft.isa.block_scales`), in global and in shared
memory. Tensor memory has one K block's scales: copies and products of one thread are in order.
"""

from dataclasses import dataclass, field
from math import gcd
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import TensorMemorySchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa import block_scales
from weft.isa.tcgen05 import tensor_layouts
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.matrices import map_of_member
from weft.passes.kernels.tile_order import Tile

_ROWS, _GROUPS, _BYTES = block_scales.ROWS, block_scales.GROUPS, block_scales.TILE_BYTES


@dataclass
class TensorTiles:
    """Scales of one operand in tensor memory, of `blocks` tiles of 128 rows and `deep` along K, and the
    stages of shared memory from where they come, as rows x groups.
    """

    stages: ir.Value
    blocks: int
    deep: int
    cta_group: int
    _buffer: ir.Value = field(init=False)

    @property
    def _shape(self) -> tuple[int, int]:
        """Rows and groups."""
        return self.blocks * _ROWS, self.deep * _GROUPS

    def allocate(self) -> None:
        """Builds their columns of tensor memory at the insertion point."""
        layout = tensor_layouts.scales(*self._shape)
        element = self.stages.type.element_type
        self._buffer = tile.alloc(BufferType.of(self._shape, element, layout, "tmem"))

    def load(self, stage: ir.Value) -> None:
        """Copies a stage's scales to tensor memory, of both CTAs of a pair."""
        tile.copy_tmem(tile.stage(self.stages, stage), self._buffer, cta_group=self.cta_group)

    def rows(self, first: int, count: int) -> ir.Value:
        """The scales of at least `count` rows in tensor memory, from row `first` on."""
        if (
            count >= self._shape[0] or count % block_scales.LANES
        ):  # in columns that aren't full, rows are the first ones
            return self._buffer
        shape = count, self._shape[1]
        step = gcd(count, _ROWS)
        return tile.slice_(self._buffer, emit.value(first), emit.value(0), shape, row_step=step)


@dataclass
class _Scales:
    """The scales of one operand: `blocks` tiles of 128 rows, and `deep` along K, in each of `stages`."""

    matrix: Any
    blocks: int
    deep: int
    stages: int
    cta_group: int
    tensor: TensorTiles = field(init=False)
    _arrived: ir.Value = field(init=False)
    _map: ir.Value = field(init=False)

    def __post_init__(self) -> None:
        """Builds the stages and the tensor map at the insertion point."""
        element = self.matrix.type.element_type
        stages = block_scales.Stages(self.stages, self.blocks, self.deep, self.deep * _BYTES)
        self._arrived = tile.alloc(BufferType.of(stages.shape, element, stages.bytes_layout))
        shape = self.stages, self.blocks * _ROWS, self.deep * _GROUPS
        tiles = tile.alloc(BufferType.of(shape, element, stages.rows_layout), over=self._arrived)
        self.tensor = TensorTiles(tiles, self.blocks, self.deep, self.cta_group)
        self._map = tile.tensor_map(self.matrix, tile.stage_type(self._arrived.type), chunk=_BYTES)

    def copy(
        self,
        row: ir.Value,
        block: ir.Value | int,
        member: ir.Value | None,
        stage: ir.Value,
        barrier: ir.Value,
    ) -> None:
        """Starts to copy the scales of a K block, from row `row` of the operand on, into a stage."""
        source = map_of_member(self.matrix, self._map, member)
        first, column = emit.value(emit.div(row, _ROWS)), emit.value(emit.mul(block, self.deep * _BYTES))
        target = tile.stage(self._arrived, stage)
        tile.copy_async(source, first, column, target, barrier=barrier, cta_group=self.cta_group)


class TensorScales:
    """The scales of the left and the right operand."""

    def __init__(self, op: MatmulOp, schedule: TensorMemorySchedule) -> None:
        """Builds the stages and the tensor maps at the insertion point."""
        tiles = schedule.scales(op.types)
        assert tiles is not None
        self.schedule, self.half = schedule, 0
        left, right = schedule.swapped(op.role("scale_a"), op.role("scale_b"))
        common = tiles.deep, schedule.stages, schedule.cta_group
        self.left = _Scales(left, tiles.left, *common)
        self.right = _Scales(right, tiles.right, *common)

    def copy(self, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value) -> None:
        """Starts to copy the scales of a K block of this CTA's rows, and of all columns, into a stage."""
        m, n, _ = self.schedule.block
        row = emit.add(emit.mul(at.row, m), emit.mul(self.half, self.schedule.cta_rows))
        self.left.copy(row, block, at.member, stage, barrier)
        self.right.copy(emit.mul(at.column, n), block, at.member, stage, barrier)

    def allocate(self) -> None:
        """Builds the columns of tensor memory at the insertion point."""
        self.left.tensor.allocate()
        self.right.tensor.allocate()

    def load(self, at: Tile, number: ir.Value, stage: ir.Value, position: list[Any]) -> list[Any]:
        """Copies a stage's scales to tensor memory; for the thread that issues the products."""
        self.left.tensor.load(stage)
        self.right.tensor.load(stage)
        return position

    def of_part(self, part: int, at: Tile, number: ir.Value) -> dict[str, ir.Value]:
        """The scales of a part of a tile, of its rows and of its columns, as `tile.gemm_async` takes them."""
        n, rows = self.schedule.block[1], block_scales.ROWS
        first = emit.rem(emit.mul(at.column, n), rows) if n % rows else 0
        left, right = self.left.tensor.rows(part * rows, rows), self.right.tensor.rows(first, n)
        return {"scale_a": left, "scale_b": right}
