"""The exponents of shares, which are relative to the largest scores, and what sinks add to these.

A score has the exponent `score * c - base` to base 2, in one instruction, where `base` is the product of the
largest score and `c`. That is rounded: the exponent of the largest score itself is not 0, but up to 2^-24 of
its magnitude. So large scores are subtracted from before they are multiplied.
"""

import math

import weft.language as w

LOG2E, LN2 = math.log2(math.e), math.log(2)
LARGE = 2.0**10
"""A magnitude of products above which scores are subtracted first. Up to it, exponents are 2^-15 off."""
MOST = 2.0**16
"""The largest magnitude of an lse from which shares are computed: their errors are about 2^-22 of it."""
LEAST = -1e38  # of sinks in exponents: infinities would be subtracted from each other


@w.inline
def relative(s, peak, c):
    """Scores and a base, of which `s * c - base` are the exponents relative to a peak of each row."""
    base = peak * c
    if w.warp_any(w.abs(base) > LARGE):
        s = s - peak
        base = w.zeros(base.shape, like=base)
    return s, base


def with_sink(total, peak, unit, sink):
    """The sums of shares and of that of a sink, what the former are multiplied with, and the score that the
    sums are relative to. `unit` is the factor of scores, sinks have none.
    """
    more = (w.maximum(sink, LEAST) - peak * unit) * LOG2E  # inf where nothing is seen
    shrink = w.exp2(w.minimum(-more, 0.0))
    top = w.where(more > 0.0, sink, peak * unit)
    return total * shrink + w.exp2(w.minimum(more, 0.0)), shrink, top


def base_of(lse, unit):
    """-lse in other units, from which gradients compute shares. NaN where these would be wrong."""
    return w.where((w.abs(lse) <= MOST) | (lse == -w.inf), lse * -unit, math.nan)
