"""Pipelines with `tcgen05.mma`: the first warp fills the stages by TMA, and the second one multiplies. All of
them finish the sums, which are in tensor memory until then.
"""

from contextlib import nullcontext

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.isa.chips import WARPGROUP, WARPS
from weft.isa.family import Registers
from weft.isa.tcgen05.descriptors import KINDS
from weft.isa.tcgen05.mma_rows import MMA
from weft.isa.tcgen05.pairs import PAIR
from weft.isa.tcgen05.tensor_layouts import LANES
from weft.mlir import arith, ir, scf
from weft.passes.builders import emit, thread_ids
from weft.passes.pipelines.loop import Loop, types_of
from weft.passes.pipelines.pipeline import FilledByTma

_MOST_COLUMNS = 256
"""Columns of a product, of which two warpgroups finish half each if they are more than half as many."""


class InTensorMemory(FilledByTma):
    """One thread multiplies. The columns of the sums are divided among one or two warpgroups."""

    atom = Registers("d", 8, "f32", "S[(4,2,2,8,4,2):(1@warpid,4,2,4@laneid,1@laneid,1)]", (LANES, 8))

    @staticmethod
    def grid(loop: Loop) -> tuple[int, int, int] | None:
        """How many warpgroups there are, down and across, and in all; None where the loop does more than add
        products up by `tcgen05.mma`.
        """
        m, n, _ = loop.products[0].mnk
        for each in loop.products:
            a, b, d, k = types_of(each)
            kinds = (kind for kind in KINDS.values() if kind.scales is None and {a, b} <= set(kind.elements))
            if d != "f32" or not any(kinds) or each.mnk[2] % k or each.a not in loop.loads:
                return None
            if loop.adds_to(each) is None or not loop.reads(each):
                return None
        used = [*loop.loads, *loop.products, *loop.coordinates]
        only = len(loop.op.body.operations) == len(used) + 1 and len(loop.op.results) == len(loop.products)
        if loop.chip not in MMA.chips() or m != LANES or n % 32 or n > _MOST_COLUMNS or not only:
            return None
        count = 1 if 2 * n <= _MOST_COLUMNS else 2
        return (1, count, count) if loop.divides(m, n, count) else None

    def write(self) -> None:
        """Lets two threads fill the stages and multiply, in a region that gets all that follows the loop."""
        loop, block = self.loop, self.loop.kernel.body.blocks[0]
        ops = [each.operation for each in block.operations]
        at, (m, n, _) = ops.index(loop.holder.operation), loop.products[0].mnk
        group = self.cta_group = min(each.attribute("cta_group") for each in loop.products)
        self.set_launch(self.warpgroups * WARPGROUP)
        with ir.InsertionPoint.at_block_begin(block):
            self.begin_part(emit.div(emit.thread(), WARPGROUP))
        with ir.InsertionPoint(loop.holder):
            if group == PAIR:
                loop.share_columns()
            self.allocate()
            self.ring = tile.make_ring(loop.stages, 1, emptied_by="mma", cta_group=group)
            self.rings = [(self.ring, list(loop.loads.values()))]
            agents = {"filled_by": "mma", "emptied_by": "warps", "cta_group": group}
            done = tile.make_ring(1, WARPS * self.warpgroups, **agents)
            with tile.tensor_memory(cta_group=group):
                region = ir.InsertionPoint.current.block
                kind = BufferType.of((m, n), ir.F32Type.get(), f"S[({m},{n}):(1@TLane,1@TCol)]", "tmem")
                self.sums = {loop.adds_to(each): tile.alloc(kind) for each in loop.products}
        for op in ops[at:-1]:
            region.append(op)
        self.divide(ops[:-1])
        around = self.carry_position()
        with ir.InsertionPoint(loop.op):
            blocks, tiles = around.inner_iter_args if around else (emit.value(0), emit.value(0))
            results = self._multiply_all(blocks, done, tiles)
        first, end, step = loop.op.operands[:3]
        for before, result in zip(loop.op.results, results, strict=True):
            before.replace_all_uses_with(result)
        loop.op.operation.erase()
        if around:
            with ir.InsertionPoint(around.body):
                more = emit.ceil_div(emit.maximum(emit.sub(end, first), 0), step)
                scf.yield_([emit.add(blocks, more), emit.add(tiles, 1)])
        if group == PAIR:  # the leader's products signal both CTAs, which mustn't end before
            with ir.InsertionPoint(region):
                count = around.results[0] if around else emit.ceil_div(emit.sub(end, first), step)
                with tile.role(0, warps=1), thread_ids.elected():
                    tile.drain(self.ring, *self._position(emit.maximum(count, 0)))

    def _multiply_all(self, blocks: ir.Value, done: ir.Value, tiles: ir.Value) -> list[ir.Value]:
        """The sums of a tile, after so many K blocks and tiles. The ring `done` is for the sums."""
        (first, end, step, *zeros), zero = self.loop.op.operands, emit.value(0)
        position, phase = self._position(blocks), emit.value(emit.bit_and(tiles, 1))
        with tile.role(0, warps=1), thread_ids.elected():
            emit.loop(first, end, step, position, lambda k, now: self.fill(k, now, {}))
        leads = thread_ids.leader() if self.cta_group == PAIR else nullcontext()
        with tile.role(1, warps=1), leads, thread_ids.elected():
            tile.acquire(done, zero, phase)
            emit.loop(first, end, step, position, self._multiply)
            tile.commit(done, zero)
        tile.await_(done, zero, phase)
        column, kinds = emit.value(self.column), [each.type for each in zeros]

        def loaded() -> list[ir.Value]:
            return [tile.load(self.sums[i], zero, column, kind) for i, kind in enumerate(kinds)]

        results = emit.either(emit.less(first, end), kinds, loaded, lambda: zeros)
        tile.release(done, zero)
        return results

    def _position(self, blocks: ir.Value) -> list[ir.Value]:
        """The stage and the phase after so many K blocks."""
        count = self.loop.stages
        return [emit.value(emit.rem(blocks, count)), emit.value(emit.rem(emit.div(blocks, count), 2))]

    def _multiply(self, k: ir.Value, position: list[ir.Value]) -> list[ir.Value]:
        """Multiplies the tiles of a stage, by one thread. Returns the next position."""
        loop, stage = self.loop, position[0]
        adds = arith.cmpi(arith.CmpIPredicate.ne, k, loop.op.operands[0])
        tile.await_(self.ring, *position)
        for each in loop.products:
            left, right, sums = loop.loads[each.a], loop.loads[each.b], self.sums[loop.adds_to(each)]
            tile.gemm_async(
                *(left.stage(stage), right.stage(stage), sums, adds),
                transpose_a=left.transposed,
                transpose_b=right.transposed,
                cta_group=self.cta_group,
            )
        tile.release(self.ring, stage)
        return list(tile.advance(self.ring, *position))
