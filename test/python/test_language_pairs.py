"""Products of pairs of CTAs in `weft.language`: right in the emulator, without findings."""

import runpy
from pathlib import Path

import language_mistakes
import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w
from weft import reference

ROOT = Path(__file__).resolve().parents[2]
gemm_pairs = runpy.run_path(str(ROOT / "examples" / "language_pair_gemm.py"))["gemm_pairs"]
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize(
    ("shape", "meta"),
    [
        ((3, 8, 8), {"BN": 32, "part": 32}),
        ((300, 264, 136), {"stages": 2}),
        ((700, 136, 200), {"BN": 128, "BK": 32}),
        pytest.param((257, 1000, 264), {}, marks=pytest.mark.slow),
    ],
)
def test_example(shape, meta):
    m, n, k = shape
    a, b = (np.random.default_rng(0).standard_normal((rows, k)).astype(BF16) for rows in (m, n))
    d = np.zeros((m, n), BF16)
    report = gemm_pairs.emulate(a, b, d, **meta)
    assert not report.findings, report
    want = a.astype(float) @ b.astype(float).T
    assert np.abs(d.astype(float) - want).max() <= 2**-8 * np.abs(want).max()
    assert gemm_pairs.compile(**meta).resources.spill_stores == 0


@w.kernel(
    grid=lambda a, b, N, ctas: (w.ceil_div(a.rows, 128 * ctas) * ctas, w.ceil_div(b.rows, N)),
    cluster=lambda ctas: ctas,
    pairs=lambda ctas: ctas > 1,
    arch="sm_100a",
)
def one_tile(a: w.In["m k"], b: w.In["n k"], c: w.In["m n"], d: w.Out["m n", w.f32], *, ctas=2, N=64, K=128):
    """One source for single CTAs and pairs: a cluster of one or more pairs computes a tile each."""
    group = min(ctas, 2)
    inputs = w.ring(2, a=(128, K, a.dtype), b=(N // group, K, b.dtype))
    added = w.ring(1, c=(128, N, c.dtype))  # that lanes read, each CTA its own
    sums = w.ring(1, memory="tensor", d=(128, N, w.f32))
    row, column = w.cta(0) * 128, w.cta(1) * N
    half = w.cluster_rank() % group * (N // group)
    with w.role():
        with w.one_thread():
            added.fill(c=c[row, column])
            for k in w.range(0, a.columns, K):
                inputs.fill(a=a[row, k], b=b[column + half, k])
        with w.one_thread(warp=2, pair=ctas > 1), sums.write() as tile:
            for k in w.range(0, a.columns, K):
                with inputs.take() as stage:
                    w.gemm(stage.a, stage.b.T, tile.d, accumulate=k > 0)
    with w.role(), added.take() as x, sums.take() as tile:
        w.store(w.load(tile.d) + w.load(x.c), d[row, column])


@pytest.mark.parametrize(
    ("ctas", "shape", "dtype", "meta"),
    [
        (1, (130, 72, 136), BF16, {"K": 64}),
        (2, (130, 72, 136), BF16, {"K": 64}),
        (4, (600, 40, 272), E4M3, {"N": 32}),
        pytest.param(2, (257, 264, 96), np.float32, {"N": 128, "K": 32}, marks=pytest.mark.slow),
    ],
)
def test_clusters_of_pairs(ctas, shape, dtype, meta):
    (m, n, k), rng = shape, np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(dtype) for rows in (m, n))
    c, d = rng.standard_normal((m, n)).astype(np.float32), np.zeros((m, n), np.float32)
    assert not one_tile.emulate(a, b, c, d, ctas=ctas, **meta).findings
    want = a.astype(float) @ b.astype(float).T + c
    bound = 2**-9 if dtype == np.float32 else 1e-5
    assert np.abs(d - want).max() <= bound * np.abs(want).max()


@w.kernel(
    grid=lambda a, b, N: (2 * w.ceil_div(a.rows, 256), w.ceil_div(b.rows, N)),
    cluster=2,
    pairs=True,
    arch="sm_100a",
)
def nvfp4(
    a: w.In["m k", w.e2m1],
    b: w.In["n k", w.e2m1],
    a_scales: w.In[w.Scales[w.e4m3], "m k"],
    b_scales: w.In[w.Scales[w.e4m3], "n k"],
    d: w.Out["m n", w.f32],
    *,
    N=128,
    K=128,
):
    """Each CTA has the scales of its own rows, and of all columns."""
    scales = w.block_scales(128, K, w.e4m3), w.block_scales(w.ceil_div(N, 128) * 128, K, w.e4m3)
    ring = w.ring(2, a=(128, K, a.dtype), b=(N // 2, K, b.dtype), a_scales=scales[0], b_scales=scales[1])
    sums = w.ring(1, memory="tensor", d=(128, N, w.f32))
    row, column = w.cta(0) * 128, w.cta(1) * N
    half = w.cluster_rank() * (N // 2)
    with w.role(), sums.take() as tile:
        for n in range(0, N, 64):
            w.store(w.load(tile.d.columns(n, 64)), d[row, column + n])
    with w.role():
        with w.one_thread():
            for k in w.range(0, a.columns, K):
                of_a, of_b = a_scales[row, k], b_scales[column, k]
                ring.fill(a=a[row, k], b=b[column + half, k], a_scales=of_a, b_scales=of_b)
        with w.one_thread(warp=1, pair=True), sums.write() as tile:
            for k in w.range(0, a.columns, K):
                with ring.take() as x:
                    of_b = x.b_scales.rows(column % 128, N)
                    w.gemm(x.a, x.b.T, tile.d, accumulate=k > 0, a_scales=x.a_scales, b_scales=of_b)


@pytest.mark.parametrize(
    ("shape", "meta"),
    [((130, 72, 352), {}), pytest.param((300, 400, 608), {"N": 192, "K": 256}, marks=pytest.mark.slow)],
)
def test_block_scales(shape, meta):
    (m, n, k), rng = shape, np.random.default_rng(0)
    a, b = (reference.quantize(rng.standard_normal((rows, k)), "nvfp4") for rows in (m, n))
    d = np.zeros((m, n), np.float32)
    assert not nvfp4.emulate(a.packed, b.packed, a.tiled_scales, b.tiled_scales, d, **meta).findings
    want = a.values @ b.values.T / (a.factor * b.factor)
    assert np.abs(d - want).max() <= 1e-6 * np.abs(want).max()


def test_few_more_instructions_than_the_kernel_of_matmul():
    """Warp instructions for a K block, of all roles, with the same tile and stages."""
    schedule = "{block = array<i64: 256, 256, 64>, stages = 6, accumulators = 2, cta_group = 2}"
    source = (ROOT / "examples" / "matmul.mlir").read_text("utf-8").replace("f32", "bf16")
    source = source.replace("transpose_b = true", f"schedule = {schedule}, transpose_b = true")
    kernels, counts = (gemm_pairs, weft.compile(source, arch="sm_100a")), []
    for kernel in kernels:
        executed = []
        for k in (512, 1024):
            a, b, d = (np.zeros((256, columns), BF16) for columns in (k, k, 256))
            executed.append(kernel.emulate(a, b, d, sanitize=False).instructions)
        counts.append(executed[1] - executed[0])
    assert counts[0] <= 1.1 * counts[1], counts


@w.kernel(
    grid=lambda a, b: (2 * w.ceil_div(a.rows, 256), w.ceil_div(b.rows, 64)),
    cluster=2,
    pairs=True,
    arch="sm_100a",
)
def launched(a: w.In["m k", w.f16], b: w.In["n k", w.f16], d: w.Out["m n", w.f32]):
    queue, ring = w.tile_queue(), w.ring(3, a=(128, 64, a.dtype), b=(32, 64, b.dtype))
    sums, half = w.ring(2, memory="tensor", d=(128, 64, w.f32)), w.cluster_rank() * 32
    with w.role():
        with w.one_thread():
            for x, y in queue:
                for k in w.range(0, a.columns, 64):
                    ring.fill(a=a[x * 128, k], b=b[y * 64 + half, k])
        with w.one_thread(warp=1, pair=True):
            for _ in queue:
                with sums.write() as tile:
                    for k in w.range(0, a.columns, 64):
                        with ring.take() as stage:
                            w.gemm(stage.a, stage.b.T, tile.d, accumulate=k > 0)
    with w.role():
        for x, y in queue:
            with sums.take() as tile:
                w.store(w.load(tile.d), d[x * 128, y * 64])


def test_pairs_take_tiles_of_pairs_that_have_not_started():
    a, b = (np.random.default_rng(0).standard_normal((rows, 136)).astype(np.float16) for rows in (700, 300))
    d = np.zeros((700, 300), np.float32)
    assert not launched.emulate(a, b, d).findings
    assert np.allclose(d, a.astype(float) @ b.astype(float).T, atol=1e-3)


@w.kernel(
    grid=lambda d, N: (2 * w.ceil_div(d.rows, 256), w.ceil_div(d.columns, N)),
    cluster=2,
    pairs=True,
    persistent=lambda persists: 1 if persists else None,
)
def plain(
    a: w.In["m k"], b: w.In["n k"], d: w.Out["m n", w.f32], *, N=64, K=64, persists=False, b_by_rows=False
):
    for x, y in w.tiles():
        sums, column = w.zeros((128, N)), (x if b_by_rows else y) * N
        for k in w.range(0, a.columns, K):
            sums = w.gemm(w.load(a[x * 128, k], (128, K)), w.load(b[column, k], (N, K)).T, sums)
        w.store(sums, d[x * 128, y * N])


@pytest.mark.parametrize("arch", ["sm_100a", pytest.param("sm_90a", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("shape", "dtype", "meta"),
    [
        ((3, 200, 8), BF16, {}),
        ((300, 200, 264), BF16, {"N": 128}),
        ((700, 520, 144), E4M3, {"N": 256, "K": 128, "persists": True}),
    ],
)
def test_plain_loops(shape, dtype, meta, arch):
    (m, n, k), rng = shape, np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(dtype) for rows in (m, n))
    d = np.zeros((m, n), np.float32)
    assert not plain.emulate(a, b, d, arch=arch, **meta).findings
    want = a.astype(float) @ b.astype(float).T
    assert np.abs(d - want).max() <= 1e-5 * np.abs(want).max()
    ptx = plain.compile(a, b, d, arch=arch, **meta).ptx
    assert ("tcgen05.mma.cta_group::2" in ptx) == (arch == "sm_100a")


def test_pairs_of_plain_loops_have_one_b():
    with pytest.raises(weft.WeftError, match=r"b must be the same tile in both CTAs of a pair, .* by w\.cta"):
        plain.compile("bf16", "bf16", b_by_rows=True, arch="sm_100a")


MISTAKES = r"""
# a product of a pair is started by its leader: write it in 'with w.one_thread\(pair=True\):'
ring, sums = w.ring(2, a=(128, 64, w.bf16)), w.tensor_memory(128, 128, w.f32)
with w.role(), w.one_thread(), ring.take() as x:
    w.gemm(x.a, x.a.rows(0, 64).T, sums)

# products of pairs are started by one thread
ring = w.ring(2, a=(128, 64, w.bf16))
with w.role(), ring.take() as x:
    w.gemm(x.a, x.a.T)

# sums of this product must be as w.tensor_memory\(128, 256, w.f32\) makes them, or b have 64 columns
ring, sums = w.ring(2, a=(128, 64, w.bf16)), w.tensor_memory(128, 128, w.f32)
with w.role(), w.one_thread(pair=True), ring.take() as x:
    w.gemm(x.a, x.a.T, sums)

# b_scales must have 8 scales of each of the 256 columns of b.* use w.block_scales\(256, 128, w.e4m3\)
ring = w.ring(2, a=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
sums = w.tensor_memory(128, 256, w.f32)
with w.role(), w.one_thread(pair=True), ring.take() as x:
    w.gemm(x.a, x.a.T, sums, a_scales=x.s, b_scales=x.s)

# stages with 'a', which CTAs share, must be taken by whole warpgroups: leave it out of shared=
ring, sums = w.ring(2, shared={"a": 0}, a=(128, 64, w.bf16)), w.tensor_memory(128, 128, w.f32)
with w.role(), w.one_thread(pair=True):
    ring.take()
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES, ""))
def test_mistakes_are_explained(code, message, tmp_path):
    options = {"cluster": 2, "pairs": True, "grid": 2}
    language_mistakes.refused(tmp_path, code, message, {"w": w}, "sm_100a", **options)


def test_kernels_that_cannot_have_pairs(tmp_path):
    code = "def kernel():\n    with w.role(), w.one_thread(pair=True):\n        pass"
    for options, arch, message in (
        ({"pairs": True}, "sm_100a", "pairs need a cluster of whole pairs .* got none: write cluster=2"),
        ({"pairs": True, "cluster": 3}, "sm_100a", "got a cluster of 3: write cluster=2"),
        ({"pairs": True, "cluster": 2}, "sm_90a", "pairs need sm_100f, .* got sm_90a: leave out pair=True"),
        ({"pairs": 2, "cluster": 2}, "sm_100a", "pairs must be True or False, got 2"),
        ({"cluster": 2}, "sm_100a", r"pair is for a kernel of pairs: write @w.kernel\(cluster=2, pairs=True"),
    ):
        with pytest.raises(weft.WeftError, match=message):
            language_mistakes.compiled(tmp_path, code, {"w": w}, arch, **options)
