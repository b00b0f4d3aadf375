"""Attention, backward: the gradients of q, k and v, without atomics, so that results don't depend on the
order in which CTAs run.

The gradient of scores is ds = p * (do @ v.T - delta), with the shares p from lse, and delta the sums of
do * o. One kernel adds ds @ k for each tile of queries, the other one p.T @ do and ds.T @ q for each tile of
keys.
"""

import math

import weft.language as w
from weft.attend.kernels.masks import Window, blocks_of_keys, blocks_of_queries, visible
from weft.attend.kernels.sequences import SUMS_STEP, sequence_at, sequence_of, slots

LOG2E = math.log2(math.e)
ROWS = 64  # for each warpgroup


@w.kernel(grid=lambda delta: (delta.size("padded") // SUMS_STEP, *(delta.size(n) for n in (1, 0))))
def products_of_outputs(
    o: w.In["batches heads m E"],
    do: w.In["batches heads m E"],
    lse: w.In["batches heads m", w.f32],
    d_lse: w.In["lse_batches lse_heads lse_m", w.f32],
    starts_q: w.In["sequences", w.i32],
    base: w.Out["batches heads padded", w.f32],
    delta: w.Out["batches heads padded", w.f32],
    *,
    E,
    width,
    of_lse=False,
    packed=False,
):
    """delta = sum(do * o) of each row, less the gradient of lse with `of_lse`; and base = lse, to base 2.
    Behind the rows of a sequence are zeros.
    """
    to, head, batch = w.cta(0) * SUMS_STEP, w.cta(1), w.cta(2)
    with w.role():
        row, end = to, o.rows
        if packed:
            number, x = sequence_at(w.cta(0), starts_q, SUMS_STEP)
            row, end = starts_q[number] + x * SUMS_STEP, starts_q[number + 1].loaded()
        shape = (SUMS_STEP, width)
        out = w.load(o[batch, head, row], shape).to(w.f32)
        total = w.sum(out * w.load(do[batch, head, row], shape).to(w.f32), axis=1)
        if of_lse:
            total = total - w.load_column(d_lse[batch, head, row], like=total)
        low = w.load_column(lse[batch, head, row], like=total) * LOG2E
        inside = w.row(total) + row < end
        w.store_column(w.where(inside, low, 0.0), base[batch, head, to])
        w.store_column(w.where(inside, total, 0.0), delta[batch, head, to])


def _tiles(matrix, starts, rows, packed, heads):
    if packed:
        return slots(starts, matrix.rows, rows), matrix.size(heads), 1
    return w.ceil_div(matrix.rows, rows), matrix.size(heads), matrix.size(0)


@w.inline
def shares(s, base, *, scale, softcap, capped):
    """The shares of scores, before masks, and the slopes of capped scores."""
    if capped:
        s = w.tanh(s * (scale / softcap))
        return w.exp2(s * (softcap * LOG2E) - base), 1.0 - s * s
    return w.exp2(s * (scale * LOG2E) - base), None


def _grid_of_queries(q, starts_q, *, groups, packed):
    return _tiles(q, starts_q, ROWS * groups, packed, "heads")


@w.kernel(grid=_grid_of_queries)
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
    packed=False,
    limited=False,
    capped=False,
    lefts=False,
    rights=False,
):
    """dq = scale * ds @ k. The options are those of `forward`."""
    M = ROWS * groups
    tile = w.ring(1, q=(M, width, q.dtype), do=(M, value_width, do.dtype), takers=groups)
    blocks = w.ring(stages, k=(N, width, k.dtype), v=(N, value_width, v.dtype), takers=groups)
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
        low = w.load_column(base[sums], like=w.zeros(ROWS))
        mean = w.load_column(delta[sums], like=low)
        total = w.zeros((ROWS, width))
        count = seen.end - seen.begin
        ragged = w.minimum(seen.end - w.maximum(seen.ragged, seen.begin), count)
        whole = w.maximum(w.minimum(seen.end - seen.whole, count), ragged)
        for i in w.range(count):  # the last block first
            block = blocks.take()
            s = w.gemm(queries, block.k.T)
            of_p = w.gemm(of_out, block.v.T)
            p, slopes = shares(w.wait(s, pending=1), low, scale=scale, softcap=softcap, capped=capped)
            if i < ragged or i >= whole:
                column = w.column(p) + (seen.end - 1 - i) * N
                p = w.where(visible(window, column, w.row(p) + (own + rows.shift), rows.keys), p, 0.0)
            of_s = p * (w.wait(of_p) - mean)
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
            blocks.fill(k=k[rows.batch, shared, at], v=v[rows.batch, shared, at])


def _grid_of_keys(k, starts_k, *, groups, packed):
    return _tiles(k, starts_k, ROWS * groups, packed, "key_heads")


@w.kernel(grid=_grid_of_keys)
def backward_of_keys(
    q: w.In["batches heads m D"],
    k: w.In["key_batches key_heads n D"],
    v: w.In["key_batches key_heads n E"],
    do: w.In["batches heads m E"],
    base: w.In["batches heads padded", w.f32],
    delta: w.In["batches heads padded", w.f32],
    starts_q: w.In["sequences", w.i32],
    starts_k: w.In["key_sequences", w.i32],
    lengths: w.In["limits", w.i32],
    dk: w.Out["dk_batches dk_heads dk_n dk_size"],
    dv: w.Out["dv_batches dv_heads dv_n dv_size"],
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
    packed=False,
    limited=False,
    capped=False,
    lefts=False,
    rights=False,
    of_k=True,
    of_v=True,
):
    """dk = scale * ds.T @ q with `of_k`, and dv = p.T @ do with `of_v`. The gradient that
    isn't computed is an array of one element. Options are those of `forward`.
    """
    M = ROWS * groups
    tile = w.ring(1, k=(M, width, k.dtype), v=(M, value_width, v.dtype), takers=groups)
    blocks = w.ring(
        stages,
        takers=groups,
        q=(N, width, q.dtype),
        do=(N, value_width, do.dtype),
        base=(1, N, w.f32),
        delta=(1, N, w.f32),
    )
    window = Window(left if lefts else None, right if rights else None)

    def tile_of():
        x, head, number = w.cta(0), w.cta(1), w.cta(2)
        if packed:
            number, x = sequence_at(x, starts_k, M)
        rows = sequence_of(number, q, k, starts_q, starts_k, lengths, packed=packed, limited=limited)
        first = x * M
        return rows, head, first, blocks_of_queries(window, first, M, rows.shift, rows.queries, N)

    def shared():
        """The heads of q that share keys."""
        return q.size("heads") // k.size("key_heads")

    with w.role(warpgroups=groups, registers=160 if groups == 3 else 240) as me:
        rows, head, first, seen = tile_of()
        own = first + ROWS * me
        mine = tile.take()
        keys, values = mine.k.rows(ROWS * me, ROWS), mine.v.rows(ROWS * me, ROWS)
        sum_k = w.zeros((ROWS, width)) if of_k else None
        sum_v = w.zeros((ROWS, value_width)) if of_v else None
        whole = w.minimum(w.maximum(seen.whole, seen.begin), seen.end)
        ragged = w.maximum(w.minimum(seen.ragged, seen.end), whole)
        count = w.maximum(seen.end - seen.begin, 0)
        for step in w.range(shared() * count):  # of all heads: one loop needs fewer registers than two
            i = seen.begin + step % count
            block = blocks.take()
            s = w.gemm(keys, block.q.T)
            of_p = w.gemm(values, block.do.T) if of_k else None
            low = w.load_row(block.base, like=w.zeros((ROWS, N)))
            s = w.wait(s, pending=int(of_k))
            p, slopes = shares(s, low, scale=scale, softcap=softcap, capped=capped)
            if i < whole or i >= ragged:
                place = w.column(p) + (i * N + rows.shift)
                in_window = visible(window, w.row(p) + own, place, rows.keys)
                p = w.where(in_window & (w.column(p) + i * N < rows.queries), p, 0.0)
            if of_v:
                sum_v = w.gemm(p.to(do.dtype), block.do, sum_v)
            if of_k:
                if of_v:  # which frees the registers of p
                    of_p, sum_v = w.wait(of_p, sum_v)
                else:
                    of_p = w.wait(of_p)
                of_s = p * (of_p - w.load_row(block.delta, like=p))
                if capped:
                    of_s = of_s * slopes
                sum_k = w.wait(w.gemm(of_s.to(q.dtype), block.q, sum_k))
            else:
                sum_v = w.wait(sum_v)
            block.release()
        limit = {"rows": rows.keys - own} if packed or limited else {}
        to = rows.batch, head, rows.first_key + own
        if of_v:
            w.store(sum_v.to(dv.dtype), dv[to], via=values, **limit)
        if of_k:
            w.store((sum_k * scale).to(dk.dtype), dk[to], via=keys, **limit)
        mine.release()

    with w.role(registers=24), w.one_thread():
        rows, head, first, seen = tile_of()
        at = rows.batch, head, rows.first_key + first
        tile.fill(k=k[at], v=v[at])
        for g in w.range(shared()):
            for i in w.range(seen.begin, seen.end):
                of_head = rows.batch, head * shared() + g
                at, sums = (*of_head, rows.first_query + i * N), (*of_head, rows.first_sum + i * N)
                blocks.fill(q=q[at], do=do[at], base=base[sums], delta=delta[sums])
