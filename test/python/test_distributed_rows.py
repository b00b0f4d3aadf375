"""Rows of several emulated GPUs in one array."""

import ml_dtypes
import numpy as np
import pytest
from distributed_worlds import WAYS, numbers, rules, send_by

from weft.distributed import Team, all_gather_matmul, matmul_reduce_scatter, rows, scatter, teams
from weft.emulator import World


def gathered(size, calls=2):
    """The report of calls that gather rows, and whether all are right."""
    world, found = World(size), []
    members = Team.emulated(world)
    for call in range(calls):
        a = [numbers(8, 16, seed=(call, rank)) for rank in range(size)]
        finish = [rows.gathering(a[rank], team) for rank, team in enumerate(members)]
        found += [(each(), np.concatenate(a)) for each in finish]
    report = world.run(seed=0)
    return report, all((got == want).all() for got, want in found)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_rows_are_gathered(size):
    report, right = gathered(size, calls=4)
    assert right and not report.findings


def test_rows_that_are_read_without_a_barrier_are_found(monkeypatch):
    monkeypatch.setattr(Team, "barrier", lambda self: lambda: None)
    report, _ = gathered(2)
    assert rules(report) == ["global-race"]


def test_rows_that_arrive_before_the_last_were_read_are_found(monkeypatch):
    monkeypatch.setattr(teams, "HALVES", 1)
    report, _ = gathered(2, calls=3)
    assert rules(report) == ["global-race"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_products_return_the_rows_that_they_gather(size):
    world = World(size)
    a = [
        np.random.default_rng(r).integers(-4, 4, (2, 64, 64)).astype(ml_dtypes.bfloat16) for r in range(size)
    ]
    members, found = Team.emulated(world), []
    for call in range(2):
        for rank, team in enumerate(members):
            b = np.ones((64, 64), ml_dtypes.bfloat16)
            d, gathered = rows.WITH_ROWS.queued(a[rank][call], b, team=team)
            found.append((d, gathered, np.concatenate([each[call] for each in a])))
    assert not world.run(seed=1).findings
    for d, gathered, want in found:
        assert (gathered == want).all()
        assert (d == (want.astype(np.float32) @ b.astype(np.float32)).astype(d.dtype)).all()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_steps_of_training_on_four_ranks_end(monkeypatch, way):
    send_by(monkeypatch, way)
    world, found = World(4), []
    x, gradient = ([numbers(8, 64, seed=(n, rank)) for rank in range(4)] for n in range(2))
    up, down, hidden = (
        [numbers(*shape, seed=(7, rank)) for rank in range(4)] for shape in ((32, 64), (64, 32), (32, 32))
    )
    members = Team.emulated(world)
    for _ in range(2):
        for rank, team in enumerate(members):  # forward, and what gradients of both layers call
            all_gather_matmul(x[rank], up[rank], team=team, transpose_b=True)
            matmul_reduce_scatter(hidden[rank], down[rank], team=team, transpose_b=True)
            _, of_z = rows.WITH_ROWS.queued(gradient[rank], down[rank], team=team)
            finish = rows.gathering(x[rank], team)
            scatter.FUNCTION.queued(hidden[rank], up[rank], team=team)
            found.append((of_z, finish()))
    assert not world.run(seed=1).findings
    for of_z, all_of_x in found:
        assert (of_z == np.concatenate(gradient)).all() and (all_of_x == np.concatenate(x)).all()
