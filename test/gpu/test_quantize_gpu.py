"""`weft.quantize` on a GPU, against PyTorch: every scale and type, launch after launch, in graphs."""

import pytest
from gpu_marks import FP8

import weft

pytestmark = FP8
MOST = {"f8E4M3FN": 448, "f8E5M2": 57344}
GROUPS = {
    "tensor": (1 << 30, 1 << 30),
    "row": (1, 1 << 30),
    "column": (1 << 30, 1),
    "group": (1, 128),
    "block": (128, 128),
}


def expected(x, dtype, scales):
    """The matrix in fp8, and the scale of each element."""
    import torch

    down, across = (min(each, size) for each, size in zip(GROUPS[scales], x.shape, strict=True))
    rows, columns = x.shape
    padded = torch.nn.functional.pad(x.float().abs(), (0, -columns % across, 0, -rows % down))
    parts = padded.reshape(padded.shape[0] // down, down, padded.shape[1] // across, across)
    largest = parts.amax((1, 3))
    most = torch.full_like(largest, MOST[dtype])  # PyTorch would multiply by a number's reciprocal
    factors = torch.where(largest == 0, 1, (largest / most).clamp(min=2.0**-100))
    factors = factors.repeat_interleave(down, 0).repeat_interleave(across, 1)[:rows, :columns]
    element = torch.float8_e4m3fn if dtype == "f8E4M3FN" else torch.float8_e5m2
    return (x.float() * (torch.ones_like(factors) / factors)).clamp(-MOST[dtype], MOST[dtype]).to(
        element
    ), factors


def check(x, dtype="f8E4M3FN", scales="tensor"):
    import torch

    found = weft.quantize(x, dtype, scales=scales, transposed=True)
    torch.cuda.synchronize()
    values, factors = expected(x, dtype, scales)
    turned, of_turned = expected(x.t(), dtype, scales) if scales == "group" else (values.t(), factors.t())
    for array, of_array, want, of_want in (
        (found.values, found.scales, values, factors),
        (found.transposed, found.transposed_scales, turned, of_turned),
    ):
        assert torch.equal(array.view(torch.uint8), want.contiguous().view(torch.uint8))
        for axis, size in enumerate(want.shape):
            if of_array.dim() == 2 and of_array.shape[axis] not in (1, size):
                of_array = of_array.repeat_interleave(128, axis).narrow(axis, 0, size)
        assert torch.equal(of_array.expand(want.shape), of_want)


def numbers(shape, dtype="bfloat16"):
    torch = pytest.importorskip("torch")
    generator = torch.Generator("cuda").manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").to(getattr(torch, dtype))


@pytest.mark.parametrize("shape", [(1, 1), (7, 130), (129, 257), (1024, 2048), (3001, 4099), (20000, 136)])
@pytest.mark.parametrize("scales", GROUPS)
def test_sizes(shape, scales):
    x = numbers(shape)
    check(x, scales=scales)
    check(x.t(), scales=scales)


@pytest.mark.parametrize("scales", GROUPS)
@pytest.mark.parametrize("dtype", MOST)
@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16"])
def test_types(source, dtype, scales):
    check(numbers((300, 520), source), dtype, scales)
    check(numbers((300, 523), source)[:, 1:500], dtype, scales)


@pytest.mark.parametrize("scales", GROUPS)
def test_a_graph_replays_with_new_elements(scales):
    x, other = numbers((512, 768)), numbers((512, 768)) * 3
    import torch

    weft.quantize(x, scales=scales, transposed=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = weft.quantize(x, scales=scales, transposed=True)
    for each in (other, x * 1, other):
        x.copy_(each)
        graph.replay()
        torch.cuda.synchronize()
        want = weft.quantize(each, scales=scales, transposed=True)
        for array, of_each in zip(found, want, strict=True):
            assert torch.equal(array.float(), of_each.float())
