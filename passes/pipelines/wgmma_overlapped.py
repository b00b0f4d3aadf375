"""Pipelines with `wgmma` of loops with two products, of which the second one multiplies what is computed from
the first, as in attention.
"""

from typing import NamedTuple

from weft import mlir
from weft.dialects import tile
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.fragments import undefined
from weft.passes.pipelines.loop import Loop
from weft.passes.pipelines.wgmma import ByWarpgroups


class _Late(NamedTuple):
    """A second product that hasn't started: its A, what it is added to, and where its B is in the ring."""

    a: ir.Value
    c: ir.Value
    stage: ir.Value
    phase: ir.Value


class Overlapped(ByWarpgroups):
    """The second product of an iteration starts in the next one, after the first product there: the tensor
    cores multiply while the next A is computed. Each product has a ring of its own.
    """

    @staticmethod
    def grid(loop: Loop) -> tuple[int, int, int] | None:
        """As of any loop with `wgmma`; None if the second product can't be late."""
        return None if _late_sums(loop) is None else ByWarpgroups.grid(loop)

    def make_rings(self) -> None:
        """Builds a ring for each product."""
        self.flying = {}
        loads = map(self.loop.loads_of, self.loop.products)
        self.rings = [(tile.make_ring(self.loop.stages, self.warpgroups), each) for each in loads]

    def multiply_all(self, position: list[ir.Value]) -> list[ir.Value]:
        """Rebuilds the loop. Before it comes the first iteration, which has no late product, and after it the
        last late product. Returns the position then.
        """
        old, sums = self.loop.op, _late_sums(self.loop)
        first, end, step, *initial = old.operands
        count, kinds = len(initial), [each.type for each in (*initial, *position)]
        assert sums is not None

        def late(a: ir.Value, *carried: ir.Value) -> _Late:
            return _Late(a, carried[sums], *carried[-2:])

        def following(k: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            a, *carried = carried
            return self._iteration(k, carried[:-2], sums, late(a, *carried))

        def whole() -> list[ir.Value]:
            tile.await_(self.rings[0][0], *position)
            carried = self._iteration(first, [*initial, *position], sums)
            a, *carried = emit.loop(emit.add(first, step), end, step, carried, following)
            last = late(a, *carried)
            carried[sums] = self._finish(self._start_late(last), last)
            return carried[:-2]

        results = emit.either(emit.less(first, end), kinds, whole, lambda: [*initial, *position])
        for before, after in zip(old.results, results, strict=False):
            before.replace_all_uses_with(after)
        old.operation.erase()
        return results[count:]

    def _iteration(
        self, k: ir.Value, carried: list[ir.Value], sums: int, late: _Late | None = None
    ) -> list[ir.Value]:
        """An iteration: `carried` are the values that the loop carries, and the position. Returns A of its
        second product, then these for the next iteration, and the position of B. Value number `sums` is what
        the late product is added to.
        """
        old, (first, second) = self.loop.op, self.loop.products
        known = dict(zip([*old.inner_iter_args, old.induction_variable], [*carried[:-2], k], strict=True))
        (keys, _), *_ = self.rings
        now, following = carried[-2:], tile.advance(keys, *carried[-2:])
        *ops, last = [
            each.operation for each in old.body.operations if not set(each.results) & self.loop.loads.keys()
        ]
        start = ops.index(first.operation)
        until = next(n for n, op in enumerate(ops) if n > start and _reads(op, old.inner_iter_args[sums]))
        for op in ops[:start]:
            mlir.clone(op, known)
        nothing = undefined(first.d.type), emit.constant(emit.i1(), False)
        product = self.start(first, now[0], *nothing, known.get(first.a, first.a))
        before = late and self._start_late(late)
        (known[first.d],) = tile.wait_gemm(product, pending=int(late is not None))
        tile.release(keys, now[0])
        # The late product may read the registers of its A, which the next A then takes.
        converted = [op for op in ops[start + 1 : until] if op == second.a.owner]
        for op in ops[start + 1 : until]:
            if op not in converted:
                mlir.clone(op, known)
        with emit.when(emit.less(emit.add(k, old.operands[2]), old.operands[1])):
            tile.await_(keys, *following)  # ptxas places the wait for the late product after this one
        if late is not None and before is not None:
            known[old.inner_iter_args[sums]] = self._finish(before, late)
        for op in (*converted, *ops[until:]):
            if op != second.operation:
                mlir.clone(op, known)
        values = [known.get(each, each) for each in last.operands]
        a, values[sums] = (known.get(each, each) for each in (second.a, second.c[0]))
        return [a, *values, *following, *now]

    def _start_late(self, late: _Late) -> ir.Value:
        """Starts a late product."""
        tile.await_(self.rings[1][0], late.stage, late.phase)
        return self.start(self.loop.products[1], late.stage, late.c, emit.constant(emit.i1(), True), late.a)

    def _finish(self, product: ir.Value, late: _Late) -> ir.Value:
        """The sums of a late product."""
        (sums,) = tile.wait_gemm(product)
        tile.release(self.rings[1][0], late.stage)
        return sums


def _late_sums(loop: Loop) -> int | None:
    """The number of the carried value that the second product of a loop makes, if this product may be late:
    all that reads the value comes after the first product, and nothing reads it after the second one,
    which alone reads its A.
    """
    if len(loop.products) != 2:
        return None
    first, second = loop.products
    op, body = loop.op, [each.operation for each in loop.op.body.operations]
    if loop.adds(first) or not loop.adds(second) or not loop.computes(second.a) or second.a in loop.loads:
        return None
    if {first.a, first.b} & {second.a, second.b} & loop.loads.keys() or len(list(second.d.uses)) != 1:
        return None
    # What else reads A, or a branch that computes it, would have the next A in its registers too early.
    branches = [] if isinstance(second.a.owner, ir.Block) else list(second.a.owner.regions)
    if branches or len(list(second.a.uses)) > 1:
        return None
    for number, (carried, sums) in enumerate(zip(op.inner_iter_args, body[-1].operands, strict=True)):
        if sums == second.d:
            reading = [n for n, each in enumerate(body) if _reads(each, carried)]
            one = (
                reading
                and reading[0] > body.index(first.operation)
                and reading[-1] <= body.index(second.operation)
            )
            return number if one else None
    return None


def _reads(op: ir.Operation, value: ir.Value) -> bool:
    """Whether an operation, or one in it, reads a value."""
    return any(value in each.operands for each in mlir.within(op))
