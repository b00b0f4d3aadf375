"""`weft.attention` of large scores: shares depend on their differences alone, up to the largest f32."""

import ml_dtypes
import numpy as np
import pytest
from test_attention_gradients import found

import weft
from weft.reference.attention import attention as expected
from weft.reference.attention import gradients

BF16, F16, E4M3 = ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn
OPTIONS = {
    "no mask": {},
    "causal": {"causal": True},
    "window, sinks": {"window": (90, 20), "sinks": np.array([0.5], np.float32)},
    "splits": {"splits": 2},  # one part has two blocks of keys, the other one has one
    "splits, sinks": {"splits": 3, "sinks": np.array([-3.0], np.float32)},
}


def equal(queries, value, d=64, keys=300, dtype=BF16):
    """q and k of one value, and v."""
    v = np.random.default_rng(0).standard_normal((1, 1, keys, d)).astype(dtype)
    return np.full((1, 1, queries, d), value, dtype), np.full((1, 1, keys, d), value, dtype), v


@pytest.mark.each_value(2)
@pytest.mark.parametrize("name", ["no mask", "splits", "splits, sinks"])
@pytest.mark.parametrize("value", [1200, 133120, 2.0**60])
@pytest.mark.parametrize("queries", [1, 2, 70])
def test_equal_scores_have_equal_shares(queries, value, name):
    q, k, v = equal(queries, value)
    score = float(q[0, 0, 0, 0]) ** 2 * 64
    for scale in (None, 1.0, 3e38 / score):  # multiplied by log2 e, the last ones are beyond f32
        out, lse = weft.attention(q, k, v, scale=scale, return_lse=True, **OPTIONS[name])
        assert np.abs(out.astype(float) - v.astype(float).mean(2)).max() < 1e-3
        assert np.allclose(lse, score * (scale or 0.125) + np.log(300), rtol=1e-6)


def near(queries, dtype, large, keys=300, d=64):
    """q, k and v whose scores are `large` and up to 4 more or less, exactly."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 1, n, d)) for n in (queries, keys, keys))
    q[..., 2:] = k[..., 2:] = 0
    q[..., 0], k[..., 0], q[..., 1] = 2.0**11, large / 2.0**11, 1
    k[..., 1] = rng.integers(-4, 5, keys)
    return tuple(each.astype(dtype) for each in (q, k, v))


@pytest.mark.each_value(2)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("large", [2.0**13, -(2.0**13), 2.0**22, -(2.0**22)])
@pytest.mark.parametrize("queries", [1, 70])
def test_differences_of_large_scores(queries, large, dtype, name):
    q, k, v = near(queries, dtype, large)
    options = dict(OPTIONS[name])
    if "sinks" in options:
        options["sinks"] = options["sinks"] + np.float32(large)
    out, lse = weft.attention(q, k, v, scale=1.0, return_lse=True, **options)
    options.pop("splits", None)
    wanted = expected(q, k, v, scale=1.0, **options)
    assert np.abs(out.astype(float) - wanted.out).max() < 4 * ml_dtypes.finfo(dtype).eps
    assert np.allclose(lse, wanted.lse, rtol=2**-23, atol=1e-4)


@pytest.mark.parametrize("queries", [1, 20])
def test_pages_and_packed_sequences(queries):
    q, k, v = near(queries, BF16, 2.0**22)
    wanted = expected(q[0], k[0], v[0], scale=1.0).out
    pages = [
        np.concatenate([x, np.zeros_like(x[:, :, :20])], 2).reshape(5, 64, 1, 64).swapaxes(1, 2)
        for x in (k, v)
    ]
    table, lengths = np.arange(5, dtype=np.int32)[None], np.array([300], np.int32)
    out = weft.attention(q, *map(np.ascontiguousarray, pages), page_table=table, lengths=lengths, scale=1.0)
    assert np.abs(out[0].astype(float) - wanted).max() < 4 * 2**-7
    flat = [np.ascontiguousarray(x[0].swapaxes(0, 1)) for x in (q, k, v)]
    starts = [np.array([0, n], np.int32) for n in (queries, 300)]
    out = weft.attention(*flat, cu_seqlens_q=starts[0], cu_seqlens_k=starts[1], scale=1.0)
    assert np.abs(out.swapaxes(0, 1).astype(float) - wanted).max() < 4 * 2**-7


def test_large_caps():
    q, k, v = near(70, BF16, 2.0**22)
    out = weft.attention(q, k, v, scale=1.0, softcap=2.0**126)  # scores become 0, to f32
    assert np.isfinite(out.astype(float)).all()
    q, k, v = equal(70, 2.0**60)
    out, lse = weft.attention(q, k, v, scale=1.0, softcap=2.0**126, return_lse=True)
    assert np.abs(out.astype(float) - v.astype(float).mean(2)).max() < 1e-3 and np.isfinite(lse).all()


@pytest.mark.each_value(2)
@pytest.mark.parametrize("scale", [1.0, 1e15, 5e30])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"sinks": np.array([0.5], np.float32)}], ids=str)
@pytest.mark.parametrize("keys", [100, 700])
def test_fp8(keys, options, scale):
    q, k, v = equal(70, 448.0, keys=keys, dtype=E4M3)
    scales = {
        name: np.array([each], np.float32)
        for name, each in (("q_scale", scale), ("k_scale", 2.0), ("v_scale", 1.0))
    }
    out, lse = weft.attention(q, k, v, **scales, return_lse=True, **options)
    values, seen = (
        v.astype(float)[0, 0],
        np.arange(keys - 69, keys + 1) if "causal" in options else [keys] * 70,
    )
    wanted = np.stack([values[:n].mean(0) for n in seen])
    assert np.abs(out[0, 0].astype(float) - wanted).max() < 4e-3
    assert np.allclose(lse, 448.0**2 * 8 * 2 * scale + np.log(seen), rtol=1e-6)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"softcap": 2.0**18}], ids=str)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("large", [2.0**13, -(2.0**13), 2.0**15, 2.0**17, -(2.0**17), 2.0**100])
def test_gradients_are_nan_where_f32_does_not_have_them(large, deterministic, options):
    dtype = F16 if abs(large) < 2.0**20 else BF16
    q, k, v = near(70, dtype, large, keys=100)
    d_out = np.random.default_rng(3).standard_normal(q.shape).astype(dtype)
    given = {"q": q, "k": k, "v": v}
    *got, _ = found(given, d_out, scale=1.0, deterministic=deterministic, **options)
    for one, wanted in zip(got, gradients(d_out, q, k, v, scale=1.0, **options), strict=True):
        if abs(large) > 2.0**16:
            assert np.isnan(one).all()
        else:
            assert np.abs(one.astype(float) - wanted).max() < 2e-2 * np.abs(wanted).max()
