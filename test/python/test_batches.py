"""Batches of products in the emulator, for `wgmma` and `mma.sync`: memrefs of rank 3, of rank 2 for all."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects import tile
from weft.dialects.schedule import Schedule, WarpgroupSchedule
from weft.passes.kernels import matrices

BF16 = ml_dtypes.bfloat16


def of(m, n, k, warpgroups=2, stages=3, **fields):
    return WarpgroupSchedule((m, n, k), warpgroups, stages, **fields)


def wrong(schedule, ranks, shape, output="bf16", beta=0.0):
    """How many elements of D aren't as NumPy has them; all sums are exact."""
    members, m, n, k = shape
    kinds = ["x".join("?" * rank) for rank in ranks]
    with (
        weft.Module() as module,
        module.func(
            "batch", [weft.memref(s, t) for s, t in zip(kinds, ("bf16", "bf16", output), strict=True)]
        ) as matrices,
    ):
        tile.matmul(*matrices, transpose_b=True, beta=beta, schedule=schedule)
    kernel = weft.compile(module, arch="sm_90a" if isinstance(schedule, WarpgroupSchedule) else "sm_80")
    rng = np.random.default_rng(3)
    a, b = (
        rng.integers(-2, 3, (members, *size) if rank == 3 else size).astype(BF16)
        for rank, size in zip(ranks, ((m, k), (n, k)), strict=False)
    )
    d = rng.integers(-2, 3, (members, m, n)).astype(BF16 if output == "bf16" else np.float32)
    want = a.astype(np.float64) @ np.swapaxes(b.astype(np.float64), -1, -2) + beta * d.astype(np.float64)
    findings = kernel.emulate(a, b, d).findings
    assert not findings, findings[0].rule
    return int((d.astype(np.float64) != want).sum())


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    "schedule",
    [
        of(128, 64, 64),
        of(64, 64, 64, 1, splits=2),
        of(64, 64, 64, 1, global_splits=2),
        of(64, 64, 64, 1, cluster=(2, 1)),
        of(128, 16, 64, swap=True),
        Schedule((64, 64, 64), (2, 2), 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("ranks", [(3, 3, 3), (2, 3, 3), (3, 2, 3)], ids=str)
def test_every_product_of_a_batch_is_right(schedule, ranks):
    assert not wrong(schedule, ranks, (3, 136, 72, 200))
    assert not wrong(schedule, ranks, (2, 40, 24, 72), "f32", beta=2.0)


@pytest.mark.slow
def test_a_batch_whose_rows_tma_cannot_copy():
    assert not wrong(of(64, 64, 64, 1), (3, 3, 3), (3, 33, 31, 71), "f32")


@pytest.mark.slow
def test_a_tile_written_to_another_product_is_caught(monkeypatch):
    """Planted: plain stores take the first matrix of the batch, which CTAs then write at once."""
    taken = matrices.member
    monkeypatch.setattr("weft.passes.kernels.writer.member", lambda matrix, _: taken(matrix, 0))
    with pytest.raises(AssertionError, match="global-race"):
        wrong(of(64, 64, 64, 1), (3, 3, 3), (3, 64, 64, 64), "f32")
