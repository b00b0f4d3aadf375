"""The exponents of shares, which are relative to the largest scores, and what sinks add to these.

A score has the exponent `score * c - base` to base 2, in one instruction, where `base` is the product of the
peak, the largest score, and `c`. The base is rounded: the largest exponent isn't 0, but up to 2^-24 of the
base. This error is common to all scores of a row, and cancels: shares are right as long as their type has
numbers that large, and sums with different bases are rescaled by the difference of these.

For larger products, the factor is a power of two of at most `c`, which makes the base exact. Other scores
differ from the peak by one ulp at least, which is an exponent of -8 or less: their shares are those of scores
that are moved by less than their distance from the peak. Sums of e4m3 have 13 bits, with larger ulps.
"""

import math

import weft.language as w

LOG2E, LN2 = math.log2(math.e), math.log(2)
LARGE = {w.f16: 27, w.bf16: 27, w.e4m3: 16}
"""By the type of shares, the logarithm to base 2 of products above which the factor is a power of two."""
_EXPONENT = 0x7F800000  # the bits of an f32's exponent
LARGE_LSE = 2.0**10
"""The magnitude of an lse above which gradients subtract the largest score before they multiply."""
NOT_LARGE = -0.0
"""The largest score for gradients of rows without an lse beyond `LARGE_LSE`: it may be subtracted."""
LEAST = -3.4028234e38  # of sinks and peaks: infinities would be subtracted from each other


def scaling_of(unit, dtype):
    """The factor of exponents of scores with the factor `unit`, and its limit for shares of a type."""
    return unit * LOG2E, (LARGE[dtype] - 1) << 23


def relative(peak, scaling):
    """The factor and the base of each row: `score * factor - base` are its exponents."""
    c, large = scaling
    power = ((peak.bitcast(w.u32) & _EXPONENT) ^ _EXPONENT) + large
    factor = w.minimum(power, c.bitcast(w.u32)).bitcast(w.f32)
    return factor, peak * factor


def rescaling(old, factor, base, scaling):
    """The factor of sums with the peak `old` for the factor and the base of a larger peak."""
    before, low = relative(old, scaling)
    return w.exp2(w.where(before == factor, low, -w.inf) - _rounded(base))


def correction(peak, scaling):
    """The factor that makes sums relative to a peak's base relative to the peak."""
    peak = w.maximum(peak, LEAST)
    factor, base = relative(peak, scaling)
    return w.exp2(_rounded(base) - peak * factor)


def _rounded(base):
    """The same base, which LLVM doesn't fuse with a difference: a product isn't rounded there."""
    return w.maximum(base, LEAST)


def is_large(peak):
    """Whether a largest score isn't `NOT_LARGE`, which differs from 0 in its sign."""
    return peak.bitcast(w.i32) != -(2**31)


def with_sink(total, peak, unit, sink):
    """The sums of shares and of that of a sink, what the former are multiplied with, and the score that the
    sums are relative to. `unit` is the factor of scores, sinks have none.
    """
    more = (w.maximum(sink, LEAST) - peak * unit) * LOG2E  # inf where nothing is seen
    shrink = w.exp2(w.minimum(-more, 0.0))
    top = w.where(more > 0.0, sink, peak * unit)
    return total * shrink + w.exp2(w.minimum(more, 0.0)), shrink, top
