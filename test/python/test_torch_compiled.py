"""Products in programs that Inductor compiles: plain calls in the place of operators."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch._inductor.utils import run_and_get_code  # noqa: E402

import weft  # noqa: E402
import weft.nn  # noqa: E402
from weft import Epilogue  # noqa: E402
from weft.launch import runtime  # noqa: E402
from weft.launch.launcher import OVERLAP  # noqa: E402
from weft.launch.plans import describer  # noqa: E402
from weft.multiply import plans  # noqa: E402
from weft.torch.compiled import Product  # noqa: E402

pytestmark = pytest.mark.cpu_seconds(30)  # the first to compile in a process loads PyTorch's compiler

DEVICE = "cpu" if runtime.available() is not None else "cuda"
BF16, F32 = torch.bfloat16, torch.float32


@pytest.fixture(autouse=True)
def _without_caches():
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()


def numbers(*shape, dtype=BF16, grad=False):
    return torch.randn(*shape, device=DEVICE).to(dtype).requires_grad_(grad)


def program(function, *arguments, **options):
    """The result of a compiled function, and its programs."""
    found, programs = run_and_get_code(torch.compile(function, fullgraph=True, **options), *arguments)
    return found, "\n".join(programs)


def test_a_program_calls_no_operator():
    a, b, c = numbers(16, 32), numbers(24, 32), numbers(24, 16)

    def chain(a, b, c):
        return weft.matmul(weft.matmul(a, b, transpose_b=True), c)

    found, text = program(chain, a, b, c)
    assert torch.equal(found, chain(a, b, c))
    assert text.count("WeftProduct(") == 1  # for both products
    assert text.count(", out=buf") == 2 and "torch.ops.weft" not in text


def test_both_products_of_a_gradient_are_calls():
    a, b = numbers(16, 32, grad=True), numbers(32, 24, grad=True)
    gradient = numbers(16, 24)

    def step(a, b):
        return torch.autograd.grad(compiled(a, b), (a, b), gradient)

    compiled = torch.compile(lambda a, b: weft.matmul(a, b), fullgraph=True)
    found, texts = run_and_get_code(step, a, b)
    wanted = torch.autograd.grad(weft.matmul(a, b), (a, b), gradient)
    assert all(map(torch.equal, found, wanted))
    text = "\n".join(texts)
    assert text.count(", out=buf") == 3 and "torch.ops.weft" not in text


def test_transposed_operands_are_not_copied():
    """What a pointwise program makes is stored once; a product of its transpose reads it there."""
    weight, x = numbers(24, 32, dtype=F32), numbers(16, 32)

    def step(x, weight):
        w = weight.to(BF16)  # as an activation's gradient, which has two products
        y = weft.matmul(x, w.t())
        return y, weft.matmul(y, w)

    found, text = program(step, x, weight)
    assert all(map(torch.equal, found, step(x, weight)))
    stored = [line for line in text.splitlines() if "= empty_strided" in line and "bfloat16" in line]
    assert len(stored) == 3 and "(1, 32)" in text  # w and both products, the second one's w.t() is a view


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.5},
        {"c": (16, 24), "beta": 0.5, "alpha": 2.0},
        {"bias": (24,), "activation": "gelu_tanh", "residual": (16, 24)},
        {"c": (16, 24), "beta": 1.0, "bias": (24,), "residual": (16, 24), "out_dtype": F32},
        {"alpha": (1,), "accumulate": "f32", "bias": (24,)},
    ],
    ids=str,
)
def test_a_call_has_all_operands_and_options(options):
    a, b = numbers(16, 32), numbers(32, 24)
    dtype = options.get("out_dtype", BF16)
    given = {
        name: numbers(*x, dtype=F32 if name == "alpha" else dtype) if isinstance(x, tuple) else x
        for name, x in options.items()
    }
    arrays = {name: x for name, x in given.items() if isinstance(x, torch.Tensor)}

    def function(a, b, arrays):
        named = given | arrays
        epilogue = Epilogue(*(named.pop(name, None) for name in ("bias", "activation", "residual")))
        return weft.matmul(a, b, epilogue=epilogue, **named)

    found, text = program(function, a, b, arrays)
    assert torch.equal(found, function(a, b, arrays))
    assert "weft_product_" in text and "torch.ops.weft" not in text


def test_operands_that_are_added_have_contiguous_rows():
    """Without a constraint, Inductor would store them in the order of what they are made of."""
    a, b, x = numbers(16, 32), numbers(32, 24), numbers(24, 16)

    def function(a, b, x):
        c, residual = (x.t() * 2).contiguous(), (x.t() + 1).contiguous()
        return weft.matmul(a, b, c=c, beta=1.0, epilogue=Epilogue(residual=residual))

    found, _ = program(function, a, b, x)
    assert torch.equal(found, function(a, b, x))


def test_an_array_and_a_number_alpha_are_left_to_the_operator():
    a, b, alphas = numbers(16, 32), numbers(32, 24), torch.tensor([2.0], device=DEVICE)

    def function(a, b, alphas):
        return torch.ops.weft.matmul(a, b, None, None, None, alphas, alpha=0.5)

    found, text = program(function, a, b, alphas)
    assert torch.equal(found, function(a, b, alphas)) and "torch.ops.weft.matmul" in text


@pytest.mark.slow
def test_sizes_may_change():
    b = numbers(32, 24)
    compiled = torch.compile(lambda a, b: weft.matmul(a, b), fullgraph=True, dynamic=True)
    for rows in (16, 40, 17):
        a = numbers(rows, 32)
        found, texts = run_and_get_code(compiled, a, b)
        assert torch.equal(found, weft.matmul(a, b))
        assert all("torch.ops.weft" not in text for text in texts)


@pytest.mark.slow
def test_matrices_without_contiguous_rows_or_columns_are_copied():
    a, b = numbers(16, 64)[:, ::2], numbers(32, 24)
    found, _ = program(lambda a, b: weft.matmul(a, b), a, b)
    assert torch.equal(found, weft.matmul(a.contiguous(), b))


def test_leading_dimensions_scales_and_groups():
    a, b = numbers(2, 16, 32), numbers(32, 24)
    found, text = program(lambda a, b: weft.matmul(a, b), a, b)
    assert torch.equal(found, weft.matmul(a, b)) and "torch.ops.weft" not in text

    def scaled(a, b, *scales):
        return weft.matmul(a, b, transpose_b=True, scales=scales, promote=True)

    fp8 = [numbers(*shape).to(torch.float8_e4m3fn) for shape in ((64, 64), (32, 64))]
    scales = numbers(64, 1, dtype=F32), numbers(1, 32, dtype=F32)
    found, text = program(scaled, *fp8, *scales)
    assert torch.equal(found, scaled(*fp8, *scales)) and "torch.ops.weft" not in text

    def grouped(a, b, groups):
        return weft.matmul(a, b, groups=groups)

    a, b = numbers(256, 32), numbers(2, 32, 24)
    groups = torch.tensor([0] * 128 + [1] * 128, dtype=torch.int32, device=DEVICE)
    found, text = program(grouped, a, b, groups)
    assert torch.equal(found, grouped(a, b, groups)) and "torch.ops.weft" not in text


@pytest.mark.slow
def test_autocast_around_a_program():
    layer = weft.nn.Linear(32, 24, device=DEVICE)
    x = numbers(16, 32, dtype=F32)
    with torch.autocast(DEVICE, dtype=BF16):
        found, text = program(layer, x)
        assert torch.equal(found, layer(x))
    assert found.dtype == BF16 and "weft_product_" in text and "torch.ops.weft" not in text


@pytest.mark.slow
def test_branches_of_a_program():
    a, b = numbers(16, 32), numbers(32, 24)

    def function(flag, a, b):
        return torch.cond(flag, lambda a, b: weft.matmul(a, b), lambda a, b: weft.matmul(a, b) * 2, (a, b))

    for flag in (True, False):
        found, text = program(function, torch.tensor(flag, device=DEVICE), a, b)
        assert torch.equal(found, weft.matmul(a, b) * (1 if flag else 2))
        assert "weft_product_" in text and "torch.ops.weft" not in text


class Kernel:
    """A launch that notes its addresses, and has the statuses of a list."""

    def __init__(self, *statuses):
        self.statuses, self.queued, self.settled, self.action = list(statuses), [], [], "a launch"

    def queue(self, *given):
        self.queued.append(given)
        return self.statuses.pop(0)

    def settle(self, *given):
        self.settled.append(given)


def test_later_calls_only_queue_a_launch(monkeypatch):
    a, b, bias, out = (torch.zeros(*shape, dtype=BF16) for shape in ((16, 32), (32, 24), (24,), (16, 24)))
    kernel, product = Kernel(0, -1, OVERLAP), Product("bias", activation="relu")
    made = []

    def planned(key, a, b, out, added, asked, stream):
        made.append((sorted(added), asked.activation, asked.alpha, stream))
        plans.kept.add(key, plans.Plan(kernel.queue, kernel, None, lambda: 7, None, None))

    monkeypatch.setattr(plans, "planned", planned)
    monkeypatch.setattr(plans, "kept", type(plans.kept)())
    if describer() is None:
        pytest.skip("this PyTorch has no table to exchange tensors")
    product(a, b, bias, out=out)
    assert made == [(["bias"], "relu", 1.0, None)] and not kernel.queued
    addresses = tuple(each.data_ptr() for each in (a, b, out, bias))
    with torch.autocast("cpu", dtype=BF16):
        product(a, b, bias, out=out)
    assert kernel.queued == [(7, *addresses)] and len(made) == 1
    product(a, b, bias, out=out)  # without workspaces, for example
    assert kernel.settled == [(-1, 7, *addresses)]
    run = SimpleNamespace(calls=0)
    monkeypatch.setattr("weft.torch.compiled.run", lambda *_, **__: setattr(run, "calls", run.calls + 1))
    product(a, b, bias, out=out)  # overlapping operands, which `weft.matmul` names
    assert run.calls == 1
    other = Product("bias", activation="silu")
    other(a, b, bias, out=out)
    assert [each[1] for each in made] == ["relu", "silu"]
    product(a[:, :16], b[:16], bias, out=out)  # with other strides
    assert len(made) == 3


def test_the_same_options_share_plans():
    assert Product("bias", alpha=2.0)._number == Product("bias", alpha=2.0)._number
    assert Product("bias", alpha=2.0)._number != Product("bias")._number


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "function, sizes",
    [
        (lambda x: weft.matmul(x, x.t()), (8, 64)),
        (lambda x: weft.attention(x, x, x), (1, 2, 16, 64)),
    ],
    ids=["matmul", "attention"],
)
def test_programs_do_not_read_the_modules_that_threads_import(function, sizes):
    # Dynamo iterates over a dictionary that it traces: an import of another thread made this fail.
    guards = torch._dynamo.explain(function)(numbers(*sizes)).out_guards
    names = [str(each.name) for each in guards]
    assert any("_current_level" in name for name in names)  # of forward mode
    assert not [name for name in names if "sys.modules" in name]
