"""Products of fp8 with scales over several emulated GPUs: scales travel with the rows that they scale."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from distributed_worlds import K, N, rules

import weft
from weft.dialects.schedule import WarpgroupSchedule
from weft.distributed import Team, all_gather_matmul, gather, matmul_all_reduce, matmul_reduce_scatter, reduce
from weft.emulator import World

SMALL = WarpgroupSchedule(block=(64, 32, 128), warpgroups=1, stages=2)
ROWS, BLOCK = 68, 128


def operands(*seed, rows=ROWS, n=N, k=K):
    """A, B and their scales, powers of two: sums are exact."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, (size, k)).astype(ml_dtypes.float8_e4m3fn) for size in (rows, n))
    blocks = -(-k // BLOCK)
    scales = (2.0 ** rng.integers(-1, 2, shape) for shape in ((blocks, rows), (-(-n // BLOCK), blocks)))
    of_a, of_b = (each.astype(np.float32) for each in scales)
    return a, b, of_a.T, of_b


def scaled(x, scales, rows=1):
    """A matrix times its scales, in f32."""
    of_rows = np.repeat(scales, rows, axis=0)[: len(x)]
    return x.astype(np.float32) * np.repeat(of_rows, BLOCK, axis=1)[:, : x.shape[1]]


def gathered(*, calls=1, size=2, k=K, **options):
    """The report of calls on all ranks, and whether all results are right."""
    world, found = World(size), []
    members = Team.emulated(world)
    for call in range(calls):
        given = [operands(call, rank, k=k) for rank in range(size)]
        whole = np.concatenate([scaled(a, of_a) for a, _, of_a, _ in given])
        for (a, b, *scales), team in zip(given, members, strict=True):
            got = all_gather_matmul(a, b, team=team, transpose_b=True, scales=scales, schedule=SMALL)
            found.append((got, whole @ scaled(b, scales[1], BLOCK).T))
    report = world.run(**options)
    return report, all((got == want.astype(ml_dtypes.bfloat16)).all() for got, want in found)


@pytest.mark.parametrize("most_pushed", [pytest.param(-1, marks=pytest.mark.slow), 1 << 20])
def test_scales_come_with_rows(monkeypatch, most_pushed):
    monkeypatch.setattr(gather, "_MOST_PUSHED", most_pushed)
    report, right = gathered(calls=3)
    assert right and not report.findings


@pytest.mark.slow
@pytest.mark.parametrize("most_pushed", [-1, 1 << 20])
@pytest.mark.parametrize("size", [2, 4])
def test_orders_of_ranks_change_no_scaled_products(monkeypatch, size, most_pushed):
    monkeypatch.setattr(gather, "_MOST_PUSHED", most_pushed)
    report, right = gathered(calls=3, size=size, k=400, seed=1)
    assert right and not report.findings


def test_scales_after_their_flag_are_found(monkeypatch):
    monkeypatch.setattr(gather, "_MOST_PUSHED", -1)
    push = gather.Gather._push

    def scales_last(self, *sources, turn):
        devices, added = self.team.devices, []
        pushes, devices.pushes = devices.pushes, SimpleNamespace(copy=lambda *each: added.append(each))
        push(self, *sources, turn=turn)
        devices.pushes = pushes
        for each in (*added[1:], added[0]):
            pushes.copy(*each)

    monkeypatch.setattr(gather.Gather, "_push", scales_last)
    report, _ = gathered()
    assert rules(report) == ["global-race"]


def test_several_products_share_rows_and_scales():
    world, found = World(2), []
    given = [operands(rank) for rank in range(2)]
    whole = np.concatenate([scaled(a, of_a) for a, _, of_a, _ in given])
    for (a, b, of_a, of_b), team in zip(given, Team.emulated(world), strict=True):
        scales = of_a, [of_b, 2 * of_b]
        results = all_gather_matmul(a, [b, b], team=team, transpose_b=True, scales=scales, schedule=SMALL)
        want = (whole @ scaled(b, of_b, BLOCK).T).astype(ml_dtypes.bfloat16)
        found += [(results[0], want), (results[1], 2 * want)]
    assert not world.run().findings
    assert all((got == want).all() for got, want in found)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("function", "most_sent"),
    [
        (matmul_reduce_scatter, 1 << 20),
        (matmul_all_reduce, 1 << 20),
        pytest.param(matmul_all_reduce, 0, marks=pytest.mark.slow),
    ],
)
def test_sums_of_scaled_products(monkeypatch, function, most_sent):
    monkeypatch.setattr(reduce, "_MOST_SENT", most_sent)
    world, found, rows = World(2), [], 8
    given = [operands(rank, rows=2 * rows) for rank in range(2)]
    total = sum(scaled(a, of_a) @ scaled(b, of_b, BLOCK).T for a, b, of_a, of_b in given)
    for rank, ((a, b, *scales), team) in enumerate(zip(given, Team.emulated(world), strict=True)):
        options = {"transpose_b": True, "scales": scales, "partials": "f32", "schedule": SMALL}
        want = total if function is matmul_all_reduce else total[rank * rows : (rank + 1) * rows]
        found.append((function(a, b, team=team, **options), want))
    assert not world.run().findings
    assert all((got == want.astype(ml_dtypes.bfloat16)).all() for got, want in found)


def without(number, value):
    given = list(operands(1))
    given[number] = value
    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (without(2, np.ones((ROWS, 2), np.float32)), r"scale_a must be 68 x 1 of f32, got 68 x 2 of f32"),
        (without(2, np.ones((ROWS, 1), np.float64)), r"scale_a must be 68 x 1 of f32, got 68 x 1 of f64"),
        (without(3, np.ones((N, 1), np.float32)), r"scale_b must be 1 x 1 of f32, got 32 x 1"),
        (operands(1, rows=66), "rows of a must be a multiple of 4 with scales, got 66; the next is 68"),
        (without(0, np.ones((ROWS, K), np.float16)), "one element type"),
    ],
)
def test_wrong_scales_are_named(given, message):
    a, b, *scales = given
    with pytest.raises(weft.WeftError, match=message):
        all_gather_matmul(a, b, team=Team.emulated(World(2))[0], transpose_b=True, scales=scales)


def test_wrong_pairs_of_scales_are_named():
    team, (a, b, of_a, of_b) = Team.emulated(World(2))[0], operands(1)
    with pytest.raises(weft.WeftError, match="scales must be a pair"):
        all_gather_matmul(a, b, team=team, transpose_b=True, scales=of_a)
    with pytest.raises(weft.WeftError, match="must be those of a, and a list of as many"):
        all_gather_matmul(a, [b, b], team=team, transpose_b=True, scales=(of_a, of_b))
    with pytest.raises(weft.WeftError, match="of fp8 with scales, got bf16"):
        x = np.ones((8, 64), ml_dtypes.bfloat16)
        all_gather_matmul(x, x, team=team, transpose_b=True, scales=(of_a, of_b))
    with pytest.raises(weft.WeftError, match="each rank's rows must be a multiple of 4 with scales, got 6"):
        a, b, *scales = operands(1, rows=12)
        matmul_reduce_scatter(a, b, team=team, transpose_b=True, scales=scales)
    with pytest.raises(weft.WeftError, match="scale_a must have contiguous columns"):
        a, b, of_a, of_b = operands(1, k=256)
        all_gather_matmul(a, b, team=team, transpose_b=True, scales=(np.ascontiguousarray(of_a), of_b))
