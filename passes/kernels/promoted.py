"""Products of fp8 whose sums leave the tensor cores after every block of K, for `--expand-matmul`.

A tensor core adds up products of fp8 with 13 bits of fraction. Here it adds up those of one block, and the
blocks are added up in f32, each multiplied by scales of A and B on the way where they have such.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.isa import wgmma
from weft.isa.chips import LANES
from weft.mlir import arith, vector
from weft.passes.builders import emit
from weft.passes.kernels.block_scales import TileScales
from weft.passes.kernels.product import unset
from weft.passes.kernels.tile_order import Place

if TYPE_CHECKING:
    from weft.passes.kernels.wgmma_kernel import WgmmaKernel


def multiply(kernel: "WgmmaKernel", place: Place, start: Any, position: list[Any]) -> list[Any]:
    """All blocks of K of a warpgroup's rows from `start` on: the sums, and where the ring stands."""
    parts = kernel.schedule.rows // wgmma.M
    kind = _rows(kernel.sums_type)
    rows = [emit.add(start, part * wgmma.M) for part in range(parts)]
    scales = kernel.scales.of_tile(place, rows, kind) if kernel.scales else None
    blocks = _Blocks(kernel, rows, kind, scales)
    if kernel.schedule.products(kernel.op.types) > 1:
        return _add_up_beside(blocks, position)
    return _add_up_parts(blocks, position) if parts > 1 else _add_up_in_turn(blocks, position)


@dataclass(frozen=True)
class _Blocks:
    """The blocks of K of a tile, multiplied 64 rows at a time: parts that begin at `rows`, of type `kind`."""

    kernel: "WgmmaKernel"
    rows: list[Any]
    kind: Any
    scales: TileScales | None

    @property
    def zeros(self) -> Any:
        """Sums of nothing."""
        return tile.from_lane(emit.constant(self.kind.lane_type, 0.0), self.kind)

    def start(self, part: int, stage: Any, into: Any) -> Any:
        """Starts the products of a part with the block in a stage, in the place of what is done."""
        left, right = self.kernel.left, self.kernel.right
        return tile.gemm_async(
            left.part(stage, self.rows[part], wgmma.M),
            right.part(stage, 0, right.extent),
            into,
            emit.constant(emit.i1(), 0),
            transpose_b=right.k_inside,
        )

    def of_b(self, number: Any) -> list[Any]:
        """The scales of B for a tile's block `number`, where there are scales."""
        return self.scales.of_b(number) if self.scales else []

    def factors(self, part: int, stage: Any, of_b: list[Any]) -> Any:
        """What the products of a part with the block in a stage are multiplied by; None for nothing."""
        return self.scales and self.scales.factors(part, stage, of_b)

    def add(self, sums: Any, products: Any, factors: Any) -> Any:
        """The sums with products that are done."""
        lane, total = tile.to_lane(products), tile.to_lane(sums)
        total = arith.addf(total, lane) if factors is None else vector.fma(lane, factors, total)
        # LLVM would add up later, with more products in registers than these.
        return tile.pin(tile.from_lane(total, self.kind))


def _add_up_in_turn(blocks: _Blocks, position: list[Any]) -> list[Any]:
    """A block's products are done and added up before the next are started.

    What another warpgroup has under way keeps the tensor cores busy while this one adds up. The next block is
    awaited after that: a warp that asked for it before and had to wait would sleep over all of its sums.
    """
    kernel, ring, scales = blocks.kernel, blocks.kernel.ring, blocks.scales

    def block(carried: list[Any], of_b: list[Any]) -> list[Any]:
        sums, stage, phase = carried
        tile.await_(ring, stage, phase)
        products = blocks.start(0, stage, unset(blocks.kind))
        factors = blocks.factors(0, stage, of_b)
        (products,) = tile.wait_gemm(products)
        sums = blocks.add(sums, products, factors)
        kernel.release(stage)
        return [sums, *tile.advance(ring, stage, phase)]

    span, carried = (kernel.k_first, kernel.k_end), [blocks.zeros, *position]
    if scales is None:
        return emit.loop(*span, 1, carried, lambda _, carried: block(carried, []))
    return _each_scaled(scales, span, carried, block)


def _add_up_parts(blocks: _Blocks, position: list[Any]) -> list[Any]:
    """As in turn, with several parts, each in the place of the products of the one before.

    A way around the loop begins and ends with a block's last part under way: what the loop itself takes runs
    beside that. The next block is awaited behind that part's sums: ptxas asks before these are made, so that
    the answer is there after them.
    """
    kernel, ring, parts, scales = blocks.kernel, blocks.kernel.ring, len(blocks.rows), blocks.scales

    def begin(sums: list[Any], products: Any, position: list[Any], of_b: list[Any]) -> list[Any]:
        """All parts of a block that has come: the last is under way."""
        stage = position[0]
        # Read before products start, of which the second instruction would else wait for them.
        factors = [blocks.factors(part, stage, of_b) for part in range(parts)] if scales else []
        products = blocks.start(0, stage, products)
        for part in range(parts - 1):
            (products,) = tile.wait_gemm(products)
            sums[part] = blocks.add(sums[part], products, factors[part] if scales else None)
            products = blocks.start(part + 1, stage, products)
        return [*sums, products, *factors[-1:], stage, *tile.advance(ring, *position)]

    def end(carried: list[Any]) -> tuple[list[Any], Any, list[Any]]:
        """The sums with a block's last part, the products in whose place the next come, and where."""
        *sums, products = carried[: parts + 1]
        *factors, stage, next_stage, next_phase = carried[parts + 1 :]
        (products,) = tile.wait_gemm(products)
        kernel.release(stage)
        sums[-1] = blocks.add(sums[-1], products, factors[0] if scales else None)
        return sums, products, [next_stage, next_phase]

    def around(carried: list[Any], of_b: list[Any]) -> list[Any]:
        sums, products, position = end(carried)
        tile.await_(ring, *position)
        return begin(sums, products, position, of_b)

    of_b, span = blocks.of_b(kernel.k_first), (emit.add(kernel.k_first, 1), kernel.k_end)
    tile.await_(ring, *position)
    carried = begin([blocks.zeros] * parts, unset(blocks.kind), position, of_b)
    if scales is None:
        carried = emit.loop(*span, 1, carried, lambda _, carried: around(carried, []))
    else:
        carried = _each_scaled(scales, span, carried, around, at_once=2)
    sums, _, position = end(carried)
    return [_together(sums, kernel.sums_type), *position]


def _each_scaled(
    scales: TileScales,
    span: tuple[Any, Any],
    carried: list[Any],
    body: Callable[[list[Any], list[Any]], list[Any]],
    at_once: int = 1,
) -> list[Any]:
    """A loop over the blocks of K of a span, as many of them at a time as a warp has lanes: each lane has
    read the scales of B for one, so that between products nothing waits for memory.

    `body` makes what is carried next of that and a block's scales, so many times `at_once` on a way around.
    Returns what the loop leaves.
    """
    begin, end = span
    of_b, ahead = scales.of_b(begin), scales.of_lanes(emit.add(begin, 1))
    count = len(of_b)

    def several(first: Any, all_: list[Any]) -> list[Any]:
        of_lanes, left = all_[:count], all_[count:]

        def one(number: Any, left: list[Any]) -> list[Any]:
            made = body(left[:-count], left[-count:])
            return [*made, *(emit.of_lane(each, emit.sub(number, first)) for each in of_lanes)]

        def more(number: Any, left: list[Any]) -> list[Any]:
            for further in range(at_once):
                left = one(emit.add(number, further), left)
            return left

        later = scales.of_lanes(emit.add(first, LANES + 1))
        last = emit.minimum(emit.add(first, LANES), end)
        alone = first
        if at_once > 1:
            alone = emit.sub(last, emit.rem(emit.sub(last, first), at_once))
            left = emit.loop(first, alone, at_once, left, more)
        return [*later, *emit.loop(alone, last, 1, left, one)]

    return emit.loop(begin, end, LANES, [*ahead, *carried, *of_b], several)[count:-count]


@dataclass(frozen=True)
class _Flight:
    """A block whose products are under way: these, the stage that they read, and the block's scales of B."""

    products: Any
    stage: Any
    of_b: list[Any]


def _add_up_beside(blocks: _Blocks, position: list[Any]) -> list[Any]:
    """A block's products are added up while those of the next are under way.

    Two sets of registers take turns, and a way around the loop starts products in both: were those under way
    moved to other registers at its end, ptxas would have every product wait for the one before. A stage is
    released when its products are done, a block late.
    """
    kernel, ring = blocks.kernel, blocks.kernel.ring

    def start(number: Any, position: list[Any], into: Any) -> tuple[_Flight, list[Any]]:
        of_b = blocks.of_b(number)  # of use a block later: memory has until then
        tile.await_(ring, *position)
        flight = _Flight(blocks.start(0, position[0], into), position[0], of_b)
        return flight, list(tile.advance(ring, *position))

    def land(flight: _Flight, sums: Any, pending: int) -> tuple[Any, Any]:
        factors = blocks.factors(0, flight.stage, flight.of_b)
        (products,) = tile.wait_gemm(flight.products, pending=pending)
        kernel.release(flight.stage)
        return blocks.add(sums, products, factors), products

    def pair(number: Any, carried: list[Any]) -> list[Any]:
        sums, position, first = carried[0], carried[1:3], _Flight(carried[3], carried[4], carried[5:])
        second, position = start(number, position, unset(blocks.kind))
        sums, landed = land(first, sums, 1)
        first, position = start(emit.add(number, 1), position, landed)
        sums, _ = land(second, sums, 1)
        return [sums, *position, first.products, first.stage, *first.of_b]

    first, position = start(kernel.k_first, position, unset(blocks.kind))
    carried = [blocks.zeros, *position, first.products, first.stage, *first.of_b]
    left = kernel.each_block(carried, pair, together=2)
    sums, position, first = left[0], left[1:3], _Flight(left[3], left[4], left[5:])
    rest = emit.equal(emit.rem(emit.sub(kernel.k_end, kernel.k_first), 2), 0)

    def one_more() -> list[Any]:
        second, _ = start(emit.sub(kernel.k_end, 1), position, unset(blocks.kind))
        return [land(second, land(first, sums, 1)[0], 0)[0]]

    total = emit.either(rest, [sums.type], one_more, lambda: [land(first, sums, 0)[0]])
    # Chosen, not left by the branches: what they leave ptxas doesn't know to be the same in a warp's lanes.
    behind = zip(tile.advance(ring, *position), position, strict=True)
    return [*total, *(emit.select(rest, far, near) for far, near in behind)]


def _rows(whole: Any) -> Any:
    """The type of the first 64 rows of a warpgroup's sums."""
    rows, columns = whole.shape
    layout = whole.layout.slice(whole.shape, (0, 0), (wgmma.M, columns)) if rows > wgmma.M else whole.layout
    return FragmentType.of((wgmma.M, columns), whole.element_type, layout)


def _together(parts: list[Any], whole: Any) -> Any:
    """Fragments of 64 rows each as one: its registers are theirs in turn."""
    elements = [element for part in parts for element in emit.elements(tile.to_lane(part))]
    return tile.from_lane(vector.from_elements(whole.lane_type, elements), whole)
