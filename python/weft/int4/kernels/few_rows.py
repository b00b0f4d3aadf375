"""The kernel for few rows of x, which is limited by the memory that it reads. Weights are the left operand of
`mma.sync`. Warpgroups, and CTAs of a cluster, multiply different columns, and add their sums at the end.
"""

import weft.language as w
from weft.int4.kernels.layout import DEPTH, ROWS
from weft.int4.kernels.stages import Weights, multiplied, total


@w.kernel(
    grid=lambda y, *, halves, splits: (w.ceil_div(y.columns, halves * ROWS), splits),
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
    parts=2,
    splits=1,
    stages=8,
    ahead=8,
):
    """y = x @ ((q - zero) * scale).T + bias, BM x 64 or 128 (`halves`) for each CTA, or cluster of `splits`
    CTAs, which multiply different stages. `parts` warpgroups multiply `blocks` blocks of 64 columns each of a
    stage. `ahead` stages of weights are asked for in L2 while the launch before still runs.
    """
    span, groups = DEPTH * blocks * parts, halves * parts
    weights = Weights(packed, scales, zeros, w.ceil_div(x.columns, DEPTH), span, group, asymmetric)
    count, j = w.ceil_div(x.columns, span * splits), w.cta(0)
    tiles = [halves * j + half for half in range(halves)]
    start = w.cta(1) * count if splits > 1 else w.i32(0)  # the first stage of K
    if ahead:
        weights.prefetch(tiles, start, count, ahead)
    ring = w.ring(stages, **weights.buffers(halves, (BM, span, x.dtype)), takers=groups)
    partial = w.shared(splits * parts * BM, halves * ROWS, w.f32)
    if splits > 1:
        w.cluster_arrive()

    with w.role(warpgroups=groups) as me:
        half, part, sums = me % halves, me // halves, w.zeros((64, BM))
        for _ in w.range(count):
            with ring.take() as slot:
                sums = multiplied(weights, slot, sums, half, part, blocks)
        if splits > 1:
            w.cluster_wait()  # the first CTA has begun: it gets the sums of all
        place = part + w.cluster_rank() * parts if splits > 1 else part
        mine = partial.rows(BM * place, BM).columns(ROWS * half, ROWS)
        w.store(sums.T, mine.peer(0) if splits > 1 else mine)
        w.cluster_barrier() if splits > 1 else w.barrier()
        pieces, first = BM // 8 * halves, w.cluster_rank() == 0 if splits > 1 else True
        for turn in range(w.ceil_div(pieces, groups)):  # of 8 x 64 of y, each by one warpgroup
            piece = groups * turn + me
            if first and piece < pieces:
                row, column = 8 * (piece // halves), ROWS * (piece % halves)
                same = [partial.rows(BM * n + row, 8).columns(column, ROWS) for n in range(splits * parts)]
                sums, column = total(same), column + j * (halves * ROWS)
                if biased:
                    sums = sums + w.load_row(bias[column], like=sums).to(w.f32)
                w.store(sums.to(y.dtype), y[row, column])

    with w.role():
        with w.one_thread():
            for k in w.range(start, start + count):
                ring.fill(x=x[0, k * span], **weights.places(tiles, k))
        if splits > 1:
            w.cluster_wait()
            w.cluster_barrier()
