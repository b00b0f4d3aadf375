"""Attention, backward: what is computed of rows before the products, and of the sums of gradients after them.

`gradients` computes the same for parts of heads, beside its products.
"""

import weft.language as w
from weft.attend.kernels.exponents import LARGE_LSE, LEAST, LOG2E, NOT_LARGE, with_sink
from weft.attend.kernels.masks import Window, blocks_of_keys, finite, masked
from weft.attend.kernels.sequences import SUMS_STEP, Sequences, rows_at, sequence_at

ROWS = 64  # of queries or keys, for each warpgroup
LANES = 32  # elements of a row of `sums_q`
PANEL = 64  # columns whose 16-bit elements are one row of 128 bytes
KEYS = 32  # of which scores are computed again at once: kernels for memory need little shared memory
NARROW = 16  # columns of what is prepared or converted at once beside products, with few registers


def share(sums_q, group, causal, x, of, size):
    """The pieces of `size` rows of `sums_q`, of a head of keys, that tile x clears, and their number for each
    head of q. Of `causal` tiles, only the first half clears them, which sees many queries. After the last
    head there are none.
    """
    count = w.ceil_div(w.ctas(0), 2 if causal else 1)
    exists, pieces = of < w.ctas(1) * w.ctas(2), sums_q.rows // size
    return (w.where((x < count) & exists, x, group * pieces), group * pieces, count), pieces


def portion(sums_q, group, causal, x, size):
    """The pieces of `size` rows of `sums_q`, of a head of keys, that are computed beside tile x, and their
    number for each head of q. The first of `causal` tiles see the most queries, and compute the most pieces.
    """
    tiles, pieces = w.ctas(0), sums_q.rows // size
    all_blocks = tiles * (tiles + 1) if causal else tiles

    def first(x):
        """The first piece of a tile. Before tile x are so many blocks, in units of half a block if causal."""
        return group * pieces * (x * (2 * tiles + 1 - x) if causal else x) // all_blocks

    return (first(x), first(x + 1)), pieces


def place(number, group, piece, pieces):
    """The batch and head of q of a piece of a head of keys, and its number in these."""
    return (number // w.ctas(1), number % w.ctas(1) * group + piece // pieces), piece % pieces


@w.inline
def add_stages(ring, sums_q, rows, head, group, seen, part):
    """Adds stages of `part` rows to sums, by one thread: those of two warpgroups for each block that is seen
    by a tile of keys, for `group` heads from one on.
    """
    for g in w.range(group):
        for i in w.range(seen.begin, seen.end):
            for half in range(2):
                block = rows.first_block + i
                at = rows.batch, head + g, (block * 2 + half) * part
                with ring.take() as slot:
                    w.atomic_add(sums_q[(*at, 0)], slot.sum)


@w.inline
def clear(zeros, sums_q, group, causal, x, of, done):
    """Stores zeros in the pieces of sums that tile x clears, by one thread, from a buffer of as many rows,
    and signals it to head `of` of keys, if that exists.
    """
    span, pieces = share(sums_q, group, causal, x, of, zeros.shape[0])
    for piece in w.range(*span):
        at, here = place(of, group, piece, pieces)
        w.store(zeros, sums_q[(*at, here * zeros.shape[0], 0)])
    if of < w.ctas(1) * w.ctas(2):
        w.signal(done[of])


def memory_beside(o, do, dq):
    """What `fill` and `prepare_and_convert` need: rings of columns of o and do and of sums, and a buffer that
    gradients are stored through.
    """
    rows_of = w.ring(2, o=(ROWS, NARROW, o.dtype), do=(ROWS, NARROW, do.dtype))
    sums_of = w.ring(3, sum=(ROWS * NARROW // LANES, LANES, w.f32))
    return rows_of, sums_of, w.shared(ROWS, NARROW, dq.dtype)


@w.inline
def fill(memory, o, do, work, width, value_width):
    """Fills stages for `prepare_and_convert`, by one thread: with columns of o and do, and with sums, when
    these have been added.
    """
    number, before, after, sharing, done = work
    (rows_of, sums_of, _), (sums_q, group, *_) = memory, sharing
    later, earlier, count = number + before, number - after, w.ctas(1) * w.ctas(2)
    if later < count:
        span, pieces = portion(*sharing, ROWS * width // LANES)
        for piece in w.range(*span):
            at, here = place(later, group, piece, pieces)
            for column in w.range(0, value_width, NARROW):
                rows_of.fill(o=o[(*at, here * ROWS, column)], do=do[(*at, here * ROWS, column)])
    if earlier >= 0:
        w.await_signals(done[count + earlier], w.ctas(0))
        rows = ROWS * NARROW // LANES
        span, pieces = portion(*sharing, rows)
        for piece in w.range(*span):
            at, here = place(earlier, group, piece, pieces)
            sums_of.fill(sum=sums_q[(*at, here * rows, 0)])


@w.inline
def prepare(ring, d_lse, delta, rows, *, value_width):
    """Stores delta of 64 rows. A ring has columns of o and do."""
    total = w.zeros((ROWS, NARROW))
    for _ in w.range(value_width // NARROW):
        with ring.take() as slot:
            one, other = (w.load(x, like=w.zeros(x.shape, x.dtype)).to(w.f32) for x in (slot.o, slot.do))
            total = total - one * other
    total = w.sum(total, axis=1)
    if d_lse is not None:
        total = total + w.load_column(d_lse[rows], like=total)
    w.store_column(total, delta[rows])


def convert(source, to, piece, scale, *, width, columns, first=0, end=None):
    """Stores 64 rows of some columns of dq = scale * sums, which has registers of 64 rows and columns. `to`
    has dq, a batch and head, and the buffer that rows go through.
    """
    dq, at, via = to
    total = w.from_lanes(w.load(source, like=w.by_lanes(w.zeros((ROWS, columns)))), (ROWS, columns)) * scale
    count = width // columns
    row, limit = first + piece // count * ROWS, {}
    if end is not None:
        limit = {"rows": end - row}
    w.store(total.to(dq.dtype), dq[(*at, row, piece % count * columns)], via=via, **limit)


@w.inline
def prepare_and_convert(memory, given, dq, scale, work, width, value_width):
    """Prepares this tile's share of the head `before` heads after that of this number, and converts that of
    the head `after` heads before it, from the stages that `fill` fills.
    """
    number, before, after, sharing, done = work
    (rows_of, sums_of, via), group = memory, sharing[1]
    later, earlier, count = number + before, number - after, w.ctas(1) * w.ctas(2)
    if later < count:
        span, pieces = portion(*sharing, ROWS * width // LANES)
        for piece in w.range(*span):
            at, here = place(later, group, piece, pieces)
            prepare(rows_of, *given, (*at, here * ROWS), value_width=value_width)
        w.signal(done[later])
    if earlier >= 0:
        span, pieces = portion(*sharing, ROWS * NARROW // LANES)
        for piece in w.range(*span):
            at, here = place(earlier, group, piece, pieces)
            with sums_of.take() as slot:
                convert(slot.sum, (dq, at, via), here, scale, width=width, columns=NARROW)


@w.inline
def store_delta(o, do, d_lse, delta, at, to, end, width):
    """Stores delta of 64 rows, zeros after the `end` of the last one's sequence."""
    like = w.by_lanes(w.zeros((SUMS_STEP, PANEL), o.dtype))  # whose loads are of 16 bytes

    def products(column):
        """Those of two panels, or of the only one."""
        panels = range(0, min(width, 2 * PANEL), PANEL)
        both = [[w.load(x[(*at, column + i)], like=like) for x in (o, do)] for i in panels]
        parts = [one.to(w.f32) * other.to(w.f32) for one, other in both]  # when all loads are started
        return sum(parts[1:], parts[0])

    if width <= 2 * PANEL:
        total = products(0)
    else:  # in a loop, since the code of loads takes long to compile
        total = w.zeros(like.shape, like=like)
        for column in w.range(0, width, 2 * PANEL):
            total = total + products(column)
    total = -w.sum(total, axis=1)
    if d_lse is not None:
        total = total + w.load_column(d_lse[at], like=total)
    w.store_column(w.where(w.row(total) + at[-1] < end, total, 0.0), delta[to])


@w.inline
def peaks_of(matrices, q, k, tile, window, scores, c):
    """The largest scores of a tile of 64 rows, and the sums of exponentials relative to them. A tile is a
    sequence, a head, and the first row.
    """
    rows, head, first = tile
    query, blocks = matrices
    query.fill(q=q[rows.batch, head, rows.first_query + first])
    shared = head // (q.size("heads") // k.size("key_heads"))
    seen = blocks_of_keys(window, first, SUMS_STEP, rows.shift, rows.keys, KEYS)
    peak, total = w.full(SUMS_STEP, -w.inf), w.zeros(SUMS_STEP)
    with query.take() as mine:
        for i in w.range(seen.begin, seen.end):
            blocks.fill(k=k[rows.batch, shared, rows.first_key + i * KEYS])
            with blocks.take() as block:
                s = scores(w.wait(w.gemm(mine.q, block.k.T)))
            s = masked(s, window, w.row(s) + (first + rows.shift), i, KEYS, rows.keys)
            old, peak = peak, w.maximum(peak, w.max(s, axis=1))
            s = w.exp2((s - finite(peak)) * c)
            total = total * w.exp2((old - finite(peak)) * c) + w.sum(s, axis=1)
    return finite(peak), total


@w.kernel(grid=lambda base: base.size(2) // SUMS_STEP * base.size(1) * base.size(0), dependent=True)
def products_of_outputs(
    q: w.In["batches heads m D"],
    k: w.In["key_batches key_heads n D"],
    o: w.In["batches heads m E"],
    do: w.In["batches heads m E"],
    lse: w.In["batches heads m", w.f32],
    d_lse: w.In["lse_batches lse_heads lse_m", w.f32],
    starts_q: w.In["sequences", w.i32],
    starts_k: w.In["key_sequences", w.i32],
    lengths: w.In["limits", w.i32],
    sinks: w.In["sink_heads"],
    base: w.Out["batches heads padded", w.f32],
    delta: w.Out["batches heads padded", w.f32],
    peaks: w.Out["planes heads padded", w.f32],
    shares: w.Out["share_batches share_heads share_padded", w.f32],
    sums_q: w.Out["sum_batches sum_heads sum_rows columns", w.f32],
    done: w.Out["counters", w.i32],
    scale: w.f32,
    softcap: w.f32,
    left: w.i32,
    right: w.i32,
    unit: w.f32,
    first: w.i32,
    cleared: w.i32,
    *,
    D,
    E,
    columns=LANES,
    width,
    value_width,
    of_lse=False,
    packed=False,
    limited=False,
    capped=False,
    lefts=False,
    rights=False,
    sinking=False,
    adding=False,
    begins=False,
    any_size=True,
):
    """base = -lse of each row, multiplied by `unit`, and `peaks` are `NOT_LARGE`. But slots of rows of which
    one has a large lse have their largest scores there, and base = -log2 of the sums of exponentials relative
    to these. With `begins`, products begin with base, which is then 0, and a second plane of `peaks` has the
    logarithms, in units of scores. Without `any_size`, no score is large. With `sinking`, `shares` are those
    of sinks.

    delta = -sum(do * o), plus the gradient of lse with `of_lse`, for the `first` heads. After the rows of a
    sequence come zeros. Also, done = 0, and with `adding`, sums_q = 0 of the first `cleared` heads.
    """
    slots, heads, batches = base.size("padded") // SUMS_STEP, base.size("heads"), base.size("batches")
    slot, number = w.cta() % slots, w.cta() // slots
    at, to = (number // heads, number % heads), slot * SUMS_STEP
    if any_size:
        matrices = w.ring(1, q=(SUMS_STEP, width, q.dtype)), w.ring(1, k=(KEYS, width, k.dtype))
    window = Window(left if lefts else None, right if rights else None)
    factor = softcap if capped else scale

    def scores(s):
        return w.tanh(s * (scale / softcap)) if capped else s

    with w.role():
        row, end = rows_at(slot, starts_q, SUMS_STEP, o.rows, packed=packed)
        of_row = w.load_column(lse[(*at, row)], like=w.zeros(SUMS_STEP))
        if adding:
            zeros = w.by_lanes(w.zeros((SUMS_STEP, width)))
            end_of_zeros = w.where(number < cleared, sums_q.rows, 0)
            for each in w.range(slot * zeros.rows, end_of_zeros, slots * zeros.rows):
                w.store(zeros, sums_q[(*at, each, 0)])
        if number < first:
            store_delta(o, do, d_lse if of_lse else None, delta, (*at, row), (*at, to), end, value_width)
        for each in w.range(w.cta(), done.size(0), w.ctas()):
            with w.one_thread():
                done[each] = 0
        inside, finite_lse = w.row(of_row) + row < end, of_row > -w.inf
        low, peak = w.where(inside, of_row * -unit, 0.0), w.full(SUMS_STEP, NOT_LARGE)
        sink = sinks[at[1]].to(w.f32) if sinking else None
        share = w.exp2((sink - of_row) * LOG2E) if sinking else None
        if any_size and w.warpgroup_any(inside & finite_lse & (w.abs(of_row) > LARGE_LSE)):
            sequence, x = sequence_at(slot, starts_q, SUMS_STEP) if packed else (at[0], slot)
            rows = Sequences(q, k, starts_q, starts_k, lengths, packed, limited).at(sequence)
            c = factor * LOG2E
            peak, total = peaks_of(matrices, q, k, (rows, at[1], x * SUMS_STEP), window, scores, c)
            rest = w.log2(total)
            if sinking:
                more = (w.maximum(sink, LEAST) - peak * factor) * LOG2E
                total, _, _ = with_sink(total, peak, factor, sink)
                rest = w.log2(total) + w.maximum(more, 0.0)
                share = w.exp2(w.minimum(more, 0.0)) * w.rcp(total)
            peak = w.where(peak == 0.0, 0.0, peak)  # not -0.0
            low = -rest
            if begins:
                low = w.zeros(SUMS_STEP)
                w.store_column(rest / c, peaks[at[0] + batches, at[1], to])
        w.store_column(low, base[(*at, to)])
        w.store_column(peak, peaks[(*at, to)])
        if sinking:
            w.store_column(w.where(inside & finite_lse, share, 0.0), shares[(*at, to)])


@w.kernel(
    grid=lambda sums_q, last, *, N, width: sums_q.size(2) * LANES // (N * width) * last.size(0),
    dependent=True,
)
def convert_queries(
    sums_q: w.In["batches heads sum_rows columns", w.f32],
    starts_q: w.In["sequences", w.i32],
    last: w.In["last_heads", w.i32],
    dq: w.Out["dq_batches dq_heads m D"],
    scale: w.f32,
    *,
    columns=LANES,
    N,
    width,
    packed=False,
):
    """dq = scale * sums_q, of as many heads as `last` has elements."""
    staging = w.shared(2 * ROWS, PANEL, dq.dtype)
    with w.role(warpgroups=2) as me:
        heads, blocks = sums_q.size("heads"), sums_q.rows * LANES // (N * width)
        number = sums_q.size("batches") * heads - last.size(0) + w.cta() // blocks
        block = w.cta() % blocks
        row, end = rows_at(block, starts_q, N, dq.rows, packed=packed)
        at, via = (number // heads, number % heads), staging.rows(ROWS * me, ROWS)
        rows = {"first": row - block * N, "end": end if packed else None}
        part = block * 2 + me
        source = sums_q[(*at, part * (ROWS * PANEL // LANES), 0)]
        convert(source, (dq, at, via), part, scale, width=width, columns=PANEL, **rows)
