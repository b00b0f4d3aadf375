"""Combines the outputs of parts of the keys, from `forward` with `splits`."""

import math

import weft.language as w
from weft.attend.kernels.masks import finite

LOG2E, LN2 = math.log2(math.e), math.log(2)
THREADS = 128  # each with an element of the output, so that the loads of all parts are in flight together
TOGETHER = 16  # parts


def _grid(o, *, E):
    """Elements of a head, heads, and sequences."""
    return w.ceil_div(o.rows * E, THREADS), o.size("heads"), o.size("batches")


@w.kernel(grid=_grid, threads=THREADS, dependent="early")
def combine(
    parts: w.In["parts heads m E", w.f32],
    sums: w.In["parts heads m", w.f32],
    sinks: w.In["sink_heads", w.f32],
    o: w.Out["batches heads m E"],
    lse: w.Out["batches heads m", w.f32],
    *,
    E,
    splits,
    sinking=False,
    grouped=False,
):
    """o and lse of all keys. `sums` are the lse of the parts, which are the last dimension of a batch."""
    number, head, batch = w.cta(0) * THREADS + w.thread(), w.cta(1), w.cta(2)
    row, column = number // E, number % E

    def some(begin):
        """Parts from `begin` on; the last one again where there are no more."""
        first = batch * splits
        return [first + w.minimum(begin + i, splits - 1) for i in range(min(splits, TOGETHER))]

    if row < o.rows:
        top, total, out = w.f32(-w.inf), w.f32(0), w.f32(0)
        if sinking:
            top = sinks[head * o.rows + row if grouped else head].loaded() * LOG2E
            total = w.f32(1)
        for begin in w.range(0, splits, TOGETHER):
            logs = [sums[part, head, row].loaded() for part in some(begin)]
            values = [parts[part, head, row, column].loaded() for part in some(begin)]
            old = top
            for each in logs:
                top = w.maximum(top, each * LOG2E)
            base = finite(top)
            shrink = w.exp2(old - base)
            total, out = total * shrink, out * shrink
            for i in range(len(logs)):
                share = w.where(begin + i < splits, w.exp2(logs[i] * LOG2E - base), 0.0)
                total = total + share
                out = out + values[i] * share
        o[batch, head, row, column] = (out * w.where(total == 0.0, 0.0, w.rcp(total))).to(o.dtype)
        if column == 0:
            lse[batch, head, row] = (finite(top) + w.log2(total)) * LN2
