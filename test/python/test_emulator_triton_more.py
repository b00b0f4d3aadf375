"""More kernels of Triton: types, scans, descriptors and dots."""

import ml_dtypes
import numpy as np
import pytest
from emulator_corpus import facts
from test_emulator_triton import compiled, descriptor, launch, rng

from weft import emulator

BF16, E2M1, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn


@pytest.mark.sampled(3)
@compiled("exact_ieee", "exact_tf32x3", "exact_bf16x3")
def test_products_of_float32(name, chip):
    a, b = rng().standard_normal((2, 32, 32)).astype(np.float32)
    c = np.zeros((32, 32), np.float32)
    launch(name, chip, [a, b, c])
    error = {"exact_ieee": 2e-6, "exact_tf32x3": 4e-6, "exact_bf16x3": 2e-4}[name]
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=error, atol=10 * error)


@pytest.mark.each_value(3)
@compiled("transposed_matmul")
def test_transposed_operands(name, chip):
    a, b = (rng().integers(-3, 4, s).astype(np.float16) for s in ((128, 64), (64, 128)))
    c = np.zeros((64, 64), np.float32)
    launch(name, chip, [a, b, c, 128])
    want = a.astype(np.float32).T @ b.astype(np.float32).T
    np.testing.assert_array_equal(c, np.maximum(want, 0))


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@compiled("mixed_scaled")
def test_scaled_times_plain(name, chip):
    x = rng().integers(-3, 4, (128, 64)).astype(np.float32)
    codes = x.astype(E2M1).view(np.uint8)
    scale = rng().integers(-2, 3, (128, 2))
    y = rng().integers(-3, 4, (64, 64)).astype(BF16)
    c = np.zeros((128, 64), np.float32)
    launch(name, chip, [codes[:, 0::2] | codes[:, 1::2] << 4, (scale + 127).astype(np.uint8), y, c])
    np.testing.assert_array_equal(c, (x * np.repeat(2.0**scale, 32, axis=1)) @ y.astype(np.float32))


@pytest.mark.sampled(3)
@compiled("matmul_eight_warps", "matmul_two_ctas")
def test_larger_groups(name, chip):
    a, b = (rng().integers(-2, 3, s).astype(np.float16) for s in ((128, 128), (128, 64)))
    c = np.zeros((128, 64), np.float16)
    launch(name, chip, [a, b, c, 128, 64, 128, 128, 64, 64])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@compiled("attention_ws")
def test_specialized_attention(name, chip):
    q, k, v = ((rng().standard_normal((n, 64)) * 0.5).astype(np.float16) for n in (128, 128, 128))
    o = np.zeros_like(q)
    metas = facts(f"triton.{name}", chip)["tensordesc_meta"]
    maps = [part for t, meta in zip((q, k, v, o), metas, strict=True) for part in descriptor(t, meta)]
    launch(name, chip, [*maps, 0.125, 128])
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    p = np.exp2(q @ k.T * 0.125)
    np.testing.assert_allclose(o, p / p.sum(axis=1, keepdims=True) @ v, rtol=2e-2, atol=2e-3)


TILED = {"tiled_mxfp8": (E4M3, None, 32), "tiled_mxfp4": (E2M1, None, 32), "tiled_nvfp4": (E2M1, E4M3, 16)}


@pytest.mark.sampled(3)
@compiled(*TILED)
def test_scales_in_tiles(name, chip):
    kind, scale, group = TILED[name]
    m, n, k = 128, 128, 256
    values = [rng().integers(-3, 4, s).astype(np.float32) for s in ((m, k), (n, k))]
    powers = [rng().integers(-2, 3, (rows, k // group)) for rows in (m, n)]
    codes = [v.astype(kind).view(np.uint8) for v in values]
    if kind is E2M1:
        codes = [c[:, 0::2] | c[:, 1::2] << 4 for c in codes]
    scales = [
        (p + 127).astype(np.uint8) if scale is None else (2.0**p).astype(scale).view(np.uint8) for p in powers
    ]
    # Blocks of 128 rows by 4 scales; row 32 q + r of a block is at r, q.
    tiles = [
        s.reshape(-1, 4, 32, k // group // 4, 4)
        .transpose(0, 3, 2, 1, 4)
        .reshape(1, -1, k // group // 4, 2, 256)
        for s in scales
    ]
    metas = facts(f"triton.{name}", chip)["tensordesc_meta"]
    arrays = (codes[0], np.ascontiguousarray(tiles[0]), codes[1], np.ascontiguousarray(tiles[1]))
    maps = [part for t, meta in zip(arrays, metas, strict=True) for part in descriptor(t, meta)]
    c = np.zeros((m, n), np.float32)
    launch(name, chip, [*maps, c, k])
    wide = [v * np.repeat(2.0**p, group, axis=1) for v, p in zip(values, powers, strict=True)]
    np.testing.assert_allclose(c, wide[0] @ wide[1].T, rtol=1e-6)


@compiled("split_epilogue")
def test_specialized_products_with_a_split_epilogue(name, chip):
    m, n, k = 256, 128, 128
    a, b = (rng().integers(-2, 3, s).astype(np.float16) for s in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float16)
    metas = facts(f"triton.{name}", chip)["tensordesc_meta"]
    maps = [part for t, meta in zip((a, b, c), metas, strict=True) for part in descriptor(t, meta)]
    launch(name, chip, [*maps, m, n, k], 2)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    # TMA overwrites the address of tensor memory that threads have read.
    ignored = ["tcgen05-fence", "tcgen05-in-flight", "mbarrier-init-fence"]
    arguments = [*maps, m, n, k]
    launch(name, chip, arguments, 2, ["missing-proxy-fence"], strict=True, ignore=ignored)


@compiled("batched")
def test_batches_of_products(name, chip):
    a, b = (rng().integers(-3, 4, s).astype(np.float16) for s in ((4, 16, 32), (4, 32, 16)))
    c = np.zeros((4, 16, 16), np.float32)
    launch(name, chip, [a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@compiled("half_sums")
def test_sums_in_float16(name, chip):
    a, b = (rng().integers(-3, 4, s).astype(np.float16) for s in ((64, 64), (64, 64)))
    c = np.zeros((64, 64), np.float16)
    launch(name, chip, [a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@compiled("descriptor_extras")
def test_gathers_and_scatters_of_descriptors(name, chip):
    x = rng().integers(-50, 50, (32, 64)).astype(np.float32)
    y, z = np.zeros_like(x), np.ones_like(x)
    at = rng().permutation(32)[:16].astype(np.int32)
    launch(name, chip, [x, y, z, at])
    want = np.zeros_like(x)
    want[at, :32] = x[at, 32:] + 1
    np.testing.assert_array_equal(y, want)
    total = np.ones_like(x)
    total[:16, 32:] += x[at, 32:]
    np.testing.assert_array_equal(z, total)


@compiled("reduce_descriptor")
def test_reductions_of_descriptors(name, chip):
    x, y = (rng().integers(-50, 50, (32, 32)).astype(np.float16) for _ in range(2))
    want = x + y
    launch(name, chip, [x, y])
    np.testing.assert_array_equal(y, want)


@pytest.mark.sampled(3)
@compiled("custom")
def test_custom_reductions_and_scans(name, chip):
    x = rng().integers(0, 40, (16, 64)).astype(np.float32)
    best, where = np.zeros(16, np.float32), np.zeros(16, np.int32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    launch(name, chip, [x, best, where, y, z])
    np.testing.assert_array_equal(best, x.max(axis=1))
    np.testing.assert_array_equal(where, x.argmax(axis=1))
    np.testing.assert_array_equal(y, np.maximum.accumulate(x, axis=1))
    np.testing.assert_array_equal(z, x[:, ::-1] + x.sum(axis=0))


@compiled("shapes")
def test_joins_and_splits(name, chip):
    x = rng().integers(-3000, 3000, 256, np.int16)
    y = np.zeros(256, np.int16)
    launch(name, chip, [x, y])
    joined = np.stack([x[:128], x[128:]], axis=1).reshape(128, 2)
    np.testing.assert_array_equal(y, np.stack([joined[:, 0] * 2, joined[:, 1] * 3], axis=1).ravel())


@compiled("wide")
def test_wide_types(name, chip):
    x = rng().integers(-(2**62), 2**62, 200)
    x[:4] = [0, 1, -1, 2**40]
    y, z = np.zeros(256, np.int64), np.zeros(256, np.float64)
    launch(name, chip, [x, y, z, 200], 2)

    def one(v):
        square = (v * v + 2**63) % 2**64 - 2**63
        toward = abs(square) // 7 * (-1 if square < 0 else 1)
        rest = abs(v) % 11 * (-1 if v < 0 else 1)
        high = (v % 2**64) ** 2 >> 64
        return (toward + rest + high + 2**63) % 2**64 - 2**63

    assert y[:200].tolist() == [one(v) for v in x.tolist()] and not y[200:].any()
    f = x.astype(np.float64)
    np.testing.assert_allclose(z[:200], np.sqrt(abs(f)) * np.exp(f * 1e-19) / (f * f + 1), rtol=1e-13)


@compiled("bytes_and_halves")
def test_bytes_and_halves(name, chip):
    x = np.arange(-128, 128).astype(np.int8)
    y, z = np.zeros(256, np.uint8), np.zeros(256, BF16)
    launch(name, chip, [x, y, z])
    np.testing.assert_array_equal(y, ((x << 1) ^ (x >> 2)).view(np.uint8))
    half = (x.astype(np.float16) * np.float16(0.5)).astype(np.float32)
    np.testing.assert_array_equal(z, np.where(x > 3, half, -half).astype(BF16))


@compiled("loops")
def test_loops(name, chip):
    x = np.arange(1, 33, dtype=np.int32)
    y = np.zeros_like(x)
    launch(name, chip, [x, y], 32)

    def steps(v):
        return 0 if v == 1 else 1 + steps(v // 2 if v % 2 == 0 else 3 * v + 1)

    assert y.tolist() == [steps(v) for v in x.tolist()]


@pytest.mark.sampled(4)
@compiled("said")
def test_prints_and_assertions(name, chip):
    x = np.arange(32, dtype=np.int32)
    report = launch(name, chip, [x])
    lines = report.printed.splitlines()
    assert len(lines) == 32 and all("v" in line for line in lines)
    assert sorted(int(line.split()[-1]) for line in lines) == x.tolist()
    with pytest.raises(emulator.Fault, match="too large"):
        launch(name, chip, [x * 100])


@compiled("assembly")
def test_inline_assembly(name, chip):
    x = rng().integers(-(2**31), 2**31, 256, np.int32)
    y = np.zeros_like(x)
    launch(name, chip, [x, y])
    u = x.view(np.uint32)
    rotated = u << np.uint32(5) | u >> np.uint32(27)
    mask = np.uint32(0xFF00FF00)
    # 0x6a is c xor (a and b) as a table.
    np.testing.assert_array_equal(y.view(np.uint32), mask ^ (rotated & u))


@compiled("typed_atomics")
def test_atomics_of_all_types(name, chip):
    x = rng().integers(0, 1000, 200, np.int32)
    i, f, d = np.zeros(4, np.int64), np.full(4, 1e9, np.float32), np.zeros(4)
    b = np.zeros(10, np.int32)
    launch(name, chip, [x, i, f, d, b, 200], 2)
    for at in range(4):
        own = x[x % 4 == at]
        assert i[at] == own.sum() == d[at] and f[at] == own.min() and b[at] == np.bitwise_or.reduce(own)
    assert b[8] == 2 and b[9] == 1
