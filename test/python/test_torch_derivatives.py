"""PyTorch's operators of Weft: forward mode, gradients and torch.vmap of products with scales and groups, and
opcheck of all operators. On a GPU if there is one, otherwise in the emulator.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward  # noqa: E402

import weft  # noqa: E402
import weft.nn  # noqa: E402
import weft.torch  # noqa: E402
from weft import Epilogue  # noqa: E402
from weft.distributed import operators as distributed_operators  # noqa: E402
from weft.launch import runtime  # noqa: E402
from weft.torch.autograd import activated  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
BF16, F32, F64, FP8 = torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn


def numbers(*shape, dtype=F64, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return torch.from_numpy(rng.standard_normal(shape)).to(DEVICE, dtype)


def near(found, wanted, tolerance=1e-10):
    assert found.shape == wanted.shape
    assert (found.double() - wanted.double()).abs().max() <= tolerance * (wanted.double().abs().max() + 1e-9)


OPERANDS = [numbers(4, 6), numbers(6, 5), numbers(5), numbers(4, 5, seed=1), numbers(4, 5, seed=2)]
TANGENTS = [numbers(*each.shape, seed=3) for each in OPERANDS]


def by_weft(a, b, bias, residual, c, activation=None):
    return weft.matmul(
        a, b, c=c, beta=0.5, alpha=2.0, out_dtype=a.dtype, epilogue=Epilogue(bias, activation, residual)
    )


def by_torch(a, b, bias, residual, c, activation=None):
    return activated(activation, 2 * (a @ b) + 0.5 * c + bias) + residual


@pytest.mark.parametrize("activation", [None, "relu"])
def test_forward_mode(activation):
    def ours(*x):
        return by_weft(*x, activation=activation)

    def theirs(*x):
        return by_torch(*x, activation=activation)

    found = torch.func.jvp(ours, tuple(OPERANDS), tuple(TANGENTS))
    wanted = torch.func.jvp(theirs, tuple(OPERANDS), tuple(TANGENTS))
    for each, exact in zip(found, wanted, strict=True):
        near(each, exact)
    with forward.dual_level():
        duals = [forward.make_dual(*pair) for pair in zip(OPERANDS, TANGENTS, strict=True)]
        duals[0] = OPERANDS[0]  # without a tangent
        found, tangent = forward.unpack_dual(ours(*duals))
        wanted, exact = forward.unpack_dual(theirs(*duals))
    near(found, wanted)
    near(tangent, exact)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_forward_mode_through_activations(activation):
    a, b = numbers(16, 16, dtype=BF16), numbers(16, 16, dtype=BF16, seed=1)
    t = numbers(16, 16, dtype=BF16, seed=2)
    found = torch.func.jvp(
        lambda a: weft.matmul(a, b, epilogue=Epilogue(activation=activation), out_dtype=F32), (a,), (t,)
    )
    wanted = torch.func.jvp(lambda a: activated(activation, a @ b.double()), (a.double(),), (t.double(),))
    for each, exact in zip(found, wanted, strict=True):
        near(each, exact, 1e-2)


def test_jacobians_and_hessians():
    a, b = OPERANDS[:2]
    near(torch.func.jacfwd(weft.matmul)(a, b), torch.func.jacfwd(torch.matmul)(a, b))

    def loss(product):
        return lambda a: product(a, b).pow(3).sum()

    near(torch.func.hessian(loss(weft.matmul))(a), torch.func.hessian(loss(torch.matmul))(a))


def test_forward_mode_that_isnt_computed_is_refused():
    a, b, t = (numbers(16, 16, dtype=BF16, seed=seed) for seed in range(3))
    scales = numbers(16, 1, dtype=F32), numbers(1, 16, dtype=F32)
    functions = [
        lambda a: weft.matmul(a, b, scales=scales),
        lambda a: weft.matmul(a, b, out=torch.empty_like(b)),
        lambda a: torch.ops.weft.matmul_out(a, b, out=torch.empty_like(b)),
        lambda a: weft.matmul(b, b, alpha=a[0, :1].float()),
    ]
    for function in functions:
        with pytest.raises(weft.WeftError, match="forward mode"), forward.dual_level():
            function(forward.make_dual(a, t))


def scaled_operands():
    a, b = (numbers(*shape, dtype=F32).to(FP8) for shape in ((32, 64), (64, 32)))
    scales = numbers(32, 1, dtype=F32).abs() + 0.5, numbers(1, 32, dtype=F32, seed=1).abs() + 0.5
    others = numbers(32, dtype=F32), numbers(32, 32, dtype=F32, seed=2), numbers(32, 32, dtype=F32, seed=3)
    return a, b.t().contiguous().t(), scales, others


@pytest.mark.parametrize("activation", [None, "relu", "silu"])
@pytest.mark.parametrize("of_function", [False, True], ids=["autograd", "torch.func"])
def test_gradients_of_products_with_scales(activation, of_function):
    a, b, scales, others = scaled_operands()
    weights = numbers(32, 32, dtype=F32, seed=4)

    def ours(bias, residual, c):
        epilogue = Epilogue(bias, activation, residual)
        d = weft.matmul(a, b, scales=scales, c=c, beta=0.5, epilogue=epilogue, out_dtype=F32)
        return (d * weights).sum()

    def theirs(bias, residual, c):
        z = (a.float() @ b.float()) * scales[0] * scales[1] + 0.5 * c + bias
        return ((activated(activation, z) + residual) * weights).sum()

    if of_function:
        found, wanted = (torch.func.grad(each, (0, 1, 2))(*others) for each in (ours, theirs))
    else:
        leaves = [each.clone().requires_grad_() for each in others]
        found, wanted = (torch.autograd.grad(each(*leaves), leaves) for each in (ours, theirs))
    for each, exact in zip(found, wanted, strict=True):
        near(each, exact, 1e-3)


def test_gradients_of_relu_alone_and_of_one_operand():
    a, b, scales, (bias, *_) = scaled_operands()
    bias = bias.requires_grad_()
    d = weft.matmul(a, b, scales=scales, epilogue=Epilogue(bias, "relu"), out_dtype=F32)
    (found,) = torch.autograd.grad(d.sum(), bias)
    near(found, (d > 0).sum(0).float())


@pytest.mark.parametrize("name", ["a", "scale_a", "alphas"])
def test_gradients_of_quantized_operands_are_refused(name):
    a, b, scales, _ = scaled_operands()
    operands = {"a": a, "b": b, "scale_a": scales[0], "scale_b": scales[1]}
    operands["alphas"] = torch.ones(1, device=DEVICE)
    operands[name] = operands[name].requires_grad_()
    with pytest.raises(weft.WeftError, match=rf"not of {name} in .*: pass {name}\.detach\(\)"):
        torch.ops.weft.scaled_matmul(**operands)


def test_vmap_of_products_with_scales():
    a, b, scales, (bias, *_) = scaled_operands()
    many = torch.stack([a, a[:, :1].expand_as(a), a[:1].expand_as(a)])
    of_rows = torch.stack([scales[0], scales[0] * 2, scales[0] + 1])

    def product(a, scale, bias):
        return weft.matmul(a, b, scales=(scale, scales[1]), epilogue=Epilogue(bias))

    found = torch.func.vmap(product, in_dims=(0, 0, None))(many, of_rows, bias)
    wanted = torch.stack([product(*each, bias) for each in zip(many, of_rows, strict=True)])
    assert torch.equal(found, wanted)
    mapped = torch.func.vmap(torch.func.grad(lambda bias, a: product(a, scales[0], bias).sum()), (None, 0))
    near(mapped(bias, many), torch.full((3, 32), 32.0, device=DEVICE), 1e-2)


def test_vmap_of_products_with_groups():
    x, w = numbers(2, 256, 16, dtype=BF16), numbers(2, 16, 24, dtype=BF16)
    groups = torch.tensor([0] * 128 + [1] * 128, dtype=torch.int32, device=DEVICE)
    found = torch.func.vmap(lambda x: weft.matmul(x, w, groups=groups))(x)
    assert torch.equal(found, torch.stack([weft.matmul(each, w, groups=groups) for each in x]))


ENDS, ROWS, PARTS = [100, 100, 228, 300], 320, [100, 228, 300]
SPANS = [(0, 100), (100, 228), (228, 300)]  # of the groups that have rows


def integers(values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def within(matrix, spans, axis):
    """A matrix with zeros between the groups."""
    kept = torch.zeros(matrix.shape[axis], dtype=torch.bool, device=DEVICE)
    for begin, end in spans:
        kept[begin:end] = True
    return torch.where(kept[:, None] if axis == 0 else kept, matrix, 0)


def compare_groups(ours, theirs, operands, tolerance=1e-2):
    """Compares results and gradients of two functions of operands, the second in f64."""
    given = [each.clone().requires_grad_() for each in operands]
    exact = [each.double().requires_grad_() for each in operands]
    found, wanted = ours(*given), theirs(*exact)
    near(found.detach(), wanted.detach(), tolerance)
    weights = numbers(*wanted.shape, seed=7)
    (found * weights.to(found.dtype)).sum().backward()
    (wanted * weights).sum().backward()
    for one, other in zip(given, exact, strict=True):
        near(one.grad, other.grad, tolerance)


@pytest.mark.each_value
@pytest.mark.parametrize("alphas", [0, 1, 4])
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_gradients_of_groups_of_rows(activation, alphas):
    scale = numbers(alphas, dtype=F32).abs() + 0.5 if alphas else None
    operands = [
        within(numbers(ROWS, 32, dtype=BF16), SPANS, 0),
        numbers(4, 24, 32, dtype=BF16).mT,
        numbers(24, dtype=F32),
        numbers(ROWS, 24, dtype=F32, seed=1),
        numbers(ROWS, 24, dtype=F32, seed=2),
    ]

    def ours(a, b, bias, c, residual):
        epilogue = Epilogue(bias, activation, residual)
        options = {"row_ends": integers(ENDS), "c": c, "beta": 0.5, "out_dtype": "f32"}
        alpha = {} if scale is None else {"alpha": scale}
        return within(weft.matmul(a, b, epilogue=epilogue, **options, **alpha), SPANS, 0)

    def theirs(a, b, bias, c, residual):
        parts = torch.zeros(ROWS, 24, dtype=F64, device=DEVICE)
        for (begin, end), group in zip(SPANS, (0, 2, 3), strict=True):
            factor = 1.0 if scale is None else scale.double()[min(group, alphas - 1)]
            z = factor * (a[begin:end] @ b[group]) + 0.5 * c[begin:end] + bias
            d = activated(activation, z) + residual[begin:end]
            parts = torch.cat([parts[:begin], d, parts[end:]])
        return parts

    compare_groups(ours, theirs, operands)


def test_gradients_of_groups_of_k():
    """Those between the groups are 0."""
    a = within(numbers(32, 300, dtype=BF16), SPANS, 1)
    b = within(numbers(300, 24, dtype=BF16), SPANS, 0)
    compare_groups(
        lambda a, b: weft.matmul(a, b, k_ends=integers(PARTS), out_dtype="f32"),
        lambda a, b: torch.stack([a[:, begin:end] @ b[begin:end] for begin, end in SPANS]),
        [a, b],
    )


@pytest.mark.parametrize("shape", [(3, 32, 24), (32, 24)], ids=str)
def test_gradients_of_products_with_numbers_of_rows(shape):
    counts = [10, 64, 0]
    kept = (torch.arange(64, device=DEVICE) < integers(counts)[:, None])[..., None]

    def ours(a, b):
        options = {"groups": integers(counts), "epilogue": Epilogue(None, "silu"), "out_dtype": "f32"}
        return torch.where(kept, weft.matmul(a, b, **options), 0)

    def theirs(a, b):
        return torch.where(kept, torch.nn.functional.silu(a @ b), 0)

    compare_groups(ours, theirs, [numbers(3, 64, 32, dtype=BF16), numbers(*shape, dtype=BF16)])


def test_gradients_of_rows_that_select_a_matrix():
    groups = integers([1] * 128 + [0] * 100 + [-1] * 28)

    def ours(a):
        return within(weft.matmul(a, B, groups=groups, out_dtype="f32"), [(0, 228)], 0)

    def theirs(a):
        return within(torch.cat([a[:128] @ B[1].double(), a[128:] @ B[0].double()]), [(0, 228)], 0)

    compare_groups(ours, theirs, [numbers(256, 32, dtype=BF16)])
    with pytest.raises(weft.WeftError, match="gradients of b need row_ends, got groups: sort the rows"):
        weft.matmul(numbers(256, 32, dtype=BF16), B.clone().requires_grad_(), groups=groups)


B = numbers(2, 32, 24, dtype=BF16)


def test_gradients_of_groups_under_transforms():
    a, ends = numbers(256, 32, dtype=BF16), integers([100, 256])

    def loss(b):
        return weft.matmul(a, b, row_ends=ends, out_dtype="f32")[:100].square().sum()

    b = B.clone().requires_grad_()
    loss(b).backward()
    assert torch.equal(torch.func.grad(loss)(B), b.grad)
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    assert torch.equal(torch.autograd.grad(compiled(b), b)[0], b.grad)
    (first,) = torch.autograd.grad(loss(b), b, create_graph=True)
    first.float().sum().backward()
    with pytest.raises(weft.WeftError, match="derivatives in forward mode"):
        torch.func.jvp(loss, (B,), (B,))


def test_vmap_with_out_is_refused():
    a, b = numbers(2, 16, 16, dtype=BF16), numbers(16, 16, dtype=BF16)
    with pytest.raises(weft.WeftError, match=r"none with out: copy the result"):
        torch.func.vmap(lambda a, d: torch.ops.weft.matmul_out(a, b, out=d))(a, torch.empty_like(a))


def operators():
    """All operators, with arguments."""
    bf16 = numbers(32, 64, dtype=BF16), numbers(64, 32, dtype=BF16)
    a, b, scales, (bias, *_) = scaled_operands()
    rows = numbers(256, 16, dtype=BF16), numbers(2, 16, 24, dtype=BF16)
    groups = torch.tensor([0] * 128 + [1] * 128, dtype=torch.int32, device=DEVICE)
    gate = numbers(16, 32, dtype=BF16)
    return {
        "matmul": (*bf16,),
        "scaled_matmul": (a, b, *scales, bias),
        "grouped_matmul": (*rows, groups),
        "gated": (gate, "silu"),
        "gated_backward": (gate[:, :16].contiguous(), gate, "silu"),
        "gated_product_backward": (numbers(16, 24, dtype=BF16), numbers(24, 16, dtype=BF16), gate, "silu"),
        "quantize": (bf16[0],),
    }


@pytest.mark.parametrize("with_out", [False, True])
@pytest.mark.parametrize("name", operators())
def test_opcheck(name, with_out):
    overload = getattr(torch.ops.weft, f"{name}_out" if with_out else name, None)
    if overload is None:
        assert with_out and name not in ("matmul", "scaled_matmul", "grouped_matmul")
        return
    operands, options = operators()[name], {}
    if with_out:
        options["out"] = torch.empty_like(getattr(torch.ops.weft, name)(*operands))
    # PyTorch's check of the schema computes with fp8, and its check of AOT dispatch compares it: it can't.
    tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    if name in ("scaled_matmul", "quantize"):
        tests = tests[1:3]
    torch.library.opcheck(overload.default, operands, options, test_utils=tests)


def test_every_operator_is_checked():
    every = torch._C._dispatch_get_all_op_names()
    names = {each.split(".")[0].removeprefix("weft::") for each in every if each.startswith("weft::")}
    # test_torch_attention.py, test_int4_torch.py and test_distributed_torch.py check these.
    elsewhere = {"attention", "attention_backward", "matmul_int4", *distributed_operators.KERNELS}
    assert {each.removesuffix("_out") for each in names} - elsewhere == set(operators())
