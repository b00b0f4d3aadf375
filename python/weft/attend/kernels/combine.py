"""Combines the outputs of parts of the keys, from `forward` with `splits`."""

import weft.language as w
from weft.attend.kernels.exponents import LN2, LOG2E, with_sink
from weft.attend.kernels.masks import finite

THREADS = 128  # each with an element of the output, so that the loads of all parts are in flight together
TOGETHER = 16  # parts


def _grid(o, *, E):
    """Elements of a head, heads, and sequences."""
    return w.ceil_div(o.rows * E, THREADS), o.size("heads"), o.size("batches")


@w.kernel(grid=_grid, threads=THREADS, dependent="early")
def combine(
    parts: w.In["parts heads m E", w.f32],
    sums: w.In["both heads m", w.f32],
    sinks: w.In["sink_heads", w.f32],
    o: w.Out["batches heads m E"],
    lse: w.Out["batches heads m", w.f32],
    unit: w.f32,
    *,
    E,
    splits,
    sinking=False,
    grouped=False,
):
    """o and lse of all keys. `sums` has the largest scores and the sums of exponentials of the parts, which
    are the last dimension of a batch. `unit` is the factor of scores.
    """
    number, head, batch = w.cta(0) * THREADS + w.thread(), w.cta(1), w.cta(2)
    row, column = number // E, number % E

    def some(begin):
        """Parts from `begin` on; the last one again where there are no more."""
        first = batch * splits
        return [first + w.minimum(begin + i, splits - 1) for i in range(min(splits, TOGETHER))]

    if row < o.rows:
        peak, total, out = w.f32(-w.inf), w.f32(0), w.f32(0)
        for begin in w.range(0, splits, TOGETHER):
            peaks = [sums[part, head, row].loaded() for part in some(begin)]
            totals = [sums[part + parts.size("parts"), head, row].loaded() for part in some(begin)]
            values = [parts[part, head, row, column].loaded() for part in some(begin)]
            old = peak
            for each in peaks:
                peak = w.maximum(peak, each)
            base, c = finite(peak), unit * LOG2E
            shrink = w.exp2((old - base) * c)
            total, out = total * shrink, out * shrink
            for i in range(len(peaks)):
                share = w.where(begin + i < splits, totals[i] * w.exp2((peaks[i] - base) * c), 0.0)
                total = total + share
                out = out + values[i] * share
        top = peak * unit
        if sinking:
            sink = sinks[head * o.rows + row if grouped else head].loaded()
            total, shrink, top = with_sink(total, peak, unit, sink)
            out = out * shrink
        o[batch, head, row, column] = (out * w.where(total == 0.0, 0.0, w.rcp(total))).to(o.dtype)
        if column == 0:
            lse[batch, head, row] = top + w.log2(total) * LN2
