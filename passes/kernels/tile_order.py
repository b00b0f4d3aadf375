"""Which tiles of D a persistent CTA computes, in which order: what both its roles walk through alike.

Tiles go down `group` rows and then to the next column, so that those under way at a time share what they read
in the L2 cache. The products of a batch come one after the other. With parts of K, one part of as many tiles
as can be under way comes before the next part of these.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from weft.mlir import arith, memref
from weft.passes.builders import emit
from weft.passes.kernels.product import grouped


@dataclass(frozen=True)
class Place:
    """A tile: its row and column among blocks, and the number of its product in a batch (None: no batch).

    With parts of K: the tile's own number, that of the part, its first block and the one behind its last, and
    how many parts take turns.
    """

    row: Any
    column: Any
    member: Any = None
    number: Any = 0
    part: Any = 0
    span: tuple[Any, Any] | None = None
    turns: int = 1

    def block_of_k(self, number: Any) -> Any:
        """Which block of K the tile's block `number` is: parts take turns, so that what they copy at a time
        lies together in rows of A and B.
        """
        return emit.add(emit.mul(number, self.turns), self.part)


@dataclass(frozen=True)
class Parts:
    """The parts of a tile, for one that is number `number` of `count`: the number of the tile, and of the
    slot that the first part's sums have; those of the others follow.
    """

    tile: Any
    number: Any
    count: Any
    slot: Any


Body = Callable[[Place, list[Any]], list[Any]]


@dataclass(frozen=True)
class Order:
    """The tiles of a product of `rows` x `columns` blocks, or of `members` such products, each in so many
    `parts` of K's `blocks`.
    """

    rows: Any
    columns: Any
    group: int
    members: Any = None
    parts: int = 1
    blocks: Any = None

    @property
    def count(self) -> Any:
        """How many tiles there are."""
        each = emit.mul(self.rows, self.columns)
        return each if self.members is None else emit.mul(each, self.members)

    def walk(self, first: Any, step: Any, carried: list[Any], body: Body) -> None:
        """A loop over every `step`-th tile from `first` on, or part of one.

        Of parts, those of a tile run at the same time, and those that follow each other have the same columns
        of A and B in different tiles of a product.
        """
        if self.parts == 1:
            emit.loop(first, self.count, step, carried, lambda tile, carried: body(self.at(tile), carried))
            return
        together = emit.maximum(emit.div(step, self.parts), 1)
        run = emit.mul(together, self.parts)

        def one(number: Any, carried: list[Any]) -> list[Any]:
            before, inside = emit.mul(emit.div(number, run), together), emit.rem(number, run)
            tiles = emit.minimum(emit.sub(self.count, before), together)
            part, number = emit.div(inside, tiles), emit.add(before, emit.rem(inside, tiles))
            span = 0, blocks_of_part(self.blocks, part, self.parts)
            place = replace(self.at(number), number=number, part=part, span=span, turns=self.parts)
            return body(place, carried)

        emit.loop(first, emit.mul(self.count, self.parts), step, carried, one)

    def at(self, number: Any) -> Place:
        """A tile by its number."""
        if self.members is None:
            return Place(*grouped(number, self.rows, self.columns, self.group))
        each = emit.mul(self.rows, self.columns)
        inside = grouped(emit.rem(number, each), self.rows, self.columns, self.group)
        return Place(*inside, emit.div(number, each))


@dataclass(frozen=True)
class MaskedOrder:
    """The tiles of `members` products of which number i has `filled[i]` rows (a memref), in blocks of
    `block_rows`, by `columns` blocks. With `turned`, what `filled` counts are columns of blocks. A number
    above `most`, the rows that each product has, means all of them: tiles past the end would take hours.
    """

    filled: Any
    most: Any
    members: Any
    block_rows: int
    columns: Any
    group: int
    turned: bool = False

    def walk(self, first: Any, step: Any, carried: list[Any], body: Body) -> None:
        """A loop over every `step`-th tile from `first` on. Which product a tile is of, and the number of its
        first tile, are carried along.
        """

        def add(member: Any, sums: list[Any]) -> list[Any]:
            return [emit.add(sums[0], self._tiles(member))]

        (count,) = emit.loop(0, self.members, 1, [emit.value(0)], add)

        def one(number: Any, carried: list[Any]) -> list[Any]:
            member, before, *rest = carried
            member, before = self._found(number, member, before)
            rows = self._rows(member)
            sizes = (self.columns, rows) if self.turned else (rows, self.columns)
            place = Place(*grouped(emit.sub(number, before), *sizes, self.group), member)
            return [member, before, *body(place, rest)]

        emit.loop(first, count, step, [emit.value(0), emit.value(0), *carried], one)

    def _rows(self, member: Any) -> Any:
        """Blocks that the filled rows of a product take."""
        filled = emit.minimum(emit.maximum(_element(self.filled, member), 0), self.most)
        return emit.ceil_div(filled, self.block_rows)

    def _tiles(self, member: Any) -> Any:
        """Tiles that a product has."""
        return emit.mul(self._rows(member), self.columns)

    def _found(self, number: Any, member: Any, before: Any) -> tuple[Any, Any]:
        """The product that has a tile, looked for from `member` on, whose first tile is number `before`."""

        def beyond(at: Any, start: Any) -> tuple[Any, list[Any]]:
            end = emit.add(start, self._tiles(at))
            return arith.cmpi(arith.CmpIPredicate.sge, number, end), [at, start]

        def following(at: Any, start: Any) -> list[Any]:
            return [emit.add(at, 1), emit.add(start, self._tiles(at))]

        member, before = emit.repeat([member, before], beyond, following)
        return member, before


@dataclass(frozen=True)
class GroupedOrder:
    """The tiles of one product whose rows have a matrix B of a batch each: row i has number `groups[i]` (a
    memref), a negative one no product. `block_rows` rows, of a block, have the same.
    """

    order: Order
    groups: Any
    block_rows: int
    turned: bool = False

    def walk(self, first: Any, step: Any, carried: list[Any], body: Body) -> None:
        """A loop over every `step`-th tile from `first` on; those without a product are left out."""

        def one(place: Place, carried: list[Any]) -> list[Any]:
            row = place.column if self.turned else place.row
            member = _element(self.groups, emit.mul(row, self.block_rows))
            has, kinds = emit.less(-1, member), [value.type for value in carried]
            inside = Place(place.row, place.column, member)
            return emit.either(has, kinds, lambda: body(inside, carried), lambda: carried)

        self.order.walk(first, step, carried, one)


def _element(vector: Any, index: Any) -> Any:
    """One number of a memref of i32."""
    return memref.load(vector, [emit.as_index(index)])


def span(blocks: Any, part: Any, parts: int) -> tuple[Any, Any]:
    """Of K's blocks, one of so many parts that follow each other: its first, and the one behind."""
    first = emit.div(emit.mul(blocks, part), parts)
    # Where K has fewer blocks than parts, some have one that lies outside: zeros.
    end = emit.div(emit.mul(blocks, emit.add(part, 1)), parts)
    first = emit.select(emit.equal(first, end), blocks, first)
    return first, emit.maximum(end, emit.add(first, 1))


def blocks_of_part(blocks: Any, part: Any, parts: int) -> Any:
    """How many of K's blocks one of so many parts has that take turns: number `part`, and every one that is
    `parts` further. Where K has fewer blocks than parts, some have one that lies outside: zeros.
    """
    return emit.maximum(emit.div(emit.add(blocks, emit.sub(parts - 1, part)), parts), 1)
