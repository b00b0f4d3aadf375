"""Products with rows of several emulated GPUs: results, the order of copies and flags, and planted faults."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from distributed_worlds import SMALL, WAYS, K, M, N, numbers, product, rules, send_by, with_ptx

import weft
from weft.distributed import Team, all_gather_matmul, gather, rows, small_kernels, teams
from weft.distributed.emulated import WorldDevices, WorldQueue
from weft.emulator import Deadlock, Fault, World
from weft.multiply.product import Product
from weft.passes.kernels.team import RowGate


def gathered(size, *, calls=1, world=None, changed=lambda teams: None, seed=None, dtype=ml_dtypes.bfloat16):
    """The report of calls on all ranks, and whether all results are right."""
    world = world or World(size)
    members, found = Team.emulated(world), []
    for call in range(calls):
        rows = [numbers(M, K, seed=(call, rank), dtype=dtype) for rank in range(size)]
        for rank, team in enumerate(members):
            b = numbers(N, K, seed=(9, call, rank), dtype=dtype)
            got = all_gather_matmul(rows[rank], b, team=team, transpose_b=True, schedule=SMALL)
            found.append((got, product(np.concatenate(rows), b)))
            if call == 0:
                changed(team)
    report = world.run(seed=seed)
    return report, all((got == want).all() for got, want in found)


@pytest.fixture
def copied(patch):
    """Copy engines send rows."""
    send_by(patch, "copies")


@pytest.mark.each_value(1)
@pytest.mark.parametrize("way", WAYS)
def test_every_rank_multiplies_the_rows_of_all(patch, way):
    send_by(patch, way)
    report, right = gathered(2, calls=3)
    assert right and not report.findings


def test_a_team_may_have_one_rank():
    report, right = gathered(1, dtype=np.float16)
    assert right and not report.findings


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_orders_of_ranks_change_nothing(patch, size, seed, way):
    send_by(patch, way)
    report, right = gathered(size, calls=4, seed=seed, dtype=np.float16)
    assert right and not report.findings


def test_the_epilogue_has_the_whole_result():
    world, (m, n) = World(2), (64, 32)
    rows = [numbers(m, K, seed=rank) for rank in range(2)]
    found = []
    for rank, team in enumerate(Team.emulated(world)):
        b, bias, residual = numbers(K, n, seed=7 + rank), numbers(n, seed=5), numbers(2 * m, n, seed=6)
        epilogue = weft.Epilogue(bias=bias, activation="relu", residual=residual)
        got = all_gather_matmul(rows[rank], b, team=team, epilogue=epilogue, schedule=SMALL)
        want = np.maximum(np.concatenate(rows).astype(np.float32) @ b.astype(np.float32) + bias, 0) + residual
        found.append((got, want.astype(got.dtype)))
    assert not world.run().findings
    assert all((got == want).all() for got, want in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", [*(pytest.param(way, marks=pytest.mark.slow) for way in ("copies", "kernel")), "product"]
)
def test_several_products_have_the_same_rows(patch, way):
    send_by(patch, way)
    world, found = World(2), []
    members = Team.emulated(world)
    for call in range(2):
        rows = [numbers(M, K, seed=(call, rank)) for rank in range(2)]
        whole = np.concatenate(rows)
        for rank, team in enumerate(members):
            bs, bias = [numbers(n, K, seed=(call, rank, n)) for n in (N, 8)], numbers(8, seed=call)
            epilogues = [None, weft.Epilogue(bias=bias, activation="relu")]
            options = {"transpose_b": True, "schedule": SMALL, "epilogue": epilogues}
            first, second = all_gather_matmul(rows[rank], bs, team=team, **options)
            found.append((first, product(whole, bs[0])))
            sums = whole.astype(np.float32) @ bs[1].astype(np.float32).T
            found.append((second, np.maximum(sums + bias.astype(np.float32), 0).astype(whole.dtype)))
    assert not world.run(seed=1).findings
    assert all((got == want).all() for got, want in found)


@pytest.mark.parametrize(
    ("count", "epilogue", "message"),
    [
        (0, None, "at least one, got 0"),
        (2, [None], "a list of as many"),
        (2, weft.Epilogue(activation="relu"), "a list of as many"),
        (2, [None, 1], "a list of as many"),
        (None, [None], "epilogue must be a weft.Epilogue or None, got"),
    ],
)
def test_wrong_lists_are_named(count, epilogue, message):
    b = numbers(N, K, seed=1)
    with pytest.raises(weft.WeftError, match=message):
        all_gather_matmul(
            numbers(M, K, seed=2),
            b if count is None else [b] * count,
            team=Team.emulated(World(2))[0],
            transpose_b=True,
            epilogue=epilogue,
        )


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("ld.acquire.sys", "ld.acquire.gpu", ["global-race"]),
        ("ld.acquire.sys", "ld.relaxed.sys", ["global-race"]),
    ],
)
@pytest.mark.usefixtures("copied")
def test_waits_without_an_order_are_found(patch, old, new, found):
    with_ptx(patch, old, new)
    report, _ = gathered(2)
    assert rules(report) == found


@pytest.mark.usefixtures("copied")
def test_a_flag_before_its_data_is_found(monkeypatch):
    push = gather.Gather._push

    def flags_first(self, a, *, turn):
        devices, added = self.team.devices, []
        pushes, devices.pushes = devices.pushes, SimpleNamespace(copy=lambda *each: added.append(each))
        push(self, a, turn=turn)
        devices.pushes = pushes
        for each in reversed(added):
            pushes.copy(*each)

    monkeypatch.setattr(gather.Gather, "_push", flags_first)
    report, _ = gathered(2)
    assert rules(report) == ["global-race"]


@pytest.mark.usefixtures("copied")
def test_memory_that_is_used_again_too_early_is_found(monkeypatch):
    monkeypatch.setattr(teams, "HALVES", 1)
    report, _ = gathered(2, calls=3)
    assert rules(report) == ["global-race"]


@pytest.mark.usefixtures("copied")
def test_pushes_that_do_not_wait_for_the_caller_are_found(monkeypatch):
    world = World(2)
    for rank, team in enumerate(Team.emulated(world)):
        a, b = numbers(M, K, seed=rank), numbers(N, K, seed=2)
        team.devices.caller().stream.copy(a, numbers(M, K, seed=3))
        monkeypatch.setattr(team.devices.pushes, "wait", lambda event: None)
        all_gather_matmul(a, b, team=team, transpose_b=True, schedule=SMALL)
    assert rules(world.run()) == ["global-race"]


@pytest.mark.usefixtures("copied")
def test_results_that_are_read_before_pushes_end_keep_a(monkeypatch):
    world = World(2)
    for rank, team in enumerate(Team.emulated(world)):
        a, b = numbers(M, K, seed=rank), numbers(N, K, seed=2)
        caller = team.devices.caller()
        all_gather_matmul(a, b, team=team, transpose_b=True, schedule=SMALL)
        caller.stream.copy(a, numbers(M, K, seed=3))  # the next use of A's memory
    assert not world.run(seed=1).findings


def test_a_rank_that_does_not_come_is_a_deadlock():
    world = World(2)
    team = Team.emulated(world)[0]
    a, b = numbers(M, K, seed=1), numbers(N, K, seed=2)
    all_gather_matmul(a, b, team=team, transpose_b=True, schedule=SMALL)
    with pytest.raises(Deadlock, match="kernel 'matmul' on rank 0"):
        world.run()


def test_a_wait_that_takes_longer_than_the_limit_ends_the_kernel():
    world = World(2)
    team = Team.emulated(world)[0]
    team._limit = 0
    a, b = numbers(M, K, seed=1), numbers(N, K, seed=2)
    all_gather_matmul(a, b, team=team, transpose_b=True, schedule=SMALL)
    with pytest.raises(Fault, match="trap"):
        world.run()


def test_ranks_with_different_shapes_are_refused():
    first, second = Team.emulated(World(2))
    all_gather_matmul(numbers(M, K, seed=1), numbers(N, K, seed=2), team=first, transpose_b=True)
    with pytest.raises(weft.WeftError, match=r"all ranks must multiply.*72 x 64 and 32 x 64.*80 x 64 and"):
        all_gather_matmul(numbers(80, K, seed=1), numbers(N, K, seed=2), team=second, transpose_b=True)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (numbers(8, 64, seed=1)[0], numbers(8, 64, seed=1), "a must be a matrix"),
        (numbers(8, 64, seed=1), numbers(8, 72, seed=1), "a and b must agree in K, got 64 and 72"),
        (numbers(8, 60, seed=1), numbers(8, 60, seed=1), "rows of a must have a multiple of 8 elements"),
        (numbers(16, 64, seed=1)[::2], numbers(8, 64, seed=1), "a must be contiguous"),
        (
            np.zeros((8, 64)),
            numbers(8, 64, seed=1),
            "bf16, f16, f8E4M3FN or f8E5M2, got f64",
        ),
        (numbers(8, 64, seed=1), numbers(8, 64, seed=1, dtype=np.float16), "one element type"),
        (numbers(0, 64, seed=1), numbers(8, 64, seed=1), "must have elements"),
    ],
)
def test_wrong_arrays_are_named(a, b, message):
    with pytest.raises(weft.WeftError, match=message):
        all_gather_matmul(a, b, team=Team.emulated(World(2))[0], transpose_b=True)


UNORDERED = [
    ("st.release.sys", "st.relaxed.sys", "global-race"),
    ("st.release.sys", "st.release.gpu", "global-race"),
    ("ld.acquire.sys", "ld.relaxed.sys", "global-race"),
    ("fence.acq_rel.gpu", "// no fence", "global-race"),
]
"""Faults of any kernel that sends rows: what its PTX has, what it gets, and the finding."""


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        *UNORDERED,
        ("bar.sync \t0;", "", "global-race"),
        ("fence.proxy.async.global", "// no fence", "missing-proxy-fence"),
    ],
)
def test_rows_that_are_pushed_without_an_order_are_found(monkeypatch, old, new, found):
    send_by(monkeypatch, "kernel")
    monkeypatch.setattr(small_kernels, "PUSHED", 1 << 10)  # several CTAs
    with_ptx(monkeypatch, old, new)
    report, _ = gathered(2)
    assert found in rules(report)


def in_slices(monkeypatch, k, slices):
    """Products of K columns, whose kernels send rows in so many slices."""
    send_by(monkeypatch, "product")
    monkeypatch.setitem(globals(), "K", k)
    monkeypatch.setattr(gather, "_SLICE", M * k * 2 // slices)


@pytest.mark.parametrize(
    ("k", "slices"),
    [
        (256, 4),  # one for each K block
        pytest.param(200, 3, marks=pytest.mark.slow),  # the last one is empty
        pytest.param(328, 5, marks=pytest.mark.slow),  # the last two have one block, and none
        pytest.param(264, 2, marks=pytest.mark.slow),  # a block of 8 columns
    ],
)
def test_products_send_their_rows_in_slices(patch, k, slices):
    in_slices(patch, k, slices)
    report, right = gathered(2, calls=2, seed=3)
    assert right and not report.findings


@pytest.mark.parametrize(
    ("ranks", "m", "n", "k", "way"),
    [
        (4, 128, 3584, 4096, "SendingGather"),  # 3 MiB for three others
        (2, 256, 14336, 8192, "SendingGather"),  # 4 MiB
        (4, 128, 7168, 8192, "PushedGather"),  # 6 MiB
        (4, 512, 3584, 4096, "Gather"),  # 12 MiB
        (4, 16, 64, 8192, "PushedGather"),  # 8 tiles
    ],
)
def test_shapes_select_what_sends_rows(ranks, m, n, k, way):
    a, b = (gather.arrays.view(np.zeros(shape, ml_dtypes.bfloat16)) for shape in ((m, k), (n, k)))
    product = gather.FUNCTION.described(a, b, ranks, {}, Product(transpose_b=True))
    team = SimpleNamespace(size=ranks, devices=SimpleNamespace(chip="sm_90a"))
    assert gather._way(product, team).__name__ == way


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        *UNORDERED,
        ("bar.sync \t13, 96;", "", "global-race"),  # of the threads that send
        ("bar.sync \t14, 128;", "", "global-race"),  # before the call is counted
        ("fence.proxy.async.global", "// no fence", "missing-proxy-fence"),
    ],
)
def test_slices_that_are_sent_without_an_order_are_found(patch, old, new, found):
    in_slices(patch, 128, 2)
    with_ptx(patch, old, new)
    report, _ = gathered(2, calls=2)
    assert found in rules(report)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_tiles_that_wait_for_the_first_slice_only_are_found(monkeypatch):
    in_slices(monkeypatch, 128, 2)
    await_block = RowGate.await_block

    def await_first(self, at, block):
        if isinstance(block, int):  # others are values of a loop
            await_block(self, at, block)

    monkeypatch.setattr(RowGate, "await_block", await_first)
    report, _ = gathered(2)
    assert rules(report) == ["global-race"]


def repeated(calls, monkeypatch, size=2):
    """The report of calls on all ranks, and whether all results are right. Those that are captured are queued
    as replays of one captured call are.
    """
    world, found = World(size), []
    members = Team.emulated(world)
    for call, is_captured in enumerate(calls):
        monkeypatch.setattr(WorldDevices, "captures", is_captured)
        a = [numbers(8, K, seed=(call, rank)) for rank in range(size)]
        finish = [rows.gathering(a[rank], team) for rank, team in enumerate(members)]
        for rank, team in enumerate(members):
            b = numbers(N, K, seed=(9, call, rank))
            found.append((finish[rank](), np.concatenate(a)))
            got = all_gather_matmul(a[rank], b, team=team, transpose_b=True, schedule=SMALL)
            found.append((got, product(np.concatenate(a), b)))
    report = world.run(seed=2)
    return report, all((got == want).all() for got, want in found)


@pytest.mark.each_value(1)
@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("size", [2, 3])
def test_captured_calls_can_be_replayed(patch, size):
    report, right = repeated([False, True, True], patch, size)
    assert right and not report.findings


@pytest.mark.slow
@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("fault", ["begin", "fill"])
def test_replays_without_a_barrier_or_new_flags_are_found(monkeypatch, fault):
    if fault == "begin":
        monkeypatch.setattr(Team, "begin", lambda self, exchange: exchange.next(self.devices.captures))
    else:
        monkeypatch.setattr(WorldQueue, "fill", lambda self, flags, value: None)
    report, _ = repeated([False, True, True], monkeypatch)
    assert rules(report) == ["global-race"]


def test_first_calls_are_not_captured(monkeypatch):
    monkeypatch.setattr(WorldDevices, "captures", True)
    (team,) = Team.emulated(World(1))
    with pytest.raises(
        weft.WeftError, match=r"all_gather_matmul of 8 x 64 .*call it once before the capture"
    ):
        all_gather_matmul(numbers(8, K, seed=1), numbers(N, K, seed=2), team=team, transpose_b=True)
