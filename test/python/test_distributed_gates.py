"""Gates that products over several emulated GPUs compute: results, gradients and what is refused."""

import ml_dtypes
import numpy as np
import pytest
from distributed_worlds import WAYS, numbers, send_by

import weft
from weft.dialects.schedule import WarpgroupSchedule
from weft.distributed import Team, all_gather_matmul, emulate, interleaved, matmul_reduce_scatter
from weft.emulator import World

BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
GATE = weft.Epilogue(activation="swiglu")
ROWS, COLUMNS, K = 16, 48, 64
NARROW, WIDE = WarpgroupSchedule((64, 32, 64), 1, 2), WarpgroupSchedule((128, 160, 64), 2, 2, cluster=(1, 2))


def silu(x):
    return x / (1 + np.exp(-x))


def parts(rank):
    """A rank's rows, and its weights of both parts of a gate."""
    first = (numbers(COLUMNS, K, seed=10 + rank).astype(np.float32) / 32).astype(BF16)
    return numbers(ROWS, K, seed=rank), first, numbers(COLUMNS, K, seed=20 + rank)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("schedule", [NARROW, WIDE])
def test_a_gate_is_computed_before_it_is_rounded(monkeypatch, way, schedule):
    send_by(monkeypatch, way)
    world, given = World(2), [parts(rank) for rank in range(2)]
    options = {"transpose_b": True, "schedule": schedule, "epilogue": GATE}
    found = [
        all_gather_matmul(a, interleaved(first, second), team=team, **options)
        for team, (a, first, second) in zip(Team.emulated(world), given, strict=True)
    ]
    assert not world.run(seed=0).findings
    whole = np.concatenate([a for a, *_ in given]).astype(np.float32)
    for got, (_, first, second) in zip(found, given, strict=True):
        gate, up = (whole @ each.astype(np.float32).T for each in (first, second))
        want = silu(gate) * up
        # Half a unit in the last place of bf16, and what the activation is off.
        assert (abs(got.astype(np.float32) - want) <= abs(want) * 2**-8 + 1e-3).all()
    assert found[0].shape == (2 * ROWS, COLUMNS)


@pytest.mark.parametrize("chip", ["sm_100a", "sm_120a"])
def test_a_gate_needs_wgmma(chip):
    team = Team.emulated(World(2), chip)[0]
    a, b = numbers(8, K, seed=1), numbers(32, K, seed=2)
    with pytest.raises(weft.WeftError, match="swiglu needs a schedule of wgmma, on sm_90a, got block"):
        all_gather_matmul(a, b, team=team, transpose_b=True, epilogue=GATE)


@pytest.mark.slow
def test_scales_of_a_gate_are_those_of_all_columns_of_b():
    world, (rows, columns, k) = World(2), (8, 160, 256)
    made, generator = [], np.random.default_rng(4)
    for _ in range(2):
        a, b = (generator.integers(-4, 5, (m, k)).astype(F8) for m in (rows, columns))
        of_a = generator.integers(1, 4, (2, rows)).astype(np.float32).T / 64
        made.append((a, b, of_a, generator.integers(1, 4, (2, 2)).astype(np.float32) / 8))
    found = [
        all_gather_matmul(a, b, team=team, transpose_b=True, epilogue=GATE, scales=(of_a, of_b))
        for team, (a, b, of_a, of_b) in zip(Team.emulated(world), made, strict=True)
    ]
    assert not world.run(seed=0).findings
    whole = np.concatenate([a.astype(np.float32) * of_a.repeat(128, 1) for a, _, of_a, _ in made])
    for got, (_, b, _, of_b) in zip(found, made, strict=True):
        sums = whole @ (b.astype(np.float32) * of_b.repeat(128, 0)[:columns].repeat(128, 1)).T
        gate, up = sums.reshape(2 * rows, -1, 2, 8).transpose(2, 0, 1, 3).reshape(2, 2 * rows, -1)
        want = silu(gate) * up
        assert (abs(got.astype(np.float32) - want) <= abs(want) * 2**-8 + 1e-3).all()


def gated(torch, team, compiled):
    """What `emulate` runs: whether a gate's results and gradients are those of separate steps."""
    torch.manual_seed(3)
    a, b = torch.randn(16, 64).bfloat16(), (torch.randn(32, 64) / 8).bfloat16().requires_grad_()

    def run(a, b):
        return all_gather_matmul(a, b, team=team, transpose_b=True, epilogue=GATE)

    if compiled:
        run = torch.compile(run, fullgraph=True, backend="eager")
    with torch.no_grad():
        found = run(a, b)
    whole = b.detach().float().requires_grad_()
    gate, up = (a.float() @ whole.T).unflatten(1, (-1, 2, 8)).unbind(2)
    want = (torch.nn.functional.silu(gate) * up).flatten(1)
    want.sum().backward()
    if not compiled:
        run(a, b).sum().backward()
    pairs = [(found, want), *([] if compiled else [(b.grad, whole.grad)])]
    return all(bool((x.float() - y).abs().max() <= 0.03 * y.abs().max()) for x, y in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_gates_in_pytorch(compiled):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    assert all(emulate(1, lambda team: gated(torch, team, compiled)))


def test_weights_of_a_gate_take_turns():
    first, second = np.arange(16)[:, None], 100 + np.arange(16)[:, None]
    wanted = [*range(8), *range(100, 108), *range(8, 16), *range(108, 116)]
    assert interleaved(first, second)[:, 0].tolist() == wanted


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            np.zeros((8, 2)),
            np.zeros((16, 2)),
            r"two matrices of one shape.*got shapes \(8, 2\) and \(16, 2\)",
        ),
        (np.zeros((12, 2)), np.zeros((12, 2)), "a multiple of 8 rows"),
        ([1], [2], "must be arrays of NumPy or PyTorch, got list and list"),
    ],
)
def test_other_weights_are_refused(first, second, message):
    with pytest.raises(weft.WeftError, match=message):
        interleaved(first, second)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (24, {}, "swiglu takes columns of b in multiples of 16, got 24; the next is 32"),
        (
            32,
            {"epilogue": weft.Epilogue(np.zeros(16, np.float32), "swiglu")},
            "swiglu has no bias and no residual",
        ),
        (
            32,
            {"schedule": WarpgroupSchedule((64, 16, 64), 1, 2)},
            "in multiples of 32, with swiglu, got block 64x16",
        ),
        (32, {"epilogue": weft.Epilogue(activation="tanh")}, "activation must be one of relu, .* got 'tanh'"),
    ],
)
def test_products_without_the_columns_of_a_gate_are_refused(columns, options, message):
    team = Team.emulated(World(2))[0]
    with pytest.raises(weft.WeftError, match=message):
        all_gather_matmul(
            numbers(8, K, seed=1),
            numbers(columns, K, seed=2),
            team=team,
            **{"transpose_b": True, "epilogue": GATE, **options},
        )


def test_other_products_have_no_gate():
    team, a, b = Team.emulated(World(2))[0], numbers(8, K, seed=1), numbers(32, K, seed=2)
    with pytest.raises(weft.WeftError, match=r"activation must be one of relu, .* got 'swiglu'"):
        matmul_reduce_scatter(a, b, team=team, transpose_b=True, epilogue=GATE)
    with pytest.raises(weft.WeftError, match=r"activation must be one of relu, .* got 'swiglu'"):
        weft.matmul(a, b, transpose_b=True, epilogue=GATE)
