"""Operators and layers of PyTorch where only a GPU shows whether they work: CUDA graphs and streams."""

import pytest
from gpu_marks import GPU

torch = pytest.importorskip("torch")

import weft  # noqa: E402
import weft.nn  # noqa: E402
from weft.launch import runtime  # noqa: E402
from weft.nn import gated_product  # noqa: E402

pytestmark = GPU


def layer(hidden=512):
    torch.manual_seed(0)
    return weft.nn.GatedMLP(256, hidden, True, "cuda", torch.bfloat16)


def gradients(model, x):
    x.grad = None
    model.zero_grad()
    model(x).square().sum().backward()
    return [x.grad.clone(), *(each.grad.clone() for each in model.parameters())]


@pytest.mark.parametrize("rows, hidden", [(128, 512), (2048, 9000)])
def test_a_graph_of_forward_and_backward_replays(rows, hidden):  # with two kernels for the gate, and with one
    model = layer(hidden)
    x = torch.randn(rows, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    other = torch.randn_like(x)
    wanted = gradients(model, other.clone().requires_grad_())
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            gradients(model, x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        found = gradients(model, x)
    with torch.no_grad():
        x.copy_(other)
    graph.replay()
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("rows, hidden", [(4096, 8704), (4000, 8712)])
def test_the_gradient_of_a_large_gated_mlp_is_one_kernel(rows, hidden, activation, monkeypatch):
    calls, run = [], gated_product.gradient_of_gated
    monkeypatch.setattr(gated_product, "gradient_of_gated", lambda *given: calls.append(1) or run(*given))
    model = layer(hidden)
    model.activation = activation
    x = torch.randn(rows, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    found = gradients(model, x)
    assert len(calls) == (runtime.device(0).chip in gated_product.CHIPS)
    model.down.register_forward_hook(lambda *_: None)  # with which the layers are apart
    for one, two in zip(found, gradients(model, x), strict=True):
        assert (one.float() - two.float()).norm() <= 0.01 * two.float().norm()


@pytest.mark.parametrize("fp8", [None, "tensorwise"])
def test_graphs_of_compiled_programs(fp8):
    torch._dynamo.reset()
    model = weft.nn.convert(layer(), fp8=fp8) if fp8 is None else layer()
    if fp8 is not None:
        model.gate_up.fp8 = model.down.fp8 = fp8
    compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(128, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        torch.compiler.cudagraph_mark_step_begin()
        found = gradients(compiled, x)
        for ours, theirs in zip(found, gradients(model, x), strict=True):
            assert (ours.float() - theirs.float()).norm() <= 0.02 * theirs.float().norm()


def test_operators_run_on_the_current_stream():
    a = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        b = torch.zeros(2048, 2048, device="cuda", dtype=torch.bfloat16)
        torch.cuda._sleep(20_000_000)
        b.fill_(1)
        d = weft.matmul(a, b)
        d.sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    assert (d[:, 0].float() - a.detach().float().sum(1)).abs().max() < 2
    assert torch.equal(a.grad, torch.full_like(a, 2048))
