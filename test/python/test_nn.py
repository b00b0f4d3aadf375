"""`weft.nn`: layers of PyTorch by Weft. On a GPU if there is one, else in the emulator."""

import copy

import pytest

torch = pytest.importorskip("torch")

from nn_cases import (  # noqa: E402
    BF16,
    DEVICE,
    F16,
    F32,
    F64,
    FP8,
    Reference,
    close,
    compare,
    numbers,
)
from torch._inductor.utils import run_and_get_code  # noqa: E402

import weft  # noqa: E402
import weft.nn  # noqa: E402
from weft.torch.autograd import activated  # noqa: E402


@pytest.mark.each_value
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
def test_linear(activation, bias):
    torch.manual_seed(0)
    layer = weft.nn.Linear(24, 40, bias, DEVICE, BF16, activation=activation)
    reference = Reference(layer)
    for shape in ((16, 24), (24,), (2, 3, 24), (1, 2, 4, 24)):
        compare(layer, reference, numbers(*shape))
    with torch.no_grad():
        close(layer(numbers(2, 8, 24)), reference(numbers(2, 8, 24).double()))
    x = numbers(0, 24)
    assert layer(x).shape == (0, 40)
    compare(layer, reference, numbers(24, 32).t()[::2])  # neither rows nor columns are contiguous


@pytest.mark.parametrize("leading", [(8,), (2, 4)], ids=str)
def test_gradients_of_gradients(leading):
    layer = weft.nn.Linear(16, 24, True, DEVICE, F64, activation="relu")
    x = numbers(*leading, 16, dtype=F64).requires_grad_()

    def second(product):
        operands = x, layer.weight, layer.bias
        first = torch.autograd.grad(product().pow(3).sum(), operands, create_graph=True)
        return torch.autograd.grad(sum(each.pow(2).sum() for each in first), operands)

    found = second(lambda: layer(x))
    wanted = second(lambda: torch.nn.functional.linear(x, layer.weight, layer.bias).relu())
    for each, exact in zip(found, wanted, strict=True):
        assert torch.allclose(each, exact, rtol=1e-9)
    single = weft.nn.Linear(16, 24, True, DEVICE, F32)
    with torch.autocast(DEVICE, BF16):
        d = single(x.float())
    with pytest.raises(weft.WeftError, match="gradients of gradients"):
        torch.autograd.grad(d.float().pow(2).sum(), single.weight, create_graph=True)


def test_layers_of_f32_follow_pytorchs_precision():
    torch.manual_seed(0)
    layer = weft.nn.Linear(24, 40, True, DEVICE, F32)
    x = numbers(16, 24, dtype=F32)
    assert torch.equal(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        by_weft = weft.matmul(
            x, layer.weight.detach(), transpose_b=True, epilogue=weft.Epilogue(layer.bias.detach())
        )
        assert torch.equal(layer(x), by_weft)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_autocast(dtype):
    torch.manual_seed(0)
    layer = weft.nn.Linear(24, 40, True, DEVICE, F32, activation="relu")
    compare(layer, Reference(layer), numbers(16, 24, dtype=F32), dtype=dtype)


def test_layers_in_f16():
    torch.manual_seed(0)
    layer = weft.nn.Linear(24, 40, True, DEVICE, F16)
    compare(layer, Reference(layer), numbers(16, 24, dtype=F16))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_layers(backend):
    torch.manual_seed(0)
    torch._dynamo.reset()
    layer = weft.nn.GatedMLP(32, 48, True, DEVICE, BF16)
    x, weights = numbers(16, 32), numbers(16, 32, seed=1)
    compiled = torch.compile(layer, backend=backend, fullgraph=True)
    (layer(x) * weights).sum().backward()
    wanted = [each.grad.clone() for each in layer.parameters()]
    layer.zero_grad()
    with torch._inductor.config.patch(force_disable_caches=True):
        _, texts = run_and_get_code(lambda: (compiled(x) * weights).sum().backward())
    for y, each in zip(wanted, layer.parameters(), strict=True):
        close(each.grad, y)
    calls = "".join(texts).count(", out=buf")
    assert (calls, "torch.ops.weft" in "".join(texts)) == (7 if backend == "inductor" else 0, False)


def test_weight_gradients_are_accumulated_in_place():
    torch.manual_seed(0)
    plain = weft.nn.Linear(24, 40, False, DEVICE, BF16)
    fused = weft.nn.convert(copy.deepcopy(plain), fuse_wgrad_accumulation=True)
    x = numbers(16, 24)
    fused(x).sum().backward()
    first = fused.weight.grad
    once = first.clone()
    fused(x).sum().backward()
    assert fused.weight.grad is first
    close(first, 2 * once)
    plain(x).sum().backward()
    assert torch.equal(plain.weight.grad, once)


def test_nested_tensors_are_left_to_pytorch():
    layer, parts = weft.nn.Linear(8, 8, dtype=F32, device=DEVICE), [numbers(m, 8, dtype=F32) for m in (3, 4)]
    for layout in (torch.strided, torch.jagged):
        found = layer(torch.nested.nested_tensor(parts, layout=layout))
        for part, rows in zip(parts, found.unbind(), strict=True):
            torch.testing.assert_close(rows, layer(part))


def test_convert_keeps_parameters_hooks_and_ties():
    model = torch.nn.Sequential(
        torch.nn.Linear(24, 40, device=DEVICE, dtype=BF16),
        torch.nn.ReLU(),
        torch.nn.Linear(40, 24, device=DEVICE, dtype=BF16),
    )
    model.append(model[0])
    weights, calls = list(model.parameters()), []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    x = numbers(16, 24)
    before = model(x)
    assert weft.nn.convert(model, lambda name, layer: name != "2") is model
    assert [type(each) for each in model] == [weft.nn.Linear, torch.nn.ReLU, torch.nn.Linear, weft.nn.Linear]
    assert model[3] is model[0]
    assert all(a is b for a, b in zip(model.parameters(), weights, strict=True))
    close(model(x), before)
    assert len(calls) == 4
    assert weft.nn.convert(torch.nn.Linear(8, 8)).activation is None
    assert "(0): weft.nn.Linear(in_features" in repr(model)


def test_layers_of_f32_show_who_multiplies():
    layers = {each: repr(weft.nn.Linear(8, 8, dtype=each)) for each in (F32, BF16)}
    assert layers[F32].endswith("bias=True, f32 by PyTorch)") and layers[BF16].endswith("bias=True)")
    torch.set_float32_matmul_precision("high")
    assert repr(weft.nn.Linear(8, 8, dtype=F32)).endswith("bias=True)")


@pytest.mark.each_value
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("dtype", [BF16, F16, F32])
def test_gated(dtype, activation):
    for columns in (16, 13):
        z = (3 * numbers(3, 5, 2 * columns, dtype=dtype)).requires_grad_()
        exact = z.detach().double().requires_grad_()
        weights = numbers(3, 5, columns, dtype=F64, seed=1)
        found = weft.nn.gated(z, activation)
        gate, up = exact.chunk(2, -1)
        wanted = activated(activation, gate) * up
        (found.double() * weights).sum().backward()
        (wanted * weights).sum().backward()
        close(found, wanted)
        close(z.grad, exact.grad)


def test_gated_of_other_memory_and_types():
    z = numbers(8, 3, 32).transpose(0, 1)
    wanted = weft.nn.gated(z.contiguous())
    assert torch.equal(weft.nn.gated(z), wanted)
    moved = torch.empty(24 * 32 + 1, device=DEVICE, dtype=BF16)[1:].view(3, 8, 32)
    assert torch.equal(weft.nn.gated(moved.copy_(z)), wanted)
    assert weft.nn.gated(z[:0]).shape == (0, 8, 16)
    close(weft.nn.gated(z.double()), weft.nn.gated(z.double().float()), F32)
    close(torch.func.vmap(weft.nn.gated)(z), wanted, BF16)


def test_the_gated_mlp():
    torch.manual_seed(0)
    gate, up, down = (
        torch.nn.Linear(*sizes, bias=False, device=DEVICE, dtype=BF16)
        for sizes in ((32, 48), (32, 48), (48, 32))
    )
    layer = weft.nn.GatedMLP.of(gate, up, down)
    assert layer.gate_up.weight.shape == (96, 32)
    x, weights = numbers(2, 8, 32), numbers(2, 8, 32, seed=1)
    (layer(x) * weights).sum().backward()
    found = layer(x)
    layers = [copy.deepcopy(each).double() for each in (gate, up, down)]
    y = x.double()
    wanted = layers[2](torch.nn.functional.silu(layers[0](y)) * layers[1](y))
    (wanted * weights.double()).sum().backward()
    close(found, wanted)
    close(layer.gate_up.weight.grad, torch.cat([each.weight.grad for each in layers[:2]]))
    close(layer.down.weight.grad, layers[2].weight.grad)


@pytest.mark.parametrize("fp8", ["tensorwise", "rowwise"])
def test_the_gated_mlp_of_fp8(fp8):
    torch.manual_seed(0)
    exact = weft.nn.GatedMLP(32, 48, device=DEVICE, dtype=BF16)
    layer = weft.nn.GatedMLP(
        32, 48, device=DEVICE, dtype=BF16, fp8=fp8, fp8_promote=True, fuse_wgrad_accumulation=True
    )
    layer.load_state_dict(exact.state_dict())
    for each in (layer.gate_up, layer.down):
        assert (each.fp8, each.fp8_promote, each.fuse_wgrad_accumulation) == (fp8, True, True)
    x, weights = numbers(16, 32), numbers(16, 32, seed=1)
    assert not torch.equal(layer(x), exact(x))
    for each in (layer, exact):
        (each(x) * weights).sum().backward()
    for ours, theirs in zip(layer.parameters(), exact.parameters(), strict=True):
        # Three products of fp8 follow one another.
        assert (ours.grad - theirs.grad).norm() <= 2 * FP8[None] * theirs.grad.norm()


@pytest.mark.parametrize("options", [{}, {"fp8": "tensorwise"}])
def test_layers_take_meta_tensors(options):
    layer = weft.nn.Linear(32, 16, dtype=torch.bfloat16, device="meta", **options)
    y = layer(torch.empty(2, 16, 32, dtype=torch.bfloat16, device="meta"))
    assert y.shape == (2, 16, 16) and y.dtype == torch.bfloat16 and y.device.type == "meta"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weft.nn.Linear(8, 8, activation="gelo"), "activation must be one of relu, .*did you mean"),
        (lambda: weft.nn.Linear(8, 16, fp8="tensorwise"), "multiples of 16, got 8 and 16"),
        (
            lambda: weft.nn.convert(torch.nn.Linear(8, 8), fp8="tensorwse"),
            "fp8 must be None or tensorwise or rowwise.*did",
        ),
        (lambda: weft.nn.Linear(16, 16, fp8_promote="all"), "fp8_promote must be None, True or False"),
        (lambda: weft.nn.GatedMLP(8, 8, activation=None), "activation must be a name"),
        (lambda: weft.nn.GatedMLP(16, 24, fp8="rowwise"), "needs features and intermediate_features that"),
        (lambda: weft.nn.gated(torch.ones(3)), "even last dimension"),
        (lambda: weft.nn.gated("z"), "z must be a tensor of PyTorch, got 'z'"),
        (lambda: weft.nn.Linear(-1, 8), "in_features must be a number of elements, got -1"),
        (lambda: weft.nn.Linear(8, 8.5), r"out_features must be a number of elements, got 8\.5"),
        (lambda: weft.nn.Linear(8, 8, dtype=torch.int8), r"dtype must be None or one of .*, got torch\.int8"),
        (lambda: weft.nn.Linear(8, 8, dtype="bf16"), "dtype must be None or one of .*, got 'bf16'"),
        (lambda: weft.nn.Linear(8, 8, device="cude"), "device must be None or a device .*, got 'cude'"),
        (lambda: weft.nn.GatedMLP(None, 8), "features must be a number of elements, got None"),
        (lambda: weft.nn.Linear(8, 8)(None), "x must be a tensor of PyTorch, got None"),
        (lambda: weft.nn.Linear(8, 8)(numbers(4, 9)), r"x must have 8 elements .*, got a shape of \(4, 9\)"),
        (lambda: weft.nn.Linear(8, 8, dtype=BF16)(numbers(4, 8, dtype=F32)), "x must have the type of"),
        (
            lambda: weft.nn.Linear(8, 8)(numbers(4, 8, dtype=BF16)),
            "x must have the type of the weight",
        ),
        (lambda: weft.nn.Linear(8, 8)(torch.ones(4, 8).to_sparse()), r"x must be a plain .*to_dense\(\)"),
        (
            lambda: weft.nn.Linear(8, 8, dtype=BF16)(numbers(4, 8).to_sparse_csr()),
            r"x must be a plain .*to_dense\(\)",
        ),
        (lambda: weft.nn.convert(3), r"model must be a torch\.nn\.Module"),
        (lambda: weft.nn.convert(torch.nn.Linear(8, 8), 3), "filter must be a function"),
        (
            lambda: weft.nn.GatedMLP.of(*(torch.nn.Linear(8, 16) for _ in range(3))),
            "gate and up must have weights of I x F",
        ),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(weft.WeftError, match=message):
        call()
