"""Reductions to one number, sums up to each element and elements of shared memory, on the GPU as in NumPy."""

import numpy as np
import pytest
from gpu_marks import GPU, with_marks

import weft.language as w


@w.kernel
def of_warpgroups(x: w.In["m n", w.f32], totals: w.Out["2 3", w.f32], sums: w.Out["3 m n", w.f32]):
    with w.role(warpgroups=2) as me:
        t = w.load(x[64 * me, 0], (64, 48))
        found = w.f32(0), w.f32(0), w.f32(0)
        for _ in w.range(3):
            found = w.sum(t), w.max(t), w.sum(w.min(t, axis=1))
            w.store(w.cumsum(t, axis=1), sums[0, 64 * me, 0])
            w.store(w.cumsum(t, axis=0), sums[1, 64 * me, 0])
        rows = w.zeros((64, 48)) + w.cumsum(w.sum(t, axis=1))
        w.store(rows + w.cumsum(w.sum(t, axis=0)), sums[2, 64 * me, 0])
        if w.thread() % 128 == 77:
            for number, each in enumerate(found):
                totals[me, number] = each


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 1024), threads=352)
def of_threads(
    x: w.In["n", w.i32], counts: w.Out["bins", w.i32], kept: w.Out["n"], total: w.Out["1", w.i32], *, bins
):
    own, sum_ = w.shared(1, bins, w.i32), w.i32(0)
    for n in w.range(w.thread(), bins, 352):
        own[n] = 0
    w.barrier()
    for n in w.range(w.cta() * 1024 + w.thread(), w.minimum(w.cta() * 1024 + 1024, x.rows), 352):
        w.atomic_add(own[x[n]], 1)
        kept[n] = (x[n] > 7).to(kept.dtype)
        sum_ += x[n]
    sum_, up_to = w.sum(sum_), w.cumsum(sum_)
    w.check(w.max(up_to) == sum_, "the last thread must have the sum of all of them")
    w.barrier()
    for n in w.range(w.thread(), bins, 352):
        w.atomic_add(counts[n], own[0, n])
    if w.thread() == 0:
        w.atomic_add(total[0], sum_)


@with_marks(GPU)
def test_tiles_are_reduced_and_added_up():
    x = np.random.default_rng(0).integers(-2, 3, (128, 48)).astype(np.float32)
    totals, sums = np.zeros((2, 3), np.float32), np.zeros((3, 128, 48), np.float32)
    of_warpgroups(x, totals, sums, on="gpu")
    for me, tile in enumerate(np.split(x, 2)):
        assert list(totals[me]) == [tile.sum(), tile.max(), tile.min(1).sum()]
        across, down, both = sums[:, 64 * me : 64 * me + 64]
        assert np.array_equal(across, tile.cumsum(1)) and np.array_equal(down, tile.cumsum(0))
        assert np.array_equal(both, tile.sum(1).cumsum()[:, None] + tile.sum(0).cumsum())


@with_marks(GPU)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_threads_share_counters_and_sums(framework):
    x, counts, total = (
        np.random.default_rng(0).integers(0, 160, 100_000).astype(np.int32),
        np.zeros(160, np.int32),
        np.zeros(1, np.int32),
    )
    arrays = x, counts, np.zeros(x.shape, bool), total
    if framework == "torch":
        torch = pytest.importorskip("torch")
        arrays = tuple(torch.from_numpy(each).cuda() for each in arrays)
    for _ in range(2):
        of_threads(*arrays, bins=160, on="gpu")
    _, counts, kept, total = (each if framework == "numpy" else each.cpu().numpy() for each in arrays)
    assert np.array_equal(counts, 2 * np.bincount(x, minlength=160))
    assert np.array_equal(kept, x > 7) and total[0] == 2 * x.sum()
