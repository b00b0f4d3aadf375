"""What the host does for a call of a team on GPUs, with a fake driver."""

import itertools
import sys
import threading
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from distributed_worlds import send_by  # noqa: E402
from fake_driver import two_gpus  # noqa: E402

from weft.dialects.schedule import WarpgroupSchedule  # noqa: E402
from weft.distributed import (  # noqa: E402
    Team,
    all_gather_matmul,
    cuda,
    gather,
    matmul_reduce_scatter,
    operator_calls,
    scatter,
)
from weft.distributed.devices import Memory  # noqa: E402
from weft.distributed.products import TeamProduct  # noqa: E402
from weft.nn import ColumnParallelLinear, RowParallelLinear  # noqa: E402

BF16 = torch.bfloat16
CALLER, PUSHES = 5, 6  # streams
MOST_CALLS = 105  # of Python and C functions, for a product


class Devices(cuda.CudaDevices):
    """One of several ranks, whose memory is the CPU's."""

    def __init__(self, rank=0, size=2):
        self.rank, self.size, self.chip, self.name = rank, size, "sm_90a", "fake"
        self._set(fake_torch(), 0)
        self._device = torch.device("cpu")

    def shared(self, size):
        found = [torch.zeros(size, dtype=torch.uint8) for _ in range(self.size)]
        return [Memory(each.data_ptr(), size, "cuda", 0, (each, None)) for each in found]

    def barrier(self, milliseconds):
        return lambda: None

    def agree(self, key):
        pass


def fake_torch():
    """PyTorch with GPUs, as far as a team asks."""
    gpus = SimpleNamespace(Stream=lambda *_, **__: SimpleNamespace(cuda_stream=PUSHES))
    private = SimpleNamespace(
        _cuda_getCurrentRawStream=lambda _: CALLER, _cuda_isCurrentStreamCapturing=lambda: False
    )
    found = SimpleNamespace(**{name: vars(torch)[name] for name in ("device", "empty_strided", "from_numpy")})
    vars(found).update(cuda=gpus, _C=private, Tensor=torch.Tensor, bfloat16=BF16, float16=torch.float16)
    return found


@pytest.fixture
def done(monkeypatch):
    """What a team's rank has queued."""
    with two_gpus(monkeypatch) as driver:
        driver.stack.append(100)
        monkeypatch.setattr(cuda, "entry", driver.entry)
        cuda._function.cache_clear()
        launch = SimpleNamespace(launch=lambda stream, *_: driver.queued.append(("launch", stream)))
        monkeypatch.setattr(cuda.CudaQueue, "prepared", lambda *_: launch)
        monkeypatch.setattr(TeamProduct, "kernel", lambda *_, **__: object())
        send_by(monkeypatch, "copies")
        yield driver.queued
    cuda._function.cache_clear()


def test_rows_are_copied_before_their_flags(done):
    team = Team.of(Devices())
    a, b = torch.ones(16, 64, dtype=BF16), torch.ones(32, 64, dtype=BF16)
    flags = []
    for call in range(3):
        del done[:]
        d = all_gather_matmul(a, b, team=team, transpose_b=True)
        assert d.shape == (32, 32) and d.dtype == BF16
        half = team.exchange("gather")._halves[call % 2]
        to, flag, number = half.data[1].address, half.flags[1].address, done[3][2]
        assert done == [
            ("record", CALLER),
            ("wait", PUSHES),
            ("copy", to, a.data_ptr(), 2048, PUSHES),
            ("copy", flag, number, 4, PUSHES),
            ("launch", CALLER),
            ("record", PUSHES),
            ("wait", CALLER),
        ]
        flags.append(number)
    assert [b - a for a, b in itertools.pairwise(flags)] == [16, 16]  # the numbers of the calls


def test_chunks_go_to_the_rank_first_that_needs_them_first(done, monkeypatch):
    monkeypatch.setattr(gather, "_CHUNK", 1024)
    team = Team.of(Devices(rank=1, size=4))
    a, b = torch.ones(16, 64, dtype=BF16), torch.ones(32, 64, dtype=BF16)
    assert all_gather_matmul(a, b, team=team, transpose_b=True).shape == (64, 32)
    half, size = team.exchange("gather")._halves[0], 16 * 128
    copies = [each[1:4] for each in done if each[0] == "copy"]
    want = []
    for peer in (0, 3, 2):
        for chunk in range(2):
            begin = 1024 * chunk
            want.append((half.data[peer].address + size + begin, a.data_ptr() + begin, 1024))
            want.append((half.flags[peer].address + 4 * (2 + chunk), copies[1][1], 4))
    assert copies == want


def test_sums_are_copied_after_the_kernel_has_set_their_flags(done, monkeypatch):
    monkeypatch.setattr(scatter, "_FEWEST_TILES", 1)
    monkeypatch.setattr(scatter, "_TILES_OF_BAND", 4)
    team = Team.of(Devices(rank=1, size=3))
    a, b = torch.ones(3 * 512, 64, dtype=BF16), torch.ones(512, 64, dtype=BF16)
    options = {"transpose_b": True, "schedule": WarpgroupSchedule((64, 128, 64), 1, 2)}
    for call in range(2):
        del done[:]
        assert matmul_reduce_scatter(a, b, team=team, **options).shape == (512, 512)
        half = team.exchange("scatter")._halves[call % 2]
        data, flags = ([each.address for each in memory] for memory in (half.data, half.flags))
        assert done[:3] == [("record", CALLER), ("wait", PUSHES), ("launch", CALLER)]
        assert done[-2:] == [("record", PUSHES), ("wait", CALLER)]
        number, size, want = done[5][2], 512 * 512 * 2, []
        for peer, sent, come in ((2, 3, 1), (0, 2, 0)):  # their places among the others
            for band in range(8):
                begin, length = band * size // 8, size // 8
                want += [
                    ("await", flags[1] + 4 * (8 * sent + band), call + 1, 0, PUSHES),
                    ("copy", data[peer] + come * size + begin, data[1] + sent * size + begin, length, PUSHES),
                    ("copy", flags[peer] + 4 * (8 * come + band), number, 4, PUSHES),
                ]
        assert done[3:-2] == want


def test_sums_of_captured_calls_are_copied_if_graphs_can_wait(done, monkeypatch):
    monkeypatch.setattr(scatter, "_FEWEST_TILES", 1)
    monkeypatch.setattr(Devices, "graphs_wait", True)
    team = Team.of(Devices())
    a, b = torch.ones(256, 64, dtype=BF16), torch.ones(128, 64, dtype=BF16)
    options = {"transpose_b": True, "schedule": WarpgroupSchedule((64, 128, 64), 1, 2)}
    matmul_reduce_scatter(a, b, team=team, **options)
    called = [each for each in done if each[0] in ("await", "copy")]
    monkeypatch.setattr(team.devices, "_is_captured", lambda: True)
    exchange = team.exchange("scatter")
    for _ in range(2):
        del done[:]
        matmul_reduce_scatter(a, b, team=team, **options)
        own = exchange._halves[0].flags[0]
        assert done[0] == ("fill", own.address, 0, own.size // 4, CALLER)  # before the barrier of all ranks
        assert [each for each in done if each[0] in ("await", "copy")] == called  # those of the last call


@pytest.mark.usefixtures("done")
def test_graphs_wait_if_the_driver_captures_waits(monkeypatch):
    queue, flag = cuda.CudaQueue(PUSHES), Memory(1024, 4, "cuda", 0, None)
    assert cuda._graphs_wait(queue, flag)
    monkeypatch.setattr(queue, "_await_value", lambda *_: 900)  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    assert not cuda._graphs_wait(queue, flag)


def test_graphs_do_not_wait_where_all_streams_share_a_connection(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    assert not cuda._graphs_wait(None, None)  # without a capture


def test_kernels_send_the_sums_of_captured_calls(done, monkeypatch):
    monkeypatch.setattr(scatter, "_FEWEST_TILES", 1)
    team = Team.of(Devices())
    a, b = torch.ones(256, 64, dtype=BF16), torch.ones(128, 64, dtype=BF16)
    options = {"transpose_b": True, "schedule": WarpgroupSchedule((64, 128, 64), 1, 2)}
    matmul_reduce_scatter(a, b, team=team, **options)
    monkeypatch.setattr(team.devices, "_is_captured", lambda: True)
    for _ in range(2):
        del done[:]
        matmul_reduce_scatter(a, b, team=team, **options)
        assert done == [("launch", CALLER)]


def test_errors_of_copies_are_named(done, monkeypatch):
    team = Team.of(Devices())
    operands = torch.ones(16, 64, dtype=BF16), torch.ones(64, 32, dtype=BF16)
    monkeypatch.setattr(team.devices.pushes, "_copy", lambda *_: 1)
    with pytest.raises(cuda.WeftError, match="copying 2048 bytes to another GPU: CUDA_ERROR_INVALID_VALUE"):
        all_gather_matmul(*operands, team=team)


def counted(run):
    """The calls of functions in a run."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.usefixtures("done")
def test_known_products_take_few_steps_of_the_host(monkeypatch):
    monkeypatch.setattr(operator_calls._CALLS, "matmul", lambda a, b: a.new_empty(a.shape[0], b.shape[1]))
    team = Team.of(Devices())
    made = {"bias": False, "dtype": BF16, "team": team}
    up, down = ColumnParallelLinear(64, 32, **made, activation="relu"), RowParallelLinear(32, 64, **made)
    x = torch.ones(16, 64, dtype=BF16, requires_grad=True)

    def step():
        down(up(x)).backward(x.detach())

    with torch.autograd.set_multithreading_enabled(False):  # for `sys.setprofile`
        for _ in range(2):
            step()
        assert counted(step) <= 6 * MOST_CALLS

    def products():
        all_gather_matmul(x.detach(), up.weight.detach(), team=team, transpose_b=True)
        matmul_reduce_scatter(x.detach(), down.weight.detach(), team=team)

    products()
    assert counted(products) <= 2 * MOST_CALLS


def test_calls_of_several_threads_follow_each_other(done):
    team, ends = Team.of(Devices()), []
    operands = torch.ones(16, 64, dtype=BF16), torch.ones(32, 64, dtype=BF16)

    def run():
        for _ in range(50):
            all_gather_matmul(*operands, team=team, transpose_b=True)
        ends.append(True)

    run()
    steps = [each[0] for each in done[-7:]]
    del done[:]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(ends) == 3 and [each[0] for each in done] == 100 * steps
    numbers = [each[2] for each in done[3::7]]  # of the calls
    assert [b - a for a, b in itertools.pairwise(numbers)] == 99 * [16]
