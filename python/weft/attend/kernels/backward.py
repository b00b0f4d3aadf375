"""Attention, backward.

The gradient of scores is ds = p * (do @ v.T - delta), with the shares p from lse, and delta the sums of
do * o. `gradients` computes the gradients of q, or those of k and v, each from sums in a fixed order; or all
at once, where those of q are added up in global memory, in any order. Beside its products, it then computes
delta for later heads, and converts the sums of earlier ones.
"""

import weft.language as w
from weft.attend.kernels import order
from weft.attend.kernels.exponents import LOG2E, is_large
from weft.attend.kernels.masks import Window, blocks_of_keys, blocks_of_queries, visible
from weft.attend.kernels.sequences import SUMS_STEP, Sequences, sequence_at, slots
from weft.attend.kernels.sums import LANES, ROWS, add_stages, clear, fill, memory_beside, prepare_and_convert

TILE = {"q": 2 * ROWS, "kv": ROWS, "qkv": 2 * ROWS}  # queries or keys of a CTA, by what it computes


def _grid(q, k, starts_q, starts_k, *, of, packed):
    matrix, starts = (q, starts_q) if of == "q" else (k, starts_k)
    tiles = slots(starts, matrix.rows, TILE[of]) if packed else w.ceil_div(matrix.rows, TILE[of])
    return tiles, matrix.size(1), 1 if packed else matrix.size(0)


@w.kernel(grid=_grid, dependent=True)
def gradients(
    q: w.In["batches heads m D"],
    k: w.In["key_batches key_heads n D"],
    v: w.In["key_batches key_heads n E"],
    do: w.In["batches heads m E"],
    base: w.In["batches heads padded", w.f32],
    delta: w.In["batches heads padded", w.f32],
    peaks: w.In["planes heads padded", w.f32],
    o: w.In["out_batches out_heads out_m out_E"],
    d_lse: w.In["lse_batches lse_heads lse_m", w.f32],
    starts_q: w.In["sequences", w.i32],
    starts_k: w.In["key_sequences", w.i32],
    lengths: w.In["limits", w.i32],
    dq: w.Out["dq_batches dq_heads dq_m dq_D"],
    dk: w.Out["dk_batches dk_heads dk_n dk_D"],
    dv: w.Out["dv_batches dv_heads dv_n dv_E"],
    sums_q: w.Out["sum_batches sum_heads sum_rows columns", w.f32],
    later_delta: w.Out["later_batches later_heads later_padded", w.f32],
    done: w.Out["counters", w.i32],
    scale: w.f32,
    softcap: w.f32,
    left: w.i32,
    right: w.i32,
    before: w.i32,
    after: w.i32,
    *,
    columns=LANES,
    width,
    value_width,
    of,
    beside=False,
    clears=False,
    of_lse=False,
    group,
    N=64,
    value_stages=2,
    begins=False,
    any_size=True,
    late=False,
    at_once=False,
    turns=False,
    section=0,
    ragged=True,
    packed=False,
    limited=False,
    capped=False,
    lefts=False,
    rights=False,
):
    """The gradients `of` "q": dq = scale * ds @ k, of 64 queries by each warpgroup; of "kv": dk = scale *
    ds.T @ q of 64 keys by one warpgroup, and dv = p.T @ do by another one; or of "qkv": dk and dv of 64 keys
    by each warpgroup, which add ds @ k of all 128 keys to `sums_q`, `at_once` or a block later, to wait less.

    Products begin with `delta`, and if it `begins` them, with `base`; with `late`, these are added to them,
    and ds are stored before other products start, which needs fewer registers. Scores of `any_size` have
    `peaks`, as `products_of_outputs` stores them. In `turns`, a warpgroup computes shares while the other one
    multiplies. `group` heads of q share keys. `ragged` keys may end inside of a tile.
    With a `section`, tiles are in the order `longest_first`. The other options are those of `forward`.

    With `clears`, a thread clears sums of the head of keys `before` heads later; with `beside`, a warpgroup
    also prepares the rows of that head, and converts sums of the one `after` heads earlier. `done` counts
    what clears and prepares for each head, then CTAs that added.
    """
    M = TILE[of]
    part = N * width // (2 * LANES)  # rows of what a warpgroup adds to sums_q
    c = (softcap if capped else scale) * LOG2E
    windowed, deferred = lefts or rights, late or lefts or rights
    window = Window(left if lefts else None, right if rights else None)
    # Without masks, queries after the last one are zeros, and so are their gradients.
    masks = ragged or packed or limited or lefts or rights

    # These run in each role: what is computed before the roles needs registers in all of them.
    def tile_of():
        """A tile's sequence, head, first query or key, and the blocks that it needs."""
        x, head, number = w.cta(0), w.cta(1), w.cta(2)
        if packed:
            number, x = sequence_at(x, starts_q if of == "q" else starts_k, M)
        elif of == "q" and rights:  # the longest first
            x = w.last(0) - x
        elif section:
            x, head, number = order.longest_first([w.ctas(axis) for axis in range(3)], section)
        rows = Sequences(q, k, starts_q, starts_k, lengths, packed, limited).at(number)
        first = x * M
        if of == "q":
            return rows, head, first, blocks_of_keys(window, first + rows.shift, M, 0, rows.keys, N)
        if packed:
            rows.first_block = rows.first_query // N + number
        seen = blocks_of_queries(window, first, M, rows.shift, rows.queries, N)
        if of == "qkv" and masks:  # the shares of keys after the last one may be infinite
            seen.whole = w.where(first + M > rows.keys, seen.end, seen.whole)
        return rows, head, first, seen

    def beginning(vector):
        """Sums that begin with an element for each query."""
        return w.full((ROWS, N), w.load_row(vector, like=w.zeros((ROWS, N))))

    def any_large(block):
        """Whether a block of queries has slots of rows with large scores; True to do without a branch."""
        if capped or not any_size:
            return any_size
        found = is_large(block.peak[0, 0])
        return found if N == SUMS_STEP else found | is_large(block.peak[0, SUMS_STEP])

    def capped_scores(s):
        return w.tanh(s * (scale / softcap)) if capped else s

    def slopes_of(s):
        """Those of capped scores."""
        return 1.0 - s * s if capped else None

    @w.inline
    def shares_of(s, large, block, rest, i, own, rows, seen):
        """The shares of block i of queries, and the slopes of capped scores. `large` scores are relative to
        the largest one before they are multiplied, and to `rest`, if products begin with base.
        """
        s = capped_scores(s)
        near = s
        if large:
            near = s - w.load_row(block.peak, like=s)
            if begins:
                near = near - w.load_row(rest, like=s)
        low = None if begins else w.load_row(block.base, like=s)
        if of == "kv":
            block.release()
        p = w.exp2(near * c if begins else near * c + low)
        if masks:
            whole = w.minimum(w.maximum(seen.whole, seen.begin), seen.end)
            if i < whole or i >= w.maximum(w.minimum(seen.ragged, seen.end), whole):
                at, keys = w.column(p) + i * N, rows.keys if ragged or packed or limited else None
                in_window = visible(window, w.row(p) + own, at + rows.shift, keys)
                if packed:  # after the last query come those of the next sequence
                    in_window = in_window & (at < rows.queries)
                p = w.where(in_window, p, 0.0)
        return p, slopes_of(s)

    def store(total, to, left, via):
        """Stores a warpgroup's gradients: those of the first `left` rows."""
        limit = {"rows": left} if packed or (limited and of != "q") else {}
        via = via if via.shape == total.shape else None
        w.store(total.to(q.dtype), to, via=via, waits=of != "qkv", **limit)

    if of == "q":
        kept = w.ring(1, q=(M, width, q.dtype), do=(M, value_width, do.dtype), takers=2)
        blocks = w.ring(2, k=(N, width, k.dtype), takers=2)
        values = w.ring(value_stages, v=(N, value_width, v.dtype), takers=2)
        with w.role(warpgroups=2, registers=240) as me:
            rows, head, first, seen = tile_of()
            own, mine = first + ROWS * me, kept.take()
            queries, of_out = mine.q.rows(ROWS * me, ROWS), mine.do.rows(ROWS * me, ROWS)
            sums = rows.batch, head, rows.first_sum + own
            low, peak = (w.load_column(each[sums], like=w.zeros(ROWS)) for each in (base, peaks))
            large = any_size and (capped or w.warp_any(is_large(peak)))
            if begins:
                if large:
                    low = -w.load_column(peaks[rows.batch + base.size("batches"), *sums[1:]], like=low)
                low = low * c
            mean = w.load_column(delta[sums], like=low)
            total = w.zeros((ROWS, width))
            count = seen.end - seen.begin
            after = w.minimum(seen.end - w.maximum(seen.ragged, seen.begin), count)
            whole = w.maximum(w.minimum(seen.end - seen.whole, count), after)
            for i in w.range(count):  # the last block first
                block = blocks.take()
                s = w.gemm(queries, block.k.T)
                value = values.take()
                of_p = w.gemm(of_out, value.v.T)
                s = capped_scores(w.wait(s, pending=1))
                near = s
                if large:
                    near = s - peak
                p = w.exp2(near * c + low)
                if i < after or i >= whole:
                    column = w.column(p) + (seen.end - 1 - i) * N
                    p = w.where(visible(window, column, w.row(p) + (own + rows.shift), rows.keys), p, 0.0)
                ds = p * (w.wait(of_p) + mean)
                value.release()
                ds = (ds * slopes_of(s) if capped else ds).to(k.dtype)
                total = w.wait(w.gemm(ds, block.k, total))
                block.release()
            to = dq[rows.batch, head, rows.first_query + own]
            store(total * scale, to, rows.queries - own, queries)
            mine.release()
    else:
        kept = w.ring(1, k=(M, width, k.dtype), v=(M, value_width, v.dtype), takers=2)
        names = ("base", *["peak"] * any_size, *["rest"] * (begins and of == "qkv"))
        of_rows = dict.fromkeys(names, (1, N, w.f32))
        blocks = w.ring(2, q=(N, width, q.dtype), **of_rows, takers=2)
        outputs = w.ring(2, do=(N, value_width, do.dtype), delta=(1, N, w.f32), takers=2)
    if of == "kv":
        handed = w.ring(2, p=(ROWS * N // LANES, LANES, w.f32))
        with w.role(registers=240):
            rows, head, first, seen = tile_of()
            mine, total = kept.take(), w.zeros((ROWS, value_width))
            for g in w.range(group):
                for i in w.range(seen.begin, seen.end):
                    block, at = blocks.take(), (head * group + g, rows.first_sum + i * N)
                    large = any_large(block)
                    s = w.wait(w.gemm(mine.k, block.q.T, beginning(block.base) if begins else None))
                    rest = peaks[(rows.batch + base.size("batches"), *at)]
                    p, slopes = shares_of(s, large, block, rest, i, first, rows, seen)
                    with handed.write() as to:
                        w.store(w.by_lanes(p * slopes if capped else p), to.p)
                    with outputs.take() as of_out:
                        total = w.wait(w.gemm(p.to(do.dtype), of_out.do, total))
            store(total, dv[rows.batch, head, rows.first_key + first], rows.keys - first, mine.k)
            mine.release()
        with w.role(registers=240):
            rows, head, first, seen = tile_of()
            mine, total, like = kept.take(), w.zeros((ROWS, width)), w.zeros((ROWS, N))
            for _ in w.range(group):
                for _i in w.range(seen.begin, seen.end):
                    with outputs.take() as of_out:
                        of_p = w.gemm(mine.v, of_out.do.T, beginning(of_out.delta))
                        with handed.take() as slot:
                            p = w.from_lanes(w.load(slot.p, like=w.by_lanes(like)), (ROWS, N))
                        of_p = w.wait(of_p)
                    with blocks.take() as block:
                        total = w.wait(w.gemm((p * of_p).to(q.dtype), block.q, total))
            store(total * scale, dk[rows.batch, head, rows.first_key + first], rows.keys - first, mine.v)
            mine.release()
    elif of == "qkv":
        memory = memory_beside(o, do, dq) if beside else None
        cleared = w.ring(1, zeros=(ROWS // 2 if beside else 2 * ROWS, LANES, w.f32)) if clears else None
        turn = w.turns(2) if turns else None
        exchange = w.ring(2, ds=(M, N, q.dtype) if late else (N, M, q.dtype), takers=2)
        added = w.ring(2, sum=(part, LANES, w.f32))
        with w.role(warpgroups=2, registers=232 if beside else 240) as me:

            def product(ds, keys):
                """Starts a part of ds.T @ keys: half of its rows or columns."""
                if N == M:
                    return w.gemm(ds.T.rows(me * ROWS, ROWS), keys)
                return w.gemm(ds.T if late else ds, keys.columns(me * (width // 2), width // 2))

            def add(sum_q):
                parts = w.lane_parts(sum_q) if windowed else [w.by_lanes(sum_q)]
                with added.write(own=True) as slot:
                    for number, each in enumerate(parts):
                        w.store(each, slot.sum.rows(each.rows * number, each.rows))

            if clears:
                with cleared.write() as to:
                    none = w.by_lanes(w.zeros((ROWS, 8))) if beside else w.zeros((ROWS, LANES))
                    w.store(none, to.zeros.rows(none.rows * me, none.rows))
            rows, head, first, seen = tile_of()
            own, mine = first + ROWS * me, kept.take(waits=not deferred)
            keys, values = mine.k.rows(ROWS * me, ROWS), mine.v.rows(ROWS * me, ROWS)
            sum_k, sum_v = w.zeros((ROWS, width)), w.zeros((ROWS, value_width))
            i = w.i32(0) + seen.begin
            steps = group * w.maximum(seen.end - seen.begin, 0)
            if not at_once:  # the gradients of the scores before the first block
                with exchange.write() as to:
                    w.store(w.zeros((ROWS, N), q.dtype), (to.ds if late else to.ds.T).rows(ROWS * me, ROWS))
            for number in w.range(steps):
                if deferred and number == 0:
                    mine.ready()  # when all is computed that blocks need
                if group == 1 and windowed:
                    i = seen.begin + number
                with blocks.take() as block:
                    if not late:  # both before the first product, for which the second one would wait
                        of_out = outputs.take()
                        mean = beginning(of_out.delta)
                    if turns:
                        turn.wait(me)
                    s = w.gemm(keys, block.q.T, beginning(block.base) if begins else None)
                    large = any_large(block)
                    if late:
                        of_out = outputs.take()
                    of_p = w.gemm(values, of_out.do.T, None if late else mean)
                    s = w.wait(s, pending=1)
                    if turns:
                        turn.give(me)
                    rest = block.rest if begins else None
                    p, slopes = shares_of(s, large, block, rest, i, own, rows, seen)
                    p = w.pin(p)  # with the next stage awaited, or the shares would come after of_p
                    with exchange.write() as to:
                        of_p = w.wait(of_p)
                        ds = p * (of_p + w.load_row(of_out.delta, like=of_p) if late else of_p)
                        ds, p = (ds * slopes if capped else ds).to(q.dtype), p.to(do.dtype)
                        if late:
                            w.store(ds, to.ds.rows(ROWS * me, ROWS))
                        if not at_once:
                            slot = exchange.take()
                            sum_q = product(slot.ds, mine.k)
                        sum_v = w.gemm(p, of_out.do, sum_v)
                        if not late:
                            w.store(ds, to.ds.T.rows(ROWS * me, ROWS))
                    if at_once:
                        slot = exchange.take()
                        sum_q = w.wait(product(slot.ds, mine.k), pending=1)
                        of_out.release()
                    sum_k = w.gemm(ds, block.q, sum_k)
                    sum_q = w.wait(sum_q, pending=1 if at_once else 2)
                    slot.release()
                    if at_once or number > 0:
                        add(sum_q)
                    sum_k, sum_v = w.wait(sum_k, sum_v)
                    if not at_once:
                        of_out.release()
                i = w.where(i + 1 == seen.end, seen.begin, i + 1)
            at = rows.batch, head, rows.first_key + own
            if deferred:
                mine.ready()
            if not at_once and steps > 0:
                with exchange.take() as slot:
                    sum_q = w.wait(product(slot.ds, mine.k))
                add(sum_q)
            store(sum_v, dv[at], rows.keys - own, values)
            w.barrier()  # the other warpgroup has read all keys
            store(sum_k * scale, dk[at], rows.keys - own, keys)
            mine.release()

    sharing = sums_q, group, rights and not lefts
    with w.role(registers=24):
        rows, head, first, seen = tile_of()
        at = rows.batch, head, (rows.first_query if of == "q" else rows.first_key) + first
        if of == "q":
            with w.one_thread():
                kept.fill(q=q[at], do=do[at])
                for i in w.range(seen.end - seen.begin):
                    at = rows.batch, head // group, rows.first_key + (seen.end - 1 - i) * N
                    blocks.fill(k=k[at])
                    values.fill(v=v[at])
        else:
            number = rows.batch * w.ctas(1) + head
            kept.fill(k=k[at], v=v[at])
            if beside and number >= before:
                w.await_signals(done[number], 2 * w.ctas(0))
            with w.one_thread():
                for g in w.range(group):
                    for i in w.range(seen.begin, seen.end):
                        of_head, b = (rows.batch, head * group + g), i * N
                        at, sums = (*of_head, rows.first_query + b), (*of_head, rows.first_sum + b)
                        rest = peaks[rows.batch + base.size("batches"), *sums[1:]]
                        of_rows = {"base": base[sums], "peak": peaks[sums], "rest": rest}
                        blocks.fill(q=q[at], **{name: of_rows[name] for name in names})
                        outputs.fill(do=do[at], delta=delta[sums])
            if beside:
                with w.one_thread(warp=3):
                    work = number, before, after, (*sharing, first // M), done
                    fill(memory, o, do, work, width, value_width)
            if clears:
                with w.one_thread(warp=2), cleared.take() as slot:
                    clear(slot.zeros, *sharing, first // M, number + before, done)
            if of == "qkv":
                with w.one_thread(warp=1):
                    if clears and not beside and number >= before:
                        w.await_signals(done[number], w.ctas(0))
                    add_stages(added, sums_q, rows, head * group, group, seen, part)
                    if beside:
                        w.signal(done[w.ctas(1) * w.ctas(2) + number])
    if beside:
        with w.role(registers=24):
            rows, head, first, _ = tile_of()
            work = rows.batch * w.ctas(1) + head, before, after, (*sharing, first // M), done
            given = d_lse if of_lse else None, later_delta
            prepare_and_convert(memory, given, dq, scale, work, width, value_width)
