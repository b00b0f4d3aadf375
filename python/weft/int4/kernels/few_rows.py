"""The kernel for few rows of x, which is limited by the memory that it reads. Weights are the left operand of
`mma.sync`. Warpgroups, and CTAs of a cluster, multiply different columns, and add their sums at the end.
"""

import weft.language as w
from weft.layout.int4_layout import DEPTH, ROWS


@w.kernel(
    grid=lambda y, *, halves, rows, splits: (w.ceil_div(y.columns, halves * rows), splits),
    cluster=lambda *, splits: (1, splits) if splits > 1 else None,
    dependent=True,
)
def few_rows(
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
    blocks=2,
    halves=2,
    rows=64,
    parts=2,
    splits=1,
    stages=8,
    ahead=8,
):
    """y = x @ ((q - zero) * scale).T + bias, BM x `halves` tiles of 64 or 32 `rows` for each CTA, or cluster
    of `splits` CTAs, which multiply different stages. `parts` warpgroups multiply `blocks` blocks of 64
    columns each of a stage. `ahead` stages are asked for in L2 while the launch before still runs.
    """
    span, groups = DEPTH * blocks * parts, halves * parts
    of = {"columns": x.columns, "group": group, "tiles": halves, "depth": span, "rows": rows}
    weights = w.int4_weights(packed, scales, zeros if asymmetric else None, **of)
    count, j = w.ceil_div(x.columns, span * splits), w.cta(0)
    tiles = [halves * j + half for half in range(halves)]
    start = w.cta(1) * count if splits > 1 else w.i32(0)  # the first stage of K
    weights.prefetch(tiles, start, count, most=ahead)
    ring = w.ring(stages, x=(BM, span, x.dtype), **weights.buffers, takers=groups)
    partial = w.shared(splits * parts * BM, halves * ROWS, w.f32)
    if splits > 1:
        w.cluster_arrive(publishes=False)

    with w.role(warpgroups=groups) as me:
        half, part, sums = me % halves, me // halves, w.zeros((64, BM))
        for _ in w.range(count):
            with ring.take() as slot:
                columns = slot.x.columns(DEPTH * blocks * part, DEPTH * blocks)
                sums = weights.operand(slot, half, part * blocks, blocks).warp_gemm(columns.T, sums)
        if splits > 1:
            w.cluster_wait()  # the first CTA has begun: it gets the sums of all
        place = part + w.cluster_rank() * parts if splits > 1 else part
        mine = partial.rows(BM * place, BM).columns(ROWS * half, ROWS)
        w.store(sums.T, mine.peer(0) if splits > 1 else mine)
        w.cluster_barrier() if splits > 1 else w.barrier()
        first = w.cluster_rank() == 0 if splits > 1 else True
        for piece in w.range(me, BM // 8 * halves, groups):  # of 8 rows of y, each by one warpgroup
            if first:
                row, half = 8 * (piece // halves), piece % halves
                same = [(BM * n + row, at) for n in range(splits * parts) for at in range(0, ROWS, rows)]
                same = [partial.rows(n, 8).columns(ROWS * half + at, rows) for n, at in same]
                total, *others = map(w.load_contiguous, same)
                total, column = sum(others, total), (halves * j + half) * rows
                if biased:
                    total = total + w.load_row(bias[column], like=total).to(w.f32)
                w.store(total.to(y.dtype), y[row, column])

    with w.role():
        with w.one_thread():
            for k in w.range(start, start + count):
                ring.fill(x=x[0, k * span], **weights.places(tiles, k))
        if splits > 1:
            w.cluster_wait()
            w.cluster_barrier()
