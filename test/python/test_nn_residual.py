"""Layers that add a residual, beside the layers and PyTorch's sum."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from nn_cases import BF16, DEVICE, F16, F32, F64, close, numbers  # noqa: E402

import weft  # noqa: E402
from weft.errors import WeftError  # noqa: E402
from weft.nn import gated_product  # noqa: E402


@pytest.fixture
def added(monkeypatch):
    """The residuals that kernels add, one for each product that has one."""
    found = []

    def watched(module):
        matmul = module.matmul

        def run(*given, epilogue=None, **options):
            if epilogue is not None and epilogue.residual is not None:
                found.append(epilogue.residual)
            return matmul(*given, epilogue=epilogue, **options)

        monkeypatch.setattr(module, "matmul", run)

    for name in ("weft.nn.linear", "weft.nn.gated_product"):
        watched(sys.modules[name])  # `weft.nn.linear` itself is the function
    return found


def gradients(call, layer, *inputs):
    inputs = [each.clone().requires_grad_() for each in inputs]
    found = call(*inputs)
    (found * numbers(*found.shape, seed=7).to(found.dtype)).sum().backward()
    grads = [*(each.grad for each in inputs), *(each.grad for each in layer.parameters())]
    for each in layer.parameters():
        each.grad = None
    return [found.detach(), *grads]


def compare(layer, *inputs):
    found = gradients(layer, layer, *inputs)
    wanted = gradients(lambda x, residual: layer(x) + residual, layer, *inputs)
    for one, two in zip(found, wanted, strict=True):
        assert one.dtype == two.dtype
        close(one, two)


@pytest.mark.parametrize("shape", [(24,), (16, 24), (2, 3, 24)], ids=str)
def test_a_linear_layer_adds_a_residual(shape, added):
    layer = weft.nn.Linear(24, 40, True, DEVICE, BF16)
    compare(layer, numbers(*shape), numbers(*shape[:-1], 40, seed=1))
    assert len(added) == 1
    with torch.no_grad():
        x, residual = numbers(*shape), numbers(*shape[:-1], 40, seed=1)
        close(layer(x, residual), layer(x) + residual)
    assert len(added) == 2


def test_the_kernel_rounds_once(added):
    layer = weft.nn.Linear(24, 40, False, DEVICE, BF16)
    x, residual = numbers(16, 24), numbers(16, 40, seed=1)
    found = layer(x, residual=residual)
    exact = x.double() @ layer.weight.double().mT + residual.double()
    assert torch.allclose(found.double(), exact, rtol=2**-8, atol=1e-6)


def test_only_the_residual_has_a_gradient(added):
    layer = weft.nn.Linear(24, 40, True, DEVICE, BF16).requires_grad_(False)
    residual = numbers(16, 40).requires_grad_()
    layer(numbers(16, 24), residual).sum().backward()
    assert torch.equal(residual.grad, torch.ones_like(residual)) and len(added) == 1


def test_rows_of_residuals_lie_anywhere(added):
    layer = weft.nn.Linear(24, 40, True, DEVICE, BF16)
    wide = numbers(4, 8, 81, seed=1)
    for residual in (wide[..., 41:], wide[..., 1::2], numbers(8, 4, 40).transpose(0, 1)):
        compare(layer, numbers(4, 8, 24), residual)
    with torch.no_grad():
        close(layer(numbers(4, 8, 24), wide[..., 1::2]), layer(numbers(4, 8, 24)) + wide[..., 1::2])
    assert len(added) == 4


@pytest.mark.parametrize("other", ["type", "broadcast", "activation", "fp8", "f32"])
def test_pytorch_adds_what_the_kernel_does_not(other, added):
    options = {"activation": "relu"} if other == "activation" else {}
    options |= {"fp8": "tensorwise"} if other == "fp8" else {}
    dtype = F32 if other == "f32" else BF16
    layer = weft.nn.Linear(32, 48, True, DEVICE, dtype, **options)
    residual = numbers(1 if other == "broadcast" else 16, 48, dtype=F32 if other == "type" else dtype)
    compare(layer, numbers(16, 32, dtype=dtype), residual)
    assert layer(numbers(0, 32, dtype=dtype), numbers(0, 48, dtype=dtype)).shape == (0, 48)
    assert added == []


def test_autocast(added):
    layer = weft.nn.Linear(24, 40, True, DEVICE, F32)
    with torch.autocast(DEVICE, BF16):
        compare(layer, numbers(16, 24, dtype=F32), numbers(16, 40))
        assert len(added) == 1
        found = layer(numbers(16, 24, dtype=F32), numbers(16, 40, dtype=F32))
    assert found.dtype == F32 and len(added) == 1  # as a sum of bf16 and f32


def test_gradients_of_gradients(added):
    layer = weft.nn.Linear(16, 24, True, DEVICE, F64)
    x, residual = numbers(8, 16, dtype=F64).requires_grad_(), numbers(8, 24, dtype=F64).requires_grad_()

    def second(call):
        first = torch.autograd.grad(call().pow(3).sum(), [x, residual], create_graph=True)
        return torch.autograd.grad(sum(each.pow(2).sum() for each in first), [x, residual, layer.weight])

    for one, two in zip(second(lambda: layer(x, residual)), second(lambda: layer(x) + residual), strict=True):
        assert torch.allclose(one, two, rtol=1e-9)
    assert len(added) >= 1


def test_transforms():
    layer = weft.nn.Linear(16, 24, True, DEVICE, F16)
    x, residual = numbers(3, 8, 16, dtype=F16), numbers(3, 8, 24, dtype=F16)
    close(torch.func.vmap(layer)(x, residual), layer(x) + residual)
    close(torch.func.vmap(lambda r: layer(x[0], r))(residual), layer(x[0]) + residual)
    found = torch.func.grad(lambda r: layer(x, r).float().square().sum())(residual)
    close(found, 2 * (layer(x) + residual))


@pytest.mark.parametrize("together", [True, False])
def test_a_gated_mlp_adds_a_residual(together, added, monkeypatch):
    if together:  # the gradient of the gate and that of down by one kernel
        monkeypatch.setattr(gated_product, "_has_kernel", lambda device: True)
        monkeypatch.setattr(gated_product, "fits_memory", lambda weight, z: True)
    layer = weft.nn.GatedMLP(32, 48, True, DEVICE, BF16)
    compare(layer, numbers(2, 8, 32), numbers(2, 8, 32, seed=1))
    assert len(added) == 1
    compare(layer, numbers(2, 8, 32), numbers(8, 32, seed=1))  # by PyTorch
    layer.down = torch.nn.Linear(48, 32, True, DEVICE, BF16)  # as adapters may replace it
    compare(layer, numbers(2, 8, 32), numbers(2, 8, 32, seed=1))
    assert len(added) == 1


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(backend):
    torch._dynamo.reset()
    mlp = weft.nn.GatedMLP(32, 48, True, DEVICE, BF16)
    compiled = torch.compile(lambda x, residual: mlp(x, residual), backend=backend, fullgraph=True)
    inputs = numbers(16, 32), numbers(16, 32, seed=1)
    with torch._inductor.config.patch(force_disable_caches=True):
        found = gradients(compiled, mlp, *inputs)
    for one, two in zip(found, gradients(mlp, mlp, *inputs), strict=True):
        close(one, two)
    torch._dynamo.reset()


def test_traced_by_fx():
    class Leafless(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return False

    class Added(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = weft.nn.Linear(16, 24, True, DEVICE, BF16)

        def forward(self, x, residual):
            return self.layer(x, residual=residual)

    model = Added()
    traced = torch.fx.GraphModule(model, Leafless().trace(model))
    x, residual = numbers(8, 16), numbers(8, 24)
    assert torch.equal(traced(x, residual), model(x, residual))


@pytest.mark.parametrize("residual", [1.0, "x", [1]], ids=str)
def test_other_residuals_are_refused(residual):
    for layer in (weft.nn.Linear(32, 32, dtype=BF16), weft.nn.GatedMLP(32, 48, dtype=BF16)):
        with pytest.raises(WeftError, match="residual must be a tensor of PyTorch"):
            layer(numbers(8, 32).cpu(), residual)
