"""Combines the outputs of parts of the keys, from `forward` with `splits`."""

import math

import weft.language as w
from weft.attend.kernels.masks import finite

LOG2E, LN2 = math.log2(math.e), math.log(2)
ROWS, COLUMNS = 64, 32
TOGETHER = 8  # parts whose loads are in flight together: one after the other they would take most of the time


def _grid(o, *, width):
    """Tiles of rows and columns, heads, and sequences."""
    return w.ceil_div(o.rows, ROWS) * w.ceil_div(width, COLUMNS), o.size("heads"), o.size("batches")


@w.kernel(grid=_grid, dependent=True)
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
    across = w.ceil_div(width, COLUMNS)
    row, column, head, batch = w.cta(0) // across * ROWS, w.cta(0) % across * COLUMNS, w.cta(1), w.cta(2)
    with w.role():
        like, top = w.zeros((ROWS, COLUMNS)), w.full(ROWS, -w.inf)
        if sinking:
            sink = w.load_column(sinks[head * o.rows + row], like=top) if grouped else sinks[head].loaded()
            top = w.maximum(top, sink)

        def some(begin):
            """Parts from `begin` on; the last one again where there are no more."""
            first = batch * splits
            return [first + w.minimum(begin + i, splits - 1) for i in range(min(splits, TOGETHER))]

        for begin in w.range(0, splits, TOGETHER):
            for each in [w.load_column(sums[part, head, row], like=top) for part in some(begin)]:
                top = w.maximum(top, each)
        base = finite(top) * LOG2E
        total, out = w.zeros(ROWS), like
        if sinking:
            total = total + w.exp2(sink * LOG2E - base)
        for begin in w.range(0, splits, TOGETHER):
            shares = [w.load_column(sums[part, head, row], like=top) for part in some(begin)]
            loaded = [w.load(parts[part, head, row, column], like=like) for part in some(begin)]
            for i in range(len(loaded)):
                share = w.where(begin + i < splits, w.exp2(shares[i] * LOG2E - base), 0.0)
                total = total + share
                out = out + loaded[i] * share
        out = out * w.where(total == 0.0, 0.0, w.rcp(total))
        w.store(out.to(o.dtype), o[batch, head, row, column])
        if column == 0:
            w.store_column((base + w.log2(total)) * LN2, lse[batch, head, row])
