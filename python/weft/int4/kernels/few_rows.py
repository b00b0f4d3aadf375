"""The kernel for few rows of x, which is limited by the memory that it reads:
y = x @ ((q - zero) * scale).T + bias.

The weights are the left operand of `mma.sync`. Warpgroups, and CTAs of a cluster, multiply different columns
of the same weights, and add their sums at the end. Sums of a group are scaled, not its weights.
"""

from typing import Any

import weft.language as w
from weft.int4.kernels.groups import loaded
from weft.int4.kernels.layout import DEPTH, LINES, ROWS


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
    BM: int,
    group: int,
    asymmetric: bool,
    biased: bool = False,
    blocks: int = 2,
    halves: int = 2,
    parts: int = 2,
    splits: int = 1,
    stages: int = 8,
    ahead: int = 8,
) -> None:
    """BM x 64 or 128 of y (`halves`) for each CTA or cluster. `group` columns share a scale, all of them if
    it is 0.

    `parts` warpgroups multiply `blocks` blocks of 64 columns each of the same 64 rows of a stage, and
    `splits` CTAs of a cluster different stages. `ahead` stages of weights are asked for in L2 while the
    launch before still runs.
    """
    span = DEPTH * blocks * parts
    groups = max(span // group, 1) if group else 1  # of a stage
    kinds = dict.fromkeys(("scale", "zero")[: 1 + asymmetric], (1, halves * groups * ROWS, x.dtype))
    kinds |= {"x": (BM, span, x.dtype), "q": (halves * parts * blocks * LINES, 32, w.i32)}
    count, j, lines = w.ceil_div(x.columns, span * splits), w.cta(0), span // DEPTH * LINES
    tiles = [halves * j + half for half in range(halves)]
    starts = [tile * w.ceil_div(x.columns, DEPTH) * LINES for tile in tiles]
    first = w.cta(1) * count if splits > 1 else w.i32(0)  # stage of K
    if ahead:
        for tile, start in zip(tiles, starts, strict=True):
            w.prefetch(packed[start + first * lines, 0], w.minimum(count, ahead) * lines, 32)
            for each in (scales, zeros)[: 1 + asymmetric]:
                w.prefetch(each[tile, of_group(first, span, group)], 1, ahead * groups * ROWS)
    ring = w.ring(stages, **kinds, takers=halves * parts)
    partial = w.shared(splits * parts * BM, halves * ROWS, w.f32)
    if splits > 1:
        w.cluster_arrive()

    with w.role(warpgroups=halves * parts) as me:
        half, part, total = me % halves, me // halves, w.zeros((64, BM))
        for _ in w.range(count):
            with ring.take() as slot:
                total = added(
                    *(slot, total, half * parts + part, part, half),
                    group=group,
                    groups=groups,
                    blocks=blocks,
                )
        # The first CTA of a cluster gets the sums of all.
        if splits > 1:
            w.cluster_wait()  # it has begun
            row = BM * (part + w.cluster_rank() * parts)
            w.store(total.T, partial.rows(row, BM).columns(ROWS * half, ROWS).peer(0))
            w.cluster_barrier()
        else:
            w.store(total.T, partial.rows(BM * part, BM).columns(ROWS * half, ROWS))
            w.barrier()
        # Pieces of 8 x 64 of y, each by one warpgroup.
        pieces, adds = BM // 8 * halves, w.cluster_rank() == 0 if splits > 1 else True
        for turn in range(w.ceil_div(pieces, halves * parts)):
            piece = halves * parts * turn + me
            if adds and piece < pieces:
                row, column, sums = 8 * (piece // halves), ROWS * (piece % halves), None
                for other in range(splits * parts):
                    one = w.load_contiguous(partial.rows(BM * other + row, 8).columns(column, ROWS))
                    sums = one if sums is None else sums + one
                column = column + j * (halves * ROWS)
                if biased:
                    sums = sums + w.load_row(bias[column], like=sums).to(w.f32)
                w.store(sums.to(y.dtype), y[row, column])

    with w.role():
        with w.one_thread():
            for k in w.range(first, first + count):
                places = {"q": tuple(packed[start + k * lines, 0] for start in starts)}
                for name, each in {"scale": scales, "zero": zeros}.items():
                    if name in kinds:
                        places[name] = tuple(each[tile, of_group(k, span, group)] for tile in tiles)
                ring.fill(x=x[0, k * span], **places)
        if splits > 1:
            w.cluster_wait()
            w.cluster_barrier()


def of_group(k: Any, span: int, group: int) -> Any:
    """The column of scales of the first group of a stage."""
    return k * span // group * ROWS if group else 0


def added(
    slot: Any, total: Any, place: Any, part: Any, half: Any, *, group: int, groups: int, blocks: int
) -> Any:
    """The sums with the products of a warpgroup of a stage, in which its weights are at a place."""
    dtype, sums = slot.x.dtype, None
    for block in range(blocks):
        number = part * blocks + block
        if block == 0 or 0 < group < DEPTH * blocks:  # another group begins
            first = half * groups + (number * DEPTH // group if groups > 1 else 0)
            of_groups = [first + n for n in range(max(DEPTH // group, 1) if group else 1)]
            scale, zero = (loaded(slot, name, of_groups) for name in ("scale", "zero"))
        words = w.load_contiguous(slot.q.rows(LINES * (place * blocks + block), LINES))
        x = slot.x.columns(DEPTH * number, DEPTH)
        if len(of_groups) > 1:
            total = w.warp_gemm(w.dequantize_int4(words, scale, zero), x.T, total)
            continue
        sums = w.warp_gemm(w.dequantize_int4(words, zero=zero[0], dtype=dtype), x.T, sums)
        if block == blocks - 1 or 0 < group < DEPTH * blocks:
            total, sums = total + sums * scale[0].to(w.f32), None
    return total
