"""Products of f64, by `mma.sync` on all chips that have it."""

import re

import numpy as np
import pytest

import weft
import weft.language as w

CHIPS = ["sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a"]


def grid(d, M=64, N=64):
    return w.ceil_div(d.rows, M), w.ceil_div(d.columns, N)


@w.kernel(grid=grid)
def plain(a: w.In["m k", w.f64], b: w.In["n k", w.f64], d: w.Out["m n", w.f64], *, M=64, N=64, K=16):
    row, column = w.cta(0) * M, w.cta(1) * N
    sums = w.zeros((M, N), w.f64)
    for k in w.range(0, a.columns, K):
        sums = w.gemm(w.load(a[row, k], (M, K)), w.load(b[column, k], (N, K)).T, sums)
    w.store(sums, d[row, column])


@w.kernel(grid=grid)
def by_warps(a: w.In["m k", w.f64], b: w.In["n k", w.f64], d: w.Out["m n", w.f64], *, M=128, N=48, K=16):
    ring = w.ring(2, takers=M // 64, a=(M, K, w.f64), b=(N, K, w.f64))
    row, column = w.cta(0) * M, w.cta(1) * N
    with w.role(warpgroups=M // 64) as me:
        sums = w.zeros((64, N), w.f64)
        for _ in w.range(0, a.columns, K):
            with ring.take() as stage:
                sums = w.warp_gemm(stage.a.rows(64 * me, 64), stage.b.T, sums)
        w.store(sums, d[row + 64 * me, column])
    with w.role(), w.one_thread():
        for k in w.range(0, a.columns, K):
            ring.fill(a=a[row, k], b=b[column, k])


@w.kernel(grid=grid)
def in_flight(a: w.In["m k", w.f64], b: w.In["n k", w.f64], d: w.Out["m n", w.f64], *, M=64, N=48, K=16):
    """The code of products that may be pending, with one of f16 beside those of f64."""
    ring = w.ring(2, a=(M, K, w.f64), b=(N, K, w.f64))
    ones, row, column = w.shared(64, 64, w.f16), w.cta(0) * M, w.cta(1) * N
    with w.role():
        w.store(w.full((64, 64), 1.0, w.f16), ones)
        w.fence()
        w.barrier()
        stage, others = ring.take(), w.gemm(ones, ones)
        sums = w.gemm(stage.a, stage.b.T)
        for _ in w.range(K, a.columns, K):
            earlier, stage = stage, ring.take()
            sums = w.gemm(stage.a, stage.b.T, sums)
            sums = w.wait(sums, pending=1)
            earlier.release()
        sums, others = w.wait(sums, others)
        stage.release()
        w.store(sums + w.sum(others, axis=1).to(w.f64), d[row, column])
    with w.role(), w.one_thread():
        for k in w.range(0, a.columns, K):
            ring.fill(a=a[row, k], b=b[column, k])


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("kernel", "k"), [(plain, 16), (by_warps, 4), (by_warps, 8), (in_flight, 16)])
def test_products_are_exact_to_the_last_bits(kernel, k, arch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 72)) for rows in (100, 136))
    d, wanted = np.full((100, 136), np.nan), a @ b.T + 64 * 64 * (kernel is in_flight)
    assert not kernel.emulate(a, b, d, K=k, arch=arch).findings
    assert np.abs(d - wanted).max() < 72 * 2**-50 * np.abs(wanted).max()
    shapes = set(re.findall(r"mma\.sync\.aligned\.(\w+)\.row\.col\.f64", kernel.compile(K=k, arch=arch).ptx))
    by_sm_90 = {"m16n8k4"} if kernel is plain else {f"m16n8k{k}"}
    assert shapes == ({"m8n8k4"} if arch in ("sm_80", "sm_89") else by_sm_90)


def test_operands_are_transposed():
    @w.kernel
    def kernel(a: w.In["k m", w.f64], b: w.In["k n", w.f64], d: w.Out["m n", w.f64]):
        left, right = w.shared(64, 64, w.f64), w.shared(64, 32, w.f64)
        with w.role():
            w.store(w.load(a[0, 0], (64, 64)), left)
            w.store(w.load(b[0, 0], (64, 32)), right)
            w.barrier()
            w.store(w.warp_gemm(left.T, right), d[0, 0])

    a, b = (np.random.default_rng(0).standard_normal((64, n)) for n in (64, 32))
    for arch in ("sm_80", "sm_90a"):
        d = np.zeros((64, 32))
        assert not kernel.emulate(a, b, d, arch=arch).findings
        assert np.allclose(d, a.T @ b, atol=1e-12)


@pytest.mark.parametrize(
    ("arch", "operand", "sums", "message"),
    [
        ("sm_75", w.f64, w.f64, "products of w.f64 and w.f64 by mma.sync need sm_80 or later, got sm_75"),
        ("sm_90a", w.f64, w.f32, "sums of this product must be 64 x 64 w.f64"),
        ("sm_90a", w.f32, w.f64, "sums of this product must be 64 x 64 w.f32"),
    ],
)
def test_mistakes(arch, operand, sums, message):
    @w.kernel
    def kernel(d: w.Out["m n", sums]):
        x = w.shared(64, 16, operand)
        with w.role():
            w.store(w.gemm(x, x.T, w.zeros((64, 64), sums)), d[0, 0])

    with pytest.raises(weft.WeftError, match=re.escape(message)):
        kernel.compile(arch=arch)
