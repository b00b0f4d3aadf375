"""Block scales in the 128x4 layout (`weft.isa.block_scales`) that a stage brings to shared memory."""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import TmaMmaSchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa.block_scales import GROUPS, LANES, ROWS, TILE_BYTES
from weft.isa.tensor_map import MOST_BOX
from weft.passes.builders import emit
from weft.passes.kernels.matrices import map_of_member
from weft.passes.kernels.tile_order import Tile

_QUARTERS = ROWS // LANES
_LANE_BYTES = TILE_BYTES // LANES
_PANELS = TILE_BYTES // MOST_BOX  # of a tile: TMA copies this many bytes of a row at most
_LANES_OF_PANEL = LANES // _PANELS


@dataclass(frozen=True)
class _Side:
    """The scales of A, or of B: their matrix, its map, and the stages as tiles and as rows x groups."""

    matrix: Any
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
            tiles, rows = _layouts(schedule.stages, down, deep)
            element = matrix.type.element_type
            raw = tile.alloc(BufferType.of((schedule.stages, down, deep * TILE_BYTES), element, tiles))
            view_type = BufferType.of((schedule.stages, down * ROWS, deep * GROUPS), element, rows)
            view = tile.alloc(view_type, over=raw)
            map_ = tile.tensor_map(matrix, tile.stage_type(raw.type))
            sides.append(_Side(matrix, map_, raw, view, extent, deep))
        self._sides = tuple(sides)
        self.element = element

    @property
    def views(self) -> tuple[Any, Any]:
        """The stages of the scales of A and of B, as rows x groups."""
        a, b = (side.rows for side in self._sides)
        return a, b

    def copy(self, at: Tile, block: Any, stage: Any, barrier: Any) -> None:
        """Starts to copy the scales of a tile for a K block into a stage."""
        for side, number in zip(self._sides, (at.row, at.column), strict=True):
            source = map_of_member(side.matrix, side.map, at.member)
            row = emit.div(emit.mul(number, side.extent), ROWS)
            column = emit.mul(block, side.deep * TILE_BYTES)
            buffer = tile.stage(side.tiles, stage)
            tile.copy_async(source, emit.value(row), emit.value(column), buffer, barrier=barrier)


def _layouts(stages: int, down: int, deep: int) -> tuple[str, str]:
    """The layouts of stages of `down` x `deep` tiles of scales: as rows of bytes that TMA copies, and as rows
    x groups.
    """
    size, panel = down * deep * TILE_BYTES, down * MOST_BOX
    tiles = f"S[({stages},{down},{deep * _PANELS},{MOST_BOX}):({size},{MOST_BOX},{panel},1)]"
    digits = f"{stages},{down},{_QUARTERS},{_PANELS},{_LANES_OF_PANEL},{deep},{GROUPS}"
    strides = f"{size},{MOST_BOX},{GROUPS},{panel},{_LANE_BYTES},{_PANELS * panel},1"
    return tiles, f"S[({digits}):({strides})]"
