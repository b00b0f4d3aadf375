"""Layers of fp8 of `weft.nn`."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from nn_cases import (  # noqa: E402
    BF16,
    DEVICE,
    F32,
    F64,
    FP8,
    Reference,
    close,
    numbers,
)
from torch._inductor.utils import run_and_get_code  # noqa: E402

import weft  # noqa: E402
import weft.nn  # noqa: E402


@pytest.mark.each_value
@pytest.mark.parametrize(("dtype", "cast"), [(BF16, None), (F32, None), (F32, BF16)])
@pytest.mark.parametrize("activation", FP8)
@pytest.mark.parametrize("fp8", ["tensorwise", "rowwise"])
def test_fp8(fp8, activation, dtype, cast):
    torch.manual_seed(0)
    layer = weft.nn.Linear(64, 48, True, DEVICE, dtype, activation=activation, fp8=fp8)
    reference = Reference(layer)
    x, weights = numbers(2, 40, 64, dtype=dtype).requires_grad_(), numbers(2, 40, 48, dtype=F64, seed=9)
    exact = x.detach().double().requires_grad_()
    with torch.autocast(DEVICE, cast or BF16, enabled=cast is not None):
        found = layer(x)
    assert found.dtype == (cast or dtype)
    wanted = reference(exact)
    (found * weights.to(found.dtype)).sum().backward()
    (wanted * weights).sum().backward()
    pairs = [(found, wanted), (x.grad, exact.grad)]
    pairs += [(a.grad, b.grad) for a, b in zip(layer.parameters(), reference.parameters(), strict=True)]
    for ours, theirs in pairs:
        assert (ours.double() - theirs).norm() <= FP8[activation] * theirs.norm()


@pytest.mark.parametrize("fp8", ["tensorwise", "rowwise"])
def test_compiled_fp8(fp8):
    torch.manual_seed(0)
    layer = weft.nn.Linear(64, 48, True, DEVICE, BF16, fp8=fp8)
    x, found = numbers(32, 64), []
    for function in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True)):
        leaf = x.clone().requires_grad_()
        d = function(leaf)
        found.append((d, *torch.autograd.grad(d.square().sum(), (leaf, *layer.parameters()))))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("fp8", ["tensorwise", "rowwise"])
def test_fp8_in_programs_of_inductor(fp8):
    torch._dynamo.reset()
    layer = weft.nn.Linear(64, 48, True, DEVICE, F32, fp8=fp8)
    x, found = numbers(32, 64, dtype=F32), []

    def step(function):
        leaf = x.clone().requires_grad_()
        with torch.autocast(DEVICE, BF16):
            d = function(leaf)
        return d, *torch.autograd.grad(d.square().sum(), (leaf, *layer.parameters()))

    with torch._inductor.config.patch(force_disable_caches=True):
        compiled = torch.compile(layer, fullgraph=True)
        found, texts = run_and_get_code(step, compiled)
    for ours, theirs in zip(found, step(layer), strict=True):
        close(ours, theirs, BF16)
    assert "weft_quantize(" in "".join(texts) and "= torch.ops.weft" not in "".join(texts)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fp8", ["tensorwise", "rowwise"])
def test_transformed_fp8(fp8):
    torch.manual_seed(0)
    layer = weft.nn.Linear(64, 48, True, DEVICE, BF16, activation="relu", fp8=fp8)
    x, parameters = numbers(3, 16, 64), dict(layer.named_parameters())
    detached = {name: each.detach() for name, each in parameters.items()}

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,)).float().square().sum()

    mapped = torch.func.vmap(torch.func.grad(loss), (None, 0))(detached, x)
    for number, each in enumerate(x):
        layer.zero_grad()
        loss(parameters, each).backward()
        alone = torch.func.grad(loss)(detached, each)
        for name, parameter in parameters.items():
            assert torch.equal(alone[name], parameter.grad)
            assert torch.equal(mapped[name][number], parameter.grad)
    with pytest.raises(weft.WeftError, match="derivatives in forward mode"):
        torch.func.jvp(layer, (x,), (x,))


def test_rowwise_scales_keep_small_rows():
    x, weight = numbers(32, 64), numbers(48, 64)
    small = torch.logspace(-12, 0, 32, 10, device=DEVICE)[:, None]
    layers = [weft.nn.Linear(64, 48, False, DEVICE, BF16, fp8=each) for each in ("tensorwise", "rowwise")]
    exact = (x * small).double() @ weight.double().mT
    errors = []
    for layer in layers:
        layer.weight = torch.nn.Parameter(weight)
        errors.append((layer((x * small).to(BF16)).double() - exact).norm(dim=1) / exact.norm(dim=1))
    assert errors[0].max() > 0.5
    assert errors[1].max() < 0.08


def test_fp8_of_rows_with_gaps():
    torch.manual_seed(0)
    layer = weft.nn.Linear(64, 48, True, DEVICE, BF16, fp8="tensorwise")
    x = numbers(64, 32).t()[::2]
    assert torch.equal(layer(x), layer(x.contiguous()))


def test_fp8_accumulates_and_is_converted():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, n, device=DEVICE, dtype=BF16) for n in (64, 24)))
    weft.nn.convert(model, fp8="tensorwise", fuse_wgrad_accumulation=True)
    assert [each.fp8 for each in model] == ["tensorwise", None]
    x = numbers(32, 64)
    model[0](x).sum().backward()
    kept = model[0].weight.grad
    once = kept.clone()
    model[0](x).sum().backward()
    assert model[0].weight.grad is kept
    close(kept, 2 * once)
    assert "fp8=tensorwise" in repr(model[0])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("fp8", ["tensorwise", "rowwise"])
def test_fp8_accumulates_in_programs_too(fp8, compiled):
    torch._dynamo.reset()
    layer = weft.nn.Linear(64, 32, False, DEVICE, BF16, fp8=fp8, fuse_wgrad_accumulation=True)
    function = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
    x = numbers(32, 64)
    function(x).sum().backward()
    once = layer.weight.grad.clone()
    function(x).sum().backward()
    close(layer.weight.grad, 2 * once)


@pytest.mark.parametrize("transformed", [False, True])
@pytest.mark.parametrize("promote", [None, False, True])
def test_fp8_products_are_promoted_as_asked(monkeypatch, promote, transformed):
    asked, real = [], weft.nn.fp8.matmul

    def noted(*arrays, promote=False, **options):
        asked.append(promote)
        return real(*arrays, promote=promote, **options)

    monkeypatch.setattr(weft.nn.fp8, "matmul", noted)
    layer = weft.nn.Linear(64, 32, False, DEVICE, BF16, fp8="tensorwise", fp8_promote=promote)
    x = numbers(32, 64)
    if transformed:

        def loss(x, weight):
            return weft.nn.linear(x, weight, fp8="tensorwise", fp8_promote=promote).sum()

        torch.func.grad(loss, (0, 1))(x, layer.weight.detach())
    else:
        layer(x.requires_grad_()).sum().backward()
    assert asked == {None: [False, True, True], False: [False] * 3, True: [True] * 3}[promote]


@pytest.mark.slow
@pytest.mark.parametrize("fp8", [None, "tensorwise", "rowwise"])
def test_layers_are_exported_and_saved(fp8, tmp_path):
    layer = weft.nn.Linear(64, 32, True, DEVICE, BF16, fp8=fp8)
    x = numbers(16, 64)
    sizes = {0: torch.export.Dim("rows", min=2)}
    program = torch.export.export(layer, (x,), dynamic_shapes=(sizes,))
    torch.export.save(program, tmp_path / "layer.pt2")
    assert torch.equal(torch.export.load(tmp_path / "layer.pt2").module()(x), layer(x))
    torch.save(layer.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt")
    for other in (
        weft.nn.Linear(64, 32, True, DEVICE, BF16, fp8=fp8),
        weft.nn.convert(torch.nn.Sequential(torch.nn.Linear(64, 32, True, DEVICE, BF16)), fp8=fp8)[0],
    ):
        assert other.load_state_dict(state) and torch.equal(other(x), layer(x))
    plain = torch.nn.Linear(64, 32, True, DEVICE, BF16)
    assert plain.load_state_dict(state) and torch.equal(plain.weight, layer.weight)
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


def test_fp8_without_gradients_casts_no_transposes(monkeypatch):
    layer, x = weft.nn.Linear(64, 32, True, DEVICE, BF16, fp8="tensorwise"), numbers(32, 64)
    asked, real = [], weft.nn.fp8.quantize

    def noted(x, element, **options):
        asked.append(options["transposed"])
        return real(x, element, **options)

    monkeypatch.setattr(weft.nn.fp8, "quantize", noted)
    with torch.no_grad():
        found = layer(x)
    assert asked == [False, False] and torch.equal(found, layer(x)) and asked[2:] == [True, False]
