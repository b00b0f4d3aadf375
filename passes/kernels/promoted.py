"""Products of fp8 whose sums leave the accumulators of `wgmma` after every K block.

Tensor cores add products of fp8 with 13 bits of fraction. Here they add those of one K block; the blocks are
added in f32, each multiplied by block scales first where the operands have such.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.dialects.tile import FragmentType
from weft.isa import wgmma
from weft.isa.chips import LANES
from weft.mlir import arith, llvm, vector
from weft.passes.builders import emit
from weft.passes.kernels.accumulator import sums_type
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.fragments import undefined
from weft.passes.kernels.promoted_scales import BlockScales, TileScales
from weft.passes.kernels.row_scales import RowScales, TileRowScales
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import each_k_block


class PromotedAccumulator:
    """Sums in f32 outside of the tensor cores' accumulators, which hold one K block's products at a time."""

    def __init__(self, feed: Feed[WarpgroupSchedule], types: Types) -> None:
        self.feed, self.schedule, self.kind = feed, feed.schedule, sums_type(feed.schedule, types)
        self._products = self.schedule.products(types)

    def multiply(self, at: Tile, start: Any, position: list[Any]) -> list[Any]:
        """Multiplies all K blocks of a warpgroup's rows from `start` on; returns the sums and the ring's next
        position.
        """
        parts = self.schedule.rows // wgmma.M
        kind = _rows(self.kind)
        rows = [emit.add(start, part * wgmma.M) for part in range(parts)]
        staged = self.feed.scales
        scales = staged.of_tile(at, rows, kind) if isinstance(staged, BlockScales | RowScales) else None
        blocks = _Blocks(self.feed, at, rows, kind, scales)
        if self._products > 1:
            return _add_up_overlapped(blocks, position)
        if parts == 1:
            return _add_up_in_turn(blocks, position)
        *sums, stage, phase = _add_up_parts(blocks, position)
        return [_joined(sums, self.kind), stage, phase]


@dataclass(frozen=True)
class _Blocks:
    """The K blocks of a tile, multiplied 64 rows at a time: parts that begin at `rows`, of type `kind`."""

    feed: Feed[WarpgroupSchedule]
    tile: Tile
    rows: list[Any]
    kind: Any
    scales: TileScales | TileRowScales | None

    @property
    def read_ahead(self) -> TileScales | None:
        """The scales, if those of B are read from global memory."""
        return self.scales if isinstance(self.scales, TileScales) else None

    @property
    def span(self) -> tuple[Any, Any]:
        """The tile's first K block, and the one after its last."""
        assert self.tile.k_span is not None
        return self.tile.k_span

    @property
    def zeros(self) -> Any:
        """Sums of zero."""
        return tile.from_lane(emit.constant(self.kind.lane_type, 0.0), self.kind)

    def start(self, part: int, stage: Any, into: Any) -> Any:
        """Starts the products of a part with the K block in a stage; they overwrite `into`."""
        left, right = self.feed.left, self.feed.right
        return tile.gemm_async(
            left.part(stage, self.rows[part], wgmma.M),
            right.part(stage, 0, right.extent),
            into,
            emit.constant(emit.i1(), 0),
            transpose_b=right.k_major,
        )

    def of_b(self, number: Any) -> list[Any]:
        """The scales of B in global memory for the tile's K block `number`; none without."""
        return self.scales.of_b(number) if self.scales else []

    def factors(self, part: int, stage: Any, of_b: list[Any]) -> list[Any]:
        """The factors of a part's products with the K block in a stage; none without scales."""
        return self.scales.factors(part, stage, of_b) if self.scales else []

    def add(self, sums: Any, products: Any, factors: list[Any]) -> Any:
        """The sums plus finished products."""
        lane, totals = emit.elements(tile.to_lane(products)), emit.elements(tile.to_lane(sums))
        # Not as vectors, which LLVM would make of registers and take apart again.
        if self.scales:
            of_lane = [factors[number] for number in self.scales.numbers]
            totals = [llvm.intr_fma(*each) for each in zip(lane, of_lane, totals, strict=True)]
        else:
            totals = [arith.addf(*each) for each in zip(totals, lane, strict=True)]
        # Without the pin, LLVM sinks the additions and keeps more products in registers.
        return tile.pin(tile.from_lane(vector.from_elements(self.kind.lane_type, totals), self.kind))


def _add_up_in_turn(blocks: _Blocks, position: list[Any]) -> list[Any]:
    """Finishes and adds a K block's products before the next ones start.

    Another warpgroup's products keep the tensor cores busy during the additions. The next block is awaited
    after them: a warp that waited earlier could not add in the meantime.
    """
    ring, scales = blocks.feed.ring, blocks.read_ahead

    def block(carried: list[Any], of_b: list[Any]) -> list[Any]:
        sums, stage, phase = carried
        tile.await_(ring, stage, phase)
        products = blocks.start(0, stage, undefined(blocks.kind))
        factors = blocks.factors(0, stage, of_b)
        (products,) = tile.wait_gemm(products)
        sums = blocks.add(sums, products, factors)
        blocks.feed.release(stage)
        return [sums, *tile.advance(ring, stage, phase)]

    span, carried = blocks.span, [blocks.zeros, *position]
    if scales is None:
        return emit.loop(*span, 1, carried, lambda _, carried: block(carried, []))
    return _each_scaled(scales, span, carried, block)


def _add_up_parts(blocks: _Blocks, position: list[Any]) -> list[Any]:
    """As in turn, with several parts that use the same registers one after the other. Returns the parts' sums
    and the ring's next position.

    An iteration begins and ends with a K block's last part in flight, which hides the loop's own
    instructions. The next block is awaited after that part's sums: ptxas moves the first test of the barrier
    before them, so that its result is there afterwards.
    """
    ring, parts = blocks.feed.ring, len(blocks.rows)

    def begin(sums: list[Any], products: Any, position: list[Any], of_b: list[Any]) -> list[Any]:
        """Starts all parts of a K block that has arrived; the last one stays in flight."""
        stage = position[0]
        # Read before products start: otherwise their second instruction would wait for the factors.
        factors = [blocks.factors(part, stage, of_b) for part in range(parts)]
        products = blocks.start(0, stage, products)
        for part in range(parts - 1):
            (products,) = tile.wait_gemm(products)
            sums[part] = blocks.add(sums[part], products, factors[part])
            products = blocks.start(part + 1, stage, products)
        return [*sums, products, *factors[-1], stage, *tile.advance(ring, *position)]

    def end(carried: list[Any]) -> tuple[list[Any], Any, list[Any]]:
        """Adds a K block's last part; returns the sums, the free registers and the ring's next position."""
        *sums, products = carried[: parts + 1]
        *factors, stage, next_stage, next_phase = carried[parts + 1 :]
        (products,) = tile.wait_gemm(products)
        blocks.feed.release(stage)
        sums[-1] = blocks.add(sums[-1], products, factors)
        return sums, products, [next_stage, next_phase]

    def iteration(carried: list[Any], of_b: list[Any]) -> list[Any]:
        sums, products, position = end(carried)
        tile.await_(ring, *position)
        return begin(sums, products, position, of_b)

    first, after = blocks.span
    of_b, span = blocks.of_b(first), (emit.add(first, 1), after)
    tile.await_(ring, *position)
    carried = begin([blocks.zeros] * parts, undefined(blocks.kind), position, of_b)
    if (read_ahead := blocks.read_ahead) is None:
        carried = emit.loop(*span, 1, carried, lambda _, carried: iteration(carried, []))
    else:
        carried = _each_scaled(read_ahead, span, carried, iteration, at_once=2)
    sums, _, position = end(carried)
    return [*sums, *position]


def _each_scaled(
    scales: TileScales,
    span: tuple[Any, Any],
    carried: list[Any],
    body: Callable[[list[Any], list[Any]], list[Any]],
    at_once: int = 1,
) -> list[Any]:
    """A loop over a span of K blocks, 32 at a time: each lane of a warp has read the scales of B for one of
    them, so that nothing waits for memory between products.

    `body` computes the next carried values from the current ones and a block's scales; an iteration of the
    inner loop calls it `at_once` times. Returns what the loop carries.
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
class _InFlight:
    """A K block whose products are in flight: the products, their stage, and the block's scales of B."""

    products: Any
    stage: Any
    of_b: list[Any]


def _add_up_overlapped(blocks: _Blocks, position: list[Any]) -> list[Any]:
    """Adds a K block's products while those of the next block are in flight.

    Two sets of registers take turns, and an iteration starts products in both: if products in flight moved to
    other registers at its end, ptxas would serialize all products. A stage is released one block late.
    """
    ring, (begin, end) = blocks.feed.ring, blocks.span

    def start(number: Any, position: list[Any], into: Any) -> tuple[_InFlight, list[Any]]:
        of_b = blocks.of_b(number)  # needed one block later, which hides the load
        tile.await_(ring, *position)
        flight = _InFlight(blocks.start(0, position[0], into), position[0], of_b)
        return flight, list(tile.advance(ring, *position))

    def land(flight: _InFlight, sums: Any, pending: int) -> tuple[Any, Any]:
        factors = blocks.factors(0, flight.stage, flight.of_b)
        (products,) = tile.wait_gemm(flight.products, pending=pending)
        blocks.feed.release(flight.stage)
        return blocks.add(sums, products, factors), products

    def pair(number: Any, carried: list[Any]) -> list[Any]:
        sums, position, first = carried[0], carried[1:3], _InFlight(carried[3], carried[4], carried[5:])
        second, position = start(number, position, undefined(blocks.kind))
        sums, landed = land(first, sums, 1)
        first, position = start(emit.add(number, 1), position, landed)
        sums, _ = land(second, sums, 1)
        return [sums, *position, first.products, first.stage, *first.of_b]

    first, position = start(begin, position, undefined(blocks.kind))
    carried = [blocks.zeros, *position, first.products, first.stage, *first.of_b]
    left = each_k_block(blocks.tile, carried, pair, at_once=2)
    sums, position, first = left[0], left[1:3], _InFlight(left[3], left[4], left[5:])
    rest = emit.equal(emit.rem(emit.sub(end, begin), 2), 0)

    def one_more() -> list[Any]:
        second, _ = start(emit.sub(end, 1), position, undefined(blocks.kind))
        return [land(second, land(first, sums, 1)[0], 0)[0]]

    total = emit.either(rest, [sums.type], one_more, lambda: [land(first, sums, 0)[0]])
    # Selected, since ptxas does not know that values which leave the branches are uniform in a warp.
    advanced = zip(tile.advance(ring, *position), position, strict=True)
    return [*total, *(emit.select(rest, far, near) for far, near in advanced)]


def _rows(whole: Any) -> Any:
    """The type of the first 64 rows of a warpgroup's sums."""
    rows, columns = whole.shape
    layout = whole.layout.slice(whole.shape, (0, 0), (wgmma.M, columns)) if rows > wgmma.M else whole.layout
    return FragmentType.of((wgmma.M, columns), whole.element_type, layout)


def _joined(parts: list[Any], whole: Any) -> Any:
    """Fragments of 64 rows each as one: its registers are theirs in turn."""
    elements = [element for part in parts for element in emit.elements(tile.to_lane(part))]
    return tile.from_lane(vector.from_elements(whole.lane_type, elements), whole)
