"""The kernel for many rows of x: y = x @ ((q - zero) * scale).T + bias.

The weights are the left operand of `wgmma`, so that it computes y.T: two warpgroups dequantise 64 rows of
them each into registers, while the tensor cores multiply what the other one has dequantised.
"""

from typing import Any

import weft.language as w
from weft.int4.kernels.layout import DEPTH, LINES, ROWS


@w.kernel(grid=lambda x, y, *, BM: (w.ceil_div(x.rows, BM), w.ceil_div(y.columns, 2 * ROWS)), persistent=1)
def many_rows(
    x: w.In["m k"],
    packed: w.In["lines 32", w.i32],
    scales: w.In["tiles scales"],
    zeros: w.In["tiles_of_zeros zeros"],
    bias: w.In["b"],
    y: w.Out["m n"],
    *,
    BM: int,
    group: int,
    asymmetric: bool,
    biased: bool = False,
    stages: int = 4,
) -> None:
    """A tile of BM x 128 of y for each CTA. `group` columns share a scale, all of them if it is 0."""
    groups = max(DEPTH // group, 1) if group else 1  # of a stage
    kinds = dict.fromkeys(("scale", "zero")[: 1 + asymmetric], (1, 2 * ROWS * groups, x.dtype))
    ring = w.ring(stages, x=(BM, DEPTH, x.dtype), q=(2 * LINES, 32, w.i32), **kinds, takers=2)
    staging = w.shared(BM, 2 * ROWS, y.dtype)
    pairs = w.ceil_div(x.columns, 2 * DEPTH)

    with w.role(warpgroups=2, registers=240) as me:

        def weights(slot: Any) -> w.Fragment:
            rows, like = [ROWS * (groups * me + n) for n in range(groups)], w.zeros(ROWS, x.dtype)
            scale = [w.load_column(slot.scale.columns(row, ROWS), like=like) for row in rows]
            zero = (
                [w.load_column(slot.zero.columns(row, ROWS), like=like) for row in rows] if asymmetric else 8
            )
            return w.dequantize_int4(w.load_contiguous(slot.q.rows(LINES * me, LINES)), scale, zero)

        def multiplied(late: Any, sums: Any) -> tuple[Any, Any]:
            slot = ring.take()
            made = weights(slot)  # while the product before runs
            sums = w.wait(sums)
            late.release()
            return slot, w.gemm(made, slot.x.T, sums)

        for i, j in w.tiles():
            slot = ring.take()
            sums = w.gemm(weights(slot), slot.x.T)
            for _ in w.range(1, pairs):
                for _ in range(2):  # so that no registers are written that a running product reads
                    slot, sums = multiplied(slot, sums)
            slot, sums = multiplied(slot, sums)
            sums = w.wait(sums)
            slot.release()
            column = (2 * j + me) * ROWS
            if biased:
                sums = sums + w.load_column(bias[column], like=sums).to(w.f32)
            via = staging.columns(ROWS * me, ROWS) if y.aligned else None
            w.store(sums.T.to(y.dtype), y[i * BM, column], via=via)

    with w.role(registers=24), w.one_thread():
        blocks = w.ceil_div(x.columns, DEPTH)
        for i, j in w.tiles():
            for number in w.range(2 * pairs):
                lines = tuple(packed[(tile * blocks + number) * LINES, 0] for tile in (2 * j, 2 * j + 1))
                column = (number * DEPTH // group if group else 0) * ROWS
                of_groups = {"scale": scales, "zero": zeros} if asymmetric else {"scale": scales}
                more = {
                    name: (each[2 * j, column], each[2 * j + 1, column]) for name, each in of_groups.items()
                }
                ring.fill(x=x[i * BM, number * DEPTH], q=lines, **more)
