"""Programs of several kernels on a GPU: the emulator's results, streams of PyTorch and CUDA graphs."""

import re
from pathlib import Path

import linalg_graphs
import ml_dtypes
import numpy as np
import pytest
from gpu_marks import GPU

import weft

pytestmark = GPU
EXPORTED = Path(__file__).parents[1] / "passes" / "Inputs" / "torch"


def wide(array):
    return np.asarray(array).astype(np.float64)


@pytest.mark.parametrize("seed", range(12))
def test_random_functions_compute_what_numpy_and_the_emulator_do(seed):
    random = np.random.default_rng(seed)
    steps = [linalg_graphs.STEPS[i] for i in random.integers(0, len(linalg_graphs.STEPS), 6)]
    graph = linalg_graphs.graph(lambda n: int(random.integers(0, n)), steps, [1, 17, 300][seed % 3])
    program = weft.from_linalg(graph.text())
    results, emulated = program(*graph.given, on="gpu"), program(*graph.given, on="emulator")
    for result, other, value in zip(results, emulated, graph.values[-1:-3:-1], strict=True):
        limit = 1 + np.abs(value.array).max()
        assert np.abs(wide(result) - value.array).max() <= 4e-3 * limit
        assert np.abs(wide(result) - wide(other)).max() <= 1e-3 * limit


def test_a_softmax_between_products_is_what_the_emulator_computes():
    program = weft.from_linalg(EXPORTED / "softmax.mlir")
    a, b = (
        np.random.default_rng(0).standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((48, 32), (32, 40))
    )
    assert np.abs(wide(program(a, b, on="gpu")) - wide(program(a, b, on="emulator"))).max() <= 4e-3


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def program():
    text = (EXPORTED / "softmax.mlir").read_text("utf-8")
    return weft.from_linalg(re.sub(r"(?<!\d)48(?!\d)", "256", text))


def inputs(torch, seed):
    torch.manual_seed(seed)
    sizes = (256, 32), (32, 40)
    return [torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in sizes]


def wanted(torch, a, b):
    return torch.softmax(a.float() @ b.float(), -1)


def test_a_captured_call_replays_with_new_contents(torch, program):
    a, b = inputs(torch, 0)
    graph = program.capture(a, b)
    for seed in (1, 2):
        for target, source in zip((a, b), inputs(torch, seed), strict=True):
            target.copy_(source)
        result = graph.replay()
        assert torch.allclose(result.float(), wanted(torch, a, b), atol=1e-2)


EXP = """
func.func @exp(%x: tensor<64x96xf32>) -> tensor<64x96xf32> {
  %e = tensor.empty() : tensor<64x96xf32>
  %r = linalg.exp ins(%x : tensor<64x96xf32>) outs(%e : tensor<64x96xf32>) -> tensor<64x96xf32>
  return %r : tensor<64x96xf32>
}"""


def test_copies_of_transposed_arguments_are_captured(torch):
    x = torch.randn(96, 64, device="cuda").t()
    graph = weft.from_linalg(EXP).capture(x)
    for _ in range(2):
        x.normal_()
        assert torch.allclose(graph.replay(), x.exp(), rtol=1e-5)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    result = graph.replay(stream)
    del graph
    stream.synchronize()
    assert torch.allclose(result, x.exp(), rtol=1e-5)


def test_a_module_is_captured_with_its_parameters(torch):
    pytest.importorskip("torch_mlir.fx")
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.Linear(128, 32)
    model = torch.nn.Sequential(*layers).cuda().to(torch.bfloat16)
    x = torch.randn(256, 64, device="cuda", dtype=torch.bfloat16)
    graph = weft.from_torch(model, x).capture(x)
    for _ in range(2):
        with torch.no_grad():
            x.normal_()
            model[2].bias.add_(1)
            assert torch.allclose(graph.replay(), model(x), rtol=0.03, atol=0.03)


def test_pytorchs_graphs_capture_calls(torch, program):
    a, b = inputs(torch, 0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        program(a, b)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = program(a, b)
    for seed in (1, 2):
        for target, source in zip((a, b), inputs(torch, seed), strict=True):
            target.copy_(source)
        graph.replay()
        assert torch.allclose(result.float(), wanted(torch, a, b), atol=1e-2)


def test_memory_between_kernels_is_kept_for_another_stream(torch, program):
    a, b = inputs(torch, 0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    results = []
    for _ in range(20):
        results.append(program(a, b, stream=side))
        torch.cuda._sleep(1_000_000)
        torch.full((256, 40), float("nan"), device="cuda")  # takes memory that the call has freed
    side.synchronize()
    for result in results:
        assert torch.allclose(result.float(), wanted(torch, a, b), atol=1e-2)
