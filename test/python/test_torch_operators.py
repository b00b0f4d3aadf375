"""PyTorch's operators of Weft: gradients, torch.compile, vmap, autocast and export. On a GPU if there is one,
else in the emulator.
"""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
import weft.torch  # noqa: E402
from weft import Epilogue  # noqa: E402
from weft.launch import runtime  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
# bf16 has 8 bits, and a gradient is rounded up to three times on its way.
TOLERANCES = {BF16: 3e-2, F16: 4e-3, F32: 4e-3, F64: 1e-12}


def numbers(*shape, dtype=BF16, seed=0, grad=False):
    rng = np.random.default_rng([seed, *shape])
    made = torch.from_numpy(rng.standard_normal(shape)).to(DEVICE, dtype)
    return made.requires_grad_(grad)


def exact(a, b, bias=None, residual=None, c=None, alphas=None, *, alpha=1.0, beta=0.0, activation=None):
    """The same product by PyTorch in f64."""
    z = alpha * (a.double() @ b.double())
    if alphas is not None:
        z = z * (alphas.double().reshape(-1, 1, 1) if alphas.numel() > 1 else alphas.double().reshape(()))
    if c is not None:
        z = z + beta * c.double()
    if bias is not None:
        z = z + bias.double()
    d = weft.torch.autograd.activated(activation, z)
    return d if residual is None else d + residual.double()


def close(found, wanted, dtype=None):
    tolerance = TOLERANCES[dtype or found.dtype]
    scale = wanted.double().abs().max().item() or 1.0
    assert (found.double() - wanted.double()).abs().max().item() <= tolerance * scale


def gradients(function, operands, weights):
    """The result, and the gradients of the operands that want one, of a weighted sum of the result."""
    operands = [x if x is None else x.detach().clone().requires_grad_(x.requires_grad) for x in operands]
    result = function(*operands)
    (result * weights.to(result.dtype)).sum().backward()
    return result.detach(), [x.grad for x in operands if x is not None and x.requires_grad]


def compare(operands, shape, weft_options=None, **options):
    """Compares result and gradients with those of f64."""
    weights = numbers(*shape, dtype=F64, seed=9)

    def by_weft(a, b, bias, residual, c, alphas):
        options_ = {**options, **(weft_options or {})}
        activation = options_.pop("activation", None)
        alpha = options_.pop("alpha", 1.0) if alphas is None else alphas
        beta = options_.pop("beta", None)
        return weft.matmul(
            a, b, c=c, alpha=alpha, beta=beta, epilogue=Epilogue(bias, activation, residual), **options_
        )

    found, of_weft = gradients(by_weft, operands, weights)
    wanted, of_torch = gradients(lambda *x: exact(*x, **options), operands, weights)
    dtype = operands[0].dtype
    close(found, wanted, dtype)
    assert len(of_weft) == len(of_torch)
    for x, y in zip(of_weft, of_torch, strict=True):
        close(x, y, dtype)


@pytest.mark.each_value
@pytest.mark.parametrize("layout", list(itertools.product((False, True), repeat=2)), ids=str)
@pytest.mark.parametrize("dtype", [BF16, F16, F32, F64], ids=str)
def test_gradients_of_both_matrices_in_every_layout(dtype, layout):
    torch.set_float32_matmul_precision("high")  # so that Weft multiplies f32
    a = numbers(32, 48, dtype=dtype).mT if layout[0] else numbers(48, 32, dtype=dtype)
    b = numbers(40, 32, dtype=dtype).mT if layout[1] else numbers(32, 40, dtype=dtype)
    compare([a.requires_grad_(), b.requires_grad_(), None, None, None, None], (48, 40), alpha=0.5)


def test_gradients_where_the_call_transposes():
    a, b = numbers(32, 48, grad=True), numbers(40, 32, grad=True)
    weft.matmul(a, b, transpose_a=True, transpose_b=True).float().square().sum().backward()
    x, y = (each.detach().double().requires_grad_() for each in (a, b))
    (x.mT @ y.mT).square().sum().backward()
    close(a.grad, x.grad)
    close(b.grad, y.grad)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu"])
def test_gradients_through_an_epilogue(activation, residual):
    operands = [
        numbers(48, 32, grad=True),
        numbers(32, 40, grad=True),
        numbers(40, dtype=F32, grad=True),
        numbers(48, 40, seed=1, grad=True) if residual else None,
        numbers(48, 40, seed=2, grad=True),
        None,
    ]
    compare(operands, (48, 40), {"out_dtype": "f32"}, alpha=0.25, beta=-0.5, activation=activation)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_the_operator_computes_gradients_by_itself(activation):
    a, b, bias, residual = numbers(48, 32), numbers(32, 40), numbers(40), numbers(48, 40, seed=1)
    weights = numbers(48, 40, dtype=F64, seed=9)
    operands = [x.requires_grad_() for x in (a, b, bias, residual)]
    found, of_weft = gradients(lambda *x: torch.ops.weft.matmul(*x, activation=activation), operands, weights)
    wanted, of_torch = gradients(lambda *x: exact(*x, activation=activation), operands, weights)
    for x, y in zip([found, *of_weft], [wanted, *of_torch], strict=True):
        close(x, y)


@pytest.mark.parametrize(
    "shapes", [((3, 16, 32), (3, 32, 24)), ((3, 16, 32), (32, 24)), ((16, 32), (3, 32, 24))]
)
@pytest.mark.parametrize("alphas", [False, True])
def test_gradients_of_batches(shapes, alphas):
    a, b = (numbers(*shape, grad=True) for shape in shapes)
    factors = numbers(3, dtype=F32, seed=4, grad=True) if alphas else None
    operands = [a, b, numbers(24, grad=True), None, None, factors]
    compare(operands, (3, 16, 24), activation="silu")


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ((2, 3, 16, 32), (32, 24)),
        ((2, 3, 16, 32), (3, 32, 24)),
        ((2, 1, 16, 32), (1, 3, 32, 24)),
        ((16, 32), (2, 3, 32, 24)),
        ((32,), (2, 3, 32, 24)),
        ((2, 3, 16, 32), (32,)),
        ((32,), (32,)),
    ],
    ids=str,
)
def test_gradients_of_broadcast_operands_are_summed(of_a, of_b):
    a, b = numbers(*of_a, grad=True), numbers(*of_b, grad=True)
    shape = np.matmul(np.empty(of_a), np.empty(of_b)).shape
    c = numbers(*shape[-2:], seed=2, grad=True) if len(of_a) > 1 and len(of_b) > 1 else None
    bias = None if len(of_b) == 1 else numbers(24, grad=True)
    compare([a, b, bias, c, None, None], shape, activation="silu")
    if c is not None:
        compare([a, b, None, c, c, None], shape, beta=-1.0)


@pytest.mark.parametrize(("of_a", "of_b"), [((0, 32), (32, 24)), ((2, 3, 0), (0, 24)), ((0, 4, 8), (8,))])
def test_gradients_of_empty_products(of_a, of_b):
    a, b = numbers(*of_a, grad=True), numbers(*of_b, grad=True)
    d = weft.matmul(a, b)
    assert d.shape == (a @ b).shape and not d.any()
    d.sum().backward()
    assert a.grad.shape == a.shape and b.grad.shape == b.shape and not b.grad.any()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_of_leading_dimensions_and_vectors(dynamic):
    torch._dynamo.reset()

    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=dynamic)
    def several(x, w, v):
        return weft.matmul(x, w), weft.matmul(x, v), weft.matmul(v, w)

    for heads in (2, 3):
        x, w, v = numbers(2, heads, 16, 32, grad=True), numbers(heads, 32, 24, grad=True), numbers(32)
        for found, wanted in zip(several(x, w, v), (x @ w, x @ v, v @ w), strict=True):
            assert found.shape == wanted.shape
            close(found, wanted)
        several(x, w, v)[0].sum().backward()
        close(w.grad, (x.detach().double().sum((0, 2))[..., None]).expand(w.shape))


def test_vectors_that_are_transposed_are_refused_when_gradients_are_recorded():
    with pytest.raises(weft.WeftError, match="transpose_b must be False for a vector, got b of 32 elements"):
        weft.matmul(numbers(16, 32, grad=True), numbers(32), transpose_b=True)
    for device in (DEVICE, "meta"):
        message = r"b must have at least two dimensions in torch.ops.weft, got \[32\]: add one with unsqueeze"
        with pytest.raises(Exception, match=message):
            torch.ops.weft.matmul(numbers(16, 32).to(device), numbers(32).to(device))


def test_gradients_of_alphas_that_want_none_scale_those_of_the_others():
    operands = [
        numbers(3, 16, 32, grad=True),
        numbers(3, 32, 24, grad=True),
        None,
        None,
        None,
        numbers(3, dtype=F32),
    ]
    compare(operands, (3, 16, 24))
    operands[-1] = numbers(1, dtype=F32, seed=3)
    compare(operands, (3, 16, 24), activation="relu")


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_gradcheck_and_gradgradcheck(fast, activation):
    operands = [numbers(*shape, dtype=F64, grad=True) for shape in ((3, 4), (4, 2), (2,))]

    def product(*x):
        return torch.ops.weft.matmul(*x, activation=activation)

    assert torch.autograd.gradcheck(product, operands, fast_mode=fast)
    assert torch.autograd.gradgradcheck(product, operands, fast_mode=fast)


def test_opcheck():
    a, b, bias = numbers(16, 32), numbers(32, 24), numbers(24)
    torch.library.opcheck(torch.ops.weft.matmul.default, (a, b, bias), {"activation": "relu"})
    asked = [x.detach().requires_grad_() for x in (a, b, bias)]
    torch.library.opcheck(torch.ops.weft.matmul.default, asked, {"out_dtype": F32})
    out = torch.empty(16, 24, device=DEVICE, dtype=BF16)
    torch.library.opcheck(torch.ops.weft.matmul_out.default, (a, b), {"out": out})


def linear(x, w, bias):
    return weft.matmul(x, w, transpose_b=True, epilogue=weft.Epilogue(bias=bias, activation="gelu"))


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile_without_a_graph_break(backend, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(linear, backend=backend, fullgraph=True, dynamic=dynamic)
    w, bias = numbers(24, 32, grad=True), numbers(24, grad=True)
    for rows in (16, 40):
        x = numbers(rows, 32, seed=rows, grad=True)
        weights = numbers(rows, 24, dtype=F64, seed=9)
        found = gradients(compiled, [x, w, bias], weights)
        wanted = gradients(lambda x, w, bias: exact(x, w.mT, bias, activation="gelu"), [x, w, bias], weights)
        for y, z in zip([found[0], *found[1]], [wanted[0], *wanted[1]], strict=True):
            close(y, z)
        with torch.no_grad():
            close(compiled(x, w, bias), wanted[0])


def test_compiled_calls_take_every_option():
    torch._dynamo.reset()
    a, b, c = numbers(16, 32), numbers(32, 24), numbers(16, 24, seed=1)
    out = torch.zeros(16, 24, device=DEVICE, dtype=F32)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def several(a, b, c, out):
        d = weft.matmul(a, b, c=c, beta=2.0, alpha=0.5, out_dtype="f32", accumulate="f32")
        weft.matmul(a, b, out=out)
        return d, out + 1

    d, more = several(a, b, c, out)
    close(d, exact(a, b, c=c, alpha=0.5, beta=2.0), BF16)
    close(out, exact(a, b), BF16)
    close(more, exact(a, b) + 1, BF16)


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0), (1, None), (2, 1), (None, 2)])
def test_vmap(dims):
    shapes = [(16, 32), (32, 24)]
    a, b = (
        numbers(*shape) if dim is None else numbers(3, *shape).movedim(0, dim).contiguous()
        for dim, shape in zip(dims, shapes, strict=True)
    )
    bias, residual = numbers(24), numbers(3, 16, 24, seed=1)

    def one(a, b, residual):
        return weft.matmul(a, b, epilogue=Epilogue(bias, "relu", residual))

    found = torch.func.vmap(one, (*dims, 0))(a, b, residual)
    x, y = (each if dim is None else each.movedim(dim, 0) for each, dim in zip((a, b), dims, strict=True))
    close(found, exact(x, y, bias, residual, activation="relu"))


def test_vmap_of_biases_c_and_alphas():
    a, b, biases = numbers(16, 32), numbers(32, 24), numbers(3, 24)
    found = torch.func.vmap(lambda bias: weft.matmul(a, b, epilogue=Epilogue(bias, "silu")))(biases)
    close(found, exact(a, b, biases[:, None], activation="silu"))
    c = numbers(3, 16, 24)
    found = torch.func.vmap(
        lambda bias, c: weft.matmul(a, b, c=c, beta=0.5, epilogue=Epilogue(bias)), in_dims=(0, 0)
    )(biases, c)
    close(found, exact(a, b, biases[:, None], c=c, beta=0.5))
    alphas = numbers(3, dtype=F32)
    found = torch.func.vmap(lambda alpha: weft.matmul(a, b, alpha=alpha))(alphas)
    close(found, exact(a, b, alphas=alphas))


def test_vmap_of_batches_and_of_vmap():
    a, b = numbers(2, 3, 16, 32), numbers(2, 32, 24)
    close(torch.func.vmap(weft.matmul)(a, b), a.double() @ b[:, None].double())
    found = torch.func.vmap(torch.func.vmap(weft.matmul, in_dims=(0, None)))(a, b)
    close(found, a.double() @ b[:, None].double())
    found = torch.func.vmap(weft.matmul, in_dims=(None, 0))(a[0], b)
    close(found, a[0].double() @ b[:, None].double())
    found = torch.func.vmap(torch.func.vmap(weft.matmul), in_dims=(None, 0))(a[0], numbers(2, 3, 32))
    close(found, (a[0].double() @ numbers(2, 3, 32).double()[..., None])[..., 0])
    heads = numbers(3, 2, 1, 32, 24)
    found = torch.func.vmap(weft.matmul, in_dims=(1, 0))(a, heads)
    close(found, a.movedim(1, 0)[:, None].double() @ heads.double())


def test_functional_gradients_and_gradients_for_each_sample():
    x, w = numbers(5, 16, 32, dtype=F32), numbers(32, 24, dtype=F32)

    def loss(w, x):
        return weft.matmul(x, w).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)
    wanted = torch.func.vmap(torch.func.grad(lambda w, x: (x @ w).square().sum()), in_dims=(None, 0))(
        w.double(), x.double()
    )
    close(found, wanted)


def test_functional_transforms_without_gradients():
    x, w = numbers(16, 32), numbers(32, 24)
    assert torch.equal(torch.func.functionalize(weft.matmul)(x, w), weft.matmul(x, w))


def test_autocast_casts_to_its_type():
    a, b = numbers(16, 32, dtype=F32), numbers(32, 24, dtype=F32)
    for dtype in (BF16, F16):
        with torch.autocast(DEVICE, dtype=dtype):
            for x in (a, a.clone().requires_grad_()):
                found = weft.matmul(x, b)
                assert found.dtype == dtype
                close(found, exact(a, b))
            assert weft.matmul(a.double(), b.double()).dtype == F64
        assert weft.matmul(a, b).dtype == F32


def test_the_version_of_out_counts_writes():
    a, b, out = numbers(16, 32), numbers(32, 24), torch.zeros(16, 24, device=DEVICE, dtype=BF16)
    for count in (1, 2):
        weft.matmul(a, b, out=out)
        assert out._version == count
    saved = out.clone().requires_grad_()
    product = saved * out
    torch.ops.weft.matmul_out(a, b, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_types_of_results_by_any_name():
    a, b = numbers(16, 32, grad=True), numbers(32, 24)
    for given in (F32, np.float32, "float32", "f32"):
        assert weft.matmul(a, b, out_dtype=given).dtype == F32
        assert weft.matmul(a.detach(), b, out_dtype=given, accumulate=F32).dtype == F32
    for wrong in (torch.int64, "float33"):
        for x in (a, a.detach()):
            with pytest.raises(weft.WeftError, match="out_dtype must be one of"):
                weft.matmul(x, b, out_dtype=wrong)
    with pytest.raises(weft.WeftError, match="out_dtype must be one of"):
        torch.ops.weft.matmul(a.detach(), b, out_dtype=torch.int64)


def test_hints_of_k_follow_what_the_call_asked_for():
    a, wide = numbers(20, 48, grad=True), numbers(40, 48)
    for b, asked in ((wide, {}), (wide, {"transpose_b": False}), (wide.T, {"transpose_b": True})):
        wanted = not asked.get("transpose_b", False)
        with pytest.raises(weft.WeftError, match=f"20 x 48 and 40 x 48: pass transpose_b={wanted}"):
            weft.matmul(a, b, **asked)
        assert weft.matmul(a, b, transpose_b=wanted).shape == (20, 40)


def test_gradients_that_arent_computed_are_refused():
    a, b = numbers(16, 32, grad=True), numbers(32, 24)
    with pytest.raises(weft.WeftError, match="out must be None where gradients are computed: copy"):
        weft.matmul(a, b, out=torch.empty(16, 24, device=DEVICE, dtype=BF16))
    with torch.no_grad():
        weft.matmul(a, b, out=torch.empty(16, 24, device=DEVICE, dtype=BF16))
    with pytest.raises(weft.WeftError, match="stream must be None"):
        weft.matmul(a, b, stream=0)


def test_tensors_without_memory_have_shapes():
    from torch._subclasses.fake_tensor import FakeTensorMode

    a, b = torch.empty(16, 32, device="meta"), torch.empty(3, 32, 24, device="meta")
    assert weft.matmul(a, b).shape == (3, 16, 24)
    assert weft.matmul(a, b, out_dtype="bf16").dtype == BF16
    with FakeTensorMode():
        fp8 = torch.empty(16, 32, dtype=torch.float8_e4m3fn)
        assert weft.matmul(fp8, fp8, transpose_b=True).dtype == BF16


@pytest.mark.parametrize("number", range(3), ids=["a", "b", "bias"])
def test_tensors_without_memory_are_on_one_device(number):
    given = [torch.empty(shape, device="meta", dtype=BF16) for shape in ((8, 16), (16, 24), (24,))]
    given[number] = torch.empty_like(given[number], device=DEVICE)
    a, b, bias = given
    with pytest.raises(RuntimeError, match=r"arrays must be on one device, got .*meta"):
        weft.matmul(a, b, epilogue=Epilogue(bias))


class Product(torch.nn.Module):
    def forward(self, a, b):
        return weft.matmul(a, b) + 1


@pytest.mark.slow
def test_export_with_a_dynamic_size():
    a, b = numbers(16, 32), numbers(32, 24)
    program = torch.export.export(Product(), (a, b), dynamic_shapes=({0: torch.export.Dim("rows")}, None))
    a = numbers(40, 32)
    close(program.module()(a, b), exact(a, b) + 1)


@pytest.mark.slow
def test_traces_contain_the_operator():
    from torch.fx.experimental.proxy_tensor import make_fx

    a, b = numbers(16, 32), numbers(32, 24)
    for traced in (torch.jit.trace(Product(), (a, b)), make_fx(Product())(a, b)):
        assert "weft" in str(traced.graph)
        close(traced(a, b), exact(a, b) + 1)


@pytest.mark.slow
@pytest.mark.skipif(DEVICE == "cuda", reason="PyTorch 2.11 crashes as it loads a package, also of its own")
def test_ahead_of_time_inductor(tmp_path):
    a, b = numbers(16, 32), numbers(32, 24)
    program = torch.export.export(Product(), (a, b))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "product.pt2"))
    close(torch._inductor.aoti_load_package(path)(a, b), exact(a, b) + 1)


def test_scaled_products():
    a, b = (numbers(*shape).to(torch.float8_e4m3fn) for shape in ((128, 256), (128, 256)))
    scale_a = numbers(2, 128, dtype=F32).abs().mT
    scale_b = numbers(1, 2, dtype=F32).abs()
    wanted = weft.matmul(a, b, transpose_b=True, scales=(scale_a, scale_b))
    found = torch.ops.weft.scaled_matmul(a, b.mT, scale_a, scale_b)
    assert torch.equal(found, wanted)
    compiled = torch.compile(
        lambda *x: weft.matmul(x[0], x[1], transpose_b=True, scales=x[2:]),
        backend="aot_eager",
        fullgraph=True,
    )
    assert torch.equal(compiled(a, b, scale_a, scale_b), wanted)
    # PyTorch's check of the schema computes with fp8, which PyTorch can't.
    checks = ("test_autograd_registration", "test_faketensor")
    scaled = a, b.mT, scale_a, scale_b
    torch.library.opcheck(torch.ops.weft.scaled_matmul.default, scaled, test_utils=checks)


@pytest.mark.parametrize("shapes", [((128, 1), (1, 64)), ((), ()), ((1, 1), (1, 64))], ids=str)
@pytest.mark.parametrize("fast", [True, False])
def test_products_with_scales_of_rows_and_tensors(shapes, fast):
    a, b = (numbers(*shape).to(torch.float8_e4m3fn) for shape in ((128, 256), (64, 256)))
    scales = [numbers(*shape, dtype=F32).abs() + 0.1 for shape in shapes]
    bias = numbers(64)
    exact = (a.double() @ b.double().mT) * scales[0] * scales[1] + bias.double()
    found = torch.ops.weft.scaled_matmul(a, b.mT, *scales, bias, promote=not fast)
    close(found, exact)
    compiled = torch.compile(
        lambda *x: weft.matmul(
            x[0], x[1], transpose_b=True, scales=x[2:], epilogue=weft.Epilogue(bias), promote=not fast
        ),
        backend="aot_eager",
        fullgraph=True,
    )
    assert torch.equal(compiled(a, b, *scales), found)
    operands = a, b.mT, *scales, bias
    checks = ("test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.weft.scaled_matmul.default, operands, test_utils=checks)
    out = torch.empty_like(found)
    torch.ops.weft.scaled_matmul_out(*operands, promote=not fast, out=out)
    assert torch.equal(out, found)


def test_grouped_products():
    x, w = numbers(256, 64), numbers(2, 64, 48)
    groups = torch.tensor([0] * 128 + [1] * 128, dtype=torch.int32, device=DEVICE)
    found = torch.ops.weft.grouped_matmul(x, w, groups)
    close(found, torch.cat([x[:128].double() @ w[0].double(), x[128:].double() @ w[1].double()]))
    torch.library.opcheck(torch.ops.weft.grouped_matmul.default, (x, w, groups))
