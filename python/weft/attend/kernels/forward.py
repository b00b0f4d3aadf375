"""Attention, forward: softmax(scale * q @ k.T) @ v for each head. docs/attention.md describes it, and
examples/attention.py is the same kernel without options.

Warpgroups multiply 64 rows of queries each, and another one copies blocks of keys and values by TMA, the last
block first. The products of one block overlap with the exponentials of the one before.
"""

import weft.language as w
from weft.attend.kernels import order
from weft.attend.kernels.exponents import LN2, correction, relative, rescaling, scaling_of, with_sink
from weft.attend.kernels.masks import Window, finite, masked, never, spans
from weft.attend.kernels.query_tiles import QueryTiles
from weft.attend.kernels.sequences import Sequences, clear_values, slots

ROWS = 64  # of queries, for each warpgroup
SLACK = 7.0  # exponents, to base 2


def grid(q, starts_q, *, groups, packed, paired, splits):
    """Tiles of queries, heads, and sequences with their splits. Paired are the longest with the shortest."""
    if packed:
        return slots(starts_q, q.rows, ROWS * groups) + 1, q.size("heads"), splits  # one for the rest
    tiles = w.ceil_div(q.rows, ROWS * groups)
    return w.ceil_div(tiles, 2) if paired else tiles, q.size("heads"), q.size("batches") * splits


@w.kernel(grid=grid, persistent=lambda splits: None if splits > 1 else 1, dependent=True)
def forward(
    q: w.In["batches heads m D"],
    k: w.In["key_batches key_heads n D"],
    v: w.In["key_batches key_heads n E"],
    starts_q: w.In["sequences", w.i32],
    starts_k: w.In["key_sequences", w.i32],
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
    N=128,
    groups=2,
    stages=2,
    ahead=True,
    packed=False,
    limited=False,
    paged=False,
    capped=False,
    sinking=False,
    lefts=False,
    rights=False,
    paired=False,
    by_length=False,
    grouped=False,
    splits=1,
    apart=True,
    lazy=True,
):
    """o = softmax(scale * q @ k.T) @ v, and lse, the logarithm of the sum of exponentials of each row.

    `starts_q`, `starts_k` and `lengths` are those of `Sequences`, with `packed` and `limited`. `paged` keys
    are in pages, k and v being batches of these, whose numbers `pages` has in a row for each sequence. With
    `capped`, scores are softcap * tanh(score / softcap); with `sinking`, `sinks` have one more score for each
    head. With `lefts` and `rights`, a query sees keys from `left` before its position to `right` after it.
    With `grouped`, the rows of q are the heads that share keys, of one query. With `splits`, each of several
    tiles has a part of the keys, and an output of its own; lse then has the largest score of each row, and
    after those of all parts the sums of exponentials, which are relative to it. With `apart`, blocks of keys
    with masks have loops of their own.

    A head has `width` and `value_width` columns in shared memory. The other meta-parameters are those of
    examples/attention.py.
    """
    M = ROWS * groups
    queries = w.ring(2 if ahead else 1, q=(M, width, q.dtype), takers=groups)
    keys = w.ring(stages, k=(N, width, k.dtype), takers=groups)
    values = w.ring(stages, v=(N, value_width, v.dtype), takers=groups)
    output = w.shared(M, value_width, o.dtype) if ahead else None
    turns = w.turns(groups) if groups > 1 else None
    sequences = Sequences(q, k, starts_q, starts_k, lengths, packed, limited, paged)
    window = Window(left if lefts else None, right if rights else None)
    visited = order.by_length if by_length else None
    lent = not ahead and N >= ROWS and o.dtype == v.dtype  # the output goes through stages of values

    # Its methods run in each role: what is computed before the roles needs registers in all of them.
    tiles = QueryTiles(M, N, window, sequences, paired, grouped, splits)

    with w.role(warpgroups=groups, registers=160 if groups == 3 else 240) as me:
        unit = softcap if capped else scale
        scaling = scaling_of(unit, v.dtype)
        c = scaling[0]

        def scores(s):
            return w.tanh(s * (scale / softcap)) if capped else s

        def seen(s, position, j, limit):
            """The scores of block j, -inf where a query doesn't see a key."""
            at = position if grouped else w.row(s) + (position + ROWS * me)
            return masked(s, window, at, j, N, limit)

        def sinks_of(head, like):
            """One number, or one for each row."""
            return w.load_column(sinks[head * q.rows + ROWS * me], like=like) if grouped else sinks[head]

        @w.inline
        def store_through_values(tile, to, limit):
            """Stores a tile through the stage of values that is lent to this warpgroup."""
            for number in w.range(groups):  # one copy of the code that stores
                with values.take() as block:
                    if me == number:
                        w.store(tile, to, via=block.v.rows(0, ROWS), **limit)

        for _ in range(groups if lent else 0):  # before the first tile, there is nothing to store
            values.take().release()
        for x, head, batch in w.tiles(order=visited):
            for half in tiles.halves(x):
                rows, first, position, blocks, index = tiles.at(x, half, batch)
                last = blocks.end - 1
                query = queries.take()
                mine = query.q.rows(ROWS * me, ROWS)
                staging = output.rows(ROWS * me, ROWS) if ahead else None
                if not ahead and not lent and (width, q.dtype) == (value_width, o.dtype):
                    staging = mine
                with keys.take() as block:  # the last one: the first ones to come have masks
                    s = w.wait(w.gemm(mine, block.k.T))
                s = seen(scores(s), position, last, rows.keys)
                peak = w.max(s, axis=1)
                factor, base = relative(finite(peak), scaling)
                e = w.exp2(s * factor - base)
                total = w.sum(e, axis=1, within="lane")
                p, out = e.to(v.dtype), w.zeros((ROWS, value_width))
                if packed or limited:
                    clear_values(values, rows.keys - last * N, N, me)
                count = blocks.end - blocks.begin
                for masks, begin, end in spans(window, blocks, count, apart=apart):  # of Python
                    for i in w.range(begin, end):
                        block = keys.take()
                        if groups > 1:
                            turns.wait(me)
                        s = w.gemm(mine, block.k.T)
                        before = values.take()
                        out = w.gemm(p, before.v, out)
                        if groups > 1:
                            turns.give(me)
                        s = w.wait(s, pending=1)
                        block.release()
                        s = scores(s)
                        if masks(i):
                            s = seen(s, position, last - i, rows.keys)
                        old, peak = peak, w.maximum(peak, w.max(s, axis=1))
                        if lazy:
                            peak = w.where((peak - old) * c > SLACK, peak, old)
                        top = peak if masks is never else finite(peak)
                        factor, base = relative(top, scaling)
                        e = w.exp2(s * factor - base)
                        added = w.sum(e, axis=1, within="lane")
                        if i + 1 < count:
                            keys.ready()  # or ptxas would wait for the product above before the exponentials
                        out = w.wait(out)
                        if not lazy or w.warp_any(old != peak):
                            alpha = rescaling(old, factor, base, scaling)
                            total, out = total * alpha, out * alpha
                        total = total + added
                        before.release()
                        p = e.to(v.dtype)
                if staging is not mine:
                    query.release()
                with values.take() as block:
                    out = w.wait(w.gemm(p, block.v, out))
                own = correction(peak, scaling)
                total, top, shrink = w.sum(total, axis=1) * own, peak * unit, None
                if sinking:
                    total, shrink, top = with_sink(total, peak, unit, sinks_of(head, peak))
                share = w.where(total == 0.0, 0.0, w.rcp(total)) * own
                share = share * shrink if sinking else share
                mine_of = ROWS * me + first
                left_over = rows.queries - mine_of
                to = rows.first_query + mine_of
                limit = {"rows": left_over} if packed else {}
                if lent:
                    store_through_values((out * share).to(o.dtype), o[index, head, to], limit)
                else:
                    w.store((out * share).to(o.dtype), o[index, head, to], via=staging, **limit)
                if staging is mine:
                    query.release()
                if splits > 1:
                    w.store_column(peak, lse[index, head, to], **limit)
                    w.store_column(total, lse[index + o.size("output_batches"), head, to], **limit)
                else:
                    w.store_column(top + w.log2(total) * LN2, lse[index, head, to], **limit)

    with w.role(registers=24), w.one_thread():

        def places(rows, shared, j):
            """The first key of block j, as the indices of k and v."""
            if paged:
                return pages[rows.number, j * N // k.rows].loaded(), shared, j * N % k.rows
            return 0 if packed else rows.batch, shared, rows.first_key + j * N

        def lend():
            """Lends the warpgroups stages of values, for the output of the tile before or of the last one."""
            for _ in range(groups if lent else 0):
                values.lend()

        for x, head, batch in w.tiles(order=visited):
            for half in tiles.halves(x):
                rows, first, _, blocks, _ = tiles.at(x, half, batch)
                shared = head // (q.size("heads") // k.size("key_heads"))
                last = blocks.end - 1
                keys.fill(k=k[places(rows, shared, last)])
                queries.fill(q=q[rows.batch, head, rows.first_query + first])
                lend()
                for i in w.range(1, blocks.end - blocks.begin):
                    keys.fill(k=k[places(rows, shared, last - i)])
                    values.fill(v=v[places(rows, shared, last + 1 - i)])
                values.fill(v=v[places(rows, shared, blocks.begin)])
        lend()
