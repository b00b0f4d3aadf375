"""Attention, backward: the gradients of k and v, and those of q by additions in global memory."""

import weft.language as w
from weft.attend.kernels.backward import LANES, ROWS, shares, tiles
from weft.attend.kernels.masks import Window, blocks_of_queries, visible
from weft.attend.kernels.sequences import sequence_at, sequence_of


def _grid(k, starts_k, *, adding, packed):
    return tiles(k, starts_k, ROWS * (2 if adding else 1), packed, "key_heads")


def product_of_queries(ds, keys, me):
    """Starts a warpgroup's part of ds.T @ keys: half of its rows or columns, maybe transposed."""
    (_, N), (_, width) = ds.shape, keys.shape
    if N % (2 * ROWS) == 0:
        return w.gemm(ds.columns(me * (N // 2), N // 2).T, keys)
    columns = keys.columns(me * (width // 2), width // 2)
    return w.gemm(ds.T, columns) if N == ROWS else w.gemm(columns.T, ds)


@w.kernel(grid=_grid, dependent=True)
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
    dk: w.Out["key_batches key_heads n D"],
    dv: w.Out["key_batches key_heads n E"],
    sums_q: w.Out["sum_batches sum_heads sum_rows columns", w.f32],
    scale: w.f32,
    softcap: w.f32,
    left: w.i32,
    right: w.i32,
    *,
    width,
    value_width,
    N=64,
    adding=False,
    late=False,
    ragged=True,
    packed=False,
    limited=False,
    capped=False,
    lefts=False,
    rights=False,
):
    """dk = scale * ds.T @ q and dv = p.T @ do, of 64 keys, one of them by each warpgroup. With `adding`, two
    warpgroups compute both of 64 keys each, and add ds @ k of all 128 keys to `sums_q`: with `late` a block
    later, so that they wait less for each other. Products begin with `base` and `delta`; with `late`, these
    are added to them. `ragged` keys may end inside of a tile. The other options are those of `forward`.
    """
    M = ROWS * (2 if adding else 1)
    part = N * width // (2 * LANES)  # rows of what a warpgroup adds to sums_q
    begun = not (late or capped)
    kept = w.ring(1, k=(M, width, k.dtype), v=(M, value_width, v.dtype), takers=2)
    padded = -(-N // LANES) * LANES
    blocks = w.ring(2, q=(N, width, q.dtype), base=(1, padded, w.f32), takers=2)
    outputs = w.ring(2, do=(N, value_width, do.dtype), delta=(1, padded, w.f32), takers=2)
    if adding:
        exchange, staging = w.ring(2, ds=(M, N, q.dtype), takers=2), w.shared(2 * part, LANES, w.f32)
    else:
        handed = w.ring(2, p=(ROWS * N // LANES, LANES, w.f32))
    window = Window(left if lefts else None, right if rights else None)
    # Without masks, queries after the last one are zeros, and so are their gradients.
    masks = ragged or packed or limited or lefts or rights

    # These run in each role: what is computed before the roles needs registers in all of them.
    def tile_of():
        x, head, number = w.cta(0), w.cta(1), w.cta(2)
        if packed:
            number, x = sequence_at(x, starts_k, M)
        rows = sequence_of(number, q, k, starts_q, starts_k, lengths, packed=packed, limited=limited)
        if packed:
            rows.first_block = rows.first_query // N + number
        first = x * M
        seen = blocks_of_queries(window, first, M, rows.shift, rows.queries, N)
        if adding and masks:  # the shares of keys after the last one may be infinite
            seen.whole = w.where(first + M > rows.keys, seen.end, seen.whole)
        return rows, head, first, seen

    def shared():
        """The heads of q that share keys."""
        return q.size("heads") // k.size("key_heads")

    def beginning(vector):
        """Sums that begin with an element for each query."""
        return w.full((ROWS, N), w.load_row(vector, like=w.zeros((ROWS, N))))

    @w.inline
    def shares_of(s, low, i, own, rows, seen):
        """The shares of block i of queries, and the slopes of capped scores."""
        p, slopes = shares(s, low, scale=scale, softcap=softcap, capped=capped)
        if masks:
            whole = w.minimum(w.maximum(seen.whole, seen.begin), seen.end)
            if i < whole or i >= w.maximum(w.minimum(seen.ragged, seen.end), whole):
                position = w.column(p) + (i * N + rows.shift)
                in_window = visible(window, w.row(p) + own, position, rows.keys)
                p = w.where(in_window & (w.column(p) + i * N < rows.queries), p, 0.0)
        return p, slopes

    def store(total, to, own, rows, head, via):
        limit = {"rows": rows.keys - own} if packed or limited else {}
        fits = via.shape == total.shape
        place = to[rows.batch, head, rows.first_key + own]
        w.store(total.to(to.dtype), place, via=via if fits else None, **limit)

    if adding:
        with w.role(warpgroups=2, registers=240) as me:

            def add(sum_q, batch, head, block):
                to = sums_q[batch, head, (block * 2 + me) * part, 0]
                w.atomic_add(to, w.by_lanes(sum_q), via=staging.rows(part * me, part))

            @w.inline
            def add_late(keys, batch, head, block):
                with exchange.take() as slot:
                    sum_q = w.wait(product_of_queries(slot.ds, keys, me))
                add(sum_q, batch, head, block)

            rows, head, first, seen = tile_of()
            own = first + ROWS * me
            mine = kept.take()
            keys, values = mine.k.rows(ROWS * me, ROWS), mine.v.rows(ROWS * me, ROWS)
            sum_k, sum_v = w.zeros((ROWS, width)), w.zeros((ROWS, value_width))
            i, of_head = w.i32(0) + seen.begin, w.i32(0) + head * shared()
            before, head_before = i, of_head
            steps = shared() * w.maximum(seen.end - seen.begin, 0)
            for step in w.range(steps):
                block = blocks.take()
                s = w.gemm(keys, block.q.T, beginning(block.base) if begun else None)
                of_out = outputs.take()
                of_p = w.gemm(values, of_out.do.T, None if late else beginning(of_out.delta))
                s = w.wait(s, pending=1)
                low = None if begun else w.load_row(block.base, like=s)
                p, slopes = shares_of(s, low, i, own, rows, seen)
                p = w.pin(p)  # with the next stage awaited, or the shares would come after this product
                with exchange.write() as to:
                    of_p = w.wait(of_p)
                    ds = p * (of_p + w.load_row(of_out.delta, like=of_p) if late else of_p)
                    ds = (ds * slopes if capped else ds).to(q.dtype)
                    sum_v = w.gemm(p.to(do.dtype), of_out.do, sum_v)
                    w.store(ds, to.ds.rows(ROWS * me, ROWS))
                if late:
                    sum_k = w.gemm(ds, block.q, sum_k)
                    if step > 0:
                        add_late(mine.k, rows.batch, head_before, rows.first_block + before)
                    sum_k, sum_v = w.wait(sum_k, sum_v)
                    of_out.release()
                else:
                    with exchange.take() as slot:
                        sum_q = product_of_queries(slot.ds, mine.k, me)
                        sum_v = w.wait(sum_v, pending=1)
                        of_out.release()
                        sum_k = w.gemm(ds, block.q, sum_k)
                        sum_q = w.wait(sum_q, pending=1)
                    add(sum_q, rows.batch, of_head, rows.first_block + i)
                    sum_k = w.wait(sum_k)
                block.release()
                before, head_before = i, of_head
                i = i + 1
                of_head = w.where(i == seen.end, of_head + 1, of_head)
                i = w.where(i == seen.end, seen.begin, i)
            if late and steps > 0:
                add_late(mine.k, rows.batch, head_before, rows.first_block + before)
            w.barrier()  # the other warpgroup has read all keys
            store(sum_v, dv, own, rows, head, values)
            store(sum_k * scale, dk, own, rows, head, keys)
            mine.release()
    else:
        with w.role(registers=240):
            rows, head, first, seen = tile_of()
            mine, total = kept.take(), w.zeros((ROWS, value_width))
            for _ in w.range(shared()):
                for i in w.range(seen.begin, seen.end):
                    with blocks.take() as block:
                        s = w.wait(w.gemm(mine.k, block.q.T, beginning(block.base) if begun else None))
                        low = None if begun else w.load_row(block.base, like=s)
                    p, slopes = shares_of(s, low, i, first, rows, seen)
                    with handed.write() as to:
                        w.store(w.by_lanes(p * slopes if capped else p), to.p)
                    with outputs.take() as of_out:
                        total = w.wait(w.gemm(p.to(do.dtype), of_out.do, total))
            store(total, dv, first, rows, head, mine.k)
            mine.release()
        with w.role(registers=240):
            rows, head, first, seen = tile_of()
            mine, total, like = kept.take(), w.zeros((ROWS, width)), w.zeros((ROWS, N))
            for _ in w.range(shared()):
                for _i in w.range(seen.begin, seen.end):
                    with outputs.take() as of_out:
                        of_p = w.gemm(mine.v, of_out.do.T, beginning(of_out.delta))
                        with handed.take() as slot:
                            p = w.from_lanes(w.load(slot.p, like=w.by_lanes(like)), (ROWS, N))
                        of_p = w.wait(of_p)
                    with blocks.take() as block:
                        total = w.wait(w.gemm((p * of_p).to(q.dtype), block.q, total))
            store(total * scale, dk, first, rows, head, mine.v)
            mine.release()

    with w.role(registers=24), w.one_thread():
        rows, head, first, seen = tile_of()
        at = rows.batch, head, rows.first_key + first
        kept.fill(k=k[at], v=v[at])
        for g in w.range(shared()):
            for i in w.range(seen.begin, seen.end):
                of_head = rows.batch, head * shared() + g
                at, sums = (*of_head, rows.first_query + i * N), (*of_head, rows.first_sum + i * N)
                blocks.fill(q=q[at], base=base[sums])
                outputs.fill(do=do[at], delta=delta[sums])


@w.kernel(
    grid=lambda sums_q, *, N, width: (
        sums_q.size("sum_rows") // (N * width // LANES),
        *(sums_q.size(n) for n in (1, 0)),
    ),
    dependent=True,
)
def convert_queries(
    sums_q: w.In["batches heads sum_rows columns", w.f32],
    starts_q: w.In["sequences", w.i32],
    dq: w.Out["dq_batches heads m D"],
    scale: w.f32,
    *,
    N,
    width,
    packed=False,
):
    """dq = scale * sums_q, in which each warpgroup has its registers for a block of N queries."""
    by_rows, transposed = N % (2 * ROWS) == 0, N % ROWS != 0
    shape = (N // 2, width) if by_rows else (width // 2, N) if transposed else (N, width // 2)
    rows, columns = shape[::-1] if transposed else shape
    staging = w.shared(2 * rows, columns, dq.dtype)
    with w.role(warpgroups=2) as me:
        head, batch = w.cta(1), w.cta(2)
        row, end = w.cta(0) * N, dq.rows
        if packed:
            number, x = sequence_at(w.cta(0), starts_q, N)
            row, end = starts_q[number] + x * N, starts_q[number + 1].loaded()
        like = w.by_lanes(w.zeros(shape))
        part = w.load(sums_q[batch, head, (w.cta(0) * 2 + me) * like.rows, 0], like=like)
        part = (w.from_lanes(part, shape) * scale).to(dq.dtype)
        down, across = (row + me * rows, 0) if by_rows else (row, me * columns)
        limit = {"rows": end - down} if packed else {}
        part = part.T if transposed else part
        w.store(part, dq[batch, head, down, across], via=staging.rows(rows * me, rows), **limit)
