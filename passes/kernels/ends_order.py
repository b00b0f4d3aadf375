"""The order of tiles where the ends of groups are given: of rows of A, or of parts of K."""

from dataclasses import dataclass, replace
from typing import Any

from weft.dialects.product_types import GROUP_ROWS
from weft.passes.builders import emit
from weft.passes.kernels.tile_order import Body, MaskedOrder, Order, Tile, element


@dataclass(frozen=True)
class Ends:
    """Where groups end (a memref of i32) among `size` rows or columns. Group i begins at the end of group
    i - 1, rounded up to a multiple of 128. Ends outside of 0..`size` count as the nearest in it.
    """

    ends: Any
    size: Any

    def begin(self, group: Any) -> Any:
        """The first row or column of a group."""
        before = self.end(emit.maximum(emit.sub(group, 1), 0))
        return emit.select(emit.equal(group, 0), 0, emit.mul(emit.ceil_div(before, GROUP_ROWS), GROUP_ROWS))

    def end(self, group: Any) -> Any:
        """The one after the last."""
        return emit.minimum(emit.maximum(element(self.ends, group), 0), self.size)

    def k_blocks(self, group: Any, block_k: int) -> tuple[Any, Any]:
        """The first block of `block_k` columns of a group, and the one after its last: none if it's empty."""
        begin, end = self.begin(group), self.end(group)
        first = emit.div(begin, block_k)
        return first, emit.maximum(emit.ceil_div(end, block_k), first)


@dataclass(frozen=True)
class RowEndsOrder(MaskedOrder):
    """The tiles of one product whose rows have one B of `members` each: those of B number i end at
    `filled[i]` of `most` rows. The `tile_rows` rows of a tile have the same B.
    """

    @property
    def ends(self) -> Ends:
        """Where the groups of rows end."""
        return Ends(self.filled, self.most)

    def _filled(self, member: Any) -> Any:
        return emit.maximum(emit.sub(self.ends.end(member), self.ends.begin(member)), 0)

    def _tile(self, row: Any, column: Any, member: Any) -> Tile:
        first = emit.div(self.ends.begin(member), self.tile_rows)
        if self.swap:
            return Tile(row, emit.add(column, first), member)
        return Tile(emit.add(row, first), column, member)


@dataclass(frozen=True)
class KEndsOrder:
    """The tiles of the products of a batch, each of a part of K. `blocks` is the number of all K blocks, of
    `block_k` elements.
    """

    order: Order
    ends: Ends
    blocks: Any
    block_k: int

    def walk(self, first: Any, step: Any, carried: list[Any], body: Body) -> list[Any]:
        """A loop over every `step`-th tile from `first` on."""

        def one(tile: Tile, carried: list[Any]) -> list[Any]:
            return body(replace(tile, k_span=self._span(tile.member)), carried)

        return self.order.walk(first, step, carried, one)

    def _span(self, group: Any) -> tuple[Any, Any]:
        """The first K block of a group, and the one after its last. An empty group has the one after all,
        which reads zeros.
        """
        begin, end = self.ends.begin(group), self.ends.end(group)
        first = emit.select(emit.less(begin, end), emit.div(begin, self.block_k), self.blocks)
        last = emit.ceil_div(end, self.block_k)
        return first, emit.maximum(last, emit.add(first, 1))
