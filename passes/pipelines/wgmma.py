"""Pipelines with `wgmma`: one to three warpgroups multiply, and another one fills the stages by TMA."""

from functools import partial

from weft import mlir
from weft.dialects import tile
from weft.dialects.launch_contract import MIN_CTAS
from weft.dialects.tile import GemmOp
from weft.dialects.tile_sums import sum_registers
from weft.isa.chips import LANES, WARPGROUP, WARPS, register_share
from weft.isa.wgmma import MMA_ASYNC, MmaAsync
from weft.isa.wgmma import M as WGMMA_ROWS
from weft.mlir import arith, gpu, ir, scf
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.fragments import undefined
from weft.passes.pipelines.loop import Loop, touches_tiles, types_of
from weft.passes.pipelines.pipeline import FilledByTma, Values

_REGISTERS = {1: (0, 0), 2: (24, 240), 3: (32, 160)}
"""Of a thread that fills stages, and of one that multiplies, by the warpgroups that do; 0: an equal share."""
_OTHER_REGISTERS = 40
"""Of a thread that multiplies, beside its sums."""


class ByWarpgroups(FilledByTma):
    """Warpgroups multiply, each its rows. Products that are only added to carried sums are in flight until
    those of the next iteration have started.
    """

    atom = MmaAsync("m64n8k16", "f16", "f16", "f32").operands[0]

    @staticmethod
    def grid(loop: Loop) -> tuple[int, int, int] | None:
        """How many warpgroups multiply, down and across, and in all; None where `wgmma` can't."""
        m, n, _ = loop.products[0].mnk
        for each in loop.products:
            (_, columns, depth), (a, b, d, k) = each.mnk, types_of(each)
            if MMA_ASYNC.judge(MmaAsync(f"m64n{columns}k{k}", a, b, d), loop.chip) or depth % k:
                return None
        if m % WGMMA_ROWS or not all(map(loop.reads, loop.products)) or not loop.divides(m, n, 1):
            return None
        count = next(each for each in (2, 3, 1) if m % (each * WGMMA_ROWS) == 0)
        return count, 1, count

    def write(self) -> None:
        """Moves what handles tiles to a role of the warpgroups that multiply, and builds the other role."""
        loop, (fills, multiplies) = self.loop, _REGISTERS[self.warpgroups]
        ops = [each.operation for each in loop.kernel.body.blocks[0].operations][:-1]
        at = ops.index(loop.holder.operation)
        moved = [*filter(touches_tiles, ops[:at]), *ops[at:]]
        threads = (self.warpgroups + 1) * WARPGROUP
        filler = partial(tile.role, self.warpgroups, 1, registers=fills)
        if self._fits_twice:
            threads = threads - WARPGROUP + LANES
            multiplies = 0
            filler = partial(tile.role, self.warpgroups * WARPS, warps=1)
            loop.kernel.attributes[MIN_CTAS] = ir.IntegerAttr.get(emit.i32(), 2)
        self.set_launch(threads)
        with ir.InsertionPoint(loop.holder):
            self.allocate()
            self.make_rings()
            gpu.barrier()
            with tile.role(0, self.warpgroups, registers=multiplies) as number:
                self.begin_part(number)
                role = ir.InsertionPoint.current.block
            with filler(), thread_ids.one_thread():
                self._fill_all()
        for op in moved:
            role.append(op)
        self.divide(moved)
        around = self.carry_position()
        with ir.InsertionPoint(loop.op):
            position = self.multiply_all(list(around.inner_iter_args) if around else [emit.value(0)] * 2)
        if around:
            with ir.InsertionPoint(around.body):
                scf.yield_(position)

    @property
    def _fits_twice(self) -> bool:
        """Whether two CTAs run on a multiprocessor, so that one multiplies while the other stores its sums.
        They must hold nothing but the sums of one product.
        """
        loop, (first, *others) = self.loop, self.loop.products
        m, n, _ = first.mnk
        threads = self.warpgroups * WARPGROUP
        return (
            first.a in loop.loads
            and not others
            and m * n // threads + _OTHER_REGISTERS <= register_share(2 * (threads + LANES))
            and 2 * (loop.stages * loop.bytes + loop.reserved) <= loop.room
        )

    def make_rings(self) -> None:
        """Builds the rings of the stages."""
        self.rings = [(tile.make_ring(self.loop.stages, self.warpgroups), list(self.loop.loads.values()))]

    def _fill_all(self) -> None:
        """Builds loops like the plain ones, in which one thread fills the stages."""
        loop, start = self.loop, [emit.value(0), emit.value(0)]

        def one(position: list[ir.Value], outer: Values) -> list[ir.Value]:
            for op in loop.before:
                mlir.clone(op, outer)
            first, end, step = (outer.get(each, each) for each in loop.op.operands[:3])
            return emit.loop(first, end, step, position, lambda k, now: self.fill(k, now, outer))

        if (around := loop.around) is None:
            one(start, {})
            return
        first, end, step = around.operands[:3]
        emit.loop(first, end, step, start, lambda number, now: one(now, {around.induction_variable: number}))

    def multiply_all(self, position: list[ir.Value]) -> list[ir.Value]:
        """Rebuilds the loop with asynchronous products. Returns the position after it.

        Sums that begin at zero, and to which products are only added, are in named registers: if values began
        as zeros, ptxas might wait for each product.
        """
        loop, sums, taken = self.loop, dict[int, tuple[ir.Type, int]](), 0
        (ring, _), *_ = self.rings
        self.flying = dict[ir.Value, int]()  # the first register of each such sum
        for each, number in [(each, loop.adds_to(each)) for each in loop.products]:
            if number is not None and (each.a in loop.loads or not loop.computes(each.a)):
                self.flying[each.d], sums[number] = taken, (each.d.type, taken)
                taken += sum_registers(each.d.type)
        first, end, _ = loop.op.operands[:3]
        *results, stage, phase, late = self.rebuild([*position, 0], self._begin, self._multiply, self._end)
        with ir.InsertionPoint.after(stage.owner):
            if self.flying:
                tile.wait_gemm()
                release, clear = partial(tile.release, ring, late), partial(tile.clear_sums, 0, taken)
                emit.branch(emit.less(first, end), release, clear)
            for number, (kind, start) in sums.items():
                results[number].replace_all_uses_with(tile.read_sums(kind, start))
        return [stage, phase]

    def start(
        self, product: GemmOp, stage: ir.Value, c: ir.Value, adds: ir.Value, a: ir.Value | None = None
    ) -> ir.Value:
        """Starts a product of the tiles in a stage, or of `a` in registers. If `adds`, it is added to `c`."""
        left, right = self.loop.loads.get(product.a), self.loop.loads[product.b]
        turned = left is not None and left.transposed
        if left is not None:
            shape, row, column = (self.rows, product.mnk[2]), emit.value(self.row), emit.value(0)
            a = left.stage(stage)
            a = tile.slice_(a, column, row, shape[::-1]) if turned else tile.slice_(a, row, column, shape)
        first_sum, b = self.flying.get(product.d, -1), right.stage(stage)
        transposed = right.transposed
        return tile.gemm_async(
            a or product.a, b, c, adds, transpose_a=turned, transpose_b=transposed, first_sum=first_sum
        )

    def _begin(self, number: ir.Value, stage: ir.Value, phase: ir.Value, _: ir.Value) -> None:
        tile.await_(self.rings[0][0], stage, phase)
        self.continues = arith.cmpi(arith.CmpIPredicate.ne, number, self.loop.op.operands[0])

    def _multiply(self, product: GemmOp, stage: ir.Value) -> ir.Value:
        """Starts a product. Waits for it, unless it is only added to sums that the loop carries."""
        no_sums = undefined(product.d.type)
        if product.d in self.flying:
            self.start(product, stage, no_sums, self.continues)
            return product.c[0]
        adds = self.loop.adds(product)
        sums = self.start(product, stage, product.c[0] if adds else no_sums, emit.constant(emit.i1(), adds))
        return tile.wait_gemm(sums)[0]

    def _end(self, stage: ir.Value, phase: ir.Value, late: ir.Value) -> list[ir.Value]:
        (ring, _), *_ = self.rings
        if self.flying:
            tile.wait_gemm(pending=len(self.flying))
            with emit.when(self.continues):
                tile.release(ring, late)
        else:
            tile.release(ring, stage)
        return [*tile.advance(ring, stage, phase), stage]
