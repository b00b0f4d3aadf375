"""torch.compile of Weft's functions by themselves, in decorators of users, and after graph breaks."""

import functools
import subprocess
import sys
import textwrap
from typing import ClassVar

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
import weft.language as w  # noqa: E402
import weft.nn  # noqa: E402

BF16 = torch.bfloat16


@pytest.fixture(autouse=True)
def _without_programs():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(BF16)


def test_a_decorator_is_traced_not_what_it_decorates():
    @functools.wraps(weft.matmul)
    def negated(*arguments, **options):
        return -weft.matmul(*arguments, **options)

    a, b = numbers(8, 16), numbers(16, 24)
    assert negated.__name__ == "matmul" and negated.__wrapped__ is weft.matmul
    for function in (negated, lambda a, b: negated(a, b)):
        assert torch.equal(compiled(function)(a, b), -weft.matmul(a, b))


def test_an_epilogue_that_is_a_function_runs_between_graphs_and_has_no_gradients():
    a, b, bias = numbers(9, 16), numbers(16, 24), torch.ones(24)

    def product(a, b, bias):
        extra = {"bias": bias}
        return weft.matmul(a + 1, b, epilogue=lambda x, row, column, bias: w.relu(x + bias), extra=extra) * 2

    want = 2 * weft.matmul(a + 1, b, epilogue=weft.Epilogue(bias, "relu"))
    assert torch.equal(product(a, b, bias), want) and torch.equal(compiled(product)(a, b, bias), want)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="isn't part of a graph: use weft"):
        compiled(product, fullgraph=True)(a, b, bias)
    refused = r"where PyTorch differentiates.*: detach the tensors"
    with pytest.raises(weft.WeftError, match=refused):
        product(a.requires_grad_(), b, bias)
    with torch.no_grad():
        assert torch.equal(product(a, b, bias), want)
    with pytest.raises(weft.WeftError, match="where f32 isn't multiplied as tf32"):
        product(a.detach().float(), b.float(), bias)


class Tagged(torch.Tensor):
    """A subclass that sees what is computed."""

    seen: ClassVar[list] = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(str(function))
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("leading", [(), (2, 3)], ids=str)
def test_subclasses_see_the_operator_and_remain(leading):
    a, b = numbers(*leading, 8, 16), numbers(16, 24)
    tagged, bias = a.as_subclass(Tagged), torch.ones(24).as_subclass(Tagged)
    layer = weft.nn.Linear(16, 24, dtype=BF16, activation="relu")
    for call, of in (
        (lambda a, b: weft.matmul(a, b), (tagged, b)),
        (lambda a, b: weft.matmul(a, b), (a, b.as_subclass(Tagged))),
        (lambda a, b: weft.matmul(a, b, epilogue=weft.Epilogue(bias=bias)), (a, b)),
        (lambda a, _: torch.no_grad()(layer)(a), (tagged, b)),
    ):
        Tagged.seen.clear()
        found, plain = call(*of), call(*(each.as_subclass(torch.Tensor) for each in of))
        assert type(found) is Tagged and any("weft.matmul" in each for each in Tagged.seen)
        assert torch.equal(found.as_subclass(torch.Tensor), plain.as_subclass(torch.Tensor))


FUNCTIONS = {
    "matmul": lambda run: run(weft.matmul)(numbers(8, 16), numbers(24, 16), transpose_b=True),
    "attention": lambda run: run(weft.attention)(*[numbers(1, 1, 16, 64)] * 3, causal=True),
    "quantize": lambda run: run(weft.quantize)(numbers(16, 32)).values.float(),
    "int4": lambda run: run(weft.matmul_int4)(numbers(4, 128), weft.quantize_int4(numbers(64, 128))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_compiled_by_themselves(name):
    call, graphs = FUNCTIONS[name], []

    def run(function):
        return torch.compile(function, backend=lambda module, _: graphs.append(module) or module)

    assert torch.equal(call(run), call(lambda function: function))
    (nodes,) = ([str(node.target) for node in graph.graph.nodes] for graph in graphs)
    assert any("weft" in each for each in nodes)


def after_a_break(a, b):
    """Dynamo runs this frame without tracing it, and would trace those that it calls."""
    try:
        torch._dynamo.graph_break()
        return weft.matmul(a, b)
    except ZeroDivisionError:
        return None


def test_calls_after_graph_breaks_are_plain():
    a, b = numbers(8, 16), numbers(16, 40)
    weight = b.clone().requires_grad_()
    found = compiled(after_a_break)(a, weight)
    found.sum().backward()
    assert torch.equal(compiled(after_a_break)(a, b), found)
    assert torch.equal(weight.grad, a.sum(0, dtype=torch.float32).to(BF16)[:, None].expand(16, 40))


@pytest.mark.slow
def test_calls_after_graph_breaks_with_a_torch_that_is_imported_later():
    program = """
        import weft, torch

        def caller(a, b):
            try:
                torch._dynamo.graph_break()
                return weft.matmul(a, b)
            except ZeroDivisionError:
                return None

        a, b = torch.ones(8, 16).half(), torch.ones(16, 8).half()
        weft.matmul(a[:1], b)
        torch.compile(caller, backend="eager")(a, b)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
