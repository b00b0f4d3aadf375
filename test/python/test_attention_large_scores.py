"""`weft.attention` of large scores: shares depend on their differences alone, up to the largest f32."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.reference.attention import attention as expected

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


@pytest.mark.slow
@pytest.mark.each_value(1)
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


@pytest.mark.each_value(1)
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


def spread(queries, dtype, ramp, most, keys=300, d=64):
    """q, k and v whose scores f32 has exactly, of both signs and about 2^0 (f16: 2^1) to 2^`most` in the
    rows of q. Keys differ by 1 to 2^24 ulps; with `ramp`, those of the first blocks, which come last, are
    larger by powers of two.
    """
    rng = np.random.default_rng(2)
    of_keys = 15 if dtype == F16 else 60
    sizes = np.exp2(np.linspace(-14 if dtype == F16 else -60, most - of_keys, queries).round())
    number = (1 << 24) - 1 - np.exp2(rng.uniform(0, 23.9, keys)).astype(np.int64)
    size = np.exp2(of_keys - 24.0 - ramp * (np.arange(keys) // 48))
    q, k, v = (rng.standard_normal((1, 1, n, d)) for n in (queries, keys, keys))
    q[..., 3:] = k[..., 3:] = 0
    q[..., :3] = rng.permutation(np.where(np.arange(queries) % 2, 1, -1) * sizes)[:, None]
    k[..., :3] = (number[:, None] & [0xFF0000, 0xFF00, 0xFF]) * size[:, None]
    return tuple(each.astype(dtype) for each in (q, k, v))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("ramp", [0, 3, 12])
@pytest.mark.parametrize("scale", [1.0, 0.18, 2.9])
@pytest.mark.parametrize("shape", ["queries", "heads", "few heads"])
def test_scores_of_all_sizes(shape, scale, ramp, dtype, name):
    most = 30 if dtype == F16 else 127 if scale == 1.0 else 126
    q, k, v = spread(30 if shape == "few heads" else 127, dtype, ramp, most)
    options = dict(OPTIONS[name])
    if shape != "queries":  # that share keys
        q = q.swapaxes(1, 2)
        options |= {"sinks": options["sinks"].repeat(q.shape[1])} if "sinks" in options else {}
    out, lse = weft.attention(q, k, v, scale=scale, return_lse=True, **options)
    options.pop("splits", None)
    wanted = expected(q, k, v, scale=scale, **options)
    largest = np.abs(v.astype(float)).max()
    assert np.abs(out.astype(float) - wanted.out).max() < 2 * ml_dtypes.finfo(dtype).eps * largest
    assert np.allclose(lse, wanted.lse, rtol=2**-22, atol=1e-4)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("heads", [False, True])
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_blocks_are_added_up_relative_to_their_rounded_bases(dtype, splits, heads):
    """All scores are equal, but those of the block that comes last are larger by 7.5, to base 2. The others'
    shares, about 2^-7.5, are wrong if differences of rounded bases are ignored. The last two rows are where
    factors become powers of two.
    """
    rng, rows, keys = np.random.default_rng(4), 64, 300
    whole, ulp = rng.integers(1 << 23, 1 << 24, rows), np.exp2(rng.integers(-8, 3, rows))
    sign, step = np.where(np.arange(rows) % 2, -1, 1), np.full(rows, 8.0)
    whole[-2:], ulp[-2:], step[-2:] = [(1 << 24) - 1, 1 << 24], 16, 16
    q, k, v = (np.zeros((1, 1, n, 64)) for n in (rows, keys, keys))
    q[0, 0, :, :3] = (whole[:, None] & [~0xFFFF, 0xFF00, 0xFF]) * (sign * ulp)[:, None] / 2.0**13
    q[0, 0, :, 3], k[..., :3], k[..., :128, 3], v[:, :, 128:] = step, 2.0**13, 1, 100
    q, k, v = ((q.swapaxes(1, 2) if heads else q).astype(dtype), k.astype(dtype), v.astype(dtype))
    out, lse = weft.attention(q, k, v, scale=0.65, return_lse=True, splits=splits)
    wanted = expected(q, k, v, scale=0.65)
    assert 0.5 < wanted.out.max() < 1
    assert np.abs(out.astype(float) - wanted.out).max() < 0.02
    assert np.allclose(lse, wanted.lse, rtol=2**-22, atol=1e-4)


@pytest.mark.slow
@pytest.mark.each_value(1)
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


@pytest.mark.slow
def test_large_caps():
    q, k, v = near(70, BF16, 2.0**22)
    out = weft.attention(q, k, v, scale=1.0, softcap=2.0**126)  # scores become 0, to f32
    assert np.isfinite(out.astype(float)).all()
    q, k, v = equal(70, 2.0**60)
    out, lse = weft.attention(q, k, v, scale=1.0, softcap=2.0**126, return_lse=True)
    assert np.abs(out.astype(float) - v.astype(float).mean(2)).max() < 1e-3 and np.isfinite(lse).all()


@pytest.mark.each_value(1)
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


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (90, 20)}], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("d", [64, 128])
def test_fp8_of_all_sizes(d, sign, options):
    """Scores of 128 to 255 times 2^-8 to 2^112, in the heads."""
    rng, heads = np.random.default_rng(5), 16
    q, k, v = (np.zeros((1, heads, n, d)) for n in (20, 300, 300))
    q[..., :2], k[..., 0], k[..., 1] = sign, 16 * rng.integers(8, 16, 300), rng.integers(0, 16, 300)
    v[:] = rng.standard_normal(v.shape)
    q, k, v = (each.astype(E4M3) for each in (q, k, v))
    sizes = np.exp2(np.linspace(-8, 112, heads)).astype(np.float32)
    scales = {"q_scale": sizes, "k_scale": np.ones_like(sizes), "v_scale": np.ones_like(sizes)}
    out, lse = weft.attention(q, k, v, scale=1.0, **scales, return_lse=True, **options)
    wanted = expected(q.astype(float) * sizes[:, None, None], k, v, scale=1.0, **options)
    error = np.abs(out.astype(float) - wanted.out).max((0, 2, 3)) / np.abs(v.astype(float)).max()
    assert error.max() < 2e-2 and error[sizes > 1].max() < 5e-3
    assert np.allclose(lse, wanted.lse, rtol=2**-22, atol=1e-2)
