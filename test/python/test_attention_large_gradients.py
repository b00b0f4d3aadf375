"""Gradients of `weft.attention` for finite scores up to the largest f32, compared with those in float64.

Scores are exact in f32. An element of a gradient is a sum: its error is at most `TOLERANCE` of the sum of the
magnitudes of its terms, which are rounded to the type of q before they are multiplied, as the output is.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
from test_attention_gradients import found

from weft.reference.attention import attention

BF16, F16 = ml_dtypes.bfloat16, np.float16
TOLERANCE = {BF16: 2.0**-7, F16: 2.0**-10}
CAPPED = 2.0**-8  # of the slopes, by tanh.approx


def near(rows, keys, magnitudes, dtype=BF16, d=64, heads=(1, 1), seed=1):
    """q, k, v and a gradient: each query has one of the magnitudes, in turn. Its scores are that, and up to
    four units more or less, of 2^-19 of the magnitude or 1.
    """
    rng = np.random.default_rng(seed)
    q, k = np.zeros((1, heads[0], rows, d)), np.zeros((1, heads[1], keys, d))
    each = np.resize(np.asarray(magnitudes, float), rows)
    largest = 2.0 ** (np.log2(np.abs(magnitudes).max()) // 2)
    q[..., 0], k[..., 0] = each / largest, largest
    q[..., 1], k[..., 1] = np.maximum(2.0**-19 * np.abs(each), 1), rng.integers(-4, 5, keys)
    v, d_out = rng.standard_normal((1, heads[1], keys, d)), rng.standard_normal((1, heads[0], rows, d))
    return tuple(x.astype(dtype) for x in (q, k, v, d_out))


def apart(rows, keys, d=64, heads=(1, 1)):
    """q, k, v and a gradient of random scores that are so large that each query has one share."""
    rng = np.random.default_rng(4)
    shapes = ((heads[0], rows, 2.0**30), (heads[1], keys, 2.0**30), (heads[1], keys, 1), (heads[0], rows, 1))
    return tuple((size * rng.standard_normal((1, n, m, d))).astype(BF16) for n, m, size in shapes)


def exact(q, k, v, d_out, d_lse=0.0, *, scale=1.0, sinks=None, **options):
    """The gradients of q, k, v and sinks, each with the sums of the magnitudes of its terms. Of the factors
    that are rounded before they are multiplied, these are at least the smallest normal number.
    """
    made, least = (
        attention(q, k, v, scale=scale, sinks=sinks, **options),
        float(ml_dtypes.finfo(q.dtype).tiny),
    )
    group = q.shape[-3] // k.shape[-3]
    q, k, v, d_out = (x.astype(float) for x in (q, k, v, d_out))
    k, v = (np.repeat(x, group, -3) for x in (k, v))
    of_lse = np.broadcast_to(d_lse, made.lse.shape)[..., None]
    mean = (d_out * made.out).sum(-1, keepdims=True) - of_lse
    size = (np.abs(d_out) * np.abs(made.out)).sum(-1, keepdims=True) + np.abs(of_lse)
    factor = made.shares * made.slopes * scale
    ds = factor * (d_out @ v.swapaxes(-1, -2) - mean)
    sizes = np.maximum(np.abs(factor) * (np.abs(d_out) @ np.abs(v).swapaxes(-1, -2) + size), least * scale)

    def of_keys(x):
        return x.reshape(*x.shape[:-3], -1, group, *x.shape[-2:]).sum(-3)

    def turned(x, other):
        return of_keys(x.swapaxes(-1, -2) @ other)

    rest = np.zeros((1, 1, 1)) if sinks is None else np.exp(sinks[:, None, None] - made.lse[..., None])
    every = tuple(each for each in range(rest.ndim) if each != rest.ndim - 3)
    return (
        (ds @ k, sizes @ np.abs(k)),
        (turned(ds, q), turned(sizes, np.abs(q))),
        (turned(made.shares, d_out), turned(np.maximum(made.shares, least), np.abs(d_out))),
        ((-rest * mean).sum(every), (rest * size).sum(every)),
    )


def check(got, wanted, dtype, more=0.0):
    for one, (other, size) in zip(got, wanted, strict=False):
        if one is not None:
            assert np.isfinite(one.astype(float)).all()
            assert (np.abs(one.astype(float) - other) <= (TOLERANCE[dtype] + more) * size + 1e-30).all()


MAGNITUDES = [2.0**0, 2.0**11, -(2.0**13), 2.0**17, -(2.0**24), 2.0**40, -(2.0**80), 2.0**120]
FEW = [2.0**120]


def some(sizes):
    """Cases of which the first is in the default run: all of these share kernels."""
    first, *rest = sizes
    return [first, *(pytest.param(*each, marks=pytest.mark.slow) for each in rest)]


@pytest.mark.parametrize(
    "d, deterministic, options",
    some(
        [
            (64, False, {}),
            (64, False, {"causal": True}),
            (64, True, {"causal": True}),
            (64, True, {"window": (90, 20)}),
            (96, False, {"window": (90, 20)}),
            (128, False, {"causal": True}),
            (128, False, {}),
            (128, True, {}),
            (192, False, {"causal": True}),
            (256, False, {}),
        ]
    ),
    ids=str,
)
def test_magnitudes_of_scores(d, deterministic, options):
    for magnitude in FEW if d == 64 and not options and not deterministic else MAGNITUDES:
        q, k, v, d_out = near(140, 90, [magnitude], d=d)
        got = found({"q": q, "k": k, "v": v}, d_out, scale=1.0, deterministic=deterministic, **options)
        check(got, exact(q, k, v, d_out, **options), BF16)


@pytest.mark.slow
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("large", [2.0**11, -(2.0**12), 2.0**15, -(2.0**18), 2.0**20])
def test_f16(large, deterministic):
    q, k, v, d_out = near(70, 100, [large], F16)
    got = found({"q": q, "k": k, "v": v}, d_out, scale=1.0, deterministic=deterministic)
    check(got, exact(q, k, v, d_out), F16)


@pytest.mark.parametrize(
    "d, deterministic", some([(64, False), (64, True), (128, False), (128, True)]), ids=str
)
def test_equal_scores(d, deterministic):
    """Of all elements 133,120, for example: the largest score isn't a power of two."""
    rng = np.random.default_rng(0)
    for value in (133120,) if d == 64 and not deterministic else (133120, 2.0**58):
        q, k = np.full((1, 1, 70, d), value, BF16), np.full((1, 1, 140, d), value, BF16)
        v, d_out = rng.standard_normal((1, 1, 140, d)).astype(BF16), rng.standard_normal(q.shape).astype(BF16)
        for scale in (d**-0.5, 3e38 / (value**2 * d)):  # multiplied by log2 e, the last one is beyond f32
            got = found({"q": q, "k": k, "v": v}, d_out, scale=scale, deterministic=deterministic)
            check(got, exact(q, k, v, d_out, scale=scale), BF16)


@pytest.mark.parametrize(
    "d, deterministic, options",
    some(
        [(64, False, {}), (64, True, {"causal": True}), (128, False, {"window": (90, 20)}), (256, False, {})]
    ),
    ids=str,
)
def test_one_share_of_each_query(d, deterministic, options):
    """Its score must have the same bits in each kernel."""
    q, k, v, d_out = apart(100, 150, d)
    got = found({"q": q, "k": k, "v": v}, d_out, scale=1.0, deterministic=deterministic, **options)
    check(got, exact(q, k, v, d_out, **options), BF16)


MIXED = [1, 2.0**10, -(2.0**13), 2.0**5, 2.0**30, -1, 2.0**18, -(2.0**60)]


@pytest.mark.parametrize(
    "d, deterministic, options",
    some(
        [
            (64, False, {}),
            (128, False, {}),
            (64, False, {"causal": True}),
            (64, True, {}),
            (128, False, {"window": (90, 20)}),
            (128, True, {"causal": True}),
        ]
    ),
    ids=str,
)
def test_rows_with_large_scores_beside_others(d, deterministic, options):
    """In one slot of 64 rows, and slots with, without and of only such rows in one block."""
    q, k, v, d_out = near(330, 150, MIXED, d=d, heads=(2, 1))
    q[:, :, 64:128, 0] = q[0, 0, 0, 0]
    q[:, :, 64:128, 1] = 1
    q[:, :, 192:256, 0] = q[0, 0, 4, 0]
    q[:, :, 192:256, 1] = q[0, 0, 4, 1]
    got = found({"q": q, "k": k, "v": v}, d_out, scale=1.0, deterministic=deterministic, **options)
    check(got, exact(q, k, v, d_out, **options), BF16)


@pytest.mark.slow
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("large", [-(2.0**12), 2.0**22])
def test_sinks_lengths_and_gradients_of_lse(d, large, deterministic):
    q, k, v, d_out = near(130, 150, [large, 1], d=d, heads=(2, 1))
    d_lse = np.random.default_rng(2).standard_normal((1, 2, 130)).astype(np.float32)
    sinks = np.array([large + 3, 2.0], np.float32)
    given = {"q": q, "k": k, "v": v, "lengths": np.array([100], np.int32), "sinks": sinks}
    got = found(given, d_out, d_lse, scale=1.0, deterministic=deterministic)
    check(
        [got[0], *(x[:, :, :100] for x in got[1:3]), got[3]],
        exact(q, k[:, :, :100], v[:, :, :100], d_out, d_lse, sinks=sinks),
        BF16,
    )


@pytest.mark.slow
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_packed_sequences(d, deterministic):
    starts = [np.array(each, np.int32) for each in ([3, 80, 80, 210], [0, 100, 130, 180])]
    q, k, v, d_out = (
        np.ascontiguousarray(x[0].swapaxes(0, 1)) for x in near(220, 190, MIXED, d=d, heads=(2, 1))
    )
    sinks = np.array([2.0**18, 0.5], np.float32)
    given = {"q": q, "k": k, "v": v, "sinks": sinks, "cu_seqlens_q": starts[0], "cu_seqlens_k": starts[1]}
    *got, of_sinks = found(given, d_out, causal=True, scale=1.0, deterministic=deterministic)
    total = np.zeros((2, 2))
    for (first, end), (begin, last) in zip(*(itertools.pairwise(each) for each in starts), strict=True):
        parts = [
            x[slice(*s)].swapaxes(0, 1)
            for x, s in ((q, (first, end)), (k, (begin, last)), (v, (begin, last)), (d_out, (first, end)))
        ]
        wanted = exact(*parts, causal=True, sinks=sinks)
        rows = (first, end), (begin, last), (begin, last)
        check([x[slice(*s)].swapaxes(0, 1) for x, s in zip(got, rows, strict=True)], wanted, BF16)
        total += wanted[3]
    check([of_sinks], [total], BF16)


@pytest.mark.slow
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_large_caps(d, deterministic):
    """Of equal scores: others differ by the error of tanh.approx, which a large cap makes large."""
    rng = np.random.default_rng(0)
    for value, cap in ((2.0**8, 2.0**20), (2.0**10, 2.0**24), (2.0**50, 2.0**100)):
        q, k = np.full((1, 1, 70, d), value, BF16), np.full((1, 1, 100, d), value, BF16)
        v, d_out = rng.standard_normal((1, 1, 100, d)).astype(BF16), rng.standard_normal(q.shape).astype(BF16)
        options = {"scale": 1.0, "softcap": cap}
        got = found({"q": q, "k": k, "v": v}, d_out, deterministic=deterministic, **options)
        check(got, exact(q, k, v, d_out, **options), BF16, CAPPED)


@pytest.mark.slow
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_large_sinks_beside_capped_scores(d, deterministic):
    q, k, v, d_out = near(70, 100, [16], d=d, heads=(3, 1))
    sinks = np.array([2.0**20, 900, -(2.0**20)], np.float32)
    for cap in (1000.0, 1020.0):  # of which the second one could have an lse beyond 1024 without sinks
        options = {"scale": 1.0, "softcap": cap}
        got = found({"q": q, "k": k, "v": v, "sinks": sinks}, d_out, deterministic=deterministic, **options)
        check(got, exact(q, k, v, d_out, sinks=sinks, **options), BF16, CAPPED)
