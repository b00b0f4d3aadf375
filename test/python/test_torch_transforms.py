"""Operators of Weft under several transforms of `torch.func`, and in programs of torch.compile.
On a GPU if there is one, otherwise in the emulator.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward  # noqa: E402
from torch.func import functional_call, grad, hessian, jvp, vmap  # noqa: E402

import weft  # noqa: E402
import weft.nn  # noqa: E402
from weft import Epilogue  # noqa: E402
from weft.launch import runtime  # noqa: E402
from weft.torch.autograd import activated  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
BF16, F32, F64 = torch.bfloat16, torch.float32, torch.float64


def numbers(*shape, dtype=F64, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return torch.from_numpy(rng.standard_normal(shape)).to(DEVICE, dtype)


def near(found, wanted, tolerance=1e-9):
    assert found.shape == wanted.shape
    assert (found.double() - wanted.double()).abs().max() <= tolerance * wanted.double().abs().max()


X, W = numbers(3, 4, 8), numbers(8, 6)


@pytest.mark.parametrize("activation", [pytest.param(None, marks=pytest.mark.slow), "relu"])
def test_gradients_of_mapped_products(activation):
    """Of every operand, where some have a dimension that is mapped."""
    bias, residual, c = numbers(6), numbers(3, 4, 6), numbers(4, 6)

    def ours(x, w, bias, residual, c):
        return weft.matmul(x, w, c=c, beta=0.5, epilogue=Epilogue(bias, activation, residual))

    def theirs(x, w, bias, residual, c):
        return activated(activation, x @ w + 0.5 * c + bias) + residual

    def loss(product):
        mapped = vmap(product, (0, None, None, 0, None))
        return lambda *operands: mapped(*operands).pow(3).sum()

    operands = X, W, bias, residual, c
    found, wanted = (grad(loss(each), tuple(range(5)))(*operands) for each in (ours, theirs))
    for each, exact in zip(found, wanted, strict=True):
        near(each, exact)


@pytest.mark.slow
def test_transforms_in_any_order():
    def check(function):
        near(function(weft.matmul), function(torch.matmul))

    check(lambda m: hessian(lambda w: vmap(lambda x: m(x, w))(X).pow(3).sum())(W))
    check(lambda m: grad(lambda w: vmap(grad(lambda x: m(x, w).pow(3).sum()))(X).pow(2).sum())(W))
    check(lambda m: vmap(lambda x: jvp(lambda x: m(x, W), (x,), (x,))[1])(X))


def test_c_and_residual_are_mapped_along_any_dimension():
    a, b, c = numbers(16, 32, dtype=BF16), numbers(32, 24, dtype=BF16), numbers(16, 24, 3, dtype=BF16)
    found = vmap(lambda c: weft.matmul(a, b, c=c, beta=1.0, epilogue=Epilogue(residual=c)), 2)(c)
    wanted = [
        weft.matmul(a, b, c=x, beta=1.0, epilogue=Epilogue(residual=x))
        for x in map(torch.Tensor.contiguous, c.unbind(2))
    ]
    assert torch.equal(found, torch.stack(wanted))


@pytest.mark.parametrize("kind", ["grad", "vmap", "vmap of grad", "jvp", "layer"])
def test_compiled_transforms(kind):
    x, w = numbers(2, 16, 16, dtype=BF16), numbers(16, 24, dtype=BF16)
    layer = weft.nn.Linear(16, 24, True, DEVICE, BF16, activation="gelu")
    parameters = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(w, x):
        return weft.matmul(x, w, epilogue=Epilogue(activation="relu")).float().sum()

    functions = {
        "grad": lambda x: grad(loss)(w, x),
        "vmap": lambda x: vmap(lambda x: weft.matmul(x, w))(x),
        "vmap of grad": lambda x: vmap(grad(loss), (None, 0))(w, x),
        "jvp": lambda x: jvp(lambda x: weft.matmul(x, w), (x,), (x,))[1],
        "layer": lambda x: grad(lambda p: functional_call(layer, p, (x,)).float().sum())(parameters)["bias"],
    }
    torch._dynamo.reset()
    compiled = torch.compile(functions[kind], fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), functions[kind](x))


def attend(x):
    return weft.attention(x, x, x, causal=True)


def int4():
    torch.manual_seed(0)
    return weft.nn.Int4Linear.of(torch.nn.Linear(128, 64, device=DEVICE, dtype=BF16))


@pytest.mark.parametrize("kind", [pytest.param("attention", marks=pytest.mark.slow), "int4"])
def test_other_operators_are_transformed(kind):
    function, shape = (attend, (1, 1, 16, 64)) if kind == "attention" else (int4(), (4, 128))
    x = numbers(2, *shape, dtype=BF16)

    def loss(x):
        return function(x).float().square().sum()

    alone = [each.clone().requires_grad_() for each in x]
    for each in alone:
        loss(each).backward()
    wanted = torch.stack([each.grad for each in alone])
    assert torch.equal(grad(loss)(x[0]), wanted[0])
    assert torch.equal(vmap(grad(loss))(x), wanted)
    assert torch.equal(vmap(function, 1, 1)(x.movedim(0, 1)), torch.stack([function(each) for each in x], 1))
    with pytest.raises(weft.WeftError, match="forward mode are not computed"):
        jvp(function, (x[0],), (x[0],))
    with pytest.raises(weft.WeftError, match="forward mode are not computed"), forward.dual_level():
        function(forward.make_dual(x[0], x[0]))


def test_second_gradients_of_attention_are_refused():
    q = numbers(1, 1, 16, 64, dtype=BF16).requires_grad_()
    (first,) = torch.autograd.grad(attend(q).float().square().sum(), q, create_graph=True)
    with pytest.raises(weft.WeftError, match="gradients of its gradients are not computed"):
        first.float().sum().backward()


def test_casts_are_mapped_one_by_one():
    x = numbers(3, 16, 32, dtype=BF16)
    found = vmap(lambda x: weft.quantize(x, scales="row").values.float())(x)
    assert torch.equal(found, torch.stack([weft.quantize(each, scales="row").values.float() for each in x]))


def test_fp8_layers_refuse_tangents_of_frozen_layers():
    layer = weft.nn.Linear(32, 16, dtype=BF16, device=DEVICE, fp8="tensorwise").requires_grad_(False)
    x = numbers(16, 32, dtype=BF16)
    with pytest.raises(weft.WeftError, match="derivatives in forward mode"), forward.dual_level():
        layer(forward.make_dual(x, x))


def test_errors_while_tracing_are_shown():
    a, b = numbers(16, 32, dtype=BF16), numbers(32, 24, dtype=BF16)
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: weft.matmul(a, b, stream=3), fullgraph=True, backend="aot_eager")
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"weft\.matmul: stream must be None where"):
        compiled(a, b)
