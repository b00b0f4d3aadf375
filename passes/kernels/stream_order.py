"""Which tiles and parts of tiles a CTA computes where those that fill no whole wave are divided (stream-K).

Each CTA has as many tiles for itself as every other. Those that are left over are one run of blocks of K,
tile after tile, of which each CTA takes the same length: the end of one tile, the beginning of the next, or
both.
After Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on
the GPU", PPoPP 2023.
"""

from dataclasses import dataclass, replace
from typing import Any

from weft.dialects.schedule import MOST_RUNS
from weft.mlir import arith
from weft.passes.builders import emit
from weft.passes.kernels.tile_order import Body, Order, Parts


@dataclass(frozen=True)
class StreamOrder:
    """The tiles of an `order` for number `cta` of so many `ctas`, with so many `blocks` of K each.

    The last `rest` of them are divided among the first `sharing` CTAs, in runs that are at most a tile long.
    `begin` and `end` are this CTA's: tiles of the rest, and blocks of K in them.
    """

    order: Order
    blocks: Any
    cta: Any
    ctas: Any
    rest: Any
    sharing: Any
    begin: tuple[Any, Any]
    end: tuple[Any, Any]

    @classmethod
    def of(cls, order: Order, blocks: Any, cta: Any, ctas: Any) -> "StreamOrder":
        """The order with its numbers built at the insertion point."""
        rest = emit.rem(order.count, ctas)
        # No part without a block, and no more of a tile than can meet.
        sharing = emit.minimum(ctas, emit.mul(rest, emit.minimum(blocks, MOST_RUNS)))
        runs = emit.maximum(sharing, 1)

        def border(number: Any) -> tuple[Any, Any]:
            tiles = emit.mul(number, rest)
            return emit.div(tiles, runs), _portion(emit.rem(tiles, runs), blocks, runs)

        return cls(order, blocks, cta, ctas, rest, sharing, border(cta), border(emit.add(cta, 1)))

    def walk(self, first: Any, step: Any, carried: list[Any], body: Body) -> None:
        """A loop over this CTA's parts, then over every `step`-th whole tile from `first` on.

        Parts come first: while all CTAs have just begun, those of a tile are done together, and nobody waits
        long. Behind whole tiles they would have drifted apart, and what they wait for and add up would end
        the kernel; taken first, that runs beside the copies of the whole tiles that follow.
        """
        (first_tile, first_block), (last_tile, last_block) = self.begin, self.end
        both = arith.andi(emit.less(first_tile, last_tile), emit.less(0, last_block))
        parts = emit.select(emit.less(self.cta, self.sharing), emit.select(both, 2, 1), 0)
        before = emit.sub(self.order.count, self.rest)

        def one(turn: Any, carried: list[Any]) -> list[Any]:
            part, tile = emit.less(turn, parts), emit.add(first_tile, turn)
            whole = emit.add(first, emit.mul(emit.sub(turn, parts), step))
            place = self.order.at(emit.select(part, emit.add(before, tile), whole))
            begins = arith.andi(part, emit.equal(turn, 0))
            ends = arith.andi(part, emit.equal(tile, last_tile))
            span = emit.select(begins, first_block, 0), emit.select(ends, last_block, self.blocks)
            return body(replace(place, number=tile, span=span), carried)

        emit.loop(0, emit.add(parts, emit.div(self.order.count, self.ctas)), 1, carried, one)

    def parts(self, tile: Any) -> Parts:
        """Who computes a tile of the rest, built at the insertion point: CTAs that follow each other."""
        (first, before), (behind, _) = self._first(tile), self._first(emit.add(tile, 1))
        first = emit.sub(first, before)
        # CTA and tile number the parts of all tiles: from one part to the next, either grows by 1, or both.
        return Parts(tile, emit.sub(self.cta, first), emit.sub(behind, first), emit.add(first, tile))

    def _first(self, tile: Any) -> tuple[Any, Any]:
        """The first CTA whose run begins in a tile, and whether the one before ends in it: 1 or 0."""
        runs, tiles = emit.maximum(self.sharing, 1), emit.maximum(self.rest, 1)
        start = emit.mul(tile, runs)
        first = emit.div(emit.add(start, emit.sub(tiles, 1)), tiles)
        inside = _portion(emit.sub(emit.mul(first, tiles), start), self.blocks, runs)
        return first, emit.select(emit.less(0, inside), 1, 0)


def _portion(part: Any, blocks: Any, parts: Any) -> Any:
    """`part * blocks / parts` of a `part` below `parts`, rounded down; the product may exceed 32 bits."""
    rest = emit.div(emit.mul(part, emit.rem(blocks, parts)), parts)
    return emit.add(emit.mul(part, emit.div(blocks, parts)), rest)
