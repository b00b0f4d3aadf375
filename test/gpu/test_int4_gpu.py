"""Products with 4-bit weights on the GPU."""

import ml_dtypes
import numpy as np
import pytest
from gpu_marks import SM_90A, with_marks

from weft.int4.kernels.few_rows import few_rows
from weft.int4.kernels.many_rows import many_rows
from weft.int4.tiles import FEW_ROWS
from weft.int4.weights import Int4Weights

BF16, F16 = ml_dtypes.bfloat16, np.float16


@with_marks(SM_90A)
@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("group, asymmetric", [(128, True), (64, True), (32, False), (0, False)])
@pytest.mark.parametrize(
    "m, n, k, meta",
    [
        (1, 128, 128, {"BM": 8}),
        (3, 136, 320, {"BM": 8}),
        (3, 200, 1032, {"BM": 8, "splits": 2}),
        (16, 1000, 4096, {"BM": 16, "splits": 4, "stages": 6}),
        (5, 1000, 4096, {"BM": 8, "halves": 1, "parts": 4}),
        (16, 1000, 4096, {"BM": 16, "halves": 1, "rows": 32, "parts": 4, "stages": 4}),
        (32, 1000, 4096, {"BM": 32, "splits": 2, "stages": 3}),
        (70, 264, 520, {"BM": 128}),
        (150, 1000, 4096, {"BM": 64, "splits": 4}),
        (700, 520, 1096, {"BM": 256}),
    ],
)
def test_products_of_both_kernels(m, n, k, meta, group, asymmetric, dtype):
    rng = np.random.default_rng(0)
    q = rng.integers(0, 16, (n, k), dtype=np.uint8)
    groups = -(-k // group) if group else 1
    scales = (rng.random((n, groups)) / 8 + 0.02).astype(dtype)
    zeros = rng.integers(0, 16, (n, groups)) if asymmetric else None
    weights = Int4Weights.pack(q, scales, zeros, group=group)
    x, bias, y = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), n, (m, n)))
    of_weights = weights.packed, weights.scales, weights.scales if zeros is None else weights.zeros
    options = {"group": weights.group, "asymmetric": asymmetric, "biased": True}
    product = few_rows if m <= FEW_ROWS else many_rows
    product(x, *of_weights, bias, y, **options, **meta, on="gpu")
    exact = weights.dequantize().astype(float)
    expected = x.astype(float) @ exact.T + bias.astype(float)
    largest = np.abs(x.astype(float)) @ np.abs(exact).T + 1
    rounded = (
        0 if m > FEW_ROWS or group == 32 else ml_dtypes.finfo(dtype).eps / 2
    )  # sums are scaled, not weights
    bound = ml_dtypes.finfo(dtype).eps * np.abs(expected) + (2**-14 + rounded) * largest
    assert (np.abs(y.astype(float) - expected) <= bound).all()


@with_marks(SM_90A)
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_layer_of_pytorch(symmetric):
    torch = pytest.importorskip("torch")
    from weft.nn import Int4Linear

    torch.manual_seed(0)
    layer = torch.nn.Linear(1032, 1000, dtype=torch.bfloat16, device="cuda")
    made = Int4Linear.of(layer, symmetric=symmetric)
    assert (made.weights.dequantize() - layer.weight).abs().max() < 0.01
    for rows in (1, 7, 16, 40, 130, 700):
        x = torch.randn(rows, 1032, dtype=torch.bfloat16, device="cuda")
        exact = x.double() @ made.weights.dequantize().double().t() + made.bias.double()
        for _ in range(3):  # by a plan, from the second call on
            assert (made(x).double() - exact).abs().max() <= 2**-7 * exact.abs().max()
    x, graph = torch.randn(4, 1032, dtype=torch.bfloat16, device="cuda"), torch.cuda.CUDAGraph()
    y = made(x)
    with torch.cuda.graph(graph):
        captured = made(made(x)[:, :1000].new_zeros(4, 1032) + x)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, y)


@with_marks(SM_90A)
def test_sums_are_the_same_in_every_call():
    torch = pytest.importorskip("torch")
    from weft import matmul_int4, quantize_int4

    weights = quantize_int4(torch.randn(1024, 4096, device="cuda").bfloat16())
    x = torch.randn(16, 4096, dtype=torch.bfloat16, device="cuda")
    first = matmul_int4(x, weights)
    assert all(torch.equal(matmul_int4(x, weights), first) for _ in range(20))
