"""The scales of fp8 by blocks, for `--expand-matmul`: how those of A come with each stage, how those of B are
read, and what a lane multiplies its sums of a block by.
"""

from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING, Any

from weft.dialects import tile
from weft.dialects.schedule import PROMOTED
from weft.dialects.tile import BufferType
from weft.mlir import arith, ir, memref, vector
from weft.passes.builders import emit, places
from weft.passes.kernels.product import map_of_member, member, size, turned
from weft.passes.kernels.tile_order import Place

if TYPE_CHECKING:
    from weft.passes.kernels.wgmma_kernel import WgmmaKernel


@dataclass
class BlockScales:
    """The scales of A, a row of which comes with each stage, and of B, which are read where they lie."""

    kernel: "WgmmaKernel"
    of_a: Any = field(init=False)
    of_b: Any = field(init=False)
    extent: int = field(init=False)  # rows of A in a block
    buffer: Any = field(init=False)
    map: Any = field(init=False)

    def place(self) -> None:
        """Writes the buffer and the map of the scales of A at the insertion point."""
        schedule, self.of_a = self.kernel.schedule, self.kernel.op.role("scale_a")
        self.of_b = self.kernel.op.role("scale_b")
        self.extent = schedule.rows_of_d
        f32 = ir.F32Type.get()
        layout = f"S[({schedule.stages},1,{self.extent}):({schedule.scale_stride},{self.extent},1)]"
        self.buffer = tile.alloc(BufferType.of((schedule.stages, 1, self.extent), f32, layout))
        self.map = tile.tensor_map(self.of_a, tile.stage_type(self.buffer.type))

    def copy(self, place: Place, block: Any, stage: Any, barrier: Any) -> None:
        """Starts to copy the scales of a tile's rows of A for a block of K."""
        number = place.column if self.kernel.schedule.swap else place.row
        source = map_of_member(self.of_a, self.map, place.member)
        column = emit.value(emit.mul(number, self.extent))
        tile.copy_async(source, emit.value(block), column, tile.stage(self.buffer, stage), barrier=barrier)

    def of_tile(self, place: Place, rows: list[Any], kind: Any) -> "TileScales":
        """Those of a tile whose parts of 64 rows, of type `kind`, begin at `rows`."""
        m, n, _ = self.kernel.schedule.block
        if self.kernel.schedule.swap:
            starts = [emit.add(emit.mul(place.row, m), row) for row in rows]
            blocks = [emit.div(start, PROMOTED) for start in starts]
            return TileScales(self, place, rows, kind, blocks, 0)
        first, unit = emit.mul(place.column, n), gcd(n, PROMOTED)
        # Where `n` divides 128 or the other way round, a tile is within a block of B, or begins with one.
        inside = 0 if unit in (n, PROMOTED) else emit.rem(first, PROMOTED)
        most = (0 if isinstance(inside, int) else PROMOTED - unit) + n - 1
        block = emit.div(first, PROMOTED)
        return TileScales(
            self, place, rows, kind, [emit.add(block, i) for i in range(most // PROMOTED + 1)], inside
        )


@dataclass
class TileScales:
    """The scales of one tile: `blocks` are the rows of the scales of B that it needs, `inside` is how far in
    the first of them it begins.
    """

    all: BlockScales
    place: Place
    rows: list[Any]
    kind: Any
    blocks: list[Any]
    inside: Any

    def of_b(self, number: Any) -> list[Any]:
        """The scales of B for the tile's block `number`. Beyond the last block of columns or of K, where
        nothing is kept, the last one's.
        """
        matrix = member(self.all.of_b, self.place.member)
        deep = emit.minimum(self.place.block_of_k(number), emit.sub(size(matrix, 1), 1))
        rows = [emit.minimum(block, emit.sub(size(matrix, 0), 1)) for block in self.blocks]
        return [memref.load(matrix, [emit.as_index(row), emit.as_index(deep)]) for row in rows]

    def of_lanes(self, number: Any) -> list[Any]:
        """The scales of B for as many blocks of K as a warp has lanes: each lane has one block's."""
        return self.of_b(emit.add(number, places.lane()))

    def factors(self, part: int, stage: Any, of_b: list[Any]) -> Any:
        """What a lane's products of a part, and a block of K in a stage, are multiplied by."""
        kind, row_of_stage = self.kind, tile.stage(self.all.buffer, stage)
        columns = [column for _, column in places.lane_elements(kind.layout, kind.shape)[0]]
        if self.all.kernel.schedule.swap:
            of_a = tile.load_row(row_of_stage, emit.value(0), kind)
            of_columns = [of_b[part]] * len(columns)
        else:
            of_a = tile.load_row(row_of_stage, emit.value(self.rows[part]), turned(kind))
            of_columns = self._of_columns(of_b, columns)
        return arith.mulf(tile.to_lane(of_a), vector.from_elements(kind.lane_type, of_columns))

    def _of_columns(self, of_b: list[Any], columns: list[int]) -> list[Any]:
        """The scale of B of each of a tile's columns: blocks of B begin at multiples of `unit` in a tile."""
        n = self.kind.shape[1]
        unit, of_units = gcd(n, PROMOTED), []
        for start in range(0, n, unit):
            block, beyond = divmod(start, PROMOTED)
            found = of_b[block]
            if beyond and not isinstance(self.inside, int):
                follows = emit.less(PROMOTED - 1, emit.add(self.inside, beyond))
                found = arith.select(follows, of_b[block + 1], found)
            of_units.append(found)
        return [of_units[column // unit] for column in columns]
