"""Sums over several emulated GPUs that copy engines send: results, bits, and planted faults."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from distributed_worlds import SMALL, numbers, rules, with_ptx
from test_distributed_sums import scattered_sums

from weft.dialects.schedule import WarpgroupSchedule
from weft.distributed import Team, emulated, matmul_reduce_scatter, scatter, teams
from weft.distributed.products import TeamProduct
from weft.emulator import Deadlock, World
from weft.multiply.product import Product
from weft.passes.kernels import team, team_sums

ROWS = 72  # of a rank: two tiles, in as many bands


@pytest.fixture(autouse=True)
def by_copies(monkeypatch):
    """Copy engines send all sums, few as they are."""
    monkeypatch.setattr(scatter, "_FEWEST_TILES", 1)
    monkeypatch.setattr(scatter, "_TILES_OF_BAND", 1)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("partials", ["f32", None])
def test_every_rank_gets_its_rows_of_the_sums(partials):
    report, right = scattered_sums(2, calls=2, rows=ROWS, partials=partials)
    assert right and not report.findings


@pytest.mark.slow
def test_bands_have_whole_clusters():
    shared = WarpgroupSchedule((64, 32, 64), 1, 2, cluster=(2, 1))
    report, right = scattered_sums(2, rows=136, partials=None, schedule=lambda: shared)
    assert right and not report.findings


@pytest.mark.parametrize(
    ("ranks", "m", "n", "k", "way"),
    [
        (2, 2048, 4096, 7168, "CopiedScatter"),  # 128 tiles
        (2, 512, 8192, 14336, "Scatter"),  # 64 tiles, all at the same time
        (4, 2048, 4096, 3584, "Scatter"),
        (1, 2048, 4096, 7168, "Scatter"),
        (2, 160000, 8192, 64, "Scatter"),  # indices of 32 bits
    ],
)
def test_shapes_select_what_sends_sums(monkeypatch, ranks, m, n, k, way):
    monkeypatch.setattr(scatter, "_FEWEST_TILES", 120)
    product = TeamProduct("sums", (m, k), (n, k), (k, 1), "bf16", (), Product(transpose_b=True))
    team = SimpleNamespace(size=ranks, devices=SimpleNamespace(chip="sm_90a"))
    assert scatter._way(product, team).__name__ == way


def test_few_sums_are_sent_by_the_kernel(monkeypatch):
    monkeypatch.setattr(scatter, "_FEWEST_TILES", 3)
    team, kinds = Team.emulated(World(2))[0], []
    for rows in (ROWS, 136):
        a, b = np.zeros((2 * rows, 64), ml_dtypes.bfloat16), np.zeros((32, 64), ml_dtypes.bfloat16)
        matmul_reduce_scatter(a, b, team=team, transpose_b=True, schedule=SMALL)
        kinds.append(type(next(reversed(team.plans.values()))))
    assert kinds == [scatter.Scatter, scatter.CopiedScatter]


def called(members, seed, rows=8):
    """The results of a call of all ranks, each with the sums that it should be."""
    a = [numbers(2 * rows, 64, seed=(seed, rank)) for rank in range(2)]
    b = [numbers(32, 64, seed=(9, seed, rank)) for rank in range(2)]
    total = sum(x.astype(np.float32) @ y.astype(np.float32).T for x, y in zip(a, b, strict=True))
    options = {"transpose_b": True, "schedule": SMALL}
    found = [
        matmul_reduce_scatter(a[rank], b[rank], team=each, **options) for rank, each in enumerate(members)
    ]
    return zip(found, np.split(total.astype(ml_dtypes.bfloat16), 2), strict=True)


def replayed(monkeypatch, calls):
    """The report of calls on two ranks, and whether all results are right. Those that are captured are queued
    as replays of one captured call are.
    """
    world, found = World(2), []
    members = Team.emulated(world)
    for call, is_captured in enumerate(calls):
        monkeypatch.setattr(emulated.WorldDevices, "captures", is_captured)
        found += called(members, call)
    report = world.run(seed=3)
    return report, all((got == want).all() for got, want in found)


@pytest.mark.slow
def test_captured_calls_can_be_replayed(monkeypatch):
    report, right = replayed(monkeypatch, [False, True, True])
    assert right and not report.findings


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("fault", ["barrier", "fill"])
def test_replays_without_a_barrier_or_new_flags_are_found(monkeypatch, fault):
    if fault == "barrier":
        monkeypatch.setattr(Team, "barrier", lambda self: lambda: None)
    else:
        monkeypatch.setattr(emulated.WorldQueue, "fill", lambda *_: None)
    report, _ = replayed(monkeypatch, [False, True, True])
    assert rules(report) == ["global-race"]


def test_two_teams_of_the_same_gpus_share_no_memory():
    world = World(2)
    groups = Team.emulated(world), Team.emulated(world)
    found = [pair for seed, members in enumerate(groups) for pair in called(members, seed)]
    assert not world.run(seed=4).findings
    assert all((got == want).all() for got, want in found)


@pytest.mark.slow
def test_bits_are_those_of_sums_that_kernels_send(monkeypatch):
    generator, found = np.random.default_rng(5), []
    a, b = (
        [generator.standard_normal((rows, 64)).astype(ml_dtypes.bfloat16) for _ in range(2)]
        for rows in (2 * ROWS, 32)
    )
    for fewest in (1, 1000):
        monkeypatch.setattr(scatter, "_FEWEST_TILES", fewest)
        world = World(2)
        members = enumerate(Team.emulated(world))
        options = {"transpose_b": True, "schedule": SMALL}
        found.append([matmul_reduce_scatter(a[r], b[r], team=team, **options) for r, team in members])
        assert not world.run(seed=1).findings
    assert all((one.view("u2") == other.view("u2")).all() for one, other in zip(*found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "partials", "seed"), [(2, None, 0), (3, "f32", None), (3, None, 1), (4, None, 2)]
)
def test_orders_of_ranks_change_no_sums(size, seed, partials):
    report, right = scattered_sums(size, calls=4, rows=200, seed=seed, partials=partials)
    assert right and not report.findings


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fence.acq_rel.gpu", "// no fence"),  # between the parts of a band
        ("ld.acquire.sys", "ld.acquire.gpu"),
        ("ld.acquire.sys", "ld.relaxed.sys"),
    ],
)
def test_flags_without_an_order_are_found(monkeypatch, old, new):
    monkeypatch.setattr(scatter, "_TILES_OF_BAND", 4)  # one band
    with_ptx(monkeypatch, old, new)
    report, _ = scattered_sums(2, rows=ROWS, partials=None)
    assert rules(report) == ["global-race"]


def test_flags_before_copies_to_memory_have_ended_are_found(monkeypatch):
    with_ptx(monkeypatch, "cp.async.bulk.wait_group \t0;", "cp.async.bulk.wait_group.read \t0;")
    report, _ = scattered_sums(2, rows=ROWS, partials=None)
    assert rules(report) == ["global-race"]


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_flags_of_bands_that_are_not_done_are_found(monkeypatch):
    monkeypatch.setattr(scatter, "_TILES_OF_BAND", 4)  # one band
    is_last = team_sums.tile.is_last
    one_less = lambda counters, index, count: is_last(counters, index, team_sums.emit.sub(count, 1))  # noqa: E731
    monkeypatch.setattr(team_sums.tile, "is_last", one_less)
    report, _ = scattered_sums(2, rows=ROWS, partials=None)
    assert rules(report) == ["global-race"]


def test_copies_that_do_not_wait_for_their_band_are_found(monkeypatch):
    monkeypatch.setattr(emulated.WorldQueue, "await_value", lambda *_: None)
    report, _ = scattered_sums(2, rows=ROWS, partials=None)
    assert rules(report) == ["global-race"]


@pytest.mark.slow
def test_sums_that_overwrite_those_of_the_last_call_are_found(monkeypatch):
    monkeypatch.setattr(teams, "HALVES", 1)
    report, _ = scattered_sums(2, calls=3, rows=ROWS, partials=None)
    assert rules(report) == ["global-race"]


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_own_rows_first_are_a_deadlock(monkeypatch):
    monkeypatch.setattr(team.Team, "first", lambda self, op: self.rank)
    with pytest.raises(Deadlock, match=r"(?s)on rank 0.*on rank 1"):
        scattered_sums(2, rows=256)
