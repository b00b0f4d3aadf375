"""Split K on a GPU: correct for every way to add, on concurrent streams, in graphs, in repeated launches."""

import pytest
from gpu_marks import SM_90A

import weft
from weft.dialects.schedule import WarpgroupSchedule

pytestmark = SM_90A


def of(m, n, k, warpgroups=2, stages=4, **fields):
    return WarpgroupSchedule((m, n, k), warpgroups, stages, **fields)


SCHEDULES = [
    of(128, 128, 64, splits=2),
    of(128, 128, 64, splits=8),
    of(64, 16, 64, 1, 8, splits=2, swap=True),
    of(128, 128, 64, global_splits=2),
    of(128, 128, 64, global_splits=8),
    of(128, 256, 64, stages=3, global_splits=3),
    of(64, 64, 64, 1, 6, global_splits=16),
    of(64, 16, 64, 1, 8, global_splits=4, swap=True),
    of(128, 128, 64, global_splits=4, cluster=(2, 1)),
    of(128, 128, 64, stream_k=True),
    of(128, 256, 64, stages=3, stream_k=True),
    of(64, 64, 64, 1, 6, stream_k=True),
    of(192, 64, 64, 3, stream_k=True),
    of(64, 16, 64, 1, 8, stream_k=True, swap=True),
]
STREAM_K = [each for each in SCHEDULES if each.stream_k]


def operands(m, n, k, seed=0):
    """Whole numbers, whose sums are exact in every order."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = {"generator": generator, "device": "cuda"}
    a, b = (torch.randint(-1, 2, size, **shape).bfloat16() for size in ((m, k), (n, k)))
    return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)


def right(a, b, d):
    import torch

    return torch.equal(d, (a.float() @ b.float().T).bfloat16())


def multiply(schedule, a, b, d, stream=None):
    import torch

    stream = torch.cuda.current_stream() if stream is None else stream
    weft.matmul(a, b, out=d, transpose_b=True, schedule=schedule, stream=stream)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("shape", [(512, 512, 8192), (16, 1000, 4104), (8, 8, 8), (2000, 1000, 1032)])
def test_a_product_is_right_launch_after_launch(schedule, shape):
    a, b, d = operands(*shape)
    for _ in range(3):
        d.fill_(float("nan"))
        for _ in range(5):
            multiply(schedule, a, b, d)
        assert right(a, b, d)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_streams_at_once_have_memory_of_their_own(schedule):
    import torch

    cases = [operands(512, 512, 8192, seed) for seed in range(4)]
    streams = [torch.cuda.Stream() for _ in cases]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream, case in zip(streams, cases, strict=True):
            multiply(schedule, *case, stream=stream)
    torch.cuda.synchronize()
    assert all(right(*case) for case in cases)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_graph_has_memory_of_its_own(schedule):
    """Captured on a stream that nothing ran on before, replayed beside launches."""
    import torch

    ours, theirs = operands(512, 512, 8192, 1), operands(512, 512, 8192, 2)
    multiply(schedule, *ours)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        for _ in range(8):
            multiply(schedule, *ours)
    ours[2].fill_(float("nan"))
    beside = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(20):
        graph.replay()
        multiply(schedule, *theirs, stream=beside)
    torch.cuda.synchronize()
    assert right(*ours) and right(*theirs)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_branches_of_a_graph_have_memory_of_their_own(schedule):
    """A graph runs what it has captured on two streams at the same time."""
    import torch

    cases = [operands(512, 512, 8192, seed) for seed in range(2)]
    multiply(schedule, *cases[0])
    torch.cuda.synchronize()
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        for _ in range(8):
            multiply(schedule, *cases[0])
            multiply(schedule, *cases[1], stream=side)
        torch.cuda.current_stream().wait_stream(side)
    for *_, d in cases:
        d.fill_(float("nan"))
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    assert all(right(*case) for case in cases)


def test_bits_are_the_same_each_time():
    import torch

    a, b = (torch.randn(512, 16384, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    first, again = (torch.empty(512, 512, device="cuda") for _ in range(2))
    for schedule in SCHEDULES:
        multiply(schedule, a, b, first)
        for _ in range(20):
            multiply(schedule, a, b, again)
            assert torch.equal(first, again), schedule


@pytest.mark.parametrize("schedule", STREAM_K, ids=str)
@pytest.mark.parametrize("tiles", [1, 9, 56, 131, 132, 133, 200, 263, 264, 448])
def test_waves_of_every_filling(schedule, tiles):
    """Whole waves, and tiles beside them that are divided among few CTAs or all."""
    n, m = schedule.block[:2] if schedule.swap else schedule.block[1::-1]
    for k in (64, 1096, 4160):
        a, b, d = operands(m * tiles, n, k)
        for _ in range(3):
            d.fill_(float("nan"))
            multiply(schedule, a, b, d)
            assert right(a, b, d), k


@pytest.mark.parametrize("schedule", STREAM_K, ids=str)
def test_a_workspace_serves_products_of_all_sizes_in_turn(schedule):
    """One kernel: each launch divides other tiles, at the same counters."""
    cases = [operands(m, n, k) for m, n, k in ((512, 512, 8192), (2000, 1000, 1032), (16, 7168, 4096))]
    for _ in range(20):
        for case in cases:
            case[2].fill_(float("nan"))
            multiply(schedule, *case)
        assert all(right(*case) for case in cases)


def test_ctas_that_come_late_are_waited_for_by_nobody():
    """Another kernel holds most multiprocessors: the CTAs of a launch run one after the other."""
    import torch

    a, b, d = operands(512, 512, 16384)
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    beside = torch.cuda.Stream()
    torch.cuda.synchronize()
    for schedule in STREAM_K:
        for _ in range(10):
            with torch.cuda.stream(beside):
                for _ in range(4):
                    x @ x
            d.fill_(float("nan"))
            multiply(schedule, a, b, d)
            assert right(a, b, d)
    torch.cuda.synchronize()
