"""Products of fp8 whose sums leave the tensor cores after every block of K, for `--expand-matmul`.

A tensor core adds up products of fp8 with 13 bits of fraction. Here it adds up those of one block, and the
blocks are added up in f32, each multiplied by scales of A and B on the way where they have such.
"""

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

from weft.dialects import tile
from weft.dialects.schedule import PROMOTED
from weft.dialects.tile import BufferType, FragmentType
from weft.isa import wgmma
from weft.layout import Layout
from weft.mlir import arith, ir, llvm, memref, vector
from weft.passes import emit, places
from weft.passes.product import map_of_member, member, size
from weft.passes.tile_order import Place

if TYPE_CHECKING:
    from weft.passes.wgmma_kernel import WgmmaKernel


def multiply(kernel: "WgmmaKernel", place: Place, start: Any, position: list[Any]) -> list[Any]:
    """All blocks of K of a warpgroup's rows from `start` on: the sums, and where the ring stands.

    A block's products go 64 rows at a time. What another warpgroup has under way keeps the tensor cores busy
    while this one adds up.
    """
    whole = kernel.sums_type
    parts = kernel.schedule.rows // wgmma.M
    kind = _rows(whole)
    zero = tile.from_lane(emit.constant(kind.lane_type, 0.0), kind)

    def block(number: Any, carried: list[Any]) -> list[Any]:
        *sums, stage, phase = carried
        tile.await_(kernel.ring, stage, phase)
        right = kernel.right.part(stage, 0, kernel.right.extent)
        # What one product takes the place of is the last one: its registers are free when that is added up.
        products = tile.from_lane(llvm.mlir_undef(kind.lane_type), kind)
        for part in range(parts):
            row = emit.add(start, part * wgmma.M)
            products = tile.gemm_async(
                kernel.left.part(stage, row, wgmma.M),
                right,
                products,
                arith.constant(ir.IntegerType.get_signless(1), 0),
                transpose_b=kernel.right.k_inside,
            )
            scales = kernel.scales and kernel.scales.of(place, row, number, stage, kind)
            (products,) = tile.wait_gemm(products)
            lane, total = tile.to_lane(products), tile.to_lane(sums[part])
            total = arith.addf(total, lane) if scales is None else vector.fma(lane, scales, total)
            # Nothing is under way; but LLVM would add up later, with the products of all parts in registers.
            (sums[part],) = tile.wait_gemm(tile.from_lane(total, kind))
        kernel.release(stage)
        return [*sums, *tile.advance(kernel.ring, stage, phase)]

    *sums, stage, phase = kernel.each_block([zero] * parts + position, block)
    return [_together(sums, whole), stage, phase]


@dataclass
class BlockScales:
    """The scales of A, a row of which comes with each stage, and of B, which are read where they lie."""

    kernel: "WgmmaKernel"

    def place(self) -> None:
        """Writes the buffer and the map of the scales of A at the insertion point."""
        schedule, self.of_a = self.kernel.schedule, self.kernel.op.role("scale_a")
        self.of_b = self.kernel.op.role("scale_b")
        self.extent = schedule.block[1 if schedule.swap else 0]
        f32 = ir.F32Type.get()
        layout = f"S[({schedule.stages},1,{self.extent}):({schedule.scale_stride},{self.extent},1)]"
        self.buffer = tile.alloc(BufferType.of((schedule.stages, 1, self.extent), f32, layout))
        self.map = tile.tensor_map(self.of_a, tile.stage_type(self.buffer.type))
        self.blocks = size(self.of_b, -2)

    def copy(self, place: Place, block: Any, stage: Any, barrier: Any) -> None:
        """Starts to copy the scales of a tile's rows of A for a block of K."""
        number = place.column if self.kernel.schedule.swap else place.row
        source = map_of_member(self.of_a, self.map, place.member)
        column = emit.value(emit.mul(number, self.extent))
        tile.copy_async(source, emit.value(block), column, tile.stage(self.buffer, stage), barrier=barrier)

    def of(self, place: Place, row: Any, block: Any, stage: Any, kind: Any) -> Any:
        """What a lane's products of 64 rows from `row` of a tile on, and a block of K, are multiplied by."""
        m, n, _ = self.kernel.schedule.block
        row_of_stage = tile.stage(self.buffer, stage)
        columns = [column for _, column in places.lane_elements(kind.layout, kind.shape)[0]]
        if self.kernel.schedule.swap:
            of_a = tile.load_row(row_of_stage, emit.value(0), kind)
            block_of_b = emit.div(emit.add(emit.mul(place.row, m), row), PROMOTED)
            of_b = [self._of_b(place, block_of_b, block)] * len(columns)
        else:
            of_a = tile.load_row(row_of_stage, emit.value(row), turned(kind))
            of_b = self._of_columns(place, block, n, columns)
        return arith.mulf(tile.to_lane(of_a), vector.from_elements(kind.lane_type, of_b))

    def _of_columns(self, place: Place, block: Any, n: int, columns: list[int]) -> list[Any]:
        """The scale of B of each of a tile's columns: columns of one block of B have the same.

        Tiles begin at multiples of `n`, so that blocks of B begin at multiples of `unit` in them.
        """
        unit = gcd(n, PROMOTED)
        first = emit.mul(place.column, n)
        block_of_b, inside = emit.div(first, PROMOTED), emit.rem(first, PROMOTED)
        if unit in (n, PROMOTED):
            inside = 0  # a tile is within a block, or begins with one
        most = (PROMOTED - unit if isinstance(inside, ir.Value) else 0) + n - 1
        scales = [self._of_b(place, emit.add(block_of_b, i), block) for i in range(most // PROMOTED + 1)]
        of_units = []
        for start in range(0, n, unit):
            found = scales[start // PROMOTED]
            if isinstance(inside, ir.Value) and start % PROMOTED:
                beyond = emit.less(PROMOTED - 1, emit.add(inside, start % PROMOTED))
                found = arith.select(beyond, scales[start // PROMOTED + 1], found)
            of_units.append(found)
        return [of_units[column // unit] for column in columns]

    def _of_b(self, place: Place, row: Any, block: Any) -> Any:
        """One scale of B; beyond the last block of columns, where nothing is kept, the last one's."""
        inside = emit.minimum(row, emit.sub(self.blocks, 1))
        indices = [arith.index_cast(ir.IndexType.get(), emit.value(each)) for each in (inside, block)]
        return memref.load(member(self.of_b, place.member), indices)


def turned(kind: Any) -> Any:
    """The type of a fragment with rows for columns, in the same registers."""
    rows, columns = kind.layout.group(kind.shape)
    return FragmentType.of(kind.shape[::-1], kind.element_type, Layout((*columns, *rows)))


def _rows(whole: Any) -> Any:
    """The type of the first 64 rows of a warpgroup's sums."""
    rows, columns = whole.shape
    layout = whole.layout.slice(whole.shape, (0, 0), (wgmma.M, columns)) if rows > wgmma.M else whole.layout
    return FragmentType.of((wgmma.M, columns), whole.element_type, layout)


def _together(parts: list[Any], whole: Any) -> Any:
    """Fragments of 64 rows each as one: its registers are theirs in turn."""
    if len(parts) == 1:
        return parts[0]
    elements = [element for part in parts for element in emit.elements(tile.to_lane(part))]
    return tile.from_lane(vector.from_elements(whole.lane_type, elements), whole)
