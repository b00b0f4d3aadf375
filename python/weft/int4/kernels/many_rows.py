"""The kernel for many rows of x. The weights are the left operand of `wgmma`, so that it computes y.T: two
warpgroups dequantize 64 rows of them each into registers, while the tensor cores multiply what the other one
has dequantized.
"""

import weft.language as w
from weft.layout.int4_layout import DEPTH, ROWS


@w.kernel(
    grid=lambda x, y, *, BM, splits: (w.ceil_div(x.rows, BM), w.ceil_div(y.columns, 2 * ROWS), splits),
    persistent=lambda *, splits: 1 if splits == 1 else None,
    cluster=lambda *, splits: (1, 1, splits) if splits > 1 else None,
)
def many_rows(
    x: w.In["m k"],
    packed: w.In["lines 32", w.i32],
    scales: w.In["tiles scales"],
    zeros: w.In["tiles_of_zeros zeros"],
    bias: w.In["b"],
    y: w.Out["m n"],
    *,
    BM,
    group,
    asymmetric,
    biased=False,
    splits=1,
    stages=4,
):
    """y = x @ ((q - zero) * scale).T + bias, BM x 128 for each CTA. `splits` CTAs of a cluster share K."""
    zeros = zeros if asymmetric else None
    weights = w.int4_weights(packed, scales, zeros, columns=x.columns, group=group, tiles=2)
    ring = w.ring(stages, x=(BM, DEPTH, x.dtype), **weights.buffers, takers=2)
    staging = w.shared(BM, 2 * ROWS, y.dtype if splits == 1 else w.f32)
    pairs = w.ceil_div(x.columns, 2 * DEPTH * splits)

    with w.role(warpgroups=2, registers=240) as me:

        def multiplied(late, sums):
            slot = ring.take()
            made = weights.operand(slot, me).dequantized()  # while the product before runs
            sums = w.wait(sums)
            late.release()
            return slot, w.gemm(made, slot.x.T, sums)

        for i, j, _ in w.tiles():
            slot = ring.take()
            sums = w.gemm(weights.operand(slot, me).dequantized(), slot.x.T)
            for _ in w.range(1, pairs):
                for _ in range(2):  # so that no registers are written that a running product reads
                    slot, sums = multiplied(slot, sums)
            slot, sums = multiplied(slot, sums)
            sums = w.wait(sums)
            slot.release()
            column, mine = (2 * j + me) * ROWS, staging.columns(ROWS * me, ROWS)
            if biased and (splits == 1 or w.cluster_rank() == 0):
                sums = sums + w.load_column(bias[column], like=sums).to(w.f32)
            if splits == 1:
                w.store(sums.T.to(y.dtype), y[i * BM, column], via=mine if y.aligned else None)
            else:
                w.store(sums.T, mine)
                w.cluster_barrier()
                for first in range(0, BM // splits, 8):  # of the rows that each CTA adds up
                    row = w.cluster_rank() * (BM // splits) + first
                    sums, *others = (w.load_contiguous(mine.peer(n).rows(row, 8)) for n in range(splits))
                    sums = sum(others, sums)
                    w.store(sums.to(y.dtype), y[i * BM + row, column])
                w.cluster_barrier()  # peers have read the sums

    with w.role(registers=24):
        with w.one_thread():
            for i, j, split in w.tiles():
                first = split * (2 * pairs) if splits > 1 else 0
                for k in w.range(first, first + 2 * pairs):
                    ring.fill(x=x[i * BM, k * DEPTH], **weights.places([2 * j, 2 * j + 1], k))
        if splits > 1:
            w.cluster_barrier()
            w.cluster_barrier()
