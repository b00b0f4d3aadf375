"""Epilogues that `weft.inductor` fuses by pattern."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

import weft  # noqa: E402
import weft.inductor  # noqa: E402
import weft.nn  # noqa: E402
from weft.inductor import patterns  # noqa: E402
from weft.launch import runtime  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
BF16, F32 = torch.bfloat16, torch.float32
ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda z: functional.gelu(z, approximate="tanh"),
    "silu": functional.silu,
}


@pytest.fixture
def fusions(monkeypatch):
    """The pass, which takes products of PyTorch on all devices."""
    monkeypatch.setattr(patterns, "DEVICES", ("cuda", "cpu"))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # PyTorch's default, which measuring changes
    torch._dynamo.reset()
    weft.inductor.enable()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield torch._inductor.config.post_grad_custom_pre_pass
    weft.inductor.disable()
    torch._dynamo.reset()
    torch.set_float32_matmul_precision(before)


def numbers(*shape, dtype=BF16):
    return torch.randn(*shape, device=DEVICE).to(dtype)


class Graphs:
    """A backend that fuses and runs the graph that Inductor would lower, without compiling kernels."""

    def __init__(self):
        self.graphs = []

    def __call__(self, module, example):
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd
        from torch._inductor.decomposition import select_decomp_table

        def fused(module, example):
            fusion = torch._inductor.config.post_grad_custom_pre_pass
            if fusion is not None:
                fusion(module.graph)
            module.graph.lint()
            module.recompile()
            self.graphs.append(module.graph)
            return make_boxed_func(module.forward)

        return aot_autograd(fw_compiler=fused, decompositions=select_decomp_table())(module, example)

    def calls(self):
        return [node for graph in self.graphs for node in graph.nodes if node.op == "call_function"]

    def products(self):
        ours = torch.ops.weft.matmul.default, torch.ops.weft.scaled_matmul.default
        return [node for node in self.calls() if node.target in ours]


def fused(function, *arguments, **options):
    """The result of a compiled function, and its graphs."""
    torch._dynamo.reset()
    graphs = Graphs()
    found = torch.compile(function, backend=graphs, fullgraph=True, **options)(*arguments)
    return found, graphs


def close(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert (found.double() - wanted.double()).abs().max() <= 2e-2 * wanted.double().abs().max()


@pytest.mark.each_value
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("leading", [(16,), (2, 8)], ids=str)
def test_layers_of_pytorch_with_activation_and_residual(fusions, name, leading):
    layer = torch.nn.Linear(32, 64, device=DEVICE, dtype=BF16)
    x, residual = numbers(*leading, 32), numbers(*leading, 64)

    def function(x, residual):
        return ACTIVATIONS[name](layer(x)) + residual

    with torch.no_grad():
        found, graphs = fused(function, x, residual)
        close(found, function(x, residual))
    (product,) = graphs.products()
    assert fusions.count == 1 and product.kwargs["activation"] == name
    assert [each is None for each in product.args] == [False] * 4 + [True] * 2  # bias and residual
    rest = {str(each.target).split(".")[1] for each in graphs.calls()}
    assert rest <= {"permute", "matmul", "reshape", "view"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_products_of_weft(fusions, name):
    x, w, bias = numbers(2, 8, 32), numbers(32, 24), numbers(24)

    def function(x, w, bias):
        return ACTIVATIONS[name](weft.matmul(x, w) + bias).float()

    found, graphs = fused(function, x, w, bias)
    close(found, function(x, w, bias))
    (product,) = graphs.products()
    assert product.kwargs["activation"] == name and product.kwargs["out_dtype"] == F32
    assert len(graphs.calls()) == 1


def test_scaled_products(fusions):
    a, b = (numbers(*shape).to(torch.float8_e4m3fn) for shape in ((64, 64), (32, 64)))
    scales = numbers(64, 1, dtype=F32), numbers(1, 32, dtype=F32)
    residual = numbers(64, 32)

    def function(a, b, residual, *scales):
        return weft.matmul(a, b, transpose_b=True, scales=scales) + residual

    found, graphs = fused(function, a, b, residual, *scales)
    close(found, function(a, b, residual, *scales))
    assert fusions.count == 1 and len(graphs.products()) == 1


def test_the_sum_with_c_and_the_numbers_of_addmm(fusions):
    a, b, c = numbers(16, 32), numbers(32, 24), numbers(16, 24)

    def function(a, b, c):
        return torch.addmm(c, a, b, alpha=0.5, beta=2.0).relu()

    found, graphs = fused(function, a, b, c)
    close(found, function(a, b, c))
    (product,) = graphs.products()
    assert (product.kwargs["alpha"], product.kwargs["beta"]) == (0.5, 2.0)


def test_sizes_may_be_dynamic(fusions):
    layer = torch.nn.Linear(32, 64, device=DEVICE, dtype=BF16)
    graphs = Graphs()
    compiled = torch.compile(lambda x, y: functional.gelu(layer(x)) + y, backend=graphs, dynamic=True)
    with torch.no_grad():
        for rows in (3, 8):
            x, y = numbers(2, rows, 32), numbers(2, rows, 64)
            close(compiled(x, y), functional.gelu(layer(x)) + y)
    assert len(graphs.graphs) == len(graphs.products()) == 1


def test_gradients_of_fused_layers(fusions):
    layer = torch.nn.Linear(32, 64, device=DEVICE, dtype=BF16)
    x = numbers(16, 32).requires_grad_()
    found, graphs = fused(lambda x: layer(x).relu(), x)
    gradient = numbers(16, 64)
    ours = torch.autograd.grad(found, (x, *layer.parameters()), gradient)
    theirs = torch.autograd.grad(layer(x).relu(), (x, *layer.parameters()), gradient)
    for each, wanted in zip(ours, theirs, strict=True):
        close(each, wanted)
    assert [each.kwargs.get("activation") for each in graphs.products()] == ["relu"]


def test_what_others_read_stays(fusions):
    a, b, bias = numbers(16, 32), numbers(32, 24), numbers(24)
    functions = [
        lambda a, b, bias: ((z := a @ b), z.relu()),  # z is a result
        lambda a, b, bias: a @ b + bias,  # PyTorch fuses it
        lambda a, b, bias: functional.leaky_relu(a @ b),
        lambda a, b, bias: (a @ b).float().sum(0),  # a sum of fewer bytes
        lambda a, b, bias: ((a @ b).float() + a[:, :24].float()).sum(0),  # the same
        lambda a, b, bias: (a @ b) + a[:1, :24],
        lambda a, b, bias: (a[:, :30] @ b[:30]).relu(),  # rows that a kernel would copy
        lambda a, b, bias: (a.float() @ b.float()).relu(),  # exact in f32
    ]
    for function in functions:
        _, graphs = fused(function, a, b, bias)
        assert not graphs.products()


SPELLED = {
    "relu": lambda z: z.clamp_min(0),
    "relu by where": lambda z: torch.where(z <= 0, torch.full((), 0.0, dtype=z.dtype), z),
    "gelu": lambda z: z * 0.5 * (1 + torch.erf(z / 2**0.5)),
    "gelu_tanh": lambda z: 0.5 * z * (1 + torch.tanh(0.7978845608 * z * (1 + 0.044715 * z * z))),
    "silu": lambda z: z / (1 + torch.exp(-z)),
}
OTHERS = [
    lambda z: z.relu() + 1e-7,
    lambda z: z.clamp_min(1e-7),
    lambda z: torch.where(z > 0, z, torch.full((), 0.0, dtype=z.dtype)),  # 0 for NaN
    lambda z: torch.where(z < 0, torch.full((), 0.0, dtype=z.dtype), z),  # -0 for -0
    lambda z: torch.where(z > 20, torch.full((), 0.0, dtype=z.dtype), z.relu()),
    lambda z: z * (z > 0),
    lambda z: z * torch.sigmoid(1.0000005 * z),
    lambda z: z.relu() * 2,
]


def test_activations_are_recognized_by_their_formulas(fusions):
    a, b = numbers(16, 32), numbers(32, 24)
    for name, spelled in SPELLED.items():
        found, graphs = fused(lambda a, b, spelled=spelled: spelled(weft.matmul(a, b)), a, b)
        close(found, spelled(a @ b))
        assert [each.kwargs["activation"] for each in graphs.products()] == [name.split()[0]]


def test_other_functions_arent_taken_for_activations(fusions):
    a, b = numbers(16, 32), numbers(32, 24)
    for other in OTHERS:
        _, graphs = fused(lambda a, b, other=other: other(weft.matmul(a, b)), a, b)
        assert len(graphs.calls()) > len(graphs.products()) == 1


def test_mm_on_the_cpu_is_left_to_pytorch():
    weft.inductor.enable()
    try:
        _, graphs = fused(lambda a, b: (a @ b).relu(), *(torch.randn(16, 16).to(BF16) for _ in "ab"))
    finally:
        weft.inductor.disable()
    assert not graphs.products()


def test_it_goes_with_another_pass_and_can_be_turned_off():
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Other(CustomGraphPass):
        def __init__(self, name):
            self.name, self.count = name, 0

        def __call__(self, graph):
            self.count += 1

        def uuid(self):
            return self.name

    config = torch._inductor.config
    for name in ("one", None):
        other = Other(name)
        with config.patch(post_grad_custom_pre_pass=other):
            weft.inductor.enable()
            weft.inductor.enable()
            ours = config.post_grad_custom_pre_pass
            assert isinstance(ours, patterns.Fusions) and ours.before is other
            assert (ours.uuid() is None) == (name is None)
            ours(torch.fx.Graph())
            assert other.count == 1
            weft.inductor.enable(patterns=False)
            assert config.post_grad_custom_pre_pass is other
            weft.inductor.disable()
            assert config.post_grad_custom_pre_pass is other
    assert patterns.Fusions().uuid() != patterns.Fusions(Other("one")).uuid()


@pytest.mark.slow
def test_programs_of_inductor(fusions):
    layer = weft.nn.Linear(32, 64, device=DEVICE, dtype=BF16)
    plain = torch.nn.Linear(64, 32, device=DEVICE, dtype=BF16)
    x = numbers(2, 8, 32)

    def function(x):
        return plain(functional.silu(layer(x))).float() + x

    with torch.no_grad():
        compiled = torch.compile(function, fullgraph=True)
        found, texts = torch._inductor.utils.run_and_get_code(compiled, x)
        close(found, function(x))
    assert fusions.count == 2 and "".join(texts).count(", out=buf") == 2
    assert "activation='silu'" in "".join(texts) and "cpp_fused" not in "".join(texts)
