"""f32 follows PyTorch's setting of its precision, as PyTorch's own products do."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
import weft.nn  # noqa: E402
from weft.launch import torch_tensors  # noqa: E402
from weft.launch.launcher import OVERLAP  # noqa: E402
from weft.multiply import plans  # noqa: E402
from weft.multiply.product import Product  # noqa: E402

F32, F64 = torch.float32, torch.float64
FINE, COARSE = 2e-6, 2e-3
A = torch.from_numpy(np.random.default_rng(0).standard_normal((24, 40))).float()
B = torch.from_numpy(np.random.default_rng(1).standard_normal((40, 16))).float()
C = torch.from_numpy(np.random.default_rng(2).standard_normal((24, 16))).float()
EXACT = A.double() @ B.double()


def error(found, wanted=EXACT):
    """The largest error, relative to the largest value."""
    return ((found.double() - wanted).abs().max() / wanted.abs().max()).item()


@pytest.fixture
def tf32():
    torch.set_float32_matmul_precision("high")


def through_out(beta=None):
    out = C.clone()
    assert weft.matmul(A, B, out=out, beta=beta) is out
    return out


def compiled(activation):
    function = torch.compile(
        lambda a, b: weft.matmul(a, b, epilogue=weft.Epilogue(activation=activation)) + 1,
        backend="eager",
        fullgraph=True,
    )
    return function(A, B)


def gradient():
    b = B.clone().requires_grad_()
    weft.matmul(A, b, epilogue=weft.Epilogue(activation="gelu")).sum().backward()
    return b.grad


def exact_gradient():
    b = B.double().requires_grad_()
    torch.nn.functional.gelu(A.double() @ b).sum().backward()
    return b.grad


ONE = torch.tensor(3.0)
BATCH = torch.stack([A, A + 1, A - 1])
CALLS = {
    "plain": (lambda: weft.matmul(A, B), lambda: EXACT),
    "transposed": (
        lambda: weft.matmul(A.T.contiguous(), B.T, transpose_a=True, transpose_b=True),
        lambda: EXACT,
    ),
    "a row": (lambda: weft.matmul(A[0], B), lambda: EXACT[0]),
    "a column": (
        lambda: weft.matmul(A, B[:, 0].contiguous(), c=C[:, 0].contiguous(), beta=2.0),
        lambda: (EXACT + 2 * C)[:, 0],
    ),
    "out": (through_out, lambda: EXACT),
    "out, beta": (lambda: through_out(2.0), lambda: EXACT + 2 * C),
    "c that isn't added": (lambda: weft.matmul(A, B, c=C * math.nan, beta=0.0), lambda: EXACT),
    "mapped, c that isn't added": (
        lambda: torch.vmap(lambda x: weft.matmul(A, B, c=C * math.nan, beta=0.0, epilogue=weft.Epilogue(x)))(
            C[:2]
        ),
        lambda: EXACT + C[:2, None],
    ),
    "epilogue": (
        lambda: weft.matmul(A, B, c=C, alpha=0.5, beta=2.0, epilogue=weft.Epilogue(C[0], "relu", C)),
        lambda: (EXACT / 2 + 2 * C + C[0]).relu() + C,
    ),
    "scales": (lambda: weft.matmul(A, B, scales=(C[:, :1].contiguous(), ONE)), lambda: 3 * EXACT * C[:, :1]),
    "batch": (
        lambda: weft.matmul(BATCH, B, alpha=torch.tensor([1.0, 2.0, 3.0])),
        lambda: BATCH.double() @ B.double() * torch.tensor([1, 2, 3])[:, None, None],
    ),
    "operator": (lambda: torch.ops.weft.matmul(A, B), lambda: EXACT),
    "gradient": (gradient, exact_gradient),
    "tangent": (lambda: torch.func.jvp(lambda a: weft.matmul(a, B), (A,), (A,))[1], lambda: EXACT),
    "map": (lambda: torch.vmap(lambda a: weft.matmul(a, B))(BATCH), lambda: BATCH.double() @ B.double()),
    "compiled": (lambda: compiled("relu"), lambda: EXACT.relu() + 1),
    "layer": (lambda: weft.nn.linear(A, B.T), lambda: EXACT),
}


@pytest.mark.parametrize("name", CALLS)
def test_f32_is_exact_unless_pytorch_allows_tf32(name):
    call, wanted = CALLS[name]
    found = call()
    assert found.dtype == F32 and error(found, wanted()) < FINE
    torch.set_float32_matmul_precision("high")
    assert FINE < error(call(), wanted()) < COARSE


def test_results_of_other_types_are_rounded_once():
    assert torch.equal(weft.matmul(A, B, out_dtype="bf16"), (A @ B).bfloat16())
    large = weft.matmul(100 * A, 100 * B, out_dtype=torch.float8_e4m3fn).float()
    assert torch.equal(large, (1e4 * EXACT).clamp(-448, 448).float().to(torch.float8_e4m3fn).float())


def test_a_schedule_or_a_chip_asks_for_a_kernel_of_tf32():
    block = "{block = array<i64: 64, 64, 32>, warps = array<i64: 2, 2>, stages = 3}"
    for options in ({"arch": "sm_80"}, {"schedule": block}):
        assert FINE < error(weft.matmul(A, B, **options)) < COARSE


@pytest.mark.parametrize("setting", ["allow_tf32", "fp32_precision", "medium"])
def test_each_of_pytorchs_settings_is_followed(setting):
    of_cuda = torch.backends.cuda.matmul
    if setting == "fp32_precision" and not hasattr(of_cuda, setting):
        pytest.skip("since PyTorch 2.9")
    try:
        if setting == "medium":
            torch.set_float32_matmul_precision(setting)
        else:
            setattr(of_cuda, setting, True if setting == "allow_tf32" else "tf32")
        assert error(weft.matmul(A, B)) > FINE and error(weft.nn.linear(A, B.T)) > FINE
        assert "by PyTorch" not in repr(weft.nn.Linear(8, 8))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert error(weft.matmul(A, B)) < FINE


def test_a_compiled_layer_of_f32_is_one_graph():
    layer = weft.nn.Linear(40, 16)
    one = torch.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(one(A), layer(A))


def test_scales_of_blocks_are_refused_as_kernels_do():
    of_rows = C[:16, :1].contiguous()
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        with pytest.raises(weft.WeftError, match="scale_b must be 1 x 16 or one element, got 16 x 1 beside"):
            weft.matmul(A[:16], B.T.contiguous(), transpose_b=True, scales=(of_rows, of_rows))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"row_ends": torch.tensor([24], dtype=torch.int32)}, "row_ends must be None"),
        ({"c": np.ones((24, 16), np.float32), "beta": 1.0}, "c must be a tensor of PyTorch, as a is,"),
    ],
)
def test_what_pytorch_does_not_compute_is_refused(options, name):
    b = B[None] if "row_ends" in options else B
    advice = r"where f32 isn't multiplied as tf32: use torch\.set_float32_matmul_precision\('high'\)"
    with pytest.raises(weft.WeftError, match=f"weft.matmul: {name} {advice}"):
        weft.matmul(A, b, **options)


@pytest.fixture
def streams(patch):
    """PyTorch's current stream, which it doesn't have without CUDA."""
    patch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False)


@pytest.fixture
def on_gpu(patch, streams):
    """Products of tensors as if those were on a GPU, whose launches are listed."""
    launched, of = [], plans.Operands.of
    patch.setattr(plans.Operands, "of", lambda *given: replace(of(*given), ordinal=0))
    patch.setattr(plans, "_launch", lambda key, operands, stream: launched.append(operands))
    plans.kept.clear()
    yield launched
    plans.kept.clear()


def test_plans_of_f32_are_kept_for_one_setting(on_gpu):
    for _ in range(2):
        assert error(weft.matmul(A, B)) < FINE
    assert len(plans.kept) == 1 and not on_gpu
    torch.set_float32_matmul_precision("high")
    weft.matmul(A, B)
    assert len(on_gpu) == 1
    (plan,) = plans.kept._known.values()
    assert not plan.holds()
    torch.set_float32_matmul_precision("highest")
    assert plan.holds()
    torch.set_autocast_enabled("cuda", True)
    try:
        assert not plan.holds()
    finally:
        torch.set_autocast_enabled("cuda", False)


@pytest.mark.parametrize(("options", "kept"), [({}, False), ({"arch": "sm_90a"}, True)])
def test_a_plan_of_tf32_queues_only_while_that_is_allowed(options, kept, streams, tf32):
    operands = replace(plans.Operands.of(A, B, None, {}, Product(**options)), ordinal=0)
    plan = plans.Plan.of(SimpleNamespace(queue_apart=lambda *given: 0), operands)
    assert plan.queue(0, 1, 2, 3) == 0
    torch.set_float32_matmul_precision("highest")
    assert plan.queue(0, 1, 2, 3) == (0 if kept else OVERLAP)
    assert plans._follows_setting(operands) is not kept and not torch_tensors.allows_tf32()
