"""The order in which CTAs compute the tiles of D. In persistent CTAs, the producer and the consumers walk
the same order.

Tiles go down `group` rows, then to the next column, so that concurrent tiles share data in the L2 cache.
The products of a batch follow each other. With K slices, one slice of every concurrent tile comes before
the next slice of these tiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import MOST_RUNS, AnySchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, gpu, ir, memref
from weft.passes.builders import emit
from weft.passes.kernels.matrices import size


@dataclass(frozen=True)
class Tile:
    """A tile of D, or a K slice of one: its row and column, counted in tiles, and its product's index in a
    batch (None without a batch).

    `k_span` is the first K block and the one after the last (None: all of K). In a batch, `number` is the
    tile's own among those of its product. With K slices, `number` is the tile's own and `slice` the slice's;
    its K blocks are `k_step` apart, from `k_first` on. `start` is the row and the column of tile (0, 0).
    K block 0 begins at element `k_start`. Where K blocks may have elements of other groups, those from
    `k_skip` on and before `k_count` are the tile's.
    """

    row: ir.Value
    column: ir.Value
    member: ir.Value | None = None
    number: ir.Value | int = 0
    slice: ir.Value | int = 0
    k_span: tuple[ir.Value | int, ir.Value] | None = None
    k_first: ir.Value | int = 0
    k_step: ir.Value | int = 1
    start: tuple[ir.Value | int, ir.Value | int] = (0, 0)
    k_start: ir.Value | int = 0
    k_skip: ir.Value | int = 0
    k_count: ir.Value | None = None

    def first_row(self, rows: int) -> ir.Value:
        """The first row of a tile that has `rows` rows."""
        return emit.add(emit.mul(self.row, rows), self.start[0])

    def first_column(self, columns: int) -> ir.Value:
        """The first column of a tile that has `columns` columns."""
        return emit.add(emit.mul(self.column, columns), self.start[1])

    def k_block(self, number: ir.Value | int) -> ir.Value | int:
        """The K block that is block `number` of this tile."""
        return emit.add(emit.mul(number, self.k_step), self.k_first)


@dataclass(frozen=True)
class Corner:
    """Where a warpgroup's sums of a tile begin: a row and a column of the left and the right operand, or of
    D; and the index of the tile's product in a batch.
    """

    row: ir.Value
    column: ir.Value
    index: ir.Value | None
    warpgroup: ir.Value

    def moved(self, down: ir.Value | int, right: ir.Value | int) -> "Corner":
        """The corner of a part of the sums."""
        row, column = emit.value(emit.add(self.row, down)), emit.value(emit.add(self.column, right))
        return replace(self, row=row, column=column)

    def of_d(self, schedule: AnySchedule) -> "Corner":
        """This corner of the operands as one of D."""
        row, column = (emit.value(each) for each in schedule.swapped(self.row, self.column))
        return replace(self, row=row, column=column)


@dataclass(frozen=True)
class Slices:
    """The K slices of a tile, for the CTA that computes slice `number` of `count`. `slot` is the index of the
    first slice's memory; the other slices follow it.
    """

    tile: ir.Value | int
    number: ir.Value | int
    count: ir.Value | int
    slot: ir.Value


Body = Callable[[Tile, list[ir.Value]], list[ir.Value]]


@dataclass(frozen=True)
class Order:
    """The tiles of a product of `rows` x `columns` tiles, or of `members` such products, each in `slices`
    slices of K's `blocks`. `first_member` is the product with which the order begins; those before it come
    after the last.

    Slices take turns, so that what they copy at the same time is contiguous in rows of A and B: each takes
    every `slices`-th K block. Where rows begin inside lines of L2 (`inside_lines`, an i1), two K blocks share
    a line, and each slice has consecutive K blocks.

    `change` wraps the body of `walk`: it gets the body, and returns a function that is called with each tile
    of D and calls the body with the tile as a group has it.
    """

    rows: ir.Value
    columns: ir.Value
    group: int
    members: ir.Value | None = None
    slices: int = 1
    blocks: Any = None
    first_member: ir.Value | int = 0
    inside_lines: ir.Value | None = None
    change: Callable[[Body], Body] = lambda body: body

    @property
    def count(self) -> ir.Value:
        """The number of tiles."""
        each = emit.mul(self.rows, self.columns)
        return each if self.members is None else emit.mul(each, self.members)

    def walk(self, first: ir.Value, step: ir.Value, carried: list[ir.Value], body: Body) -> list[ir.Value]:
        """A loop over every `step`-th tile, or slice of one, from `first` on. Returns what it carries.

        The slices of a tile run at the same time; consecutive slices have the same K blocks of different
        tiles of a product.
        """
        body = self.change(body)
        if self.slices == 1:
            return emit.loop(first, self.count, step, carried, lambda tile, given: body(self.at(tile), given))
        at_once = emit.maximum(emit.div(step, self.slices), 1)
        run = emit.mul(at_once, self.slices)

        def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            before, inside = emit.mul(emit.div(number, run), at_once), emit.rem(number, run)
            tiles = emit.minimum(emit.sub(self.count, before), at_once)
            slice_, number = emit.div(inside, tiles), emit.add(before, emit.rem(inside, tiles))
            count, first, blocks_apart = self._blocks_of(slice_)
            tile = replace(self.at(number), number=number, slice=slice_, k_span=(0, count))
            return body(replace(tile, k_first=first, k_step=blocks_apart), carried)

        return emit.loop(first, emit.mul(self.count, self.slices), step, carried, one)

    def _blocks_of(self, slice_: ir.Value) -> Sequence[ir.Value]:
        """The number of a slice's K blocks, the first one, and how far they are apart."""
        # Where K has fewer blocks than slices, some have one outside of K: zeros.
        others = emit.add(self.blocks, emit.sub(self.slices - 1, slice_))
        in_turns = emit.maximum(emit.div(others, self.slices), 1), slice_, emit.value(self.slices)
        if self.inside_lines is None:
            return in_turns
        first, end = k_span(self.blocks, slice_, self.slices)
        consecutive = emit.sub(end, first), first, emit.value(1)
        both = zip(consecutive, in_turns, strict=True)
        return [emit.select(self.inside_lines, one, other) for one, other in both]

    def at(self, number: ir.Value) -> Tile:
        """The tile with a number."""
        if self.members is None:
            return Tile(*grouped(number, self.rows, self.columns, self.group))
        each = emit.mul(self.rows, self.columns)
        own = emit.rem(number, each)
        inside = grouped(own, self.rows, self.columns, self.group)
        member = emit.div(number, each)
        if not isinstance(self.first_member, int):
            member = emit.rem(emit.add(member, self.first_member), self.members)
        return Tile(*inside, member, own)


@dataclass(frozen=True)
class MaskedOrder:
    """The tiles of `members` products, of which number i has `filled[i]` rows (a memref), in tiles of
    `tile_rows` rows, by `columns` tiles. With `swap`, `filled` counts columns of tiles.

    `most` is the number of rows that each product has. A count above it means all rows: a kernel that took it
    literally would run for hours.
    """

    filled: ir.Value
    most: ir.Value
    members: ir.Value | None
    tile_rows: int
    columns: ir.Value
    group: int
    swap: bool = False

    def walk(self, first: ir.Value, step: ir.Value, carried: list[ir.Value], body: Body) -> list[ir.Value]:
        """A loop over every `step`-th tile from `first` on. It carries the index of the tile's product and
        the number of that product's first tile.
        """

        def add(member: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            return [emit.add(sums[0], self._tiles(member))]

        (count,) = emit.loop(0, self.members, 1, [emit.value(0)], add)

        def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            member, before, *rest = carried
            # The search starts at `member`, whose first tile is number `before`.

            def beyond(at: ir.Value, start: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
                end = emit.add(start, self._tiles(at))
                return arith.cmpi(arith.CmpIPredicate.sge, number, end), [at, start]

            def following(at: ir.Value, start: ir.Value) -> list[ir.Value]:
                return [emit.add(at, 1), emit.add(start, self._tiles(at))]

            member, before = emit.repeat([member, before], beyond, following)
            rows = self._rows(member)
            sizes = (self.columns, rows) if self.swap else (rows, self.columns)
            tile = Tile(*grouped(emit.sub(number, before), *sizes, self.group), member)
            return [member, before, *body(tile, rest)]

        return emit.loop(first, count, step, [emit.value(0), emit.value(0), *carried], one)[2:]

    def _rows(self, member: ir.Value) -> ir.Value:
        """The rows of tiles that a product's filled rows take."""
        filled = emit.minimum(emit.maximum(element(self.filled, member), 0), self.most)
        return emit.ceil_div(filled, self.tile_rows)

    def _tiles(self, member: ir.Value) -> ir.Value:
        """The number of a product's tiles."""
        return emit.mul(self._rows(member), self.columns)


def of_groups(groups: ir.Value, tile_rows: int, swap: bool, body: Body) -> Body:
    """An `Order.change` for one product whose rows have one B of a batch each: row i has B number `groups[i]`
    (a memref); tiles with a negative number are skipped. The `tile_rows` rows of a tile have the same B.
    """

    def one(tile: Tile, carried: list[ir.Value]) -> list[ir.Value]:
        row = tile.column if swap else tile.row
        member = element(groups, emit.mul(row, tile_rows))
        has, kinds = emit.less(-1, member), [value.type for value in carried]
        inside = Tile(tile.row, tile.column, member)
        return emit.either(has, kinds, lambda: body(inside, carried), lambda: carried)

    return one


def element(vector: ir.Value, index: ir.Value | int) -> ir.Value:
    """An element of a memref of i32."""
    return memref.load(vector, [emit.as_index(index)])


def k_span(blocks: ir.Value, slice_: ir.Value, slices: int) -> tuple[ir.Value, ir.Value]:
    """The first K block of one of `slices` contiguous slices, and the one after its last."""
    first = emit.div(emit.mul(blocks, slice_), slices)
    # Where K has fewer blocks than slices, some slices get one block past the end of K, which reads zeros.
    end = emit.div(emit.mul(blocks, emit.add(slice_, 1)), slices)
    first = emit.select(emit.equal(first, end), blocks, first)
    return first, emit.maximum(end, emit.add(first, 1))


def grouped(linear: ir.Value, rows: ir.Value, columns: ir.Value, group: int) -> tuple[ir.Value, ir.Value]:
    """The row and column of tile `linear`: down `group` rows, then to the next column."""
    group = emit.minimum(rows, group)  # with fewer rows, `columns * group` might exceed 32 bits
    per_group = emit.mul(columns, group)
    first = emit.mul(emit.div(linear, per_group), group)
    height = emit.minimum(emit.sub(rows, first), group)
    inside = emit.rem(linear, per_group)
    return emit.add(first, emit.rem(inside, height)), emit.div(inside, height)


@dataclass(frozen=True)
class Ends:
    """Where groups end (a memref of i32) among `size` rows or columns. Group i begins at the end of group
    i - 1, rounded up to a multiple of `unit`. Ends outside of 0..`size` count as the nearest in it. Copies
    begin at multiples of `step`.
    """

    ends: ir.Value
    size: ir.Value
    unit: int
    step: int

    @classmethod
    def of(cls, op: MatmulOp) -> "Ends":
        """The ends of a product's groups, of its rows or of K."""
        k_groups = op.types.k_groups
        k = -2 if op.attribute("transpose_a") else -1
        size_ = size(op.a, k) if k_groups else size(op.d, -2)
        ends = op.role("k_ends" if k_groups else "row_ends")
        types = op.types
        return cls(ends, size_, types.group_unit, types.group_steps[k_groups])

    def begin(self, group: Any) -> ir.Value:
        """The first row or column of a group."""
        before = self.end(emit.maximum(emit.sub(group, 1), 0))
        return emit.select(emit.equal(group, 0), 0, self.following(before))

    def following(self, end: ir.Value) -> ir.Value:
        """Where a group begins whose predecessor has this end."""
        return emit.mul(emit.ceil_div(end, self.unit), self.unit)

    def copied(self, begin: ir.Value, end: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where copies of a group begin, and the number of rows or columns from there to its end; 0 if it has
        none.
        """
        start = emit.mul(emit.div(begin, self.step), self.step)
        return start, emit.select(emit.less(begin, end), emit.sub(end, start), 0)

    def end(self, group: Any) -> ir.Value:
        """The one after the last."""
        return emit.minimum(emit.maximum(element(self.ends, group), 0), self.size)

    def k_blocks(self, group: ir.Value, block_k: int) -> tuple[ir.Value, ir.Value]:
        """The first block of `block_k` columns of a group, and the one after its last: none if it's empty."""
        begin, end = self.begin(group), self.end(group)
        first = emit.div(begin, block_k)
        return first, emit.maximum(emit.ceil_div(end, block_k), first)


@dataclass(frozen=True)
class RowEndsOrder:
    """The tiles of one product whose rows, divided by `ends`, have one B of `members` each, in tiles of
    `tile_rows` rows by `columns` tiles. The first tile of a group begins at its first row, or as few rows
    before as a copy can. Rows of other groups, before the first and after the last one, aren't stored
    (`rows_of_group`).
    """

    ends: Ends
    members: ir.Value
    tile_rows: int
    columns: ir.Value
    group: int
    swap: bool = False

    def walk(self, first: ir.Value, step: ir.Value, carried: list[ir.Value], body: Body) -> list[ir.Value]:
        """A loop over every `step`-th tile from `first` on. It carries a group, the number of its first tile,
        and its first row.
        """

        def before(number: ir.Value, *rest: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            found = self._search(number, *rest[:3])
            return emit.less(found[0], self.members), [number, *found, *rest[3:]]

        def after(number: ir.Value, *rest: ir.Value) -> list[ir.Value]:
            (member, tile, begin, _, rows) = rest[:5]
            carried = list(rest[5:])
            sizes = (self.columns, rows) if self.swap else (rows, self.columns)
            at = grouped(emit.sub(number, tile), *sizes, self.group)
            carried = body(self._tile(*at, member, begin), carried)
            return [emit.add(number, step), member, tile, begin, *carried]

        zeros = [emit.value(0)] * 3
        kinds = [emit.i32()] * 6 + [each.type for each in carried]
        return emit.repeat([emit.value(first), *zeros, *carried], before, after, kinds)[6:]

    def in_grid(self, at: Tile) -> tuple[Tile, ir.Value]:
        """A tile whose row is counted over all groups as one of its group; and whether it exists, an i1."""
        member, row, begin, _, _ = self._search(at.row, *[emit.value(0)] * 3)
        exists = emit.less(member, self.members)
        last = emit.sub(self.members, 1)
        return self._tile(emit.sub(at.row, row), at.column, emit.minimum(member, last), begin), exists

    def _search(self, number: ir.Value, member: ir.Value, tile: ir.Value, begin: ir.Value) -> list[ir.Value]:
        """The group with tile `number` among this one and those after it, the number of its first tile, its
        first row, its end, and its rows of tiles. After the last group, the number of groups.
        """

        def beyond(member: ir.Value, tile: ir.Value, begin: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            end = self.ends.end(emit.minimum(member, emit.sub(self.members, 1)))
            rows = emit.ceil_div(self.ends.copied(begin, end)[1], self.tile_rows)
            inside = emit.less(number, emit.add(tile, emit.mul(rows, self.columns)))
            more = arith.andi(emit.less(member, self.members), emit.negate(inside))
            return more, [member, tile, begin, end, rows]

        def following(
            member: ir.Value, tile: ir.Value, _: ir.Value, end: ir.Value, rows: ir.Value
        ) -> list[ir.Value]:
            tile = emit.add(tile, emit.mul(rows, self.columns))
            return [emit.add(member, 1), tile, self.ends.following(end)]

        return emit.repeat([member, tile, begin], beyond, following, [emit.i32()] * 5)

    def _tile(self, row: ir.Value, column: ir.Value, member: ir.Value, begin: ir.Value) -> Tile:
        """A tile of a group that begins at a row."""
        start, _ = self.ends.copied(begin, begin)
        return Tile(row, column, member, start=(0, start) if self.swap else (start, 0))


def of_k_ends(ends: Ends, blocks: ir.Value, block_k: int, body: Body) -> Body:
    """An `Order.change` for the products of a batch, each of a part of K, which has `blocks` K blocks of
    `block_k` elements in all.
    """

    def one(tile: Tile, carried: list[ir.Value]) -> list[ir.Value]:
        # An empty group has a K block after all, which is set to zero, or reads zeros.
        assert tile.member is not None
        begin, end = ends.begin(tile.member), ends.end(tile.member)
        if ends.unit == 1:
            start, count = ends.copied(begin, end)
            span = emit.maximum(emit.ceil_div(count, block_k), 1)
            skip = emit.sub(begin, start)
            tile = replace(tile, k_span=(0, span), k_start=start, k_count=count)
            return body(replace(tile, k_skip=skip) if ends.step > 1 else tile, carried)
        block = emit.select(emit.less(begin, end), emit.div(begin, block_k), blocks)
        last = emit.ceil_div(end, block_k)
        return body(replace(tile, k_span=(block, emit.maximum(last, emit.add(block, 1)))), carried)

    return one


@dataclass(frozen=True)
class StreamOrder:
    """The tiles of an `order` for CTA number `cta` of `ctas`, each of `blocks` K blocks.

    The last `rest` tiles are divided among the first `sharing` CTAs, in runs of at most one tile's length.
    `begin` and `end` delimit this CTA's run: a tile of the rest, and a K block in it.
    """

    order: Order
    blocks: ir.Value
    cta: ir.Value
    ctas: ir.Value
    rest: ir.Value
    sharing: ir.Value
    begin: tuple[ir.Value, ir.Value]
    end: tuple[ir.Value, ir.Value]

    @classmethod
    def of(cls, order: Order, blocks: ir.Value, cta: ir.Value, ctas: ir.Value) -> "StreamOrder":
        """The order, with its numbers built at the insertion point."""
        rest = emit.rem(order.count, ctas)
        # No empty slice, and no more slices of a tile than can meet.
        sharing = emit.minimum(ctas, emit.mul(rest, emit.minimum(blocks, MOST_RUNS)))
        runs = emit.maximum(sharing, 1)

        def border(number: ir.Value) -> tuple[ir.Value, ir.Value]:
            tiles = emit.mul(number, rest)
            return emit.div(tiles, runs), _portion(emit.rem(tiles, runs), blocks, runs)

        return cls(order, blocks, cta, ctas, rest, sharing, border(cta), border(emit.add(cta, 1)))

    def walk(self, first: ir.Value, step: ir.Value, carried: list[ir.Value], body: Body) -> list[ir.Value]:
        """A loop over this CTA's slices, then over every `step`-th whole tile from `first` on.

        Slices come first: all CTAs have just started, so the slices of a tile finish at about the same time
        and nobody waits long. After whole tiles the CTAs would have drifted apart, and waiting and adding
        would end the kernel instead of overlapping with the copies of whole tiles.
        """
        (first_tile, first_block), (last_tile, last_block) = self.begin, self.end
        both = arith.andi(emit.less(first_tile, last_tile), emit.less(0, last_block))
        slices = emit.select(emit.less(self.cta, self.sharing), emit.select(both, 2, 1), 0)
        before = emit.sub(self.order.count, self.rest)

        def one(turn: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            is_slice, number = emit.less(turn, slices), emit.add(first_tile, turn)
            whole = emit.add(first, emit.mul(emit.sub(turn, slices), step))
            tile = self.order.at(emit.select(is_slice, emit.add(before, number), whole))
            begins = arith.andi(is_slice, emit.equal(turn, 0))
            ends = arith.andi(is_slice, emit.equal(number, last_tile))
            span = emit.select(begins, first_block, 0), emit.select(ends, last_block, self.blocks)
            return body(replace(tile, number=number, k_span=span), carried)

        return emit.loop(0, emit.add(slices, emit.div(self.order.count, self.ctas)), 1, carried, one)

    def slices(self, tile: ir.Value | int) -> Slices:
        """The slices of a tile of the rest, built at the insertion point. Consecutive CTAs compute them."""
        (first, before), (after, _) = self._first(tile), self._first(emit.add(tile, 1))
        first = emit.sub(first, before)
        # CTA plus tile numbers the slices of all tiles: from one slice to the next, at least one of both
        # grows.
        return Slices(tile, emit.sub(self.cta, first), emit.sub(after, first), emit.add(first, tile))

    def _first(self, tile: ir.Value | int) -> tuple[ir.Value, ir.Value]:
        """The first CTA whose run begins in a tile, and 1 if the run before ends in it, otherwise 0."""
        runs, tiles = emit.maximum(self.sharing, 1), emit.maximum(self.rest, 1)
        start = emit.mul(tile, runs)
        first = emit.ceil_div(start, tiles)
        inside = _portion(emit.sub(emit.mul(first, tiles), start), self.blocks, runs)
        return first, emit.select(emit.less(0, inside), 1, 0)


def _portion(part: ir.Value, blocks: ir.Value, parts: ir.Value) -> ir.Value:
    """`part * blocks / parts`, rounded down, for `part` below `parts`; the product may exceed 32 bits."""
    rest = emit.div(emit.mul(part, emit.rem(blocks, parts)), parts)
    return emit.add(emit.mul(part, emit.div(blocks, parts)), rest)


_NONE = -1


@dataclass(frozen=True)
class DynamicOrder:
    """The tiles of an `order` whose numbers come through the ring `answers`; a cluster has `ctas`."""

    order: Order
    answers: ir.Value
    ctas: int

    def walk(
        self, first: ir.Value | int, step: ir.Value, carried: list[ir.Value], body: Body
    ) -> list[ir.Value]:
        """A loop over tile `first` and those that are taken over, for a warp or its elected thread. Returns
        what it carries.
        """

        def before(number: ir.Value, *rest: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            return emit.less(_NONE, number), [number, *rest]

        def after(number: ir.Value, stage: ir.Value, phase: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            left = body(self.order.at(number), list(carried))
            tile.await_(self.answers, stage, phase)
            number = self._answer(stage)
            tile.release(self.answers, stage)
            return [number, *tile.advance(self.answers, stage, phase), *left]

        zero = emit.value(0)
        return emit.repeat([emit.value(first), zero, zero, *carried], before, after)[3:]

    def ask(self) -> None:
        """Asks for tiles until there are none left; for one thread of the cluster, in the CTA of rank 0."""

        def before(stage: ir.Value, phase: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            tile.acquire(self.answers, stage, phase)
            tile.try_cancel(self.answers, stage)
            tile.await_(self.answers, stage, phase)
            exists = emit.less(_NONE, self._answer(stage))
            return exists, list(tile.advance(self.answers, stage, phase))

        emit.repeat([emit.value(0), emit.value(0)], before)

    def _answer(self, stage: ir.Value) -> ir.Value:
        """The number of the tile in an answer, or a negative number without one."""
        exists, (x, _, _) = tile.query_cancel(self.answers, stage)
        return emit.select(exists, emit.div(x, self.ctas), _NONE)


def grid_tile(schedule: AnySchedule, member: ir.Value | None) -> Tile:
    """The one tile of a CTA in a grid of rows x columns of tiles, built at the insertion point."""
    x, y = (emit.as_i32(gpu.block_id(each)) for each in (gpu.Dimension.x, gpu.Dimension.y))
    rows, columns = (emit.as_i32(gpu.grid_dim(each)) for each in (gpu.Dimension.x, gpu.Dimension.y))
    return Tile(*grouped(emit.add(emit.mul(y, rows), x), rows, columns, schedule.group), member)


def group_tile(op: MatmulOp, schedule: AnySchedule, index: Any) -> tuple[Tile, ir.Value | None]:
    """The one tile of a CTA where products have groups, and whether it has a product, an i1 (None: it always
    has). Both are built at the insertion point. `index` is the CTA's in the grid's third dimension.
    """
    assert op.grouping is not None
    at = grid_tile(schedule, index)
    rows, _, block_k = schedule.block
    groups, row = op.role(op.grouping), emit.mul(at.row, rows)
    if op.grouping == "k_ends":
        ends = Ends.of(op)
        if ends.unit == 1:
            begin = ends.begin(index)
            count = emit.maximum(emit.sub(ends.end(index), begin), 0)
            return replace(at, k_start=begin, k_count=count), None
        return replace(at, k_span=ends.k_blocks(index, block_k)), None
    if op.grouping == "row_ends":
        return RowEndsOrder(Ends.of(op), size(op.b, 0), rows, emit.value(1), 1).in_grid(at)
    if index is None:
        number = element(groups, row)
        return replace(at, member=number), emit.less(-1, number)
    return at, emit.less(row, element(groups, index))
