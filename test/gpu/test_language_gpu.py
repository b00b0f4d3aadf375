"""Kernels of `weft.language` on the GPU."""

import importlib.util
import math
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from gpu_marks import GPU, SM_90A, with_marks

ROOT = Path(__file__).resolve().parents[2]
BF16, F16 = ml_dtypes.bfloat16, np.float16


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made
    spec.loader.exec_module(made)
    return made


kernels = module(ROOT / "test" / "python" / "language_kernels.py")
stages = module(ROOT / "test" / "python" / "test_language_rings.py")
gemm_gelu = module(ROOT / "examples" / "language_gemm.py").gemm_gelu
softmax = module(ROOT / "examples" / "language_softmax.py")
gated = module(ROOT / "examples" / "language_gated_mlp.py").gated
example = module(ROOT / "examples" / "attention.py")


@with_marks(GPU)
@pytest.mark.parametrize("n", [1, 255, 100000])
def test_a_vector_is_added(n):
    x, y = np.random.default_rng(0).standard_normal((2, n)).astype(np.float32)
    z = np.zeros(n, np.float32)
    kernels.add(x, y, z, on="gpu")
    assert np.array_equal(z, x + y)


@with_marks(GPU)
def test_loops_and_branches():
    x, z, i = np.linspace(0.5, 1.5, 32, dtype=np.float32), np.zeros(32, np.float32), np.arange(32)
    kernels.control(5, x, z, on="gpu")
    counted = np.where(i > 3, 3, np.where(i == 3, 50, 0))
    expected = np.where((i < 16) | (i == 20), 1, -1) * x.astype(float) ** 10 + counted + 6
    assert np.allclose(z, expected, rtol=1e-5)


@with_marks(GPU)
@pytest.mark.parametrize("shape", [(1000, 520), (70, 3001), (300, 16384), (20, 65536)])
def test_softmax_of_rows(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(BF16)
    y = np.zeros_like(x)
    softmax.softmax(x, y, N=softmax.block(shape[1]), on="gpu")
    e = np.exp(x.astype(float) - x.astype(float).max(1, keepdims=True))
    assert np.allclose(y.astype(float), e / e.sum(1, keepdims=True), rtol=2**-7, atol=1e-6)


@with_marks(SM_90A)
@pytest.mark.parametrize("m, n, k", [(1, 8, 8), (257, 520, 200), (1024, 1536, 2048)])
def test_gemm_and_gelu(m, n, k):
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal((rows, k)) / 8).astype(BF16) for rows in (m, n))
    bias = rng.standard_normal(n).astype(np.float32)
    d = np.zeros((m, n), BF16)
    gemm_gelu(a, b, bias, d, on="gpu")
    x = a.astype(float) @ b.astype(float).T + bias
    expected = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    assert np.allclose(d.astype(float), expected, rtol=2**-8, atol=1e-3)


@with_marks(SM_90A)
@pytest.mark.parametrize("m, n, k", [(1, 8, 8), (700, 520, 200), (3000, 1536, 2048)])
def test_a_gated_layer(m, n, k):
    rng = np.random.default_rng(0)
    x, gate, up = ((rng.standard_normal((rows, k)) / k**0.25).astype(BF16) for rows in (m, n, n))
    y = np.zeros((m, n), BF16)
    gated(x, gate, up, y, on="gpu")
    a, b = (x.astype(float) @ each.astype(float).T for each in (gate, up))
    assert np.allclose(y.astype(float), a / (1 + np.exp(-a)) * b, rtol=2**-8, atol=1e-3)


@with_marks(SM_90A)
@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
@pytest.mark.parametrize("rows, m, n, k", [(64, 1, 8, 8), (64, 257, 520, 200), (128, 1024, 1536, 2048)])
def test_products_with_a_bias(arch, rows, m, n, k):
    """By the name without a letter, warps multiply by mma.sync."""
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal((each, k)) / 8).astype(BF16) for each in (m, n))
    bias, d = rng.standard_normal(n).astype(np.float32), np.zeros((m, n), BF16)
    kernel = kernels.with_bias.compile(a, b, bias, d, arch=arch, R=rows)
    assert ("wgmma" in kernel.ptx) == (arch == "sm_90a")
    kernel(a, b, bias, d, on="gpu")
    expected = a.astype(float) @ b.astype(float).T + bias
    assert np.allclose(d.astype(float), expected, rtol=2**-8, atol=1e-3)


@with_marks(SM_90A)
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)])
@pytest.mark.parametrize("m, n, k", [(100, 72, 264), (1000, 1024, 2048)])
def test_tiles_that_ctas_copy_for_each_other(cluster, m, n, k):
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal((each, k)) / 8).astype(BF16) for each in (m, n))
    d = np.zeros((m, n), BF16)
    kernels.shared_copies(a, b, d, cluster=cluster, on="gpu")
    assert np.allclose(d.astype(float), a.astype(float) @ b.astype(float).T, rtol=2**-8, atol=1e-3)


@with_marks(SM_90A)
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("m, n", [(1, 1), (113, 203), (128, 217), (799, 3), (1024, 1023), (1023, 1024)])
def test_attention_forward(m, n, d, dtype, causal, lazy):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((3, rows, d)).astype(dtype) for rows in (m, n, n))
    o, lse = np.zeros_like(q), np.zeros((3, m), np.float32)
    example.attention(
        q, k, v, o, lse, d**-0.5, causal=causal, on="gpu", lazy=lazy, **example.best(d, m, causal)
    )
    expected, sums = example.reference(q, k, v, d**-0.5, causal)
    bound = 4 * ml_dtypes.finfo(dtype).eps * max(np.abs(expected).max(), 1)
    assert np.abs(o.astype(float) - expected).max() < bound
    assert np.allclose(lse, sums, atol=1e-3)


@with_marks(SM_90A)
def test_the_emulator_agrees_with_the_gpu():
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 256, 64)).astype(F16)
    results = []
    for run in ("gpu", "emulator"):
        o, lse = np.zeros_like(q), np.zeros((2, 256), np.float32)
        example.attention(q, k, v, o, lse, 0.125, causal=True, on=run)
        results.append((o.astype(float), lse))
    (o, lse), (emulated, emulated_lse) = results
    assert np.abs(o - emulated).max() <= 2**-10
    assert np.abs(lse - emulated_lse).max() <= 1e-5


@with_marks(SM_90A)
def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    x, y = torch.randn(2, 5000, device="cuda")
    z = torch.zeros(5000, device="cuda")
    kernels.add(x, y, z)
    torch.cuda.synchronize()
    assert torch.equal(z, x + y)


@with_marks(SM_90A)
def test_calls_follow_the_current_stream_of_pytorch():
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):  # the first call prepares the launch
            x, y = torch.randn(2, 5000, device="cuda")
            z = torch.zeros(5000, device="cuda")
            kernels.add(x, y, z)
            assert torch.equal(z, x + y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.add(x, y, z)
        kernels.add(z, y, z)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(z, x + 2 * y, atol=1e-6)


@with_marks(SM_90A)
def test_a_kernel_as_an_operator_of_pytorch():
    torch = pytest.importorskip("torch")
    import weft.language as w

    operator = w.torch_op("weft_language_gpu::add", kernels.add)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def twice(x, y):
        z = torch.empty_like(x)
        operator(x, y, z)
        return z * 2

    x, y = torch.randn(2, 5000, device="cuda")
    assert torch.equal(twice(x, y), 2 * (x + y))


@with_marks(SM_90A)
@pytest.mark.parametrize("one_thread", [False, True])
def test_a_queue_gives_each_tile_once(one_thread):
    x, count = np.random.default_rng(0).standard_normal((6400, 320)).astype(np.float32), np.zeros(1, np.int32)
    for _ in range(3):
        y, times = np.zeros_like(x), np.zeros(1001, np.int32)
        kernels.doubled(x, y, times, count, one_thread=one_thread, on="gpu")
        assert np.array_equal(y, 2 * x) and count[0] == 0
        assert np.all(times[:-1] == 1) and times[-1] == 1000


@with_marks(SM_90A)
def test_tma_overwrites_no_stage_that_loads_still_read():
    x = np.random.default_rng(0).standard_normal((264, 2048, 64), np.float32).astype(BF16)
    noise, out = np.ones((264, 4096, 32), np.float32), np.zeros((264, 2048), np.float32)
    for _ in range(4):
        stages.sums_beside_stores(x, noise, out, on="gpu")
        np.testing.assert_allclose(out, x.astype(np.float32).sum(2), rtol=1e-4, atol=1e-4)
