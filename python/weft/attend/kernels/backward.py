"""Attention, backward, of queries: the sums that all gradients need, and the gradients of q.

The gradient of scores is ds = p * (do @ v.T - delta), with the shares p from lse, and delta the sums of
do * o. `backward_of_keys` has the gradients of k and v, from sums over the queries, and can have those of q
as well, which it adds up in global memory, in any order. `backward_of_queries` computes these in a fixed
order.
"""

import math

import weft.language as w
from weft.attend.kernels.masks import Window, blocks_of_keys, visible
from weft.attend.kernels.sequences import SUMS_STEP, sequence_at, sequence_of, slots

LOG2E = math.log2(math.e)
ROWS = 64  # for each warpgroup
LANES = 32  # elements of a row of `sums_q`
PANEL = 64  # columns whose 16-bit elements are one row of 128 bytes


@w.kernel(
    grid=lambda delta: (delta.size("padded") // SUMS_STEP, *(delta.size(n) for n in (1, 0))), dependent=True
)
def products_of_outputs(
    o: w.In["batches heads m E"],
    do: w.In["batches heads m E"],
    lse: w.In["batches heads m", w.f32],
    d_lse: w.In["lse_batches lse_heads lse_m", w.f32],
    starts_q: w.In["sequences", w.i32],
    base: w.Out["batches heads padded", w.f32],
    delta: w.Out["batches heads padded", w.f32],
    sums_q: w.Out["sum_batches sum_heads sum_rows columns", w.f32],
    unit: w.f32,
    *,
    E,
    width,
    of_lse=False,
    packed=False,
    adding=False,
):
    """delta = -sum(do * o) of each row, plus the gradient of lse with `of_lse`; and base = -lse, in units of
    the products of queries and keys. After the rows of a sequence come zeros. With `adding`, `sums_q` becomes
    zero.
    """
    to, head, batch = w.cta(0) * SUMS_STEP, w.cta(1), w.cta(2)
    with w.role():
        row, end = to, o.rows
        if packed:
            number, x = sequence_at(w.cta(0), starts_q, SUMS_STEP)
            row, end = starts_q[number] + x * SUMS_STEP, starts_q[number + 1].loaded()
        like = w.by_lanes(w.zeros((SUMS_STEP, PANEL), o.dtype))  # whose loads are of 16 bytes
        parts = [
            w.load(o[batch, head, row, at], like=like).to(w.f32)
            * w.load(do[batch, head, row, at], like=like).to(w.f32)
            for at in range(0, width, PANEL)
        ]
        total = -w.sum(sum(parts[1:], parts[0]), axis=1)
        if of_lse:
            total = total + w.load_column(d_lse[batch, head, row], like=total)
        low = w.load_column(lse[batch, head, row], like=total) * -unit
        inside = w.row(total) + row < end
        w.store_column(w.where(inside, low, 0.0), base[batch, head, to])
        w.store_column(w.where(inside, total, 0.0), delta[batch, head, to])
        if adding:
            zeros = w.by_lanes(w.zeros((SUMS_STEP, width)))
            for first in w.range(w.cta(0) * zeros.rows, sums_q.rows, w.ctas(0) * zeros.rows):
                w.store(zeros, sums_q[batch, head, first, 0])


def tiles(matrix, starts, rows, packed, heads):
    """A grid of tiles of some rows."""
    if packed:
        return slots(starts, matrix.rows, rows), matrix.size(heads), 1
    return w.ceil_div(matrix.rows, rows), matrix.size(heads), matrix.size(0)


@w.inline
def shares(s, low, *, scale, softcap, capped):
    """The shares of scores, before masks, and the slopes of capped scores. `low` is added to exponents; it is
    None if the products began with base.
    """
    if capped:
        s = w.tanh(s * (scale / softcap))
        return w.exp2(s * (softcap * LOG2E) + low), 1.0 - s * s
    return w.exp2(s * (scale * LOG2E) if low is None else s * (scale * LOG2E) + low), None


def _grid_of_queries(q, starts_q, *, groups, packed):
    return tiles(q, starts_q, ROWS * groups, packed, "heads")


@w.kernel(grid=_grid_of_queries, dependent=True)
def backward_of_queries(
    q: w.In["batches heads m D"],
    k: w.In["key_batches key_heads n D"],
    v: w.In["key_batches key_heads n E"],
    do: w.In["batches heads m E"],
    base: w.In["batches heads padded", w.f32],
    delta: w.In["batches heads padded", w.f32],
    starts_q: w.In["sequences", w.i32],
    starts_k: w.In["key_sequences", w.i32],
    lengths: w.In["limits", w.i32],
    dq: w.Out["batches heads m D"],
    scale: w.f32,
    softcap: w.f32,
    left: w.i32,
    right: w.i32,
    *,
    D,
    E,
    width,
    value_width,
    N=64,
    groups=2,
    stages=2,
    value_stages=2,
    packed=False,
    limited=False,
    capped=False,
    lefts=False,
    rights=False,
):
    """dq = scale * ds @ k. The options are those of `forward`."""
    M = ROWS * groups
    tile = w.ring(1, q=(M, width, q.dtype), do=(M, value_width, do.dtype), takers=groups)
    blocks = w.ring(stages, k=(N, width, k.dtype), takers=groups)
    values = w.ring(value_stages, v=(N, value_width, v.dtype), takers=groups)
    window = Window(left if lefts else None, right if rights else None)

    def tile_of():
        x, head, number = w.cta(0), w.cta(1), w.cta(2)
        if packed:
            number, x = sequence_at(x, starts_q, M)
        elif rights:  # the longest first
            x = w.last(0) - x
        rows = sequence_of(number, q, k, starts_q, starts_k, lengths, packed=packed, limited=limited)
        first = x * M
        return rows, head, first, blocks_of_keys(window, first + rows.shift, M, 0, rows.keys, N)

    with w.role(warpgroups=groups, registers=160 if groups == 3 else 240) as me:
        rows, head, first, seen = tile_of()
        own = first + ROWS * me
        mine = tile.take()
        queries, of_out = mine.q.rows(ROWS * me, ROWS), mine.do.rows(ROWS * me, ROWS)
        to = rows.first_query + own
        sums = rows.batch, head, rows.first_sum + own
        low = w.load_column(base[sums], like=w.zeros(ROWS)) * (1.0 if capped else scale * LOG2E)
        mean = w.load_column(delta[sums], like=low)
        total = w.zeros((ROWS, width))
        count = seen.end - seen.begin
        ragged = w.minimum(seen.end - w.maximum(seen.ragged, seen.begin), count)
        whole = w.maximum(w.minimum(seen.end - seen.whole, count), ragged)
        for i in w.range(count):  # the last block first
            block = blocks.take()
            s = w.gemm(queries, block.k.T)
            value = values.take()
            of_p = w.gemm(of_out, value.v.T)
            p, slopes = shares(w.wait(s, pending=1), low, scale=scale, softcap=softcap, capped=capped)
            if i < ragged or i >= whole:
                column = w.column(p) + (seen.end - 1 - i) * N
                p = w.where(visible(window, column, w.row(p) + (own + rows.shift), rows.keys), p, 0.0)
            of_s = p * (w.wait(of_p) + mean)
            value.release()
            if capped:
                of_s = of_s * slopes
            total = w.wait(w.gemm(of_s.to(k.dtype), block.k, total))
            block.release()
        limit = {"rows": rows.queries - own} if packed else {}
        w.store((total * scale).to(dq.dtype), dq[rows.batch, head, to], via=queries, **limit)
        mine.release()

    with w.role(registers=24), w.one_thread():
        rows, head, first, seen = tile_of()
        shared = head // (q.size("heads") // k.size("key_heads"))
        to = rows.first_query + first
        tile.fill(q=q[rows.batch, head, to], do=do[rows.batch, head, to])
        for i in w.range(seen.end - seen.begin):
            at = rows.first_key + (seen.end - 1 - i) * N
            blocks.fill(k=k[rows.batch, shared, at])
            values.fill(v=v[rows.batch, shared, at])
