"""The order of stream-K: whole tiles for each CTA, and slices of the tiles that fill no whole wave.

Every CTA gets the same number of whole tiles. The K blocks of the remaining tiles form one sequence, tile
after tile, which is divided evenly among the CTAs: a CTA gets the end of one tile, the beginning of the next,
or both. After Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", PPoPP 2023.
"""

from dataclasses import dataclass, replace

from weft.dialects.schedule import MOST_RUNS
from weft.mlir import arith, ir
from weft.passes.builders import emit
from weft.passes.kernels.tile_order import Body, Order, Slices


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
