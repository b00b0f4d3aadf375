"""The order in which persistent CTAs compute the tiles of D. The producer and the consumers walk the same
order.

Tiles go down `group` rows, then to the next column, so that concurrent tiles share data in the L2 cache. The
products of a batch follow each other. With K slices, one slice of every concurrent tile comes before the next
slice of these tiles.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from weft.mlir import arith, ir, memref
from weft.passes.builders import emit


@dataclass(frozen=True)
class Tile:
    """A tile of D, or a K slice of one: its row and column, counted in tiles, and its product's index in a
    batch (None without a batch).

    `k_span` is the first K block and the one after the last (None: all of K). In a batch, `number` is the
    tile's own among those of its product. With K slices, `number` is the tile's own and `slice` the slice's;
    its K blocks are `k_step` apart, from `k_first` on.
    """

    row: ir.Value
    column: ir.Value
    member: ir.Value | None = None
    number: ir.Value | int = 0
    slice: ir.Value | int = 0
    k_span: tuple[ir.Value | int, ir.Value] | None = None
    k_first: ir.Value | int = 0
    k_step: ir.Value | int = 1

    def k_block(self, number: ir.Value | int) -> ir.Value | int:
        """The K block that is block `number` of this tile."""
        return emit.add(emit.mul(number, self.k_step), self.k_first)


@dataclass(frozen=True)
class Slices:
    """The K slices of a tile, for the CTA that computes slice `number` of `count`. `slot` is the index of the
    first slice's memory; the other slices follow it.
    """

    tile: ir.Value | int
    number: Any
    count: Any
    slot: ir.Value


Body = Callable[[Tile, list[Any]], list[Any]]


@dataclass(frozen=True)
class Order:
    """The tiles of a product of `rows` x `columns` tiles, or of `members` such products, each in `slices`
    slices of K's `blocks`. `first_member` is the product with which the order begins; those before it come
    after the last.

    Slices take turns, so that what they copy at the same time is contiguous in rows of A and B: each takes
    every `slices`-th K block. Where rows begin inside lines of L2 (`inside_lines`, an i1), two K blocks share
    a line, and each slice has consecutive K blocks.
    """

    rows: ir.Value
    columns: ir.Value
    group: int
    members: ir.Value | None = None
    slices: int = 1
    blocks: Any = None
    first_member: ir.Value | int = 0
    inside_lines: ir.Value | None = None

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

    def _blocks_of(self, slice_: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value] | tuple[ir.Value, ...]:
        """The number of a slice's K blocks, the first one, and how far they are apart."""
        in_turns = blocks_of_slice(self.blocks, slice_, self.slices), slice_, emit.value(self.slices)
        if self.inside_lines is None:
            return in_turns
        first, end = k_span(self.blocks, slice_, self.slices)
        consecutive = emit.sub(end, first), first, emit.value(1)
        some, *others = (
            emit.select(self.inside_lines, one, other)
            for one, other in zip(consecutive, in_turns, strict=True)
        )
        return some, *others

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
    members: Any
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
            member, before = self._member_of(number, member, before)
            rows = self._rows(member)
            sizes = (self.columns, rows) if self.swap else (rows, self.columns)
            tile = self._tile(*grouped(emit.sub(number, before), *sizes, self.group), member)
            return [member, before, *body(tile, rest)]

        return emit.loop(first, count, step, [emit.value(0), emit.value(0), *carried], one)[2:]

    def _rows(self, member: ir.Value) -> ir.Value:
        """The rows of tiles that a product's filled rows take."""
        return emit.ceil_div(self._filled(member), self.tile_rows)

    def _filled(self, member: ir.Value) -> ir.Value:
        """A product's filled rows."""
        return emit.minimum(emit.maximum(element(self.filled, member), 0), self.most)

    def _tile(self, row: ir.Value, column: ir.Value, member: ir.Value) -> Tile:
        """A product's tile in a row and a column of its tiles."""
        return Tile(row, column, member)

    def _tiles(self, member: ir.Value) -> ir.Value:
        """The number of a product's tiles."""
        return emit.mul(self._rows(member), self.columns)

    def _member_of(self, number: ir.Value, member: ir.Value, before: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The product of tile `number` and the number of its first tile. The search starts at `member`, whose
        first tile is number `before`.
        """

        def beyond(at: ir.Value, start: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            end = emit.add(start, self._tiles(at))
            return arith.cmpi(arith.CmpIPredicate.sge, number, end), [at, start]

        def following(at: ir.Value, start: ir.Value) -> list[ir.Value]:
            return [emit.add(at, 1), emit.add(start, self._tiles(at))]

        member, before = emit.repeat([member, before], beyond, following)
        return member, before


@dataclass(frozen=True)
class GroupedOrder:
    """The tiles of one product whose rows have one B of a batch each: row i has B number `groups[i]` (a
    memref); a negative number means no product. The `tile_rows` rows of a tile have the same B.
    """

    order: Order
    groups: Any
    tile_rows: int
    swap: bool = False

    def walk(self, first: ir.Value, step: ir.Value, carried: list[ir.Value], body: Body) -> list[ir.Value]:
        """A loop over every `step`-th tile from `first` on; tiles without a product are skipped."""

        def one(tile: Tile, carried: list[ir.Value]) -> list[ir.Value]:
            row = tile.column if self.swap else tile.row
            member = element(self.groups, emit.mul(row, self.tile_rows))
            has, kinds = emit.less(-1, member), [value.type for value in carried]
            inside = Tile(tile.row, tile.column, member)
            return emit.either(has, kinds, lambda: body(inside, carried), lambda: carried)

        return self.order.walk(first, step, carried, one)


def element(vector: Any, index: ir.Value | int) -> ir.Value:
    """An element of a memref of i32."""
    return memref.load(vector, [emit.as_index(index)])


def k_span(blocks: ir.Value, slice_: ir.Value, slices: int) -> tuple[ir.Value, ir.Value]:
    """The first K block of one of `slices` contiguous slices, and the one after its last."""
    first = emit.div(emit.mul(blocks, slice_), slices)
    # Where K has fewer blocks than slices, some slices get one block past the end of K, which reads zeros.
    end = emit.div(emit.mul(blocks, emit.add(slice_, 1)), slices)
    first = emit.select(emit.equal(first, end), blocks, first)
    return first, emit.maximum(end, emit.add(first, 1))


def blocks_of_slice(blocks: ir.Value, slice_: ir.Value, slices: int) -> ir.Value:
    """The number of K blocks of one of `slices` slices that take turns: number `slice_`, and every one that
    is `slices` further. Where K has fewer blocks than slices, some have one outside of K: zeros.
    """
    return emit.maximum(emit.div(emit.add(blocks, emit.sub(slices - 1, slice_)), slices), 1)


def grouped(linear: ir.Value, rows: ir.Value, columns: ir.Value, group: int) -> tuple[ir.Value, ir.Value]:
    """The row and column of tile `linear`: down `group` rows, then to the next column."""
    group = emit.minimum(rows, group)  # with fewer rows, `columns * group` might exceed 32 bits
    per_group = emit.mul(columns, group)
    first = emit.mul(emit.div(linear, per_group), group)
    height = emit.minimum(emit.sub(rows, first), group)
    inside = emit.rem(linear, per_group)
    return emit.add(first, emit.rem(inside, height)), emit.div(inside, height)
