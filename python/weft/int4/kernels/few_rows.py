"""The kernel for few rows of x, which is limited by the memory that it reads:
y = x @ ((q - zero) * scale).T + bias.

The weights are the left operand of `mma.sync`. Warpgroups, and CTAs of a cluster, multiply different columns
of the same weights, and add their sums at the end. Sums of a group are scaled, not its weights.
"""

from typing import Any

import weft.language as w
from weft.int4.kernels.layout import DEPTH, LINES, ROWS


@w.kernel(
    grid=lambda y, *, splits: (w.ceil_div(y.columns, ROWS), splits),
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
    BM: int,
    group: int,
    asymmetric: bool,
    biased: bool = False,
    blocks: int = 2,
    parts: int = 2,
    splits: int = 1,
    stages: int = 8,
) -> None:
    """BM x 128 of y for each CTA or cluster. `group` columns share a scale, all of them if it is 0.

    `parts` pairs of warpgroups multiply `blocks` blocks of 64 columns of each stage, and `splits` CTAs of a
    cluster every splits-th stage.
    """
    span = DEPTH * blocks * parts
    groups = max(span // group, 1) if group else 1  # of a stage
    kinds = dict.fromkeys(("scale", "zero")[: 1 + asymmetric], (1, ROWS * groups, x.dtype))
    kinds |= {"x": (BM, span, x.dtype), "q": (LINES * blocks * parts, 32, w.i32)}
    ring = w.ring(stages, **kinds, takers=2 * parts)
    partial = w.shared(parts * BM, ROWS, w.f32)
    count, j = w.ceil_div(x.columns, span * splits), w.cta(0)

    with w.role(warpgroups=2 * parts) as me:
        half, part, total = me % 2, me // 2, w.zeros((64, BM))
        for _ in w.range(count):
            with ring.take() as slot:
                total = added(slot, total, half, part, group, groups, blocks)
        w.store(total.T, partial.rows(BM * part, BM).columns(64 * half, 64))
        met(splits)
        # Pieces of 8 x 64 of y, each by one warpgroup of the cluster.
        rank = w.cluster_rank() if splits > 1 else 0
        for turn in range(w.ceil_div(BM // 8 * 2, 2 * parts * splits)):
            piece = (2 * parts * turn + me) * splits + rank
            if piece < BM // 8 * 2:
                row, column, sums = 8 * (piece // 2), 64 * (piece % 2), None
                for split in range(splits):
                    source = partial.peer(split) if splits > 1 else partial
                    for other in range(parts):
                        one = source.rows(BM * other + row, 8).columns(column, 64)
                        sums = w.load_contiguous(one) if sums is None else sums + w.load_contiguous(one)
                column = column + j * ROWS
                if biased:
                    sums = sums + w.load_row(bias[column], like=sums).to(w.f32)
                w.store(sums.to(y.dtype), y[row, column])
        if splits > 1:
            w.cluster_barrier()  # peers have read the sums

    with w.role():
        with w.one_thread():
            for number in w.range(count):
                k = number * splits + w.cta(1) if splits > 1 else number
                line = (j * w.ceil_div(x.columns, DEPTH) + k * (blocks * parts)) * LINES
                column = (k * span // group if group else 0) * ROWS
                more = {"zero": zeros[j, column]} if asymmetric else {}
                ring.fill(x=x[0, k * span], q=packed[line, 0], scale=scales[j, column], **more)
        if splits > 1:
            w.cluster_barrier()
            w.cluster_barrier()


def added(slot: Any, total: Any, half: Any, part: Any, group: int, groups: int, blocks: int) -> Any:
    """The sums with the products of a warpgroup's columns of a stage."""
    dtype, sums = slot.x.dtype, None
    for block in range(blocks):
        number = part * blocks + block
        if block == 0 or 0 < group < DEPTH * blocks:  # another group begins
            first = number * DEPTH // group if groups > 1 else 0
            of_groups = [first + n for n in range(max(DEPTH // group, 1) if group else 1)]
            scale, zero = (loaded(slot, name, of_groups, half) for name in ("scale", "zero"))
        words, x = (
            w.load_contiguous(slot.q.rows(16 * (2 * number + half), 16)),
            slot.x.columns(DEPTH * number, DEPTH),
        )
        if len(of_groups) > 1:
            total = w.warp_gemm(w.dequantize_int4(words, scale, zero), x.T, total)
            continue
        sums = w.warp_gemm(w.dequantize_int4(words, zero=zero[0], dtype=dtype), x.T, sums)
        if block == blocks - 1 or 0 < group < DEPTH * blocks:
            total, sums = total + sums * scale[0].to(w.f32), None
    return total


def loaded(slot: Any, name: str, groups: Any, half: Any) -> list[Any]:
    """The scales or zeros of groups, vectors of 64 rows."""
    if name not in slot.ring.kinds:
        return [8] * len(groups)
    like = w.zeros(64, slot.x.dtype)
    buffer = getattr(slot, name)
    return [w.load_column(buffer.columns(ROWS * each + 64 * half, 64), like=like) for each in groups]


def met(splits: int) -> None:
    """All warpgroups of the CTA that multiply, or all threads of a cluster, wait for each other."""
    w.cluster_barrier() if splits > 1 else w.barrier()
