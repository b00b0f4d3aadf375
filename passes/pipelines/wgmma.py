"""Pipelines with `wgmma`: one to three warpgroups multiply, and another one fills the stages by TMA."""

from functools import partial
from typing import Any

from weft import mlir
from weft.dialects import tile
from weft.dialects.tile import GemmOp
from weft.dialects.tile_sums import sum_registers
from weft.isa.chips import WARPGROUP
from weft.isa.wgmma import MMA_ASYNC, MmaAsync
from weft.isa.wgmma import M as WGMMA_ROWS
from weft.mlir import arith, gpu, ir, scf
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.fragments import undefined
from weft.passes.pipelines.loop import Loop, touches_tiles, types_of
from weft.passes.pipelines.pipeline import FilledByTma, Values

_REGISTERS = {1: (0, 0), 2: (24, 240), 3: (32, 160)}
"""Of a thread that fills stages, and of one that multiplies, by the warpgroups that do; 0: an equal share."""


class ByWarpgroups(FilledByTma):
    """Warpgroups multiply, each its rows. One product of each to carried sums is in flight."""

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
        self.set_launch((self.warpgroups + 1) * WARPGROUP)
        with ir.InsertionPoint(loop.holder):
            self.allocate()
            self.ring = tile.make_ring(loop.stages, self.warpgroups)
            gpu.barrier()
            with tile.role(0, self.warpgroups, registers=multiplies) as number:
                self.begin_part(number)
                role = ir.InsertionPoint.current.block
            with tile.role(self.warpgroups, 1, registers=fills), thread_ids.one_thread():
                self._fill_all()
        for op in moved:
            role.append(op)
        self.divide(moved)
        self._finish(self.carry_position())

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

    def _finish(self, around: Any) -> None:
        """Rebuilds the loop with asynchronous products. Sums that begin at zero, and to which products are
        only added, are in named registers: if values began as zeros, ptxas might wait for each product.
        """
        loop, sums, taken = self.loop, dict[int, tuple[ir.Type, int]](), 0
        self.flying = dict[ir.Value, int]()  # the first register of each such sum
        for each, number in [(each, loop.adds_to(each)) for each in loop.products]:
            if number is not None and (each.a in loop.loads or not self._is_inside(each.a)):
                self.flying[each.d], sums[number] = taken, (each.d.type, taken)
                taken += sum_registers(each.d.type)
        self.passed = {} if self.flying else self._passed_on()
        first, end, _ = loop.op.operands[:3]
        position = (*(around.inner_iter_args if around else (0, 0)), 0)
        *results, stage, phase, late = self.rebuild(position, self._begin, self._multiply, self._end)
        with ir.InsertionPoint.after(stage.owner):
            if self.flying:
                tile.wait_gemm()
                release, clear = partial(tile.release, self.ring, late), partial(tile.clear_sums, 0, taken)
                emit.branch(emit.less(first, end), release, clear)
            for number, (kind, start) in sums.items():
                results[number].replace_all_uses_with(tile.read_sums(kind, start))
            self._await(results)
            if around and self.passed:
                with emit.when(emit.less(first, end)):
                    tile.release(self.ring, late)
        if around:
            with ir.InsertionPoint(around.body):
                scf.yield_([stage, phase])

    def _is_inside(self, value: ir.Value) -> bool:
        """Whether the loop computes an operand of a product: the next iteration overwrites its registers."""
        home = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
        return bool(home == self.loop.op.body)

    def _passed_on(self) -> dict[ir.Value, int]:
        """Products that may be in flight until the first product of the next iteration has ended: those whose
        sums are only carried, and not used before. By their sums, with the numbers of the carried values.
        """
        body, products = [each.operation for each in self.loop.op.body.operations], self.loop.products
        after, found = body[body.index(products[0].operation) + 1 :], dict[ir.Value, int]()
        for number, (carried, sums) in enumerate(
            zip(self.loop.op.inner_iter_args, body[-1].operands, strict=True)
        ):
            is_last = sums in [each.d for each in products[1:]] and len(list(sums.uses)) == 1
            if is_last and all(use.owner.operation in after for use in carried.uses):
                found[sums] = number
        return found

    def _await(self, carried: list[ir.Value]) -> None:
        """Waits for products that may be in flight, whose sums are among these carried values."""
        for sums in [carried[number] for number in self.passed.values()]:
            (done,) = tile.wait_gemm(sums)
            sums.replace_all_uses_except(done, done.owner.operation)

    def _begin(self, number: ir.Value, stage: ir.Value, phase: ir.Value, late: ir.Value) -> None:
        tile.await_(self.ring, stage, phase)
        self.carried, self.late = list(late.owner.owner.opview.inner_iter_args), late
        self.continues = arith.cmpi(arith.CmpIPredicate.ne, number, self.loop.op.operands[0])

    def _multiply(self, product: GemmOp, stage: ir.Value) -> ir.Value:
        """Starts a product. Waits for it, unless it is only added to sums that the loop carries."""
        a, left, right = product.a, self.loop.loads.get(product.a), self.loop.loads[product.b]
        turned = left is not None and left.transposed
        if left is not None:
            shape, row, column = (self.rows, product.mnk[2]), emit.value(self.row), emit.value(0)
            a = left.stage(stage)
            a = tile.slice_(a, column, row, shape[::-1]) if turned else tile.slice_(a, row, column, shape)
        start = self.flying.get(product.d, -1)
        adds = self.continues if start >= 0 else emit.constant(emit.i1(), self.loop.adds(product))
        c = product.c[0] if start < 0 and self.loop.adds(product) else undefined(product.d.type)
        b, b_turned = right.stage(stage), right.transposed
        sums = tile.gemm_async(a, b, c, adds, transpose_a=turned, transpose_b=b_turned, first_sum=start)
        if start >= 0:
            return product.c[0]
        if product.d in self.passed:
            return sums
        (done,) = tile.wait_gemm(sums)
        if product.operation == self.loop.products[0].operation and self.passed:
            self._await(self.carried)
            with emit.when(self.continues):
                tile.release(self.ring, self.late)
        return done

    def _end(self, stage: ir.Value, phase: ir.Value, late: ir.Value) -> list[ir.Value]:
        if self.flying:
            tile.wait_gemm(pending=len(self.flying))
            with emit.when(self.continues):
                tile.release(self.ring, late)
        elif not self.passed:
            tile.release(self.ring, stage)
        return [*tile.advance(self.ring, stage, phase), stage]
