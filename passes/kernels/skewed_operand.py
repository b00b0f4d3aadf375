"""A and B that begin at any element, in a kernel that copies by TMA: copies begin at the multiple of 16 bytes
before them, where a tensor map must begin. Both begin at the same distance from it.

So both have more elements along K, the first of which aren't theirs. Consumers set these to zero.
"""

from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import WarpgroupSchedule
from weft.isa.chips import WARPGROUP
from weft.mlir import arith, ir, llvm, nvvm
from weft.passes.builders import addresses, emit
from weft.passes.builders.shared_tiles import Point, SharedTile
from weft.passes.builders.shifted_words import WORDS
from weft.passes.kernels.cluster import meet_consumers
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.matrices import element_bytes, skew
from weft.passes.kernels.staged_operand import StagedOperand
from weft.passes.kernels.tile_order import Tile


class SkewedOperand(StagedOperand):
    """A or B: its map begins at the multiple of 16 bytes before it."""

    skewed = True

    def clear(self, stage: ir.Value, thread: Any, threads: int) -> None:
        """Sets the first elements of a stage's rows, which are before those of the matrix, to zero; for some
        threads, by their number.
        """
        buffer = self.buffer.type
        shared, base = SharedTile(tile.stage_type(buffer)), tile.address(tile.stage(self.buffer, stage))
        before = emit.mul(skew(self.matrix), element_bytes(self.matrix))
        kind = ir.VectorType.get([WORDS], emit.i32())
        for first in range(0, self.extent, threads):
            row = emit.add(thread, first)
            with emit.when(emit.less(row, self.extent)):
                address = addresses.offset(base, shared.offset(Point(row), Point(0)))
                words = enumerate(emit.elements(llvm.load(kind, address)))
                kept = [arith.andi(word, _from_byte(emit.sub(before, 4 * number))) for number, word in words]
                llvm.store(emit.vector_of(kept), address)


class SkewedFeed(Feed[WarpgroupSchedule]):
    """The stages of such operands."""

    def prepare(self, at: Tile, number: Any, stage: ir.Value, phase: Any) -> None:
        first = arith.andi(emit.equal(at.k_block(number), 0), emit.less(0, skew(self.left.matrix)))
        with emit.when(first):
            thread = emit.sub(emit.thread(), WARPGROUP * self.schedule.producers)
            for operand in (self.left, self.right):
                assert isinstance(operand, SkewedOperand)
                operand.clear(stage, thread, WARPGROUP * self.schedule.warpgroups)
            nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
            meet_consumers(self.schedule.warpgroups)


def _from_byte(first: Any) -> Any:
    """A word whose bytes from `first` on are ones: all if that is negative, none if it is more than three."""
    bits = emit.mul(emit.maximum(emit.minimum(first, 3), 0), 8)
    return arith.select(emit.less(3, first), emit.value(0), arith.shli(emit.value(-1), emit.value(bits)))
