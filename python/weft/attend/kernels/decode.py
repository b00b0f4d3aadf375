"""Attention of one query for each sequence, with few heads that share keys. These are the rows of q.

Tensor cores multiply 64 rows or more, of which few queries would fill a small part. So keys are the rows of
the first product, and columns of values those of the second one: each thread computes few exponentials.
"""

import weft.language as w
from weft.attend.kernels.exponents import LN2, LOG2E, with_sink
from weft.attend.kernels.masks import Window, finite, visible
from weft.attend.kernels.query_tiles import QueryTiles
from weft.attend.kernels.sequences import Sequences, clear_values

SLACK = 8.0  # exponents, to base 2


def grid(q, *, splits):
    """Heads of keys, and sequences with their splits."""
    return q.size("heads"), q.size("batches") * splits


@w.kernel(grid=grid, dependent=True)
def decode(
    q: w.In["batches heads m D"],
    k: w.In["key_batches heads n D"],
    v: w.In["key_batches heads n E"],
    lengths: w.In["limits", w.i32],
    pages: w.In["tables table", w.i32],
    sinks: w.In["sink_heads", w.f32],
    o: w.Out["output_batches heads m E"],
    lse: w.Out["sum_batches heads m", w.f32],
    scale: w.f32,
    softcap: w.f32,
    left: w.i32,
    right: w.i32,
    *,
    D,
    E,
    width,
    value_width,
    M=8,
    N=128,
    stages=3,
    ahead=0,
    pieces=1,
    limited=False,
    paged=False,
    capped=False,
    sinking=False,
    lefts=False,
    rights=False,
    splits=1,
):
    """The arguments and meta-parameters are those of `forward`. The rows of q, up to `M`, are the heads that
    share keys. Of several splits, each has every n-th block of keys. With `paged`, a block is copied in this
    number of `pieces`. While the launch before still runs, the first blocks of a CTA, `ahead` in number, are
    prefetched to L2, unless `lengths` or `pages` show which these are.
    """
    queries = w.ring(1, q=(M, width, q.dtype))
    keys = w.ring(stages, k=(N, width, k.dtype))
    values = w.ring(stages, v=(N, value_width, v.dtype))
    shares = w.shared(M, N, v.dtype)
    window = Window(left if lefts else None, right if rights else None)
    sequences = Sequences(q, k, lengths, lengths, lengths, limited=limited, paged=paged)
    tiles = QueryTiles(M, N, window, sequences, grouped=True)
    head, split = w.cta(0), w.cta(1) % splits

    def part():
        """The sequence, the key at the query's position, all blocks, and how many are of this split."""
        rows, _, position, blocks, _ = tiles.at(0, 0, w.cta(1) // splits)
        count = blocks.end - blocks.begin
        return rows, position, blocks, w.ceil_div(w.maximum(count - split, 0), splits)

    if ahead and not (limited or paged):
        rows, _, blocks, _ = part()
        for i in range(ahead):
            first = w.maximum(blocks.end - 1 - split - i * splits, blocks.begin) * N
            w.prefetch(k[rows.batch, head, first, 0], N, D)
            w.prefetch(v[rows.batch, head, first, 0], N, E)

    with w.role():
        unit = softcap if capped else scale
        c = unit * LOG2E

        rows, position, blocks, count = part()
        query, last = queries.take(), blocks.end - 1
        total, out = w.zeros((N, M)), w.zeros((value_width, M))
        peak = w.max(total, axis=0) - w.inf
        for i in w.range(count):
            block = last - split - i * splits
            with keys.take() as stage:
                s = w.wait(w.gemm(stage.k, query.q.T))
            s = w.tanh(s * (scale / softcap)) if capped else s
            if (block == last) | (block == blocks.begin) if lefts else block == last:
                s = w.where(visible(window, w.row(s) + block * N, position, rows.keys), s, -w.inf)
            if w.warpgroup_any((s - peak) * c > SLACK):
                old, peak = peak, w.maximum(peak, w.max(s, axis=0))
                shrink = w.exp2((old - finite(peak)) * c)
                total, out = total * shrink, out * shrink
            e = w.exp2((s - finite(peak)) * c)
            total = total + e
            w.store(e.to(v.dtype), shares.T)
            w.fence()
            w.barrier()
            if limited:
                clear_values(values, rows.keys - block * N, N)
            with values.take() as stage:
                out = w.wait(w.gemm(stage.v.T, shares.T, out))
        query.release()
        total, top = w.sum(total, axis=0), peak * unit
        if sinking:
            total, shrink, top = with_sink(total, peak, unit, w.load_row(sinks[head * q.rows], like=out))
            out = out * shrink
        share = w.where(total == 0.0, 0.0, w.rcp(total))
        w.store((out * share).to(o.dtype).T, o[w.cta(1), head, 0])
        if splits > 1:
            w.store_row(peak, lse[w.cta(1), head, 0])
            w.store_row(total, lse[w.cta(1) + o.size("output_batches"), head, 0])
        else:
            w.store_row(top + w.log2(total) * LN2, lse[w.cta(1), head, 0])

    with w.role(), w.one_thread():
        rows, _, blocks, count = part()

        def place(key):
            """A key of the sequence, as the indices of k and v. Beyond the last key, it may be any."""
            if not paged:
                return rows.batch, head, key
            page = w.maximum(w.minimum(key, rows.keys - 1), 0) // k.rows
            return pages[rows.number, page].loaded(), head, key % k.rows

        def places(block):
            return [place(block * N + piece * (N // pieces)) for piece in range(pieces)]

        queries.fill(q=q[rows.batch, head])
        for i in w.range(count):
            at = places(blocks.end - 1 - split - i * splits)
            keys.fill(k=tuple(k[each] for each in at))
            values.fill(v=tuple(v[each] for each in at))
