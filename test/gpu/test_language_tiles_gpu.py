"""Kernels of `weft.language` whose layouts and pipelines passes decide, on the GPU as in the emulator."""

import runpy
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from gpu_marks import GPU, with_marks

ROOT = Path(__file__).resolve().parents[2]
BF16 = ml_dtypes.bfloat16


gemm = runpy.run_path(str(ROOT / "examples" / "language_plain_gemm.py"))["gemm"]
attention = runpy.run_path(str(ROOT / "examples" / "language_plain_attention.py"))["attention"]
sys.path.insert(0, str(ROOT / "test" / "python"))
import test_language_assigned_layouts as tiles  # noqa: E402


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32).astype(BF16)


@with_marks(GPU)
@pytest.mark.parametrize("tile", [(128, 256, 3), (128, 128, 4), (64, 64, 2), (256, 128, 4)])
@pytest.mark.parametrize("m, n, k", [(1000, 776, 1304), (1, 8, 8), (129, 264, 4096)])
def test_a_plain_product(tile, m, n, k):
    a, b, d = random(m, k), random(k, n), np.zeros((m, n), BF16)
    gemm(a, b, d, M=tile[0], N=tile[1], stages=tile[2], on="gpu")
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    assert np.allclose(d.astype(np.float32), wanted, rtol=2**-7, atol=0.05)


@with_marks(GPU)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("m, n, D, tile", [(300, 500, 128, (128, 128)), (65, 1000, 64, (64, 64))])
def test_plain_attention(m, n, D, tile, causal):
    q, k, v = random(3, m, D), random(3, n, D), random(3, n, D)
    o = np.zeros_like(q)
    attention(q, k, v, o, D**-0.5, D=D, M=tile[0], N=tile[1], causal=causal, on="gpu")
    s = D**-0.5 * q.astype(float) @ k.astype(float).transpose(0, 2, 1)
    if causal:
        s = np.where(np.arange(n) <= np.arange(m)[:, None] + n - m, s, -np.inf)
    p = np.exp(s - s.max(2, keepdims=True))
    wanted = p / p.sum(2, keepdims=True) @ v.astype(float)
    assert np.allclose(o.astype(float), wanted, rtol=2**-6, atol=0.01)


@with_marks(GPU)
@pytest.mark.parametrize("rows, columns, m, n", [(4, 512, 1001, 500), (8, 256, 3000, 256), (32, 64, 77, 57)])
def test_softmax_of_tiles(rows, columns, m, n):
    x = random(m, n)
    y = np.zeros_like(x)
    tiles.rows_kernel(tiles.w.bf16, rows, columns)(x, y, on="gpu")
    assert np.allclose(y.astype(float), tiles.softmax_of(x.astype(float)), rtol=2**-7, atol=1e-4)


@with_marks(GPU)
def test_norms_in_parts_and_beside_vectors():
    x, y = random(1003, 300).astype(np.float32), np.zeros((1003, 300), np.float32)
    tiles.in_parts(x, y, on="gpu")
    assert np.allclose(y, tiles.softmax_of(x.astype(float)), atol=1e-6)
    x, weight, bias, scale = random(999, 120), random(120), random(120), random(999)
    bias, scale = bias.astype(np.float32), scale.astype(np.float32)
    y, means = np.zeros_like(x), np.zeros(999, np.float32)
    tiles.layernorm(x, weight, bias, scale, y, means, on="gpu")
    wide = x.astype(float)
    mean = wide.mean(1, keepdims=True)
    wanted = (wide - mean) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight.astype(float) + bias
    assert np.allclose(means, mean[:, 0], atol=1e-5)
    assert np.allclose(y.astype(float), wanted * scale[:, None], rtol=1e-2, atol=2e-2)
