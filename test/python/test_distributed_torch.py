"""Products over several emulated GPUs from PyTorch: operators, gradients, and calls of all ranks."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from distributed_tensors import BF16, K, M, N, compute, near, numbers  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402

import weft  # noqa: E402
import weft.distributed.operators  # noqa: E402
from weft.distributed import (  # noqa: E402
    Team,
    all_gather_matmul,
    emulate,
    matmul_all_reduce,
    matmul_reduce_scatter,
    teams,
)
from weft.distributed.cuda import CudaDevices  # noqa: E402
from weft.emulator import World  # noqa: E402
from weft.launch import plans  # noqa: E402
from weft.torch.autograd import activated  # noqa: E402


def exact(tensors):
    """Copies in f64 of the tensors of all ranks: by operand, by rank."""
    return [
        [x.detach().double().requires_grad_() for x in of_ranks] for of_ranks in zip(*tensors, strict=True)
    ]


def compare(found, operands, wanted, weights):
    """Compares results and gradients of all ranks with those of f64."""
    torch.autograd.backward(wanted, [each.double() for each in weights])
    for (result, _), want in zip(found, wanted, strict=True):
        near(result, want)
    for of_ranks, given in zip(operands, zip(*(given for _, given in found), strict=True), strict=True):
        for want, tensor in zip(of_ranks, given, strict=True):
            near(tensor.grad, want.grad)


def gathered(team, activation="relu", residual=False, call=all_gather_matmul):
    """The result of a product of gathered rows, and its operands with gradients."""
    a, b = numbers(M, K, seed=team.rank), numbers(N, K, seed=10 + team.rank)
    given = [a, b, numbers(N, seed=20 + team.rank, dtype=torch.float32)]
    given += [numbers(team.size * M, N, seed=30 + team.rank)] if residual else []
    epilogue = weft.Epilogue(given[2], activation, *given[3:])
    d = call(a, b, team=team, transpose_b=True, epilogue=epilogue)
    d.backward(numbers(*d.shape, seed=40 + team.rank, grad=False))
    return d, given


def scattered(team, activation="relu", residual=False, shared=False):
    """The same of a product that is added up."""
    a, b = numbers(team.size * M, K, seed=team.rank), numbers(K, N, seed=10 + team.rank)
    given = [a, b, numbers(N, seed=20 + (0 if shared else team.rank), dtype=torch.float32)]
    given += [numbers(M, N, seed=30 + team.rank)] if residual else []
    epilogue = weft.Epilogue(given[2], activation, *given[3:])
    d = matmul_reduce_scatter(a, b, team=team, epilogue=epilogue, shared_bias=shared)
    d.backward(numbers(*d.shape, seed=40 + team.rank, grad=False))
    return d, given


def check_gathered(ranks, activation, residual=False):
    found = emulate(ranks, lambda team: gathered(team, activation, residual))
    a, b, bias, *added = operands = exact([given for _, given in found])
    z = [torch.cat(a) @ y.T + x for y, x in zip(b, bias, strict=True)]
    wanted = [activated(activation, each) for each in z]
    wanted = [d + x for d, x in zip(wanted, added[0], strict=True)] if added else wanted
    compare(
        found, operands, wanted, [numbers(*d.shape, seed=40 + r, grad=False) for r, d in enumerate(wanted)]
    )


def check_scattered(ranks, activation, residual=False):
    found = emulate(ranks, lambda team: scattered(team, activation, residual))
    a, b, bias, *added = operands = exact([given for _, given in found])
    sums = sum(x @ y for x, y in zip(a, b, strict=True)).chunk(ranks)
    wanted = [activated(activation, d + x) for d, x in zip(sums, bias, strict=True)]
    wanted = [d + x for d, x in zip(wanted, added[0], strict=True)] if added else wanted
    compare(
        found, operands, wanted, [numbers(*d.shape, seed=40 + r, grad=False) for r, d in enumerate(wanted)]
    )


@pytest.fixture
def computed(monkeypatch):
    compute(monkeypatch)


@pytest.mark.usefixtures("computed")
def test_gradients_of_gathered_rows():
    check_gathered(2, "relu")


@pytest.mark.usefixtures("computed")
def test_plain_tensors_need_no_operators(monkeypatch):
    for name in ("all_gather_matmul", "matmul_reduce_scatter_rows", "matmul"):
        monkeypatch.setattr(torch.ops.weft, name, None)
    assert emulate(1, gathered)[0][1][0].grad is not None


OPERATORS = {
    "all_gather_matmul": 2,
    "matmul_reduce_scatter": 2,
    "matmul_all_reduce": 2,
    "all_gather_rows": 1,
    "all_gather_matmul_rows": 2,
    "matmul_reduce_scatter_rows": 3,
}
"""The operators and their numbers of operands."""


@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck(name):
    operands = [torch.ones(64, 64, dtype=torch.bfloat16) for _ in range(OPERATORS[name])]
    tests = "test_schema", "test_autograd_registration", "test_faketensor"

    def check(team):
        overload = getattr(torch.ops.weft, name).default
        torch.library.opcheck(overload, operands, {"team": team.name}, test_utils=tests)

    emulate(1, check)


def test_every_operator_of_a_team_is_checked():
    assert OPERATORS.keys() == weft.distributed.operators.KERNELS.keys()


@pytest.mark.usefixtures("computed")
def test_gradients_of_scattered_sums():
    check_scattered(2, "relu")


@pytest.mark.slow
@pytest.mark.parametrize("check", [check_gathered, check_scattered])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("activation", [None, "relu", "silu", "gelu"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_gradients_through_epilogues(check, activation, residual, ranks):
    check(ranks, activation, residual)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_operators_compute_gradients_by_themselves(activation):
    def by_operator(a, b, *, team, transpose_b, epilogue):
        operator = torch.ops.weft.all_gather_matmul
        return operator(a, b.mT, epilogue.bias, activation=activation, team=team.name)

    both = [
        emulate(2, lambda team, call=call: gathered(team, activation, call=call))
        for call in (by_operator, all_gather_matmul)
    ]
    for (d, given), (want, others) in zip(*both, strict=True):
        near(d, want)
        for x, y in zip(given, others, strict=True):
            near(x.grad, y.grad)


@pytest.mark.slow
def test_several_products_have_gradients():
    def run(team):
        a, *bs = numbers(M, K, seed=team.rank), numbers(K, N, seed=10), numbers(K, 24, seed=11)
        found = all_gather_matmul(a, bs, team=team, epilogue=[weft.Epilogue(activation="relu"), None])
        sum(d.float().sum() for d in found).backward()
        with torch.no_grad():
            again = all_gather_matmul(a, bs, team=team, epilogue=[weft.Epilogue(activation="relu"), None])
        assert all(map(torch.equal, found, again))
        return a, bs

    (a, (b, c)), (other, _) = emulate(2, run)
    wanted = exact([(a, b, c), (other, b, c)])
    rows = torch.cat(wanted[0])
    for y, z in zip(*wanted[1:], strict=True):
        (torch.relu(rows @ y).sum() + (rows @ z).sum()).backward()
    for found, want in zip((a, b, c), wanted, strict=True):
        near(found.grad, want[0].grad)


@pytest.mark.slow
def test_a_shared_bias_gets_the_gradient_of_all_ranks():
    apart = emulate(2, scattered)
    shared = emulate(2, lambda team: scattered(team, shared=True))
    alone = emulate(2, lambda team: scattered(team, shared=False))
    assert torch.equal(apart[0][0], alone[0][0])
    total = torch.zeros(N)
    for rank, (d, _) in enumerate(shared):
        gradient = numbers(*d.shape, seed=40 + rank, grad=False)
        total += torch.where(d > 0, gradient, 0).float().sum(0)
    for _, given in shared:
        near(given[2].grad, total)


@pytest.mark.slow
def test_compiled_programs_are_those_of_the_number_of_ranks():
    def run(team):
        a, b = numbers(M, K, seed=team.rank, grad=False), numbers(N, K, seed=1, grad=False)
        product = torch.compile(
            lambda a, b: all_gather_matmul(a, b, team=team, transpose_b=True), fullgraph=True
        )
        return product(a, b).shape[0]

    assert emulate(1, run) == [M] and emulate(2, run) == [2 * M] * 2


def test_products_are_traced_into_one_graph():
    a, b = numbers(M, K, seed=1), numbers(N, K, seed=2)

    def run(team):
        def products(a, b):
            return all_gather_matmul(a, b, team=team, transpose_b=True)

        return torch.compile(products, backend="eager", fullgraph=True)(a, b), products(a, b)

    ((traced, plain),) = emulate(1, run)
    assert torch.equal(traced, plain)


def test_teams_have_names():
    first, second = Team.emulated(World(2))
    assert teams.named(first.name) is first and teams.named(second.name) is second
    with pytest.raises(weft.WeftError, match=r"team must be the name of a weft.distributed.Team.*got 'none'"):
        teams.named("none")


def test_ranks_that_differ_end_with_an_error_on_all():
    def run(team):
        a, b = numbers(M + 8 * team.rank, K, seed=0, grad=False), numbers(N, K, seed=1, grad=False)
        with pytest.raises(weft.WeftError, match=r"all ranks must multiply.*16 x 32.*24 x 32"):
            all_gather_matmul(a, b, team=team, transpose_b=True)

    emulate(2, run)


def test_a_rank_that_ends_too_early_ends_the_others():
    def run(team):
        if team.rank == 0:
            all_gather_matmul(
                np.ones((M, K), ml_dtypes.bfloat16), np.ones((K, N), ml_dtypes.bfloat16), team=team
            )

    with pytest.raises(weft.WeftError, match="rank 0: another rank has ended before this call"):
        emulate(2, run)


def test_what_a_rank_raises_is_raised():
    def run(team):
        if team.rank == 1:
            raise KeyError("mine")
        all_gather_matmul(numbers(M, K, seed=0), numbers(K, N, seed=1), team=team)

    with pytest.raises(KeyError, match="mine"):
        emulate(2, run)


def reduced(team, activation=None, residual=False, operator=False):
    """A product that is added up, its operands, and the gradient of the result, the same on all ranks."""
    a, b = numbers(M, K, seed=team.rank), numbers(N, K, seed=10 + team.rank)
    bias, added = numbers(N, seed=20), numbers(M, N, seed=21) if residual else None
    if operator:
        d = torch.ops.weft.matmul_all_reduce(a, b.mT, bias, added, team=team.name, activation=activation)
    else:
        epilogue = weft.Epilogue(bias, activation, added)
        d = matmul_all_reduce(a, b, team=team, transpose_b=True, epilogue=epilogue)
    d.backward(numbers(M, N, seed=22, grad=False))
    return d, [each for each in (a, b, bias, added) if each is not None]


@pytest.mark.parametrize(
    ("activation", "residual", "operator"),
    [(None, False, True), ("relu", False, False), ("relu", False, True), ("gelu", True, False)],
)
@pytest.mark.usefixtures("computed")
def test_gradients_of_all_reduced_sums(activation, residual, operator):
    found = emulate(2, lambda team: reduced(team, activation, residual, operator))
    exact_of = [[each.detach().double().requires_grad_() for each in own] for _, own in found]
    z = sum(a @ b.mT for a, b, *_ in exact_of) + exact_of[0][2]
    d = z if activation is None else activated(activation, z)
    d = d + exact_of[0][3] if residual else d
    d.backward(numbers(M, N, seed=22, grad=False).double())
    for rank, (result, own) in enumerate(found):
        near(result, d)
        for number, each in enumerate(own):
            near(each.grad, exact_of[rank if number < 2 else 0][number].grad, 0.03)


def scaled(team):
    """Operands of fp8 with their scales: A, B, and both scales."""
    generator = torch.Generator().manual_seed(team.rank)
    a, b = (torch.randn(size, 128, generator=generator).to(torch.float8_e4m3fn) for size in (16, 32))
    return a, b, torch.rand(1, 16, generator=generator).T, torch.rand(1, 1, generator=generator)


@pytest.mark.parametrize("name", ["all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"])
def test_operators_take_scales(name):
    def run(team):
        a, b, *scales = scaled(team)
        want = getattr(weft.distributed, name)(a, b, team=team, transpose_b=True, scales=scales)
        found = getattr(torch.ops.weft, name)(a, b.mT, None, None, *scales, team=team.name)
        assert found.dtype == BF16 and torch.equal(found, want)
        real = a, b.mT, *scales
        with FakeTensorMode() as mode:
            fakes = [mode.from_tensor(each) for each in real]
            fake = getattr(torch.ops.weft, name)(*fakes[:2], None, None, *fakes[2:], team=team.name)
        assert fake.shape == found.shape and fake.dtype == found.dtype

    emulate(2, run)


@pytest.mark.parametrize("name", ["all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"])
def test_products_with_scales_refuse_gradients(name):
    def run(team):
        a, b, *scales = scaled(team)
        for wanted in (a, scales[1]):
            wanted.requires_grad_()
            with pytest.raises(weft.WeftError, match="with scales have no gradients: call them under"):
                getattr(weft.distributed, name)(a, b, team=team, transpose_b=True, scales=scales)
            with pytest.raises(weft.WeftError, match="products with scales have no gradients"):
                getattr(torch.ops.weft, name)(a, b.mT, None, None, *scales, team=team.name)
            wanted.requires_grad_(False)

    emulate(1, run)


def test_tensors_of_another_kind_have_another_plan(monkeypatch):
    devices = object.__new__(CudaDevices)  # without a GPU
    devices._torch = torch

    def keys():
        a, b = torch.zeros(8, 64, dtype=torch.bfloat16), torch.zeros(16, 64, dtype=torch.bfloat16)
        operands = [(a, b), (a, a), (a, b[:8]), (a, b[:, ::2]), (a, b.half()), (a, b, b[0])]
        padded = torch.zeros(16 * 64 + 8, dtype=torch.bfloat16)
        return [devices.key(each) for each in [*operands, (a, padded[8:].view(16, 64)), (a, b), (a,)]]

    for describe in (plans.describer(), None):
        monkeypatch.setattr(devices, "_describe", describe, raising=False)
        *different, again, _ = keys()
        assert again == different[0]
        assert len(set(different)) == len(different) - 1  # A, and the first rows of B
        with pytest.raises(weft.WeftError, match="arrays must be tensors of PyTorch"):
            devices.key((np.zeros(8), np.zeros(8)))


SUMS = pytest.mark.parametrize("function", [matmul_reduce_scatter, matmul_all_reduce])
FUNCTIONS = pytest.mark.parametrize("function", [all_gather_matmul, matmul_reduce_scatter, matmul_all_reduce])


@SUMS
def test_views_have_gradients(monkeypatch, function):
    def run(team):
        whole = [numbers(rows, 2 * K, seed=seed) for rows, seed in ((M, team.rank), (N, 10 + team.rank))]
        for changed in (lambda x: x[:, ::2], lambda x: x[:, ::2].contiguous()):
            a, b = map(changed, whole)
            function(a, b, team=team, transpose_b=True).float().sum().backward()
            yield [x.grad for x in whole]
            for each in whole:
                each.grad = None

    for views, copies in emulate(2, lambda team: list(run(team))):
        assert all(torch.equal(*pair) for pair in zip(views, copies, strict=True))


@pytest.mark.parametrize("function", [all_gather_matmul, matmul_reduce_scatter])
def test_columns_whose_gradients_are_not_sent_are_named_at_once(function):
    def run(team):
        function(numbers(M, K, seed=0), numbers(N - 1, K, seed=1), team=team, transpose_b=True)

    with pytest.raises(weft.WeftError, match=f"^{function.__name__}: gradients need columns of b in multip"):
        emulate(1, run)


@FUNCTIONS
@pytest.mark.parametrize("name", ["a", "b"])
def test_operands_with_gradients_are_matrices(function, name):
    def run(team):
        operands = {"a": numbers(M, K, seed=0), "b": numbers(K, N, seed=1)}
        operands[name] = operands[name].flatten()
        function(*operands.values(), team=team)

    with pytest.raises(weft.WeftError, match=f"^{function.__name__}: {name} must be a matrix, got a shape"):
        emulate(1, run)


def test_gradients_of_other_arrays_are_refused():
    def multiply(team):
        a = torch.ones(8, 64, dtype=torch.bfloat16, requires_grad=True)
        b = np.ones((64, 32), ml_dtypes.bfloat16)
        with pytest.raises(weft.WeftError, match=r"differentiates .*, all must be tensors; got ndarray"):
            all_gather_matmul(a, b, team=team)
        with torch.no_grad():
            return all_gather_matmul(a, b, team=team)

    assert all((d == 64).all() for d in emulate(2, multiply))


@pytest.mark.parametrize(
    ("columns", "bias", "message"),
    [(24, None, "multiples of 16, got 24; the next is 32"), (32, torch.zeros(32), "no bias and no residual")],
)
def test_gates_with_gradients_take_what_gates_take(columns, bias, message):
    def run(team, grad):
        epilogue = weft.Epilogue(bias=bias, activation="swiglu")
        operands = (numbers(rows, K, seed=0, grad=grad) for rows in (M, columns))
        all_gather_matmul(*operands, team=team, transpose_b=True, epilogue=epilogue)

    for grad in (False, True):
        with pytest.raises(weft.WeftError, match=f"all_gather_matmul: swiglu .*{message}"):
            emulate(1, lambda team, grad=grad: run(team, grad))


@FUNCTIONS
@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (("meta", K), ("meta", K + 8), f"a and b must agree in K, got {K} and {K + 8}"),
        (("cpu", K), ("meta", K), "arrays must be on one device, got cpu and meta"),
    ],
)
def test_shapes_of_operands_that_do_not_fit_are_refused(function, a, b, message):
    def run(team):
        function(
            *(torch.empty(M, k, dtype=BF16, device=device) for device, k in (a, b)), team=team, **options
        )

    options = {"transpose_b": True}
    with pytest.raises(RuntimeError, match=f"^weft.distributed: {message}"):
        emulate(1, run)


@pytest.mark.parametrize(
    ("function", "arch", "message"),
    [
        (3, "sm_90a", "function must be a function of a team, got 3"),
        (id, 90, "arch must be a chip such as 'sm_90a', got 90"),
        (id, "sm_90b", "sm_90b"),
    ],
)
def test_what_cannot_be_emulated_is_refused(function, arch, message):
    with pytest.raises(weft.WeftError, match=message):
        emulate(2, function, arch=arch)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e9, "30", None])
def test_teams_wait_for_some_seconds(seconds):
    with pytest.raises(weft.WeftError, match="seconds must be above 0 and below 2147483, got"):
        Team.emulated(World(1), seconds=seconds)


def test_emulated_teams_have_a_world_and_a_chip():
    with pytest.raises(weft.WeftError, match=r"world must be an emulator\.World, got 2"):
        Team.emulated(2)
    with pytest.raises(weft.WeftError, match="sm_90b"):
        Team.emulated(World(1), "sm_90b")


@pytest.mark.parametrize(("by_operator", "error"), [(False, RuntimeError), (True, weft.WeftError)])
def test_there_are_no_second_derivatives(by_operator, error):
    def run(team):
        a, b = numbers(M, K, seed=0), numbers(K, N, seed=1)
        options = {"team": team.name if by_operator else team}
        d = (torch.ops.weft.all_gather_matmul if by_operator else all_gather_matmul)(a, b, **options)
        (gradient,) = torch.autograd.grad(d.float().square().sum(), a, create_graph=True)
        gradient.float().sum().backward()

    with pytest.raises(error, match=r"differentiate twice|gradients of gradients"):
        emulate(1, run)
