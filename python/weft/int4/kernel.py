"""The kernel of products with weights of 4 bits: y = x @ ((q - zero) * scale).T.

The weights are the left operand of `wgmma`, so that it computes y.T: warpgroups dequantise 64 rows of them
into registers while their previous product runs. Where x has few rows, warpgroups and the CTAs of a cluster
share K.
"""

from typing import Any

import weft.language as w

ROWS = 128
"""Rows of weights of a CTA, 64 for each of two warpgroups."""
DEPTH = 64
"""Columns of weights that a warpgroup multiplies at once."""
LINES = 32
"""Rows of `packed` that hold ROWS x DEPTH weights."""


@w.kernel(
    grid=lambda x, y, *, BM, splits: (w.ceil_div(x.rows, BM), w.ceil_div(y.columns, ROWS), splits),
    persistent=lambda *, splits: 1 if splits == 1 else None,
    cluster=lambda *, splits: None if splits == 1 else (1, 1, splits),
)
def product(
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
    parts: int = 1,
    splits: int = 1,
    stages: int = 4,
) -> None:
    """y = x @ weights.T + bias, a tile of BM x 128 for each CTA. `group` columns share a scale, all of them
    if it is 0.

    `parts` pairs of warpgroups multiply 64 columns each of a stage, and `splits` CTAs of a cluster every
    splits-th stage. Their sums are added in a fixed order.
    """
    depth = DEPTH * parts
    groups = max(depth // group, 1) if group else 1  # of a stage
    kinds: dict[str, Any] = {"x": (BM, depth, x.dtype), "q": (LINES * parts, 32, w.i32)}
    kinds |= dict.fromkeys(("scale", "zero")[: 1 + asymmetric], (1, ROWS * groups, x.dtype))
    ring = w.ring(stages, **kinds, takers=2 * parts)
    partial = w.shared(parts * ROWS, BM, w.f32) if parts * splits > 1 else None
    staging = w.shared(BM, ROWS, y.dtype) if partial is None else None
    pairs = w.ceil_div(x.columns, 2 * depth * splits)

    with w.role(warpgroups=2 * parts, registers={1: 240, 2: 112}[parts]) as me:
        half, part = me % 2, me // 2

        def multiplied(slot: Any, sums: Any = None) -> Any:
            like, most = w.zeros(64, x.dtype), max(DEPTH // group, 1) if group else 1
            first = part * most if groups > 1 else 0
            rows = [64 * (2 * (first + number) + half) for number in range(most)]
            scale = [w.load_column(slot.scale.columns(row, 64), like=like) for row in rows]
            zero = [w.load_column(slot.zero.columns(row, 64), like=like) for row in rows] if asymmetric else 8
            words = w.load_contiguous(slot.q.rows(16 * me, 16))
            weights = w.dequantize_int4(words, scale, zero)  # while the product before runs
            return w.gemm(weights, slot.x.columns(DEPTH * part, DEPTH).T, sums)

        for i, j, _ in w.tiles():
            one = ring.take()
            sums = multiplied(one)
            other = ring.take()
            sums = multiplied(other, sums)
            for _ in w.range(1, pairs):
                for _ in range(2):  # so that no registers are written that a running product reads
                    late, one, other = one, other, ring.take()
                    w.wait(pending=1)
                    late.release()
                    sums = multiplied(other, sums)
            sums = w.wait(sums)
            one.release()
            other.release()
            if partial is not None:
                sums, half, whole = added_up(sums, partial, me, parts, splits)
            else:
                whole = True
            if whole:
                column = j * ROWS + 64 * half
                if biased:
                    sums = sums + w.load_column(bias[column], like=sums).to(w.f32)
                via = staging.columns(64 * half, 64) if y.aligned and partial is None else None
                w.store(sums.T.to(y.dtype), y[i * BM, column], via=via)
            if partial is not None:
                met(splits)  # the sums have been read

    with w.role(registers=24):
        with w.one_thread():
            for i, j, split in w.tiles():
                for number in w.range(2 * pairs):
                    k = number * splits + split if splits > 1 else number
                    line = (j * w.ceil_div(x.columns, DEPTH) + k * parts) * LINES
                    column = (k * depth // group if group else 0) * ROWS
                    places = {"x": x[i * BM, k * depth], "q": packed[line, 0], "scale": scales[j, column]}
                    ring.fill(**places, **({"zero": zeros[j, column]} if asymmetric else {}))
        if splits > 1:
            w.cluster_barrier()
            w.cluster_barrier()


@w.inline
def added_up(sums: Any, partial: w.Buffer, me: Any, parts: int, splits: int) -> tuple[Any, Any, Any]:
    """The sums of all parts and splits for 64 columns of y, the half with them, and whether this warpgroup
    has one.
    """
    w.store(sums, partial.rows(64 * me, 64))
    met(splits)
    half = w.cluster_rank() if splits > 1 else me
    whole = half < 2 and (splits == 1 or me == 0)
    if whole:
        parted = [partial.peer(split) if splits > 1 else partial for split in range(splits)]
        found = [w.load(each.rows(64 * (2 * part + half), 64)) for each in parted for part in range(parts)]
        sums = sum(found[1:], found[0])
    return sums, half, whole


def met(splits: int) -> None:
    """All warpgroups of the CTA that multiply, or all threads of a cluster, wait for each other."""
    w.cluster_barrier() if splits > 1 else w.barrier()
