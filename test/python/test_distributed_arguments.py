"""Epilogues, options and chips that products over several GPUs take, and what they raise for others."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
from distributed_worlds import K, M, N, numbers

import weft
from weft.distributed import Team, all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from weft.distributed.products import TeamProduct
from weft.emulator import World

RANKS = 2
ROWS = {all_gather_matmul: RANKS * M, matmul_reduce_scatter: M // RANKS, matmul_all_reduce: M}
FUNCTIONS = pytest.mark.parametrize("function", ROWS, ids=lambda each: each.__name__)


def called(function, rank=0, teams=None, **options):
    """What a rank's call returns, without a run of its kernel."""
    team = (teams or Team.emulated(World(RANKS)))[rank]
    a, b = numbers(M, K, seed=rank), numbers(N, K, seed=3)
    return function(a, b, team=team, transpose_b=True, **options)


@FUNCTIONS
@pytest.mark.parametrize(
    ("added", "message"),
    [
        ({"bias": np.zeros(N + 1, np.float32)}, rf"bias must have {N} elements.*got shape \({N + 1},\)"),
        ({"bias": np.zeros((1, N), np.float32)}, rf"bias must have {N} elements.*got shape \(1, {N}\)"),
        ({"bias": np.zeros(2 * N, np.float32)[::2]}, r"rows of bias must be contiguous, got strides \(2,\)"),
        ({"bias": np.zeros(N, np.int64)}, "bias must be of f32, f16 or bf16, got i64"),
        ({"activation": ["relu"]}, r"activation must be one of relu, .*, got \['relu'\]"),
    ],
)
def test_a_bias_that_does_not_fit_is_named(function, added, message):
    with pytest.raises(weft.WeftError, match=f"^{function.__name__}: {message}"):
        called(function, epilogue=weft.Epilogue(**added))


@FUNCTIONS
@pytest.mark.parametrize("rows", [0.5, 2])  # of a result's
def test_a_residual_has_the_shape_of_the_result(function, rows):
    residual = np.zeros((int(rows * ROWS[function]), N), ml_dtypes.bfloat16)
    with pytest.raises(weft.WeftError, match=rf"residual must be {ROWS[function]} x {N}, the shape of this"):
        called(function, epilogue=weft.Epilogue(residual=residual))


def test_the_rows_of_a_large_sum_take_no_longer_residual(monkeypatch):
    # Each rank reads its own rows of a residual, which a residual with more rows has, too.
    monkeypatch.setattr("weft.distributed.reduce._MOST_SENT", -1)
    residual = np.zeros((2 * M, N), ml_dtypes.bfloat16)
    with pytest.raises(weft.WeftError, match=rf"residual must be {M} x {N}"):
        called(matmul_all_reduce, epilogue=weft.Epilogue(residual=residual))


@FUNCTIONS
def test_rows_that_scales_do_not_fit_are_named_before_their_strides(function):
    a, b = (np.zeros(shape, ml_dtypes.float8_e4m3fn) for shape in ((6, 128), (N, 128)))
    scales = np.ones((8, 1), np.float32).T.copy().T[:6], np.ones((1, 1), np.float32)
    team = Team.emulated(World(RANKS))[0]
    with pytest.raises(weft.WeftError, match="rows of a must be a multiple of 4 with scales, got 6"):
        function(a, b, team=team, transpose_b=True, scales=scales)


@FUNCTIONS
@pytest.mark.parametrize(
    ("columns", "hint"),
    [(slice(None, None, 2), r"\(128, 2\)$"), (None, r": b\.T is, with transpose_b=False$")],
)
def test_rows_of_b_are_contiguous(function, columns, hint):
    b = numbers(K, N, seed=3).T if columns is None else numbers(N, 2 * K, seed=3)[:, columns]
    team = Team.emulated(World(RANKS))[0]
    with pytest.raises(weft.WeftError, match=f"rows of b must be contiguous, got strides .*{hint}"):
        function(numbers(M, K, seed=1), b, team=team, transpose_b=True)


@FUNCTIONS
def test_a_team_is_one_of_weft(function):
    with pytest.raises(weft.WeftError, match=r"team must be a weft\.distributed\.Team, got None"):
        function(numbers(M, K, seed=1), numbers(N, K, seed=3), team=None, transpose_b=True)


def test_copies_of_a_team_are_the_team():
    first, second = Team.emulated(World(RANKS))
    assert copy.deepcopy([first, second]) == [first, second]
    assert pickle.loads(pickle.dumps(second)) is second
    saved = pickle.dumps(first)
    del first
    with pytest.raises(weft.WeftError, match=r"there are .*rank 1:2"):
        pickle.loads(saved)


@FUNCTIONS
def test_an_epilogue_is_one_of_weft(function):
    with pytest.raises(weft.WeftError, match=r"epilogue must be a weft\.Epilogue or None, got dict"):
        called(function, epilogue={"activation": "relu"})


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"epilogue": weft.Epilogue(activation="relu")}, "relu"),
        ({"epilogue": weft.Epilogue(bias=np.zeros(N, np.float32))}, "bias of f32"),
        ({"partials": "f32"}, "partials of f32"),
    ],
)
def test_options_that_ranks_do_not_share_are_named(monkeypatch, options, name):
    monkeypatch.setattr(TeamProduct, "kernel", lambda *_, **__: None)
    teams = Team.emulated(World(RANKS))
    monkeypatch.setattr("weft.distributed.plans.Plan.launch", lambda *_: None)
    called(matmul_reduce_scatter, 0, teams)
    with pytest.raises(weft.WeftError, match=rf"with transpose_b and .* with transpose_b, {name}$"):
        called(matmul_reduce_scatter, 1, teams, **options)


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["sm_100a", "sm_120a"])
def test_rows_are_gathered_on_other_chips_with_tma(chip):
    world = World(RANKS)
    teams = Team.emulated(world, chip)
    found = [called(all_gather_matmul, rank, teams) for rank in range(RANKS)]
    assert not world.run().findings
    rows = np.concatenate([numbers(M, K, seed=rank) for rank in range(RANKS)]).astype(np.float32)
    want = (rows @ numbers(N, K, seed=3).astype(np.float32).T).astype(ml_dtypes.bfloat16)
    assert all((each == want).all() for each in found)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (all_gather_matmul, "schedule must copy A by TMA"),
        (matmul_reduce_scatter, "needs a schedule of wgmma, on sm_90a"),
    ],
)
def test_a_chip_without_tma_is_refused(function, message):
    with pytest.raises(weft.WeftError, match=message):
        called(function, teams=Team.emulated(World(RANKS), "sm_80"))
