"""What users of PyTorch do with layers: change results in place, copy, save and trace them, and call them in
threads. On a GPU if there is one, otherwise in the emulator.
"""

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

import weft  # noqa: E402
import weft.nn  # noqa: E402
from weft.launch import runtime  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
BF16, F32, F64 = torch.bfloat16, torch.float32, torch.float64


def numbers(*shape, dtype=BF16, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return torch.from_numpy(rng.standard_normal(shape)).to(DEVICE, dtype)


class Quantized(torch.Tensor):
    """A weight of 8 bits, as other packages have it: PyTorch's linear layer takes it, and nothing else."""

    @staticmethod
    def __new__(cls, weight):
        options = {"dtype": weight.dtype, "device": weight.device}
        return torch.Tensor._make_wrapper_subclass(cls, weight.shape, **options)

    def __init__(self, weight):
        self.scale = weight.abs().amax(1, keepdim=True) / 127
        self.integers = (weight / self.scale).round().to(torch.int8)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is functional.linear:
            x, weight, *bias = args
            return functional.linear(x, weight.integers.to(x.dtype) * weight.scale, *bias)
        return super().__torch_function__(function, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(f"{function}")


def linear(activation=None, **options):
    torch.manual_seed(0)
    return weft.nn.Linear(32, 16, True, DEVICE, BF16, activation=activation, **options)


@pytest.mark.parametrize("shape", [(32,), (4, 32), (2, 4, 32)], ids=str)
def test_results_may_be_changed_in_place(shape):
    layer = linear()
    x = numbers(*shape).requires_grad_()
    torch.nn.Sequential(layer, torch.nn.ReLU(inplace=True))(x).sum().backward()
    found, x.grad = x.grad, None
    layer(x).relu().sum().backward()
    assert torch.equal(found, x.grad)


@pytest.mark.parametrize("shape", [(4, 32), (2, 4, 32)], ids=str)
def test_changes_of_what_a_gradient_reads_are_detected(shape):
    layer = linear("relu")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        layer(numbers(*shape)).mul_(2).sum().backward()
    y = layer(numbers(*shape).requires_grad_())
    with torch.no_grad():
        layer.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(0, 1),
        lambda x: x[..., ::2],
        lambda x: x[..., :32],
        lambda x: x[:1].expand(3, 4, 64),
    ],
    ids=["transposed", "every second", "part of rows", "expanded"],
)
def test_inputs_of_any_strides(view):
    layer = weft.nn.Linear(view(torch.empty(3, 4, 64)).shape[-1], 16, True, DEVICE, BF16)
    x = numbers(3, 4, 64).requires_grad_()
    exact = x.detach().double().requires_grad_()
    y = layer(view(x))
    wanted = functional.linear(view(exact), layer.weight.double(), layer.bias.double())
    g = numbers(*y.shape, seed=1)
    y.backward(g)
    wanted.backward(g.double())
    for found, of_exact in ((y, wanted), (x.grad, exact.grad)):
        assert (found.double() - of_exact).abs().max() <= 2e-2 * of_exact.abs().max()


@pytest.mark.parametrize("kind", ["linear", "fp8", "gated", "int4"])
def test_modules_are_copied_pickled_and_loaded(kind):
    def made():
        if kind == "gated":
            return weft.nn.GatedMLP(32, 32, device=DEVICE, dtype=BF16)
        if kind == "int4":
            return weft.nn.Int4Linear.of(torch.nn.Linear(128, 64, device=DEVICE, dtype=BF16))
        return linear("gelu") if kind == "linear" else linear(fp8="rowwise")

    module, other = made(), made()
    x = numbers(16, 128 if kind == "int4" else 32)
    wanted = module(x)
    stored = io.BytesIO()
    torch.save(module, stored)
    stored.seek(0)
    other(x)
    other.load_state_dict(module.state_dict())
    copies = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other]
    copies.append(torch.load(stored, weights_only=False))
    for each in copies:
        assert torch.equal(each(x), wanted)


def test_torch_fx_records_layers_as_calls():
    model = torch.nn.Sequential(linear("silu"), weft.nn.GatedMLP(16, 32, device=DEVICE, dtype=BF16))
    traced = torch.fx.symbolic_trace(model)
    functions = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert functions == [weft.nn.linear, weft.nn.linear, weft.nn.gated, weft.nn.linear]
    x = numbers(4, 32)
    for each in (traced, pickle.loads(pickle.dumps(traced))):
        assert torch.equal(each(x), model(x))


def test_gradients_of_gradients_of_gated():
    z = numbers(4, 64, dtype=F32).requires_grad_()
    exact = z.detach().double().requires_grad_()

    def second(z, gated):
        (first,) = torch.autograd.grad(gated(z).square().sum(), z, create_graph=True)
        return torch.autograd.grad(first.square().sum(), z)[0]

    def gated(z):
        gate, up = z.chunk(2, -1)
        return functional.silu(gate) * up

    wanted = second(exact, gated)
    assert (second(z, weft.nn.gated) - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_gradients_of_gradients_of_fp8_are_refused():
    x = numbers(16, 32).requires_grad_()
    y = linear(fp8="tensorwise")(x).sum()
    with pytest.raises(weft.WeftError, match="gradients of gradients aren't computed with fp8"):
        torch.autograd.grad(y, x, create_graph=True)


def test_wrong_types_are_named_where_gradients_are_recorded():
    for layer in (linear(), linear(fp8="rowwise")):
        with pytest.raises(weft.WeftError, match=r"x must have the type of the weight, torch\.bfloat16, got"):
            layer(numbers(16, 32, dtype=torch.float16))


def test_layers_in_threads():
    layer, x = linear("relu"), numbers(8, 32)

    def gradient(number):
        mine = (x * (number % 3)).requires_grad_()
        return torch.autograd.grad(layer(mine).sum(), mine)[0]

    wanted = [gradient(number) for number in range(3)]
    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(gradient, range(12))):
            assert torch.equal(found, wanted[number % 3])


@pytest.mark.parametrize("options", [{}, {"activation": "relu"}, {"fp8": "tensorwise"}], ids=str)
def test_pytorch_computes_layers_with_weights_of_other_classes(options):
    layer, x = linear(**options), numbers(4, 32)
    layer.weight = torch.nn.Parameter(Quantized(layer.weight.detach()), requires_grad=False)
    wanted = functional.linear(x, layer.weight, layer.bias)
    if "activation" in options:
        wanted = wanted.relu()
    assert "Quantized by PyTorch" in layer.extra_repr()
    for _ in range(2):
        assert torch.equal(layer(x), wanted)
        layer.bias.requires_grad_(False)
    assert torch.equal(layer(x, residual=wanted), wanted + wanted)


@pytest.mark.parametrize("dtype", [BF16, F32, F64], ids=str)
def test_layers_on_the_meta_device(dtype):
    x = torch.empty(3, 32, dtype=dtype, device="meta")
    for activation in (None, "gelu"):
        layer = weft.nn.Linear(32, 16, device="meta", dtype=dtype, activation=activation)
        y = layer(x)
        assert (y.shape, y.dtype, y.is_meta) == ((3, 16), dtype, True)
        y.sum().backward()
        assert layer.weight.grad.is_meta
        with torch.no_grad():
            assert layer(x).is_meta
    assert weft.nn.GatedMLP(32, 16, device="meta", dtype=dtype)(x).shape == (3, 32)


def test_layers_of_f64_have_every_activation():
    layer = weft.nn.Linear(32, 16, dtype=F64, device=DEVICE, activation="gelu")
    x = numbers(4, 32, dtype=F64)
    with torch.no_grad():
        wanted = functional.gelu(functional.linear(x, layer.weight, layer.bias))
        assert torch.allclose(layer(x), wanted, rtol=1e-12)
    assert torch.allclose(layer(x), wanted, rtol=1e-12)
