"""The gradient of a gated MLP by one kernel, beside today's kernels and f64, in the emulator."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from nn_cases import BF16, F16, close, numbers  # noqa: E402

import weft  # noqa: E402
from weft.launch import runtime  # noqa: E402
from weft.nn import gated_product  # noqa: E402
from weft.torch.autograd import activated  # noqa: E402


@pytest.fixture
def calls(monkeypatch):
    """The arguments of each call of the kernel, which runs in the emulator meanwhile."""
    found = []
    run = gated_product.gradient_of_gated
    monkeypatch.setattr(gated_product, "_has_kernel", lambda device: True)
    monkeypatch.setattr(gated_product, "fits_memory", lambda weight, z: True)
    monkeypatch.setattr(gated_product, "gradient_of_gated", lambda *given: found.append(given) or run(*given))
    return found


@pytest.mark.parametrize(
    "m, n, k, dtype, activation",
    [
        (136, 520, 72, BF16, "silu"),
        pytest.param(200, 264, 136, F16, "gelu", marks=pytest.mark.slow),
        pytest.param(130, 520, 264, BF16, "gelu_tanh", marks=pytest.mark.slow),
        pytest.param(2100, 264, 64, BF16, "relu", marks=pytest.mark.slow),  # several groups of rows
    ],
)
def test_the_gradient_is_that_of_f64(m, n, k, dtype, activation):
    of_y, z = numbers(m, k, dtype=dtype), numbers(m, 2 * n, dtype=dtype, seed=1)
    weight = numbers(k, n, dtype=dtype, seed=2) / k**0.5
    found = gated_product.gradient_of_gated(of_y, weight, z, activation)
    exact = z.double().requires_grad_()
    gate, up = exact.chunk(2, -1)
    (activated(activation, gate) * up).backward(of_y.double() @ weight.double())
    error = (found.double() - exact.grad).abs()
    # Once rounded, and sums of f32 of products that cancel.
    assert (error <= 2.0 ** (-8 if dtype == BF16 else -11) * exact.grad.abs() + 1e-4).all()


def test_the_operator_is_two_kernels_where_the_one_does_not_apply():
    of_y, weight, z = numbers(16, 24), numbers(24, 16, seed=1), numbers(16, 32, seed=2)
    found = torch.ops.weft.gated_product_backward(of_y, weight, z, "silu")
    assert torch.equal(found, torch.ops.weft.gated_backward(weft.matmul(of_y, weight), z, "silu"))


def layer(bias=True, **options):
    torch.manual_seed(0)
    return weft.nn.GatedMLP(32, 48, bias, dtype=BF16, **options)


def gradients(model, x, weights):
    model.zero_grad()
    x = x.clone().requires_grad_()
    (model(x) * weights).sum().backward()
    return [x.grad, *(each.grad for each in model.parameters())]


def test_a_gated_mlp_has_the_gradients_of_two_kernels(calls):
    model, x, weights = layer(), numbers(2, 8, 32), numbers(2, 8, 32, seed=1)
    found, count = gradients(model, x, weights), len(calls)
    hook = model.down.register_forward_hook(lambda *_: None)  # with which the layers are apart
    wanted = gradients(model, x, weights)
    assert (count, len(calls)) == (1, 1)
    for one, two in zip(found, wanted, strict=True):
        close(one, two)
    assert all(torch.equal(one, two) for one, two in zip(found[-2:], wanted[-2:], strict=True))  # of down
    hook.remove()
    model.down.weight.requires_grad_(False)
    model.down.bias.requires_grad_(False)
    assert gradients(model, x, weights)[-2:] == [None, None] and len(calls) == 2


@pytest.mark.slow
def test_gradients_of_gradients_of_a_gated_product(calls):
    def second(model, x):
        (first,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, *model.parameters()])

    model, x = layer(), numbers(8, 32).requires_grad_()
    found = second(model, x)
    model.down.register_forward_hook(lambda *_: None)
    for one, two in zip(found, second(model, x), strict=True):
        close(one, two)
    assert len(calls) == 1  # the last gradient, which has none itself


@pytest.mark.slow
def test_gradients_of_weights_are_accumulated(calls):
    model, x = layer(fuse_wgrad_accumulation=True), numbers(8, 32)
    model(x).sum().backward()
    first = model.down.weight.grad
    once = first.clone()
    model(x).sum().backward()
    assert model.down.weight.grad is first and len(calls) == 2
    close(first, 2 * once)


@pytest.mark.slow
def test_other_gradients_of_results(calls):
    """Rows of a result's gradient that aren't contiguous, or don't begin at 16 bytes."""
    model, x = layer(False), numbers(8, 32)
    z = model.gate_up(x).detach().requires_grad_()
    for of_y in (numbers(32, 8).mT, numbers(8, 33)[:, 1:], numbers(1, 32).expand(8, 32)):
        y = gated_product.product(z, model.down, "silu")
        (found,) = torch.autograd.grad(y, z, of_y)
        (wanted,) = torch.autograd.grad(model.down(weft.nn.gated(z)), z, of_y)
        close(found, wanted)
    assert len(calls) == 3


def test_layers_that_others_observe_are_apart(calls):
    z = numbers(8, 96).requires_grad_()
    down = layer().down
    assert gated_product.applies(z, down)
    for made in (
        layer(fp8="tensorwise").down,
        torch.nn.Linear(48, 32, dtype=BF16),
        weft.nn.Linear(48, 32, dtype=BF16, activation="relu"),
        weft.nn.Linear(48, 36, dtype=BF16),
        weft.nn.Linear(48, 32),
    ):
        assert not gated_product.applies(z, made)
    with torch.autocast("cpu", BF16):
        assert not gated_product.applies(z, down)
    with torch.no_grad():
        assert not gated_product.applies(z, down)
    assert not gated_product.applies(z.detach(), down)
    assert not gated_product.applies(z[:0], down) and not gated_product.applies(z[0], down)
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert not gated_product.applies(z, down)
    hook.remove()
    down.forward = lambda x: x
    assert not gated_product.applies(z, down)


@pytest.mark.parametrize(
    "device, chip, rows, wanted",
    [
        ("cuda", "sm_90a", 512, True),
        ("cuda", "sm_90a", 384, False),
        ("cuda", "sm_100a", 512, False),
        ("cpu", "sm_90a", 512, False),
    ],
)
def test_small_products_and_other_devices_are_apart(device, chip, rows, wanted, monkeypatch):
    gpu = SimpleNamespace(chip=chip, multiprocessors=2)
    monkeypatch.setattr(gated_product.runtime, "device", lambda _: gpu)
    monkeypatch.setattr(gated_product.runtime, "available", lambda: None)
    z = SimpleNamespace(device=torch.device(device, 0), shape=(rows, 1024))
    z.numel = lambda: rows * 1024
    weight = torch.empty(16, 512)
    assert gated_product.fits_memory(weight, z) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_programs_have_the_kernel(backend, calls):
    torch._dynamo.reset()
    model, x, weights = layer(), numbers(2, 8, 32), numbers(2, 8, 32, seed=1)
    wanted = gradients(model, x, weights)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch._inductor.config.patch(force_disable_caches=True):
        found = gradients(compiled, x, weights)
    assert len(calls) == 2
    for one, two in zip(found, wanted, strict=True):
        close(one, two)
    torch._dynamo.reset()


def test_layers_without_memory_are_apart():
    model = weft.nn.GatedMLP(32, 48, device="meta", dtype=BF16)
    assert model(torch.empty(2, 32, device="meta", dtype=BF16)).shape == (2, 32)
    assert not gated_product._has_kernel(torch.device("cuda", 0)) or runtime.available() is None
