"""The order of tiles where the ends of groups are given: of rows of A, or of parts of K."""

from dataclasses import dataclass, replace
from typing import Any

from weft.dialects.product_types import GROUP_ROWS
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.tile_order import Body, MaskedOrder, Order, Tile, element


@dataclass(frozen=True)
class Ends:
    """Where groups end (a memref of i32) among `size` rows or columns. Group i begins at the end of group
    i - 1, rounded up to a multiple of 128. Ends outside of 0..`size` count as the nearest in it.
    """

    ends: Any
    size: ir.Value

    def begin(self, group: ir.Value) -> ir.Value:
        """The first row or column of a group."""
        before = self.following(emit.maximum(emit.sub(group, 1), 0))
        return emit.select(emit.equal(group, 0), 0, before)

    def following(self, group: ir.Value) -> ir.Value:
        """The row or column at which the next group begins."""
        return emit.mul(emit.ceil_div(self.end(group), GROUP_ROWS), GROUP_ROWS)

    def end(self, group: Any) -> ir.Value:
        """The one after the last."""
        return emit.minimum(emit.maximum(element(self.ends, group), 0), self.size)

    def k_span(
        self, group: ir.Value, tile: ir.Value, tile_rows: int, blocks: ir.Value
    ) -> tuple[int, ir.Value] | None:
        """The first of all `blocks` K blocks of tile number `tile` of rows in a group of rows, and the one
        after the last: one block after the end of the group. None where each tile has all.
        """
        if tile_rows == GROUP_ROWS:
            return None
        return 0, emit.select(emit.less(emit.mul(tile, tile_rows), self.end(group)), blocks, 1)

    def k_blocks(self, group: ir.Value, block_k: int) -> tuple[Any, Any]:
        """The first block of `block_k` columns of a group, and the one after its last: none if it's empty."""
        begin, end = self.begin(group), self.end(group)
        first = emit.div(begin, block_k)
        return first, emit.maximum(emit.ceil_div(end, block_k), first)


@dataclass(frozen=True)
class RowEndsOrder(MaskedOrder):
    """The tiles of one product whose rows have one B of `members` each: those of B number i end at
    `filled[i]` of `most` rows. The `tile_rows` rows of a tile have the same B. All rows up to the next group
    are in a tile: see `between_groups`.

    `blocks` is the number of K blocks. A tile after the end of its group has only the first one.
    """

    blocks: Any = None

    @property
    def ends(self) -> Ends:
        """Where the groups of rows end."""
        return Ends(self.filled, self.most)

    def _filled(self, member: ir.Value) -> ir.Value:
        return emit.maximum(emit.sub(self.ends.end(member), self.ends.begin(member)), 0)

    def _rows(self, member: ir.Value) -> ir.Value:
        return emit.mul(emit.ceil_div(self._filled(member), GROUP_ROWS), GROUP_ROWS // self.tile_rows)

    def _tile(self, row: ir.Value, column: ir.Value, member: ir.Value) -> Tile:
        first = emit.div(self.ends.begin(member), self.tile_rows)
        row, column = (row, emit.add(column, first)) if self.swap else (emit.add(row, first), column)
        span = self.ends.k_span(member, column if self.swap else row, self.tile_rows, self.blocks)
        return Tile(row, column, member, k_span=span)


@dataclass(frozen=True)
class KEndsOrder:
    """The tiles of the products of a batch, each of a part of K. `blocks` is the number of all K blocks, of
    `block_k` elements.
    """

    order: Order
    ends: Ends
    blocks: ir.Value
    block_k: int

    def walk(self, first: ir.Value, step: ir.Value, carried: list[ir.Value], body: Body) -> list[ir.Value]:
        """A loop over every `step`-th tile from `first` on."""

        def one(tile: Tile, carried: list[ir.Value]) -> list[ir.Value]:
            return body(replace(tile, k_span=self._span(tile.member)), carried)

        return self.order.walk(first, step, carried, one)

    def _span(self, group: Any) -> tuple[ir.Value, ir.Value]:
        """The first K block of a group, and the one after its last. An empty group has the one after all,
        which reads zeros.
        """
        begin, end = self.ends.begin(group), self.ends.end(group)
        first = emit.select(emit.less(begin, end), emit.div(begin, self.block_k), self.blocks)
        last = emit.ceil_div(end, self.block_k)
        return first, emit.maximum(last, emit.add(first, 1))
