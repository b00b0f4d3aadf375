"""Linear layers that are divided among emulated GPUs."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from distributed_tensors import BF16, K, M, compute, near, numbers  # noqa: E402

import weft  # noqa: E402
from weft.distributed import Team, emulate  # noqa: E402
from weft.emulator import World  # noqa: E402
from weft.nn import ColumnParallelLinear, Linear, RowParallelLinear  # noqa: E402


@pytest.fixture
def computed(monkeypatch):
    compute(monkeypatch)


def layers(bias=True):
    """The layers of one GPU."""
    torch.manual_seed(3)
    made = {"bias": bias, "dtype": BF16}
    return torch.nn.Sequential(Linear(K, 32, **made, activation="relu"), Linear(32, K, **made))


def divided(whole, team):
    first, second = whole
    return torch.nn.Sequential(
        ColumnParallelLinear.of(first, team=team), RowParallelLinear.of(second, team=team)
    )


def trained(team, whole, run=lambda parts: parts):
    """The parts of layers after a backward pass, with their input and result."""
    parts = divided(whole, team)
    x = numbers(M, 2, K, seed=9).detach().chunk(team.size)[team.rank].clone().requires_grad_()
    out = run(parts)(x)
    out.backward(numbers(M, 2, K, seed=8, grad=False).chunk(team.size)[team.rank])
    return parts, x, out


def check_layers(found, whole):
    first, second = (torch.nn.Linear(each.in_features, each.out_features).double() for each in whole)
    exact_layers = torch.nn.ModuleList([first, second])
    exact_layers.load_state_dict(whole.state_dict())
    tokens = numbers(M, 2, K, seed=9).detach().double().requires_grad_()
    wanted = second(torch.relu(first(tokens)))
    wanted.backward(numbers(M, 2, K, seed=8, grad=False).double())
    near(torch.cat([out for *_, out in found]), wanted)
    near(torch.cat([x.grad for _, x, _ in found]), tokens.grad)
    for name, parameter in exact_layers.named_parameters():
        parts = [parts.get_parameter(name).grad for parts, *_ in found]
        if name == "1.bias":
            for each in parts:
                near(each, parameter.grad)
        else:
            near(torch.cat(parts, 1 if name == "1.weight" else 0), parameter.grad)


@pytest.mark.usefixtures("computed")
def test_parts_have_gradients_of_the_whole():
    whole = layers()
    check_layers(emulate(2, lambda team: trained(team, whole)), whole)


@pytest.mark.slow
def test_divided_layers_are_the_whole_ones():
    whole = layers()
    check_layers(emulate(2, lambda team: trained(team, whole)), whole)


@pytest.mark.slow
def test_divided_layers_compile_to_one_graph():
    whole = layers()

    def compiled(parts):
        return torch.compile(parts, fullgraph=True)

    check_layers(emulate(2, lambda team: trained(team, whole, compiled)), whole)


@pytest.mark.slow
def test_autocast_casts_matrices():
    def run(team):
        layer = ColumnParallelLinear(K, 32, team=team)
        x = numbers(M, K, seed=team.rank, dtype=torch.float32)
        with torch.autocast("cpu", BF16):
            d = layer(x)
        d.float().sum().backward()
        return d.dtype, x.grad.dtype, layer.weight.grad.dtype

    assert emulate(2, run) == [(BF16, torch.float32, torch.float32)] * 2


def test_parts_of_layers_make_the_whole():
    first, second, third = Linear(K, 32, dtype=BF16), torch.nn.Linear(K, 48).to(BF16), layers()[1]

    def run(team):
        both = ColumnParallelLinear.of(first, second, team=team)
        return [*both.to_linear(), RowParallelLinear.of(third, team=team).to_linear()]

    for found in emulate(2, run):
        for layer, want in zip(found, (first, second, third), strict=True):
            assert torch.equal(layer.weight, want.weight) and torch.equal(layer.bias, want.bias)


def test_parts_are_drawn_as_the_whole():
    torch.manual_seed(5)
    want = torch.nn.Linear(K, 32)

    (team,) = Team.emulated(World(1))
    torch.manual_seed(5)
    layer = ColumnParallelLinear(K, 32, team=team)
    assert torch.equal(layer.weight, want.weight) and torch.equal(layer.bias, want.bias)
    second = Team.emulated(World(2))[1]
    torch.manual_seed(5)
    layer = RowParallelLinear(K, 32, team=second)
    assert torch.equal(layer.weight, want.weight[:, K // 2 :]) and not layer.bias.any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda t: ColumnParallelLinear(K, 24, team=t),
            r"out_features must be a multiple of 16, 8 for each of 2 ",
        ),
        (lambda t: ColumnParallelLinear(K, 24, team=t), "ranks, got 24; the next is 32"),
        (lambda t: RowParallelLinear(20, 32, team=t), "in_features must be a multiple of 16.*got 20"),
        (lambda t: RowParallelLinear(32, 20, team=t), "out_features must be a multiple of 8, got 20"),
        (lambda t: ColumnParallelLinear(K, 32, team="0"), "team must be a weft.distributed.Team, got '0'"),
        (lambda t: ColumnParallelLinear.of(team=t), "at least one layer"),
        (lambda t: ColumnParallelLinear.of(torch.nn.ReLU(), team=t), "must be torch.nn.Linear or.*got ReLU"),
        (
            lambda t: ColumnParallelLinear.of(torch.nn.Linear(K, 32), torch.nn.Linear(16, 32), team=t),
            "layers must have one in_features",
        ),
        (
            lambda t: RowParallelLinear.of(Linear(K, 32, fp8="tensorwise"), team=t),
            "fp8=None, got 'tensorwise'",
        ),
        (
            lambda t: RowParallelLinear(K, 32, team=t)(torch.ones(3, K // 2)),
            "first dimension of x must be a multiple of 2.*got 3; the next is 4",
        ),
        (
            lambda t: ColumnParallelLinear(K, 32, team=t)(torch.ones(K)),
            r"x must have rows, got a shape of \(32,\)",
        ),
        (lambda t: ColumnParallelLinear(K, 32, team=t)(torch.ones(4, 8)), "x must have 32 elements"),
    ],
)
def test_wrong_layers_are_named(make, message):
    with pytest.raises(weft.WeftError, match=message):
        make(Team.emulated(World(2))[0])


def fp8_layers(team):
    """Layers of fp8, and those of bf16 from which they are made."""
    torch.manual_seed(4)
    whole = [Linear(K, 32, dtype=BF16, activation="relu"), Linear(32, K, dtype=BF16)]
    return divided(whole, team), divided(whole, team)


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["eager", "compiled"]
)
def test_layers_of_fp8_are_near_those_of_bf16(compiled):
    def run(team):
        parts, want = fp8_layers(team)
        x = numbers(8, K, seed=team.rank, grad=False)
        for each in parts:
            assert each.to_fp8() is each and each.weight.dtype == torch.float8_e4m3fn
        with torch.no_grad():
            found = (torch.compile(parts, fullgraph=True) if compiled else parts)(x)
            near(found, want(x), 0.1)
        assert "fp8" in repr(parts) and "0.weight_scale" in parts.state_dict()

    emulate(2, run)


def test_layers_of_fp8_name_what_they_lack():
    (team,) = Team.emulated(World(1))
    layer = ColumnParallelLinear(K, 32, dtype=BF16, team=team).to_fp8()
    with pytest.raises(weft.WeftError, match="a layer of fp8 has no gradients"):
        layer(torch.ones(8, K, dtype=BF16, requires_grad=True))
    with pytest.raises(weft.WeftError, match=r"x must be of torch.bfloat16 for a layer of fp8, got torch.f"):
        layer(torch.ones(8, K, dtype=torch.float16))
    with pytest.raises(weft.WeftError, match="to_linear: the layer must not be one of fp8"):
        layer.to_linear()
    with pytest.raises(weft.WeftError, match="in_features must be a multiple of 16, got 40; the next is 48"):
        ColumnParallelLinear(40, 32, dtype=BF16, team=team).to_fp8()
