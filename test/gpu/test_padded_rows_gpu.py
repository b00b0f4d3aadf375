"""`weft.matmul` on a GPU with rows that TMA can't take, where there is no other kernel: launch after launch,
in graphs, on streams at once.
"""

import pytest
from gpu_marks import SM_90A

import weft

pytestmark = SM_90A
SHAPES = [(33, 41, 67), (1, 1, 1), (1000, 1001, 1003), (4096, 17, 4099)]


def operands(m, n, k, *batch, dtype="int8", seed=0):
    """Whole numbers, whose sums are exact in every order."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = {"generator": generator, "device": "cuda"}
    a, b = (torch.randint(-1, 2, (*batch, *size), **shape) for size in ((m, k), (n, k)))
    a, b = (x.float().to(getattr(torch, dtype)) for x in (a, b))
    return (
        a,
        b,
        torch.full((*batch, m, n), 7, device="cuda", dtype=torch.int32 if dtype == "int8" else torch.float32),
    )


def right(a, b, d):
    import torch

    return torch.equal(d.double(), a.double() @ b.double().mT)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn", "float32"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_sizes_of_any_number(dtype, shape, batch):
    a, b, d = operands(*shape, *batch, dtype=dtype)
    for _ in range(3):
        d.fill_(7)
        for _ in range(5):
            weft.matmul(a, b, out=d, transpose_b=True)
        assert right(a, b, d)
    assert right(a, b, weft.matmul(a, b, transpose_b=True, out_dtype="i32" if dtype == "int8" else "f32"))


def test_arrays_that_begin_anywhere():
    import torch

    whole, b, _ = operands(65, 64, 131)
    memory = torch.full((66, 80), 7, device="cuda", dtype=torch.int32)
    out, a = memory[1:65, 3:67], whole[1:, 3:]
    weft.matmul(a, b[:, 3:], out=out, transpose_b=True)
    assert right(a, b[:, 3:], out)
    memory[1:65, 3:67] = 7
    assert bool((memory == 7).all())


def test_rows_of_groups_that_have_no_product_are_left_alone():
    import torch

    a, b, _ = operands(256, 21, 35, dtype="bfloat16")
    b = torch.stack([b, -b])
    groups = torch.tensor([1, -1], device="cuda", dtype=torch.int32).repeat_interleave(128)
    out = torch.full((256, 21), 7, device="cuda", dtype=torch.bfloat16)
    weft.matmul(a, b, transpose_b=True, groups=groups, out=out)
    assert right(a[:128], b[1], out[:128]) and bool((out[128:] == 7).all())


def test_streams_at_once_have_memory_of_their_own():
    import torch

    cases = [operands(1000, 1001, 1003, seed=seed) for seed in range(4)]
    streams = [torch.cuda.Stream() for _ in cases]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream, (a, b, d) in zip(streams, cases, strict=True):
            weft.matmul(a, b, out=d, transpose_b=True, stream=stream)
    torch.cuda.synchronize()
    assert all(right(*case) for case in cases)


@pytest.mark.parametrize("warm", [True, False])
def test_a_graph_has_its_copies_and_memory_of_its_own(warm):
    import torch

    (a, b, d), theirs = operands(501, 1001, 1003, seed=1), operands(501, 1001, 1003, seed=2)
    if warm:
        weft.matmul(a, b, out=d, transpose_b=True)
    weft.matmul(*theirs[:2], out=theirs[2], transpose_b=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        for _ in range(8):
            weft.matmul(a, b, out=d, transpose_b=True)
    d.fill_(7)
    beside = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(20):
        graph.replay()
        weft.matmul(*theirs[:2], out=theirs[2], transpose_b=True, stream=beside)
    torch.cuda.synchronize()
    assert right(a, b, d) and right(*theirs)
