"""`weft.matmul` with scales of rows, columns and tensors on a GPU, against f64 and PyTorch."""

import pytest
from gpu_marks import FP8, SM_90A, with_marks

torch = pytest.importorskip("torch")

import weft  # noqa: E402
import weft.nn  # noqa: E402
from weft.dialects.schedule import WarpgroupSchedule  # noqa: E402

pytestmark = FP8
E4M3, E5M2, BF16, F32 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float32


def operands(m, n, k, of_a=E4M3, of_b=E4M3):
    generator = torch.Generator("cuda").manual_seed(m + n + k)

    def of(*shape):
        return torch.randn(*shape, generator=generator, device="cuda")

    scales = of(m, 1).abs() + 0.1, of(1, n).abs() + 0.1
    return of(m, k).to(of_a), of(n, k).to(of_b), *scales


def check(found, a, b, scale_a, scale_b, bias=None):
    wanted = (a.double() @ b.double().mT) * scale_a * scale_b
    wanted = wanted if bias is None else wanted + bias.double()
    # Tensor cores add with 13 bits of fraction; a result in bf16 has 8.
    assert (found.double() - wanted).norm() <= 4e-3 * wanted.norm()


@pytest.mark.parametrize("promote", [False, True])
@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3)], ids=str)
@pytest.mark.parametrize(
    "sizes", [(8, 4096, 4096), (200, 1000, 2064), (1000, 8, 4096), (2048, 2304, 512)], ids=str
)
def test_rows_and_tensors_are_scaled(sizes, types, promote):
    a, b, scale_a, scale_b = operands(*sizes, *types)
    bias = torch.randn(sizes[1], device="cuda", dtype=BF16)
    one = scale_a[:1]
    for scales in ((scale_a, scale_b), (one, one.reshape(())), (scale_a, one.expand(1, sizes[1]))):
        for dtype, added in (("bf16", bias), ("f32", None)):
            d = weft.matmul(
                a,
                b,
                transpose_b=True,
                scales=scales,
                promote=promote,
                out_dtype=dtype,
                epilogue=weft.Epilogue(added),
            )
            check(d, a, b, *scales, added)


@with_marks(SM_90A)
@pytest.mark.parametrize(
    "schedule",
    [
        WarpgroupSchedule((64, 64, 128), 1, 4, swap=True),
        WarpgroupSchedule((128, 128, 128), 2, 4, global_splits=3),
        WarpgroupSchedule((128, 128, 128), 2, 4, stream_k=True),
    ],
    ids=str,
)
def test_schedules_scale_once(schedule):
    a, b, *scales = operands(520, 776, 2048)
    d = weft.matmul(a, b, transpose_b=True, scales=scales, out_dtype="f32", schedule=schedule)
    check(d, a, b, *scales)


@with_marks(SM_90A)
def test_results_are_those_of_pytorch():
    a, b, *scales = operands(512, 768, 1024)
    theirs = torch._scaled_mm(a, b.mT, *scales, out_dtype=BF16, use_fast_accum=False)
    ours = weft.matmul(a, b, transpose_b=True, scales=scales, promote=True)
    assert (ours.double() - theirs.double()).norm() <= 1e-3 * theirs.double().norm()


def test_layers_of_the_rowwise_recipe_in_a_graph():
    torch.manual_seed(0)
    layer = weft.nn.Linear(1024, 768, True, "cuda", BF16, fp8="rowwise")
    x = torch.randn(512, 1024, device="cuda", dtype=BF16, requires_grad=True)
    # No graph of autograd may hold nodes of another stream while a CUDA graph is captured.
    far, near, bias = (each.detach().double() for each in (layer.weight, x, layer.bias))
    exact = near @ far.mT + bias

    def step():
        layer.zero_grad(set_to_none=True)
        x.grad = None
        d = layer(x)
        d.square().sum().backward()
        return d, x.grad, layer.weight.grad

    wanted = [exact, 2 * exact @ far, 2 * exact.mT @ near]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        found = step()
    graph.replay()
    torch.cuda.synchronize()
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.double() - theirs).norm() <= 0.08 * theirs.norm()
