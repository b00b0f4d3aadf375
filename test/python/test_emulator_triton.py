"""Kernels that Triton compiled from test/emulator/triton without a GPU, against NumPy."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from emulator_corpus import chips, facts, module

from weft import emulator

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
E5M2, E2M1 = ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn


def compiled(*names):
    """Every (name, chip) of kernels that Triton compiled."""
    made = [(name, chip) for name in names for chip in chips(f"triton.{name}")]
    assert made
    return pytest.mark.parametrize(("name", "chip"), made)


def launch(name, chip, args, grid=1, rules=(), **options):
    """Runs a kernel with the two scratch pointers that Triton adds. It must have findings of these rules."""
    file = f"triton.{name}"
    what = facts(file, chip)
    grid = (grid,) if isinstance(grid, int) else grid
    clusters = what.get("clusters", 1)
    blocks = int(np.prod(grid)) * clusters
    scratch = np.zeros(max(what["scratch"] * blocks, 1) + 128, np.uint8)
    report = module(file, chip).launch(
        what["name"],
        grid=(grid[0] * clusters, *grid[1:]),
        block=32 * what["num_warps"],
        args=[*args, scratch, 0],
        shared_bytes=what["shared"],
        cluster=clusters,
        **options,
    )
    assert {found.rule for found in report.findings} == set(rules), report.findings
    return report


def rng():
    return np.random.default_rng(11)


@pytest.mark.each_value(1)
@compiled("softmax")
def test_softmax(name, chip):
    x = rng().standard_normal((3, 200)).astype(np.float32)
    y = np.zeros_like(x)
    launch(name, chip, [x, y, 200, 200], 3)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@compiled("layer_norm")
def test_layer_norm(name, chip):
    x = rng().standard_normal((2, 160)).astype(np.float16)
    w = rng().standard_normal(160).astype(np.float32)
    y = np.zeros_like(x)
    launch(name, chip, [x, w, y, 160], 2)
    v = x.astype(np.float64)
    centred = v - v.mean(axis=1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(y, want, rtol=2e-3, atol=1e-3)


@pytest.mark.each_value(3)
@compiled("attention")
def test_attention(name, chip):
    q, k, v = (rng().standard_normal((3, 64, 64)) * 0.5).astype(np.float16)
    o = np.zeros_like(q)
    launch(name, chip, [q, k, v, o, 0.125, 64])
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    p = np.exp2(q @ k.T * 0.125)
    np.testing.assert_allclose(o, p / p.sum(axis=1, keepdims=True) @ v, rtol=2e-2, atol=2e-3)


@compiled("atomics")
def test_atomics(name, chip):
    x = rng().integers(0, 1000, 200, np.int32)
    out, bins, lock = np.zeros(2, np.float32), np.zeros(16, np.int32), np.zeros(2, np.int32)
    launch(name, chip, [x, out, bins, lock, 200], 2)
    assert out.tolist() == [x.sum(), x.max()]
    np.testing.assert_array_equal(bins, np.bincount(x & 15, minlength=16))
    assert lock.tolist() == [1, 5]


@compiled("half_atomics")
def test_half_atomics(name, chip):
    x = rng().integers(-4, 4, 256).astype(np.float16)
    out = np.zeros(64, np.float16)
    launch(name, chip, [x, out, 256], 2)
    np.testing.assert_array_equal(out, x.reshape(4, 64).sum(axis=0))


@compiled("scans")
def test_scans_and_sorts(name, chip):
    x = rng().integers(-500, 500, 256, np.int32)
    y, z, w = np.zeros_like(x), np.zeros_like(x), np.zeros(256, np.float32)
    launch(name, chip, [x, y, z, w])
    np.testing.assert_array_equal(y, np.cumsum(x))
    np.testing.assert_array_equal(z, np.sort(x))
    factors = (x & 3) * 0.25 + 0.75
    np.testing.assert_allclose(w, np.cumprod(factors[::-1])[::-1], rtol=1e-4)


@compiled("statistics")
def test_histogram_and_argmax(name, chip):
    x = rng().integers(-500, 500, 256, np.int32)
    h, best, index = np.zeros(32, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(name, chip, [x, h, best, index])
    np.testing.assert_array_equal(h, np.bincount(x & 31, minlength=32))
    assert best[0] == x.max() and index[0] == x.argmax()


@compiled("gathers")
def test_gather(name, chip):
    x = rng().standard_normal((32, 16)).astype(np.float32)
    at = rng().integers(0, 32, (32, 16), np.int32)
    y = np.zeros_like(x)
    launch(name, chip, [x, at, y])
    np.testing.assert_array_equal(y, np.take_along_axis(x, at, axis=0))


@compiled("casts")
def test_casts(name, chip):
    x = (rng().standard_normal(256) * 10.0 ** rng().integers(-3, 3, 256)).astype(np.float32)
    outs = [np.zeros(256, kind) for kind in (np.float16, BF16, E4M3, E5M2, np.float32)]
    launch(name, chip, [x, *outs])
    e4m3 = np.clip(x, -448, 448).astype(E4M3)
    e5m2 = np.clip(x, -57344, 57344).astype(E5M2)
    want = [
        x.astype(np.float16),
        x.astype(BF16),
        e4m3,
        e5m2,
        e5m2.astype(np.float32) + e4m3.astype(np.float32),
    ]
    for got, right in zip(outs, want, strict=True):
        np.testing.assert_array_equal(got.astype(np.float32), right.astype(np.float32))


@compiled("functions")
def test_functions(name, chip):
    import math

    x = rng().standard_normal(256).astype(np.float32)
    y = np.zeros_like(x)
    launch(name, chip, [x, y], 2)
    v = x.astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-v))
    erf = np.array([math.erf(t) for t in v])
    want = (
        np.sin(v) + np.exp(v) * np.log(np.abs(v) + 1) + np.sqrt(np.abs(v)) / (1 + sigmoid) + erf + np.floor(v)
    )
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=2e-6)


def philox(seed, counter):
    """Philox 4x32-10, the first of its four words, as Salmon and others describe it."""
    c, k = [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0]


@compiled("seeded")
def test_random_numbers(name, chip):
    y, z = np.zeros(128, np.float32), np.zeros(128, np.int32)
    launch(name, chip, [1234, y, z])
    assert z.view(np.uint32).tolist() == [philox(1234, i) for i in range(128)]
    assert ((y >= 0) & (y < 1)).all() and np.unique(y).size > 100


@compiled("transpose")
def test_transpose(name, chip):
    x = rng().standard_normal((64, 64)).astype(np.float16)
    y = np.zeros_like(x)
    launch(name, chip, [x, y, 64], (2, 2))
    np.testing.assert_array_equal(y, x.T)


KINDS = {
    "matmul_f16": (np.float16, np.float16),
    "matmul_bf16": (BF16, np.float32),
    "matmul_tf32": (np.float32, np.float32),
    "matmul_i8": (np.int8, np.int32),
    "matmul_fp8": (E4M3, np.float32),
}


@pytest.mark.each_value(3)
@pytest.mark.sampled(6)
@compiled(*KINDS)
def test_products(name, chip):
    kind, out = KINDS[name]
    m, n, k = 80, 64, 64
    a, b = (rng().integers(-4, 5, s).astype(kind) for s in ((m, k), (k, n)))
    c = np.zeros((m, n), out)
    launch(name, chip, [a, b, c, m, n, k, k, n, n], (2, 1))
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ b.astype(np.float64)).astype(out))


@compiled("matmul_large")
def test_large_tiles(name, chip):
    a, b = (rng().integers(-2, 3, s).astype(np.float16) for s in ((128, 128), (128, 64)))
    c = np.zeros((128, 64), np.float16)
    launch(name, chip, [a, b, c, 128, 64, 128, 128, 64, 64])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


MAP_TYPES = {2: "FLOAT16", 1: "UINT8"}


def descriptor(array, meta):
    """The map, shape and strides into which Triton expands a descriptor argument."""
    size, shape = array.itemsize, array.shape
    strides = [int(np.prod(shape[at + 1 :])) for at in range(len(shape))]
    box = meta["block_size"][::-1]
    swizzle, width = (("none", 0), ("32B", 32), ("64B", 64), ("128B", 128))[meta["swizzle"]]
    made = emulator.TensorMap.tiled(
        array,
        dtype=MAP_TYPES[size],
        dims=shape[::-1],
        strides_bytes=tuple(stride * size for stride in strides[-2::-1]),
        box=(min(box[0], width // size) if width else box[0], *box[1:]),
        element_strides=(1,) * len(shape),
        interleave="none",
        swizzle=swizzle,
    )
    return [made, *shape, *strides]


@pytest.mark.each_value(2)
@pytest.mark.sampled(2)
@compiled("descriptor_matmul", "descriptor_matmul_ws")
def test_products_through_descriptors(name, chip):
    k = 128
    a, b = (rng().integers(-2, 3, s).astype(np.float16) for s in ((128, k), (128, k)))
    c = np.zeros((128, 128), np.float16)
    metas = facts(f"triton.{name}", chip)["tensordesc_meta"]
    parts = [descriptor(t, meta) for t, meta in zip((a, b, c), metas, strict=True)]
    launch(name, chip, [*itertools.chain(*parts), k], (1, 2))
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.sampled(6)
@compiled("persistent_matmul", "persistent_matmul_ws")
def test_persistent_products(name, chip):
    m, n, k = 256, 128, 128
    a, b = (rng().integers(-2, 3, s).astype(np.float16) for s in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float16)
    launch(name, chip, [a, b, c, m, n, k], 2)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


SCALED = {
    "scaled_mxfp8": (E4M3, None, 32),
    "scaled_mxfp4": (E2M1, None, 32),
    "scaled_nvfp4": (E2M1, E4M3, 16),
}


@pytest.mark.sampled(6)
@compiled(*SCALED)
def test_scaled_products(name, chip):
    kind, scale, group = SCALED[name]
    m, n, k = 128, 64, 256
    values = [rng().integers(-3, 4, s).astype(np.float32) for s in ((m, k), (n, k))]
    powers = [rng().integers(-2, 3, (s, k // group)) for s in (m, n)]
    codes = [v.astype(kind).view(np.uint8) for v in values]
    packed = kind is E2M1
    codes = [c[:, 0::2] | c[:, 1::2] << 4 if packed else c.view(E4M3) for c in codes]
    if scale is None:
        scales = [(p + 127).astype(np.uint8) for p in powers]
    else:
        scales = [(2.0**p).astype(E4M3) for p in powers]
    c = np.zeros((m, n), np.float32)
    launch(name, chip, [codes[0], scales[0], codes[1], scales[1], c, k])
    wide = [v * np.repeat(2.0**p, group, axis=1) for v, p in zip(values, powers, strict=True)]
    np.testing.assert_allclose(c, wide[0] @ wide[1].T, rtol=1e-6)
