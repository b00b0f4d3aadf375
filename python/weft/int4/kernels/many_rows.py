"""The kernel for many rows of x: y = x @ ((q - zero) * scale).T + bias.

The weights are the left operand of `wgmma`, so that it computes y.T: two warpgroups dequantise 64 rows of
them each into registers, while the tensor cores multiply what the other one has dequantised.
"""

from typing import Any

import weft.language as w
from weft.int4.kernels.layout import DEPTH, LINES, ROWS


@w.kernel(grid=lambda x, y, *, BM: (w.ceil_div(x.rows, BM), w.ceil_div(y.columns, ROWS)), persistent=1)
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
    kinds = dict.fromkeys(("scale", "zero")[: 1 + asymmetric], (1, ROWS * groups, x.dtype))
    ring = w.ring(stages, x=(BM, DEPTH, x.dtype), q=(LINES, 32, w.i32), **kinds, takers=2)
    staging = w.shared(BM, ROWS, y.dtype)
    pairs = w.ceil_div(x.columns, 2 * DEPTH)

    with w.role(warpgroups=2, registers=240) as me:

        def weights(slot: Any) -> w.Fragment:
            rows, like = [ROWS * number + 64 * me for number in range(groups)], w.zeros(64, x.dtype)
            scale = [w.load_column(slot.scale.columns(row, 64), like=like) for row in rows]
            zero = [w.load_column(slot.zero.columns(row, 64), like=like) for row in rows] if asymmetric else 8
            return w.dequantize_int4(w.load_contiguous(slot.q.rows(16 * me, 16)), scale, zero)

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
            column = j * ROWS + 64 * me
            if biased:
                sums = sums + w.load_column(bias[column], like=sums).to(w.f32)
            via = staging.columns(64 * me, 64) if y.aligned else None
            w.store(sums.T.to(y.dtype), y[i * BM, column], via=via)

    with w.role(registers=24), w.one_thread():
        for i, j in w.tiles():
            for number in w.range(2 * pairs):
                line = (j * w.ceil_div(x.columns, DEPTH) + number) * LINES
                column = (number * DEPTH // group if group else 0) * ROWS
                more = {"zero": zeros[j, column]} if asymmetric else {}
                ring.fill(x=x[i * BM, number * DEPTH], q=packed[line, 0], scale=scales[j, column], **more)
