"""Products over several emulated GPUs: their results, the order of copies and flags, and planted faults."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import emulator
from weft.dialects.schedule import WarpgroupSchedule
from weft.distributed import (
    Team,
    all_gather_matmul,
    gather,
    matmul_all_reduce,
    matmul_reduce_scatter,
    reduce,
    small_kernels,
    teams,
)
from weft.emulator import Deadlock, Fault, World
from weft.launch.kernel import Kernel
from weft.multiply import product_kernel
from weft.passes.builders import emit
from weft.passes.kernels import all_reduced, scattered, sent_sums
from weft.passes.kernels import team as team_part

SMALL = WarpgroupSchedule(block=(64, 32, 64), warpgroups=1, stages=2)
M, N, K = 72, 32, 64


def numbers(*shape, seed, dtype=ml_dtypes.bfloat16):
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def product(a, b):
    """A @ B, where B is N x K."""
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(a.dtype)


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


def scattered_sums(size, *, calls=1, rows=M, seed=None, partials="f32", **added):
    """The report of calls on all ranks, and whether all results are right."""
    world, found = World(size), []
    members = Team.emulated(world)
    for call in range(calls):
        a = [numbers(size * rows, K, seed=(call, rank)) for rank in range(size)]
        b = [numbers(N, K, seed=(9, call, rank)) for rank in range(size)]
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


def rules(report):
    return sorted({finding.rule for finding in report.findings})


@pytest.fixture
def copied(monkeypatch):
    """Copy engines send rows, few as they are."""
    monkeypatch.setattr(gather, "_MOST_PUSHED", -1)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("most_pushed", [-1, 1 << 20])
def test_every_rank_multiplies_the_rows_of_all(monkeypatch, most_pushed):
    monkeypatch.setattr(gather, "_MOST_PUSHED", most_pushed)
    report, right = gathered(2, calls=3)
    assert right and not report.findings


@pytest.mark.parametrize("run", [gathered, lambda size: scattered_sums(size)])
def test_a_team_may_have_one_rank(run):
    report, right = run(1)
    assert right and not report.findings


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("most_pushed", [-1, 1 << 20])
def test_orders_of_ranks_change_nothing(monkeypatch, size, seed, most_pushed):
    monkeypatch.setattr(gather, "_MOST_PUSHED", most_pushed)
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


def with_ptx(monkeypatch, old, new):
    """Kernels that run in a world have changed PTX."""

    @functools.cache
    def changed(text):
        return emulator.Module(text.replace(old, new))

    launch = Kernel.emulate_on

    def emulate_on(self, stream, *args):
        kernel = Kernel(self.compiled, self.launch)
        kernel.__dict__["_module"] = changed(self.ptx)
        launch(kernel, stream, *args)

    monkeypatch.setattr(Kernel, "emulate_on", emulate_on)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("ld.acquire.sys", "ld.acquire.gpu", ["global-race"]),
        ("ld.acquire.sys", "ld.relaxed.sys", ["global-race"]),
    ],
)
@pytest.mark.usefixtures("copied")
def test_waits_without_an_order_are_found(monkeypatch, old, new, found):
    with_ptx(monkeypatch, old, new)
    report, _ = gathered(2)
    assert rules(report) == found


@pytest.mark.usefixtures("copied")
def test_a_flag_before_its_data_is_found(monkeypatch):
    push = gather.Gather._push

    def flags_first(self, a, turn):
        added = []
        queue = SimpleNamespace(copy=lambda *each: added.append(each))
        devices = SimpleNamespace(pushes=queue)
        team = SimpleNamespace(rank=self.team.rank, size=self.team.size, devices=devices)
        push(SimpleNamespace(team=team, product=self.product, chunks=self.chunks), a, turn)
        for each in reversed(added):
            self.team.devices.pushes.copy(*each)

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
def test_copies_are_not_captured(monkeypatch):
    team = Team.emulated(World(2))[0]
    monkeypatch.setattr(type(team.devices), "captures", True)
    with pytest.raises(weft.WeftError, match=r"can't be captured in a graph, got 9216 bytes"):
        all_gather_matmul(numbers(M, K, seed=1), numbers(N, K, seed=2), team=team, transpose_b=True)


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
        (np.zeros((8, 64)), numbers(8, 64, seed=1), "a must be of bf16 or f16, got f64"),
        (numbers(8, 64, seed=1), numbers(8, 64, seed=1, dtype=np.float16), "one element type"),
        (numbers(0, 64, seed=1), numbers(8, 64, seed=1), "must have elements"),
    ],
)
def test_wrong_arrays_are_named(a, b, message):
    with pytest.raises(weft.WeftError, match=message):
        all_gather_matmul(a, b, team=Team.emulated(World(2))[0], transpose_b=True)


def test_every_rank_gets_its_rows_of_the_sums():
    report, right = scattered_sums(2, calls=3)
    assert right and not report.findings


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
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("partials", ["f32", None])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_orders_of_ranks_change_no_sums(size, seed, partials):
    report, right = scattered_sums(size, calls=4, rows=200, seed=seed, partials=partials)
    assert right and not report.findings


def test_the_epilogue_has_own_rows_of_the_sums():
    def epilogue():
        return weft.Epilogue(numbers(N, seed=5), "relu", numbers(M, N, seed=6))

    report, right = scattered_sums(2, epilogue=epilogue)
    assert right and not report.findings


@pytest.mark.each_value(3)
@pytest.mark.parametrize("partials", ["f32", None])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("st.release.sys", "st.relaxed.sys"),
        ("st.release.sys", "st.release.gpu"),
        ("ld.acquire.sys", "ld.acquire.gpu"),
        ("ld.acquire.sys", "ld.relaxed.sys"),
    ],
)
def test_signals_without_an_order_are_found(monkeypatch, old, new, partials):
    with_ptx(monkeypatch, old, new)
    report, _ = scattered_sums(2, partials=partials)
    assert rules(report) == ["global-race"]


def test_signals_before_copies_have_ended_are_found(monkeypatch):
    with_ptx(monkeypatch, "cp.async.bulk.wait_group \t0;", "cp.async.bulk.wait_group.read \t0;")
    report, _ = scattered_sums(2, partials=None)
    assert rules(report) == ["global-race"]


def test_sums_without_a_fence_before_they_are_sent_are_found(monkeypatch):
    with_ptx(monkeypatch, "fence.proxy.async.shared::cta;", "")
    report, _ = scattered_sums(2, partials=None)
    assert "missing-proxy-fence" in rules(report)


@pytest.fixture
def fresh_kernels():
    """Kernels are made again, since their parts have changed."""
    product_kernel.compiled.cache_clear()
    yield
    product_kernel.compiled.cache_clear()


@pytest.mark.usefixtures("fresh_kernels")
def test_signals_before_all_threads_have_stored_are_found(monkeypatch):
    monkeypatch.setattr(scattered, "meet_warpgroup", lambda warpgroup: None)
    report, _ = scattered_sums(2)
    assert rules(report) == ["global-race"]


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


@pytest.mark.usefixtures("fresh_kernels")
def test_sums_that_arrive_before_those_of_the_last_call_are_read_are_found(monkeypatch):
    monkeypatch.setattr(sent_sums.TeamReduction, "slot", one_half)
    report, _ = scattered_sums(2, calls=3)
    assert rules(report) == ["global-race"]


def test_wrong_parts_are_named():
    team = Team.emulated(World(2))[0]
    a, b = numbers(9, K, seed=1), numbers(N, K, seed=2)
    with pytest.raises(weft.WeftError, match=r"rows of a must be a multiple of 2.*got 9; the next is 10"):
        matmul_reduce_scatter(a, b, team=team, transpose_b=True)
    with pytest.raises(weft.WeftError, match="partials must be f32 or bf16, got 'f16'"):
        matmul_reduce_scatter(a, b, team=team, transpose_b=True, partials="f16")


def all_reduced_sums(size, *, calls=1, rows=M, seed=None, partials=None, schedule=SMALL):
    """The report of calls on all ranks, and whether all results are right."""
    world, found = World(size), []
    members = Team.emulated(world)
    for call in range(calls):
        a = [numbers(rows, K, seed=(call, rank)) for rank in range(size)]
        b = [numbers(N, K, seed=(9, call, rank)) for rank in range(size)]
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
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("partials", ["f32", None])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_orders_of_ranks_change_no_sums_of_all(size, seed, partials):
    report, right = all_reduced_sums(size, calls=4, rows=300, seed=seed, partials=partials)
    assert right and not report.findings


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("st.release.sys", "st.relaxed.sys"),
        ("st.release.sys", "st.release.gpu"),
        ("ld.acquire.sys", "ld.acquire.gpu"),
        ("ld.acquire.sys", "ld.relaxed.sys"),
    ],
)
def test_signals_of_all_sums_without_an_order_are_found(monkeypatch, old, new):
    with_ptx(monkeypatch, old, new)
    report, _ = all_reduced_sums(2)
    assert rules(report) == ["global-race"]


@pytest.mark.usefixtures("fresh_kernels")
@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (sent_sums.TeamReduction, "slot", one_half),
        (all_reduced, "meet_warpgroup", lambda warpgroup: None),
    ],
)
def test_mistakes_of_all_reduced_sums_are_found(monkeypatch, owner, name, wrong):
    monkeypatch.setattr(owner, name, wrong)
    report, _ = all_reduced_sums(2, calls=3)
    assert rules(report) == ["global-race"]


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("st.release.sys", "st.relaxed.sys", "global-race"),
        ("st.release.sys", "st.release.gpu", "global-race"),
        ("ld.acquire.sys", "ld.relaxed.sys", "global-race"),
        ("fence.acq_rel.gpu", "// no fence", "global-race"),
        ("bar.sync \t0;", "", "global-race"),
        ("fence.proxy.async.global", "// no fence", "missing-proxy-fence"),
    ],
)
def test_rows_that_are_pushed_without_an_order_are_found(monkeypatch, old, new, found):
    monkeypatch.setattr(small_kernels, "PUSHED", 1 << 10)  # several CTAs
    with_ptx(monkeypatch, old, new)
    report, _ = gathered(2)
    assert found in rules(report)


@pytest.fixture
def two_shots(monkeypatch):
    """Sums are added up by one rank each, few as they are."""
    monkeypatch.setattr(reduce, "_MOST_SENT", 0)


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
