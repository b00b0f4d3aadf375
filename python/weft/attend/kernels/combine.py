"""Combines the outputs of parts of the keys, from `forward` with `splits`."""

import math

import weft.language as w
from weft.attend.kernels.masks import finite

LOG2E, LN2 = math.log2(math.e), math.log(2)
ROWS = 64
UNROLL = 4


@w.kernel(grid=lambda o: (w.ceil_div(o.rows, ROWS), o.size("heads"), o.size("batches")), dependent=True)
def combine(
    parts: w.In["parts heads m E", w.f32],
    sums: w.In["parts heads m", w.f32],
    sinks: w.In["sink_heads", w.f32],
    o: w.Out["batches heads m E"],
    lse: w.Out["batches heads m", w.f32],
    *,
    E,
    width,
    splits,
    sinking=False,
    grouped=False,
):
    """o and lse of all keys. `sums` are the lse of the parts, which are the last dimension of a batch."""
    row, head, batch = w.cta(0) * ROWS, w.cta(1), w.cta(2)
    with w.role():
        like, top = w.zeros((ROWS, width)), w.full(ROWS, -w.inf)
        if sinking:
            sink = w.load_column(sinks[head * o.rows + row], like=top) if grouped else sinks[head].loaded()
            top = w.maximum(top, sink)
        for part in w.range(splits, unroll=UNROLL):
            top = w.maximum(top, w.load_column(sums[batch * splits + part, head, row], like=top))
        base = finite(top) * LOG2E
        total, out = w.zeros(ROWS), like
        if sinking:
            total = total + w.exp2(sink * LOG2E - base)
        for part in w.range(splits, unroll=UNROLL):
            at = batch * splits + part
            share = w.exp2(w.load_column(sums[at, head, row], like=top) * LOG2E - base)
            total = total + share
            out = out + w.load(parts[at, head, row], like=like) * share
        out = out * w.where(total == 0.0, 0.0, w.rcp(total))
        w.store(out.to(o.dtype), o[batch, head, row])
        w.store_column((base + w.log2(total)) * LN2, lse[batch, head, row])
