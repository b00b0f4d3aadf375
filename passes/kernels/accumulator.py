"""The part of a `wgmma` kernel that multiplies a tile: sums in the registers of a warpgroup.

Tensor cores add products of fp8 with 13 bits of fraction. `PromotedAccumulator` lets them add those of one K
block; the blocks are added in f32, each multiplied by block scales first where the operands have such.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

from weft.dialects import tile
from weft.dialects.product_types import Types
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import FragmentType
from weft.isa import wgmma
from weft.isa.chips import LANES
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.fragments import of_atoms, undefined, widened
from weft.passes.kernels.promoted_scales import BlockScales, RowScales, TileRowScales, TileScales
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.tiles import each_k_block, every_k_block


def sums_type(schedule: WarpgroupSchedule, types: Types, columns: int | None = None) -> ir.Type:
    """The type of a warpgroup's sums, or of `columns` columns of them, as the epilogue has them."""
    columns = columns or schedule.block[1]
    form = replace(schedule, block=(wgmma.M, columns, wgmma.M)).form(types)
    return of_atoms(form.operands[0], (schedule.rows, columns), ir.Type.parse(types.sums))


class Accumulator:
    """Sums that stay in the accumulators of `wgmma` from a tile's first K block to its last.

    With `overlaps` the products of a K block are still in flight when the next ones start, and a stage is
    released one block late. Otherwise another warpgroup's products fill the waits.
    """

    def __init__(self, feed: Feed[WarpgroupSchedule], types: Types) -> None:
        self.feed, self.schedule = feed, feed.schedule
        wide = sums_type(self.schedule, types)
        self.kind = FragmentType.of(wide.shape, ir.Type.parse(types.instruction_sums), wide.layout)

    def multiply(
        self,
        at: Tile,
        start: ir.Value | int,
        position: list[ir.Value],
        started: Callable[[], None] = lambda: None,
    ) -> list[ir.Value]:
        """Multiplies all K blocks of a warpgroup's rows from `start` on; returns the sums and the ring's next
        position. Calls `started` when all products have started.
        """
        ring, late = self.feed.ring, self.schedule.overlaps

        def block(number: ir.Value, continues: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            last, stage, phase = carried
            tile.await_(ring, stage, phase)
            self.feed.prepare(at, number, stage, phase)
            left, right = self.feed.left, self.feed.right
            tile.gemm_async(
                left.part(stage, start, self.schedule.rows),
                right.part(stage, 0, right.extent),
                undefined(self.kind),
                continues,
                first_sum=0,
                transpose_a=not left.k_major,
                transpose_b=right.k_major,
            )
            tile.wait_gemm(pending=int(late))
            with emit.when(continues) if late else nullcontext():
                self.feed.release(last if late else stage)
            return [stage, *tile.advance(ring, stage, phase)]

        # The first block starts the sums: if they were zeroed first, ptxas would serialize all products.
        last, *position = every_k_block(at, [position[0], *position], block)
        started()
        tile.wait_gemm()
        if late:
            self.feed.release(last)
        return [widened(tile.read_sums(self.kind, 0)), *position]


_SETS = 2
"""Of registers for products: one, or two that take turns."""


class PromotedAccumulator:
    """Sums in f32 outside of the tensor cores' accumulators, which hold one K block's products at a time."""

    def __init__(self, feed: Feed[WarpgroupSchedule], types: Types) -> None:
        self.feed, self.schedule, self.kind = feed, feed.schedule, sums_type(feed.schedule, types)
        self._products = self.schedule.products(types)

    def multiply(self, at: Tile, start: ir.Value, position: list[ir.Value]) -> list[ir.Value]:
        """Multiplies all K blocks of a warpgroup's rows from `start` on; returns the sums and the ring's next
        position.
        """
        parts = self.schedule.rows // wgmma.M
        kind = _rows(self.kind)
        rows = [emit.add(start, part * wgmma.M) for part in range(parts)]
        staged = self.feed.scales
        scales = staged.of_tile(at, rows, kind) if isinstance(staged, BlockScales | RowScales) else None
        blocks = _Blocks(self.feed, at, rows, kind, scales)
        tile.clear_sums(blocks.first_sum(0), self.kind.registers)
        if self._products > 1:
            position = _add_up_overlapped(blocks, position)
        elif parts == 1:
            position = _add_up_in_turn(blocks, position)
        else:
            position = _add_up_parts(blocks, position)
        return [tile.read_sums(self.kind, blocks.first_sum(0)), *position]


@dataclass(frozen=True)
class _Blocks:
    """The K blocks of a tile, multiplied 64 rows at a time: parts that begin at `rows`, of type `kind`."""

    feed: Feed[WarpgroupSchedule]
    tile: Tile
    rows: list[ir.Value]
    kind: ir.Type
    scales: TileScales | TileRowScales | None

    @property
    def read_ahead(self) -> TileScales | None:
        """The scales, if those of B are read from global memory."""
        return self.scales if isinstance(self.scales, TileScales) else None

    @property
    def span(self) -> tuple[int, ir.Value] | tuple[ir.Value | int, ir.Value]:
        """The tile's first K block, and the one after its last."""
        assert self.tile.k_span is not None
        return self.tile.k_span

    def first_sum(self, part: int) -> int:
        """The number of the first register of a part's sums, which follow those of products."""
        return (_SETS + part) * int(self.kind.registers)

    def start(self, part: int, stage: ir.Value, into: int = 0) -> None:
        """Starts the products of a part with the K block in a stage, in the registers of set `into`."""
        left, right = self.feed.left, self.feed.right
        tile.gemm_async(
            left.part(stage, self.rows[part], wgmma.M),
            right.part(stage, 0, right.extent),
            undefined(self.kind),
            emit.constant(emit.i1(), 0),
            transpose_b=right.k_major,
            first_sum=into * self.kind.registers,
        )

    def of_b(self, number: ir.Value | int) -> list[ir.Value]:
        """The scales of B in global memory for the tile's K block `number`; none without."""
        return self.scales.of_b(number) if self.scales else []

    def factors(self, part: int, stage: ir.Value, of_b: list[ir.Value]) -> list[ir.Value]:
        """The factors of a part's products with the K block in a stage; none without scales."""
        return self.scales.factors(part, stage, of_b) if self.scales else []

    def add(self, part: int, factors: list[ir.Value], products: int = 0) -> None:
        """Adds finished products, in the registers of a set, to a part's sums."""
        count = self.kind.registers
        numbers = self.scales.numbers if self.scales else None
        tile.add_products(products * count, self.first_sum(part), count, factors, factor_numbers=numbers)


def _add_up_in_turn(blocks: _Blocks, position: list[ir.Value]) -> list[ir.Value]:
    """Finishes and adds a K block's products before the next ones start.

    Another warpgroup's products keep the tensor cores busy during the additions. The next block is awaited
    after them: a warp that waited earlier could not add in the meantime.
    """
    ring, scales = blocks.feed.ring, blocks.read_ahead

    def block(_: ir.Value, position: list[ir.Value], of_b: list[ir.Value], __: bool = True) -> list[ir.Value]:
        stage, phase = position
        tile.await_(ring, stage, phase)
        blocks.start(0, stage)
        factors = blocks.factors(0, stage, of_b)
        tile.wait_gemm()
        blocks.add(0, factors)
        blocks.feed.release(stage)
        return list(tile.advance(ring, stage, phase))

    if scales is None:
        return emit.loop(*blocks.span, 1, position, lambda number, carried: block(number, carried, []))
    return _each_scaled(scales, blocks.span, position, block)


def _add_up_parts(blocks: _Blocks, position: list[ir.Value]) -> list[ir.Value]:
    """As in turn, with several parts that use the same registers one after the other. Returns the ring's next
    position.

    An iteration begins and ends with a K block's last part in flight, which hides the loop's own
    instructions. The next block is awaited after that part's sums: ptxas moves the first test of the barrier
    before them, so that its result is there afterwards. The first K block has no code of its own, which would
    take as long to compile as that of an iteration.
    """
    ring = blocks.feed.ring

    def iteration(
        number: ir.Value, carried: list[ir.Value], of_b: list[ir.Value], may_begin: bool = True
    ) -> list[ir.Value]:
        """`may_begin`: whether the K block of this number may be the tile's first."""
        position = carried[-2:]

        def next_() -> None:
            _end_block(blocks, carried)
            tile.await_(ring, *position)

        if may_begin:
            emit.branch(emit.less(begins, number), next_, lambda: tile.await_(ring, *position))
        else:
            next_()
        return _begin_block(blocks, position, of_b)

    begins, ends = blocks.span
    ends = emit.maximum(ends, emit.add(begins, 1))
    zero = emit.constant(ir.F32Type.get(), 0.0)
    factors = [zero] * (max(blocks.scales.numbers) + 1 if blocks.scales else 0)
    carried = [*factors, position[0], *position]
    if (read_ahead := blocks.read_ahead) is None:
        carried = emit.loop(begins, ends, 1, carried, lambda number, now: iteration(number, now, []))
    else:
        carried = _each_scaled(read_ahead, (begins, ends), carried, iteration, at_once=2)
    _end_block(blocks, carried)
    return carried[-2:]


def _begin_block(blocks: _Blocks, position: list[ir.Value], of_b: list[ir.Value]) -> list[ir.Value]:
    """Starts all parts of a K block that has arrived; the last one stays in flight. Returns its factors, its
    stage, and the ring's next position.
    """
    stage, parts = position[0], len(blocks.rows)
    # Read before products start: otherwise their second instruction would wait for the factors.
    factors = [blocks.factors(part, stage, of_b) for part in range(parts)]
    blocks.start(0, stage)
    for part in range(parts - 1):
        tile.wait_gemm()
        blocks.add(part, factors[part])
        blocks.start(part + 1, stage)
    return [*factors[-1], stage, *tile.advance(blocks.feed.ring, *position)]


def _end_block(blocks: _Blocks, carried: list[ir.Value]) -> None:
    """Adds a K block's last part, from what `_begin_block` returned."""
    *factors, stage, _, _ = carried
    tile.wait_gemm()
    blocks.feed.release(stage)
    blocks.add(len(blocks.rows) - 1, factors)


def _each_scaled(
    scales: TileScales,
    span: tuple[ir.Value | int, ir.Value],
    carried: list[ir.Value],
    body: Callable[[ir.Value, list[ir.Value], list[ir.Value], bool], list[ir.Value]],
    at_once: int = 1,
) -> list[ir.Value]:
    """A loop over a span of K blocks, 32 at a time: each lane of a warp has read the scales of B for one of
    them, so that nothing waits for memory between products.

    `body` computes the next carried values from a block's number, the current values, the block's scales, and
    whether it may be the first of the span; an iteration of the inner loop calls it `at_once` times. Returns
    what the loop carries.
    """
    begin, end = span
    of_b, ahead = scales.of_b(begin), scales.of_lanes(emit.add(begin, 1))
    count = len(of_b)

    def several(first: ir.Value, all_: list[ir.Value]) -> list[ir.Value]:
        of_lanes, left = all_[:count], all_[count:]

        def one(number: ir.Value, left: list[ir.Value], may_begin: bool) -> list[ir.Value]:
            made = body(number, left[:-count], left[-count:], may_begin)
            return [*made, *(emit.of_lane(each, emit.sub(number, first)) for each in of_lanes)]

        later = scales.of_lanes(emit.add(first, LANES + 1))
        last = emit.minimum(emit.add(first, LANES), end)

        def more(number: ir.Value, left: list[ir.Value], further: int = 1) -> list[ir.Value]:
            left = one(number, left, further == 1)
            if further == at_once:
                return left
            next_ = emit.add(number, 1)
            kinds = [each.type for each in left]
            return emit.either(
                emit.less(next_, last), kinds, lambda: more(next_, left, further + 1), lambda: left
            )

        return [*later, *emit.loop(first, last, at_once, left, more)]

    return emit.loop(begin, end, LANES, [*ahead, *carried, *of_b], several)[count:-count]


@dataclass(frozen=True)
class _InFlight:
    """A K block whose products are in flight: the set of their registers, their stage, and the block's scales
    of B.
    """

    products: int
    stage: ir.Value
    of_b: list[ir.Value]


def _add_up_overlapped(blocks: _Blocks, position: list[ir.Value]) -> list[ir.Value]:
    """Adds a K block's products while those of the next block are in flight.

    Two sets of registers take turns, and an iteration starts products in both: if products in flight moved to
    other registers at its end, ptxas would serialize all products. A stage is released one block late.
    """
    ring, (begin, end) = blocks.feed.ring, blocks.span

    def start(
        number: ir.Value | int, position: list[ir.Value], into: int
    ) -> tuple[_InFlight, list[ir.Value]]:
        of_b = blocks.of_b(number)  # needed one block later, which hides the load
        tile.await_(ring, *position)
        blocks.start(0, position[0], into)
        return _InFlight(into, position[0], of_b), list(tile.advance(ring, *position))

    def land(flight: _InFlight, pending: int) -> None:
        factors = blocks.factors(0, flight.stage, flight.of_b)
        tile.wait_gemm(pending=pending)
        blocks.feed.release(flight.stage)
        blocks.add(0, factors, flight.products)

    def pair(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        position, first = carried[:2], _InFlight(0, carried[2], carried[3:])
        second, position = start(number, position, 1)
        land(first, 1)
        first, position = start(emit.add(number, 1), position, 0)
        land(second, 1)
        return [*position, first.stage, *first.of_b]

    first, position = start(begin, position, 0)
    left = each_k_block(blocks.tile, [*position, first.stage, *first.of_b], pair, at_once=2)
    position, first = left[:2], _InFlight(0, left[2], left[3:])
    rest = emit.equal(emit.rem(emit.sub(end, begin), 2), 0)

    def one_more() -> None:
        second, _ = start(emit.sub(end, 1), position, 1)
        land(first, 1)
        land(second, 0)

    emit.branch(rest, one_more, lambda: land(first, 0))
    # Selected, since ptxas does not know that values which leave the branches are uniform in a warp.
    advanced = zip(tile.advance(ring, *position), position, strict=True)
    return [emit.select(rest, far, near) for far, near in advanced]


def _rows(whole: ir.Type) -> ir.Type:
    """The type of the first 64 rows of a warpgroup's sums."""
    rows, columns = whole.shape
    layout = whole.layout.slice(whole.shape, (0, 0), (wgmma.M, columns)) if rows > wgmma.M else whole.layout
    return FragmentType.of((wgmma.M, columns), whole.element_type, layout)


class Together:
    """All warpgroups multiply each tile."""

    count = 1

    def __init__(self, accumulator: Accumulator | PromotedAccumulator) -> None:
        self.accumulator, self.rows = accumulator, accumulator.schedule.rows

    def first(self, warpgroup: ir.Value) -> int:
        """The number of a warpgroup's first tile among those of the CTA."""
        return 0

    def start(self, warpgroup: ir.Value) -> ir.Value:
        """The first row of a tile that a warpgroup multiplies."""
        return emit.mul(warpgroup, self.rows)

    def begin(self, warpgroup: ir.Value) -> list[ir.Value]:
        """The values that a warpgroup carries from tile to tile: first the position in the ring of stages."""
        return [emit.value(0), emit.value(0)]

    def multiply(self, at: Tile, warpgroup: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """Multiplies a tile; returns a warpgroup's sums and what it carries to its next tile."""
        return self.accumulator.multiply(at, self.start(warpgroup), carried)


class Turns:
    """Each warpgroup multiplies whole tiles, and one writes its tile while another one multiplies.

    A warpgroup begins when the one before it has seen all of its stages full: earlier, it couldn't tell the
    phases of a stage apart.
    """

    def __init__(self, accumulator: Accumulator | PromotedAccumulator) -> None:
        """Makes a ring with a stage for each warpgroup's turn at the insertion point."""
        assert isinstance(accumulator, Accumulator)
        self.accumulator, self.tiles = accumulator, accumulator.feed.tiles
        self.count = accumulator.schedule.warpgroups
        self.ring = tile.make_ring(self.count, consumers=1)

    def first(self, warpgroup: ir.Value) -> ir.Value:
        """As `Together.first`."""
        return warpgroup

    def start(self, warpgroup: ir.Value) -> int:
        """As `Together.start`."""
        return 0

    def begin(self, warpgroup: ir.Value) -> list[ir.Value]:
        """The phase of the first turn, and the position in the ring of stages."""
        waits = emit.select(emit.equal(warpgroup, 0), 0, 1)  # for nobody, in the first warpgroup
        return [waits, *self._skip([emit.value(0), emit.value(0)], warpgroup)]

    def multiply(self, at: Tile, warpgroup: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """As `Together.multiply`, in a warpgroup's turn."""
        phase, *position = carried
        tile.acquire(self.ring, warpgroup, phase)
        sums, *position = self.accumulator.multiply(at, 0, position, lambda: self._pass_on(warpgroup))
        return [sums, emit.xor(phase, 1), *self._skip(position, self.count - 1)]

    def _pass_on(self, warpgroup: ir.Value) -> None:
        """Lets the next warpgroup multiply."""
        following = emit.add(warpgroup, 1)
        tile.release(self.ring, emit.select(emit.equal(following, self.count), 0, following))

    def _skip(self, position: list[ir.Value], tiles: ir.Value | int) -> list[ir.Value]:
        """The position in the ring of stages after the K blocks of so many tiles of others."""
        stage, phase = position
        stages = self.tiles.schedule.stages
        end = emit.add(emit.mul(self.tiles.k_blocks, tiles), stage)
        wraps = emit.rem(emit.div(end, stages), 2)
        return [emit.rem(end, stages), emit.xor(phase, wraps)]
