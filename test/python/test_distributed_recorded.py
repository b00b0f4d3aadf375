"""Products over several GPUs as recorded sequences: their protocol, in the emulator."""

import numpy as np
import pytest
from distributed_worlds import SMALL, K, M, N, numbers, product, rules, send_by
from recorded_worlds import Ranks, call

from weft import emulator
from weft.distributed import gather, reduce
from weft.launch.sequence import Copy, Launch, Number, Record, Wait

RANKS = 2


def total(left, right):
    """The sum of products, whose terms are rounded."""
    return sum(product(a, b).astype(np.float32) for a, b in zip(left, right, strict=True))


def gathered(ranks, seed):
    a = [numbers(M, K, seed=seed + rank) for rank in range(ranks)]
    b = [numbers(N, K, seed=seed + 50 + rank) for rank in range(ranks)]
    return list(zip(a, b, strict=True)), [product(np.concatenate(a), each) for each in b]


def summed(ranks, seed):
    a = [numbers(M, K, seed=seed + rank) for rank in range(ranks)]
    b = [numbers(N, K, seed=seed + 50 + rank) for rank in range(ranks)]
    return list(zip(a, b, strict=True)), total(a, b).astype(a[0].dtype)


def run(world):
    report = world.run(seed=3)
    assert not rules(report), report.findings


@pytest.mark.each_value(1)
@pytest.mark.parametrize("way", ["copies", "product", pytest.param("kernel", marks=pytest.mark.slow)])
def test_rows_of_all_ranks_are_multiplied_in_every_call(monkeypatch, way):
    """The first call, the second and the third, which uses the memory of the first."""
    send_by(monkeypatch, way)
    world = emulator.World(RANKS)
    ranks, (operands, _) = Ranks(world), gathered(RANKS, 0)
    recordings = ranks.recorded(call("all_gather_matmul", *operands[0], schedule=SMALL))
    assert len(recordings[0].steps) == (2 if way == "copies" else 1)
    calls = []
    for seed in range(3):
        operands, want = gathered(RANKS, 100 * seed)
        calls.append((ranks.queue(recordings, operands, (RANKS * M, N)), want))
    run(world)
    for found, want in calls:
        for each, exact in zip(found, want, strict=True):
            assert (each == exact).all()


@pytest.mark.parametrize(
    "name",
    [
        "matmul_reduce_scatter",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("matmul_all_reduce", "two-shot")),
    ],
)
def test_sums_over_all_ranks_are_added_in_every_call(monkeypatch, name):
    if name == "two-shot":
        monkeypatch.setattr(reduce, "_MOST_SENT", 0)
        name = "matmul_all_reduce"
    world = emulator.World(RANKS)
    ranks, (operands, _) = Ranks(world), summed(RANKS, 0)
    recordings = ranks.recorded(call(name, *operands[0], schedule=SMALL))
    scattered = name == "matmul_reduce_scatter"
    rows, calls = M // RANKS if scattered else M, []
    for seed in range(3):
        operands, want = summed(RANKS, 100 * seed)
        calls.append((ranks.queue(recordings, operands, (rows, N)), want))
    run(world)
    for found, want in calls:
        parts = np.split(want, RANKS) if scattered else [want] * RANKS
        for each, exact in zip(found, parts, strict=True):
            assert (each == exact).all()


@pytest.mark.slow
def test_an_epilogue_is_that_of_the_result(monkeypatch):
    monkeypatch.setattr(reduce, "_MOST_SENT", 0)  # in two steps, whose residual is that of the own rows
    world = emulator.World(RANKS)
    ranks, (operands, want) = Ranks(world), summed(RANKS, 0)
    bias, residual = numbers(N, seed=7), numbers(M, N, seed=8)
    given = [(*each, bias.copy(), residual.copy()) for each in operands]
    options = {"roles": ("bias", "residual"), "activation": "relu", "schedule": SMALL}
    found = ranks.queue(ranks.recorded(call("matmul_all_reduce", *given[0], **options)), given, (M, N))
    run(world)
    z = want.astype(np.float32) + bias.astype(np.float32)
    exact = (np.maximum(z, 0) + residual.astype(np.float32)).astype(want.dtype)
    assert all((each == exact).all() for each in found)


@pytest.mark.slow
def test_products_of_several_kinds_follow_each_other(monkeypatch):
    """With memory that grows between them, and rows by copy engines."""
    monkeypatch.setattr(gather, "_MOST_PUSHED", 0)
    world = emulator.World(RANKS)
    ranks = Ranks(world)
    checks = []
    for turn in range(2):
        operands, want = gathered(RANKS, turn)
        of_rows = ranks.recorded(call("all_gather_matmul", *operands[0], schedule=SMALL))
        checks += zip(ranks.queue(of_rows, operands, (RANKS * M, N)), want, strict=True)
        large = [(np.concatenate([a] * 2), b) for a, b in operands]
        of_more = ranks.recorded(call("all_gather_matmul", *large[0], schedule=SMALL))
        both = np.concatenate([a for a, _ in large])
        results = ranks.queue(of_more, large, (2 * RANKS * M, N))
        checks += zip(results, [product(both, b) for _, b in large], strict=True)
        operands, want = summed(RANKS, turn)
        sums = ranks.recorded(call("matmul_reduce_scatter", *operands[0], schedule=SMALL))
        checks += zip(ranks.queue(sums, operands, (M // RANKS, N)), np.split(want, RANKS), strict=True)
    run(world)
    assert all((found == want).all() for found, want in checks)


def test_a_call_with_copies_is_numbered_once_and_waits_for_them(monkeypatch):
    monkeypatch.setattr(gather, "_MOST_PUSHED", 0)
    operands, _ = gathered(RANKS, 0)
    (recording, _) = Ranks(emulator.World(RANKS)).recorded(
        call("all_gather_matmul", *operands[0], schedule=SMALL)
    )
    kinds = [[type(step) for step in steps] for steps in recording.steps]
    assert kinds[0] == kinds[1] == [Number, Record, Wait, Copy, Copy, Launch, Record, Wait]
    even, odd = ([step.to for step in steps if isinstance(step, Copy)] for steps in recording.steps)
    assert not set(even) & set(odd)  # one half of the memory each


@pytest.mark.parametrize(
    "fault", ["join", *(pytest.param(fault, marks=pytest.mark.slow) for fault in ("parity", "number"))]
)
def test_faults_are_found(monkeypatch, fault):
    """Calls that use one half of the memory, have no number of their own, or don't wait for their copies."""
    monkeypatch.setattr(gather, "_MOST_PUSHED", 0)
    world = emulator.World(RANKS)
    ranks, (operands, _) = Ranks(world), gathered(RANKS, 0)
    recordings = ranks.recorded(call("all_gather_matmul", *operands[0], schedule=SMALL))
    for each in recordings:
        steps = [list(one) for one in each.steps]
        if fault == "parity":
            steps[1] = steps[0]
        elif fault == "number":
            steps = [[step for step in one if not isinstance(step, Number)] for one in steps]
        else:
            steps = [one[:-1] for one in steps]
        object.__setattr__(each, "steps", tuple(map(tuple, steps)))
    given = [gathered(RANKS, seed)[0] for seed in range(4)]
    if fault == "join":  # what the caller writes to A after the call races with the copies
        ranks.queue(recordings, given[0], (RANKS * M, N))
        for rank, (a, _) in zip(ranks.ranks, given[0], strict=True):
            rank.streams[0].copy(a, numbers(M, K, seed=9))
    else:
        for operands in given:
            ranks.queue(recordings, operands, (RANKS * M, N))
    try:
        assert rules(world.run(seed=0))
    except emulator.Deadlock:
        assert fault == "number"
