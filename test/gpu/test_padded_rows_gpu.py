"""`weft.matmul` on a GPU with operands that it copies: rows that TMA can't take, and MN-major ones of types
that `wgmma` reads K-major only. Launch after launch, in graphs, on streams at once.
"""

import pytest
from gpu_marks import SM_90A

import weft
from weft.multiply.plans import kept
from weft.schedules import transposing

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


@pytest.fixture
def transposed(monkeypatch):
    """MN-major operands are copied, whatever the product's size."""
    kept.clear()
    monkeypatch.setattr(transposing.tma_mma, "measured_us", lambda *_: 1e9)
    yield
    kept.clear()


def layouts(a, b):
    """Products of K-major matrices with one and both of them MN-major: arrays, and which are transposed."""
    a_t, b_t = a.mT.contiguous(), b.mT.contiguous()
    return (a, b_t, False, False), (a_t, b, True, True), (a_t, b_t, True, False)


@pytest.mark.parametrize("shape", [*SHAPES, (272, 528, 400)])
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn", "float8_e5m2", "float32"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_mn_major_operands(transposed, dtype, shape, batch):
    k_major_a, k_major_b, d = operands(*shape, *batch, dtype=dtype)
    for a, b, flipped_a, flipped_b in layouts(k_major_a, k_major_b):
        for _ in range(3):
            d.fill_(7)
            for _ in range(5):
                weft.matmul(a, b, out=d, transpose_a=flipped_a, transpose_b=flipped_b)
            assert right(k_major_a, k_major_b, d)


def test_graphs_and_streams_with_mn_major_operands(transposed):
    import torch

    cases = [operands(500, 1008, 1003, seed=seed) for seed in range(3)]
    streams = [torch.cuda.Stream() for _ in cases]
    mn_major = [layouts(a, b)[0][1] for a, b, _ in cases]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=streams[0]):
        for _ in range(4):
            weft.matmul(cases[0][0], mn_major[0], out=cases[0][2])
    for _ in range(20):
        graph.replay()
        for stream, (a, _, d), b in zip(streams[1:], cases[1:], mn_major[1:], strict=True):
            weft.matmul(a, b, out=d, stream=stream)
    torch.cuda.synchronize()
    assert all(right(*case) for case in cases)


def test_large_products_are_transposed_by_themselves():
    kept.clear()
    a, b, d = operands(2048, 2048, 4096)
    weft.matmul(a, b.mT.contiguous(), out=d)
    assert right(a, b, d)
    assert "WithCopies" in {type(plan.launch).__name__ for plan in kept._known.values()}


@pytest.mark.parametrize("shape", [(65, 2049, 8191), (129, 5121, 3585), (256, 7169, 4097)])
@pytest.mark.parametrize("gap", [0, 2, 5])
def test_b_alone_is_loaded(shape, gap):
    import torch

    m, n, k = shape
    a, b, _ = operands(m, n, k + gap, dtype="bfloat16")
    a, b = a[:, :k], b[:, :k]
    for left in (a, torch.nn.functional.pad(a, (0, -k % 8))[:, :k]):  # A is copied, or not
        d = torch.full((m, n), 7, device="cuda", dtype=torch.float32)
        for _ in range(3):
            weft.matmul(left, b, out=d, transpose_b=True)
        assert right(left, b, d)
