"""Attention, forward, of q, k and v in e4m3 with a scale for each head. docs/attention.md describes it.

It is `forward` with these differences. `wgmma` reads bytes K-major only, so the warpgroup that copies also
transposes each block of values. Shares become bytes in the registers in which they are, which gives keys
another order, in which the values are transposed. The largest score has a share of more than 1, to use the
range of e4m3.
"""

import math

import weft.language as w
from weft.attend.kernels.exponents import LN2, relative, scaling_of, with_sink
from weft.attend.kernels.forward import ROWS, grid
from weft.attend.kernels.masks import Window, always, finite, masked, never, spans
from weft.attend.kernels.query_tiles import QueryTiles
from weft.attend.kernels.sequences import Sequences

LARGEST = 8.0  # exponent, to base 2, of shares
MOST = 440.0  # in a sum of shares, of which one may be as large: e4m3 ends at 448
LANES = 4  # that hold a row of scores


@w.kernel(grid=grid, persistent=1, dependent=True)
def forward_fp8(
    q: w.In["batches heads m D", w.e4m3],
    k: w.In["key_batches key_heads n D", w.e4m3],
    v: w.In["key_batches key_heads n E", w.e4m3],
    starts_q: w.In["sequences", w.i32],
    starts_k: w.In["key_sequences", w.i32],
    lengths: w.In["limits", w.i32],
    q_scale: w.In["q_scales heads_of_scales", w.f32],
    k_scale: w.In["k_scales key_heads_of_scales", w.f32],
    v_scale: w.In["v_scales value_heads_of_scales", w.f32],
    sinks: w.In["sink_heads", w.f32],
    o: w.Out["output_batches heads m E"],
    lse: w.Out["output_batches heads m", w.f32],
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
    ahead=False,
    copier=24,
    staged=True,
    copied=2,
    scaled="",
    slack=4.0,
    optimistic=False,
    packed=False,
    limited=False,
    capped=False,
    sinking=False,
    lefts=False,
    rights=False,
    paired=False,
    splits=1,
    apart=True,
):
    """o = softmax(scale * q @ k.T) @ v, and lse, as `forward`. q, k and v are elements times `q_scale`,
    `k_scale` and `v_scale`, which have a row for each sequence or one for all; those that `scaled` names
    by their first letters, the others are 1.

    `stages` is the number of blocks of keys and of transposed values in memory. With `ahead` there are two
    tiles of queries, so that the next one comes early; with `staged`, the output has memory of its own. So
    many blocks of values as `copied` are copied before they are transposed; with 0, blocks of 128 keys are
    transposed in place. `copier` is the number of registers of the threads that copy for two warpgroups.
    Exponents may exceed 0 by up to `slack` before sums are rescaled. The others are the meta-parameters of
    `forward`.

    With `optimistic`, the exponents of a block whose keys are all seen are relative to the largest scores of
    earlier blocks, and wait for no maximum. If a sum of shares shows that one may be too large, the warpgroup
    multiplies the block again, for its largest scores.
    """
    M = ROWS * groups
    queries = w.ring(2 if ahead else 1, q=(M, width, q.dtype), takers=groups)
    keys = w.ring(stages, k=(N, width, k.dtype), takers=groups)
    copies = w.ring(copied or stages, v=(N, value_width, v.dtype), takers=1 if copied else groups)
    memory = None if copied else copies
    values = w.ring(stages, v=(value_width, N, v.dtype), takers=groups, over=memory)
    output = w.shared(M, value_width, o.dtype) if staged else None
    turns = w.turns(groups) if groups > 1 else None
    sequences = Sequences(q, k, starts_q, starts_k, lengths, packed, limited)
    window = Window(left if lefts else None, right if rights else None)
    # An integer, so that the share of a single key is exact. In a lane, shares of equal scores add up to at
    # most `MOST`.
    offset = float(math.floor(math.log2(MOST * LANES / N))) if optimistic else LARGEST - slack

    # Its methods run in each role: what is computed before the roles needs registers in all of them.
    tiles = QueryTiles(M, N, window, sequences, paired)

    def of_head(name, scales, rows, head):
        return scales[w.minimum(rows.number, scales.rows - 1), head].loaded() if name in scaled else 1.0

    with w.role(warpgroups=groups, registers=160 if groups == 3 else 252 - copier // 2) as me:

        def seen(s, position, j, limit):
            """The scores of block j, -inf where a query doesn't see a key."""
            return masked(s, window, w.row(s) + (position + ROWS * me), j, N, limit)

        for x, head, batch in w.tiles():
            for half in tiles.halves(x):
                rows, first, position, blocks, index = tiles.at(x, half, batch)
                last = blocks.end - 1
                shared = head // (q.size("heads") // k.size("key_heads"))

                def of_scores(rows=rows, head=head, shared=shared):
                    return of_head("q", q_scale, rows, head), of_head("k", k_scale, rows, shared)

                of_q, of_k = (None, None) if ahead else of_scores()
                query = queries.take()
                mine = query.q.rows(ROWS * me, ROWS)
                with keys.take() as block:  # the last one: the first ones to come have masks
                    s = w.gemm(mine, block.k.T)
                    of_q, of_k = of_scores() if ahead else (of_q, of_k)  # which come meanwhile
                    s = w.wait(s)
                of_product = scale * of_q * of_k
                unit = softcap if capped else of_product
                scaling = scaling_of(unit, v.dtype)
                c = scaling[0]
                inner = of_product / softcap if capped else 1.0

                def scores(s, inner=inner):
                    return w.tanh(s * inner) if capped else s

                s = seen(scores(s), position, last, rows.keys)
                peak = w.max(s, axis=1)
                factor, base = relative(finite(peak), scaling)
                e = w.exp2(s * factor - (base - offset))
                total = w.sum(e, axis=1, within="lane")
                p, out = w.interleaved(e).to(v.dtype), w.zeros((ROWS, value_width))
                count = blocks.end - blocks.begin
                for masks, begin, end in spans(window, blocks, count, apart=apart):  # of Python
                    for i in w.range(begin, end):
                        block = keys.take()
                        if groups > 1:
                            turns.wait(me)
                        s = w.gemm(mine, block.k.T)
                        before = values.take()
                        out = w.gemm(p, before.v.T, out)
                        if groups > 1:
                            turns.give(me)
                        s = w.wait(s, pending=1)
                        hopeful = optimistic and masks is not always
                        if not hopeful:
                            block.release()
                        s, old = scores(s), peak
                        top = peak
                        if masks(i):
                            s = seen(s, position, last - i, rows.keys)
                            if hopeful:
                                peak = w.maximum(peak, w.max(s, axis=1))
                                top = finite(peak)
                        if hopeful:
                            factor, base = relative(top, scaling)
                            e = w.exp2(s * factor - (base - offset))
                            added = w.sum(e, axis=1, within="lane")
                            # With the widest heads, ptxas would otherwise wait before the exponentials.
                            large = w.warp_any(added > MOST) if width > 192 else None
                        else:
                            peak = w.maximum(peak, w.max(s, axis=1))
                            if slack:
                                peak = w.where((peak - old) * c > slack, peak, old)
                            top = peak if masks is never else finite(peak)
                            factor, base = relative(top, scaling)
                            e = w.exp2(s * factor - (base - offset))
                            added = w.sum(e, axis=1, within="lane")
                        if i + 1 < count:
                            keys.ready()  # or ptxas would wait for the product above before the exponentials
                        out = w.wait(out)
                        if hopeful:
                            if masks(i):  # no share of this block is too large
                                alpha = w.exp2((old - top) * c)
                                total, out = total * alpha, out * alpha
                        elif not slack or w.warp_any(old != peak):
                            alpha = w.exp2((old - top) * c)
                            total, out = total * alpha, out * alpha
                        before.release()
                        if hopeful:
                            if w.warpgroup_any(added > MOST if large is None else large):
                                s = scores(w.wait(w.gemm(mine, block.k.T)))
                                old, peak = peak, w.maximum(peak, w.max(s, axis=1))
                                top = finite(peak)
                                alpha = w.exp2((old - top) * c)
                                total, out = total * alpha, out * alpha
                                factor, base = relative(top, scaling)
                                e = w.exp2(s * factor - (base - offset))
                                added = w.sum(e, axis=1, within="lane")
                            block.release()
                        total = total + added
                        p = w.interleaved(e).to(v.dtype)
                query.release()
                of_v = of_head("v", v_scale, rows, shared)
                with values.take() as block:
                    out = w.wait(w.gemm(p, block.v.T, out))
                total, top, shrink = w.sum(total, axis=1) * 2.0**-offset, peak * unit, None
                if sinking:
                    total, shrink, top = with_sink(total, peak, unit, sinks[head])
                share = w.where(total == 0.0, 0.0, w.rcp(total)) * (of_v * 2.0**-offset)
                share = share * shrink if sinking else share
                mine_of = ROWS * me + first
                to = rows.first_query + mine_of
                limit = {"rows": rows.queries - mine_of} if packed else {}
                staging = output.rows(ROWS * me, ROWS) if staged else None
                w.store((out * share).to(o.dtype), o[index, head, to], via=staging, **limit)
                w.store_column(top + w.log2(total) * LN2, lse[index, head, to], **limit)

    with w.role(registers={1: 56, 2: copier, 3: 32}[groups]):

        def transpose(first):
            """Of a block of values, only the keys before `first` exist: 0 times a NaN is a NaN."""
            block = copies.take()
            with values.write() if copied else values.write(block) as to:
                if (packed or limited) and first < N:
                    w.clear_rows(block.v, w.maximum(first, 0))
                    w.barrier()
                w.transpose(block.v, to.v, interleaved=True)
            if copied:
                block.release()

        for x, head, batch in w.tiles():
            for half in tiles.halves(x):
                rows, first, _, blocks, _ = tiles.at(x, half, batch)
                shared = head // (q.size("heads") // k.size("key_heads"))
                last, at = blocks.end - 1, 0 if packed else rows.batch
                keys.fill(k=k[at, shared, rows.first_key + last * N])
                queries.fill(q=q[rows.batch, head, rows.first_query + first])
                copies.fill(v=v[at, shared, rows.first_key + last * N])
                for i in w.range(1, blocks.end - blocks.begin):
                    place = at, shared, rows.first_key + (last - i) * N
                    keys.fill(k=k[place])
                    if copied < 2:  # the next stage becomes free when this one is transposed, or used
                        transpose(rows.keys - (last + 1 - i) * N)
                    copies.fill(v=v[place])
                    if copied > 1:
                        transpose(rows.keys - (last + 1 - i) * N)
                transpose(rows.keys - blocks.begin * N)
