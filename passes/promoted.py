"""Products of fp8 whose sums leave the tensor cores after every block of K, for `--expand-matmul`.

A tensor core adds up products of fp8 with 13 bits of fraction. Here it adds up those of one block, and the
blocks are added up in f32.
"""

from typing import TYPE_CHECKING, Any

from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.isa import wgmma
from weft.mlir import arith, ir, llvm, vector
from weft.passes import emit

if TYPE_CHECKING:
    from weft.passes.wgmma_kernel import WgmmaKernel


def multiply(kernel: "WgmmaKernel", start: Any, position: list[Any]) -> list[Any]:
    """All blocks of K of a warpgroup's rows from `start` on: the sums, and where the ring stands.

    A block's products go 64 rows at a time. What another warpgroup has under way keeps the tensor cores busy
    while this one adds up.
    """
    whole = kernel.sums_type
    parts = kernel.schedule.rows // wgmma.M
    kind = _rows(whole)
    zero = tile.from_lane(emit.constant(kind.lane_type, 0.0), kind)

    def block(_: Any, carried: list[Any]) -> list[Any]:
        *sums, stage, phase = carried
        tile.await_(kernel.ring, stage, phase)
        right = kernel.right.part(stage, 0, kernel.right.extent)
        # What one product takes the place of is the last one: its registers are free when that is added up.
        products = tile.from_lane(llvm.mlir_undef(kind.lane_type), kind)
        for part in range(parts):
            left = kernel.left.part(stage, emit.add(start, part * wgmma.M), wgmma.M)
            products = tile.gemm_async(
                left,
                right,
                products,
                arith.constant(ir.IntegerType.get_signless(1), 0),
                transpose_b=kernel.right.k_inside,
            )
            (products,) = tile.wait_gemm(products)
            total = arith.addf(tile.to_lane(sums[part]), tile.to_lane(products))
            # Nothing is under way; but LLVM would add up later, with the products of all parts in registers.
            (sums[part],) = tile.wait_gemm(tile.from_lane(total, kind))
        kernel.release(stage)
        return [*sums, *tile.advance(kernel.ring, stage, phase)]

    *sums, stage, phase = kernel.each_block([zero] * parts + position, block)
    return [_together(sums, whole), stage, phase]


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
