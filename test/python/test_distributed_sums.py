"""Sums over several emulated GPUs: their results, the order of data and flags, and planted faults."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from distributed_worlds import SMALL, K, M, N, numbers, rules, with_ptx

import weft
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.distributed import Team, matmul_all_reduce, matmul_reduce_scatter, products, reduce
from weft.emulator import Deadlock, World
from weft.multiply import product_kernel
from weft.passes.builders import emit
from weft.passes.kernels import team as team_part
from weft.passes.kernels import team_sums
from weft.schedules import choice, wgmma_cycles

BF16 = ml_dtypes.bfloat16
WEAKER = [
    ("st.release.sys", "st.relaxed.sys"),
    ("st.release.sys", "st.release.gpu"),
    ("ld.acquire.sys", "ld.acquire.gpu"),
    ("ld.acquire.sys", "ld.relaxed.sys"),
]
"""Instructions, and ones that order too little."""


def scattered_sums(size, *, calls=1, rows=M, seed=None, partials="f32", dtype=BF16, **added):
    """The report of calls on all ranks, and whether all results are right."""
    world, found = World(size), []
    members = Team.emulated(world)
    for call in range(calls):
        a = [numbers(size * rows, K, seed=(call, rank), dtype=dtype) for rank in range(size)]
        b = [numbers(N, K, seed=(9, call, rank), dtype=dtype) for rank in range(size)]
        total = sum(x.astype(np.float32) @ y.astype(np.float32).T for x, y in zip(a, b, strict=True))
        for rank, team in enumerate(members):
            more = {name: make() for name, make in added.items()}
            options = {"transpose_b": True, "partials": partials, "schedule": SMALL, **more}
            got = matmul_reduce_scatter(a[rank], b[rank], team=team, **options)
            found.append((got, total[rank * rows : (rank + 1) * rows], more.get("epilogue")))
    report = world.run(seed=seed)
    return report, all(
        (got == finished(want, epilogue).astype(got.dtype)).all() for got, want, epilogue in found
    )


def finished(sums, epilogue):
    """Sums after an epilogue."""
    if epilogue is None:
        return sums
    return np.maximum(sums + epilogue.bias, 0) + epilogue.residual


@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", ["scattered_sums", "all_reduced_sums"])
def test_sums_of_one_rank(name):
    report, right = globals()[name](1)
    assert right and not report.findings


def test_every_rank_gets_its_rows_of_the_sums():
    report, right = scattered_sums(2, calls=3, dtype=np.float16)
    assert right and not report.findings


@pytest.mark.slow
def test_sums_are_rounded_before_they_are_sent():
    report, right = scattered_sums(2, calls=3, partials=None)  # sums of few small numbers are exact in bf16
    assert right and not report.findings


@pytest.mark.each_value(1)
@pytest.mark.parametrize("columns", [8, 24])
def test_threads_with_few_sums_send_shorter_vectors(columns):
    narrow = replace(SMALL, block=(64, columns, 64), swap=True)
    for partials in ("f32", None):
        report, right = scattered_sums(2, partials=partials, schedule=lambda: narrow)
        assert right and not report.findings


@pytest.mark.slow
def test_threads_send_sums_of_tiles_that_are_staged_in_parts():
    parts = WarpgroupSchedule((128, 256, 64), 2, 4)
    report, right = scattered_sums(2, partials=None, schedule=lambda: parts)
    assert right and not report.findings


def test_no_tile_is_staged_in_parts_unless_a_call_names_it(monkeypatch):
    types, sizes = Types("bf16", "bf16", "bf16"), (5200, 976, 11832)
    chosen = choice.choose(*sizes, types, "sm_90a")
    assert chosen.staging_parts(types) == 2
    whole = replace(chosen, block=(128, 128, 64))
    monkeypatch.setattr(choice, "by_promise", lambda request: iter([chosen, whole]))
    assert products._chosen(types, "sm_90a", (1, *sizes), whole=True) == whole
    assert products._chosen(types, "sm_90a", (1, *sizes), whole=False) == chosen


def test_all_candidates_of_a_product_are_predicted_at_once(monkeypatch):
    types, sizes, calls = Types("bf16", "bf16", "bf16"), (4, 192, 8192, 7168), []
    assert not products._is_able(choice.choose(*sizes[1:], types, "sm_90a", sizes[0]), types, whole=True)
    cycles = wgmma_cycles.cycles
    monkeypatch.setattr(wgmma_cycles, "cycles", lambda *args: calls.append(args) or cycles(*args))
    assert products._is_able(products._chosen(types, "sm_90a", sizes, whole=True), types, whole=True)
    assert len(calls) <= 2


def test_warpgroups_of_a_product_over_gpus_share_tiles():
    """A GPU alone computes this product in turns."""
    types, sizes = Types("bf16", "bf16", "bf16"), (8192, 8192, 512)
    assert choice.choose(*sizes, types, "sm_90a").alternating
    for whole in (False, True):
        assert not products._chosen(types, "sm_90a", (1, *sizes), whole=whole).alternating


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("partials", ["f32", None])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_orders_of_ranks_change_no_sums(size, seed, partials):
    report, right = scattered_sums(size, calls=4, rows=200, seed=seed, partials=partials)
    assert right and not report.findings


@pytest.mark.slow
def test_the_epilogue_has_own_rows_of_the_sums():
    def epilogue():
        return weft.Epilogue(numbers(N, seed=5), "relu", numbers(M, N, seed=6))

    report, right = scattered_sums(2, epilogue=epilogue)
    assert right and not report.findings


@pytest.mark.each_value(1)
@pytest.mark.parametrize("partials", ["f32", None])
@pytest.mark.parametrize(
    ("old", "new"),
    WEAKER,
)
def test_signals_without_an_order_are_found(patch, old, new, partials):
    with_ptx(patch, old, new)
    report, _ = scattered_sums(2, partials=partials)
    assert rules(report) == ["global-race"]


def test_signals_before_copies_have_ended_are_found(patch):
    with_ptx(patch, "cp.async.bulk.wait_group \t0;", "cp.async.bulk.wait_group.read \t0;")
    report, _ = scattered_sums(2, partials=None)
    assert rules(report) == ["global-race"]


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_buffers_that_are_handed_over_before_they_have_sums_are_found(monkeypatch):
    hand_over, rounded = team_sums.hand_over, team_sums.TeamReduction.rounded

    def too_early(self, lane):
        hand_over(0)
        return rounded(self, lane)

    monkeypatch.setattr(team_sums.TeamReduction, "rounded", too_early)
    monkeypatch.setattr(team_sums, "hand_over", lambda warpgroup: None)
    report, _ = scattered_sums(2, partials=None)
    assert {"shared-race", "missing-proxy-fence"} & set(rules(report))


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_buffers_that_are_not_handed_back_are_found(monkeypatch):
    monkeypatch.setattr(team_sums, "await_empty", lambda warpgroup: None)
    monkeypatch.setattr(team_sums, "hand_back", lambda warpgroup: None)
    report, _ = scattered_sums(3, rows=200, partials=None)
    assert "async-source-overwritten" in rules(report)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_calls_that_are_counted_before_all_warps_have_read_them_are_found(monkeypatch):
    meet = team_sums.meet_consumers
    monkeypatch.setattr(team_sums, "meet_consumers", lambda warpgroups, warps: meet(warpgroups))
    monkeypatch.setattr(team_sums.ScatteredReduction, "await_count", lambda self: None)
    with pytest.raises(Deadlock, match=r"(?s)on rank 0.*on rank 1"):
        scattered_sums(2, partials=None)


def test_sums_without_a_fence_before_they_are_sent_are_found(patch):
    with_ptx(patch, "fence.proxy.async.shared::cta;", "")
    report, _ = scattered_sums(2, partials=None)
    assert "missing-proxy-fence" in rules(report)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_signals_before_all_threads_have_stored_are_found(monkeypatch):
    monkeypatch.setattr(team_sums, "meet_warpgroup", lambda warpgroup: None)
    report, _ = scattered_sums(2)
    assert rules(report) == ["global-race"]


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_own_rows_first_are_a_deadlock(monkeypatch):
    assert scattered_sums(2, rows=256)[1]
    product_kernel.compiled.cache_clear()
    monkeypatch.setattr(team_part.Team, "first", lambda self, op: self.rank)
    with pytest.raises(Deadlock, match=r"(?s)on rank 0.*on rank 1"):
        scattered_sums(2, rows=256)


def one_half(self, call, source, part):
    """Slots of sums in one half of the memory."""
    return emit.add(emit.mul(source, self.parts), part)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_sums_that_arrive_before_those_of_the_last_call_are_read_are_found(monkeypatch):
    monkeypatch.setattr(team_sums.TeamReduction, "slot", one_half)
    report, _ = scattered_sums(2, calls=3)
    assert rules(report) == ["global-race"]


@pytest.mark.parametrize(
    ("members", "m", "n", "k"),
    [(4, 128, 8192, 7168), pytest.param(1, 64, 4096, 7168, marks=pytest.mark.slow)],
)
def test_schedules_suit_the_rows_of_each_rank(members, m, n, k):
    chosen = products._chosen(Types("bf16", "bf16", "bf16"), "sm_90a", (members, m, n, k), whole=True)
    (rows, _), (down, _) = chosen.swapped(*chosen.block[:2]), chosen.swapped(*chosen.cluster)
    assert m % (rows * down) == 0  # no CTA of a cluster is idle
    assert chosen.splits == chosen.global_splits == 1


def test_a_team_may_be_too_large():
    with pytest.raises(weft.WeftError, match="a team must have at most 32 ranks, got 33"):
        Team.emulated(World(33))


def test_wrong_parts_are_named():
    team = Team.emulated(World(2))[0]
    a, b = numbers(9, K, seed=1), numbers(N, K, seed=2)
    with pytest.raises(weft.WeftError, match=r"rows of a must be a multiple of 2.*got 9; the next is 10"):
        matmul_reduce_scatter(a, b, team=team, transpose_b=True)
    with pytest.raises(weft.WeftError, match="partials must be f32 or bf16, got 'f16'"):
        matmul_reduce_scatter(a, b, team=team, transpose_b=True, partials="f16")


def all_reduced_sums(size, *, calls=1, rows=M, seed=None, partials=None, schedule=SMALL, dtype=BF16):
    """The report of calls on all ranks, and whether all results are right."""
    world, found = World(size), []
    members = Team.emulated(world)
    for call in range(calls):
        a = [numbers(rows, K, seed=(call, rank), dtype=dtype) for rank in range(size)]
        b = [numbers(N, K, seed=(9, call, rank), dtype=dtype) for rank in range(size)]
        total = sum(x.astype(np.float32) @ y.astype(np.float32).T for x, y in zip(a, b, strict=True))
        options = {"transpose_b": True, "partials": partials, "schedule": schedule}
        found += [
            (matmul_all_reduce(*each, team=team, **options), total)
            for *each, team in zip(a, b, members, strict=True)
        ]
    report = world.run(seed=seed)
    return report, all((got == total.astype(got.dtype)).all() for got, total in found)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("partials", ["f32", None])
def test_every_rank_gets_all_sums(partials):
    report, right = all_reduced_sums(2, calls=3, partials=partials)
    assert right and not report.findings


@pytest.mark.slow
def test_four_ranks_get_all_sums():
    report, right = all_reduced_sums(4, rows=8, dtype=np.float16)
    assert right and not report.findings


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("partials", ["f32", None])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_orders_of_ranks_change_no_sums_of_all(size, seed, partials):
    report, right = all_reduced_sums(size, calls=4, rows=300, seed=seed, partials=partials)
    assert right and not report.findings


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("old", "new"),
    WEAKER,
)
def test_signals_of_all_sums_without_an_order_are_found(patch, old, new):
    with_ptx(patch, old, new)
    report, _ = all_reduced_sums(2)
    assert rules(report) == ["global-race"]


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.usefixtures("fresh_kernels")
@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (team_sums.TeamReduction, "slot", one_half),
        (team_sums, "meet_warpgroup", lambda warpgroup: None),
    ],
)
def test_mistakes_of_all_reduced_sums_are_found(monkeypatch, owner, name, wrong):
    monkeypatch.setattr(owner, name, wrong)
    report, _ = all_reduced_sums(2, calls=3)
    assert rules(report) == ["global-race"]


@pytest.fixture
def two_shots(monkeypatch):
    """Sums are added up by one rank each, few as they are."""
    monkeypatch.setattr(reduce, "_MOST_SENT", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("two_shots")
def test_rows_of_sums_are_copied_from_all_ranks():
    report, right = all_reduced_sums(2, calls=3)
    assert right and not report.findings


@pytest.mark.slow
@pytest.mark.usefixtures("two_shots")
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_orders_of_ranks_change_no_copied_sums(size, seed):
    report, right = all_reduced_sums(size, calls=4, rows=24, seed=seed)
    assert right and not report.findings


@pytest.mark.usefixtures("two_shots")
def test_rows_that_are_copied_before_ranks_meet_are_found(monkeypatch):
    start = reduce._TwoShot.start

    def without_meeting(self, queue, kernel, *rest):
        if kernel.name != "meet_ranks":
            start(self, queue, kernel, *rest)

    monkeypatch.setattr(reduce._TwoShot, "start", without_meeting)
    report, _ = all_reduced_sums(2)
    assert rules(report) == ["global-race"]
