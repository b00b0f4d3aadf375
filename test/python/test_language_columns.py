"""Reductions along columns, across the warps of a warpgroup."""

import numpy as np
import pytest

import weft.language as w


@w.kernel()
def reduced(
    x: w.In["m n", w.f32],
    y: w.Out["m n", w.f32],
    sums: w.Out["g n", w.f32],
    *,
    M=64,
    N=32,
):
    """Reductions in a loop, broadcast to the tile, and stored."""
    with w.role(warpgroups=2) as me:
        t = w.load(x[M * me, 0], (M, N))
        w.store_row(w.sum(t, axis=0), sums[me, 0])
        for _ in w.range(2):
            t = t - w.sum(t, axis=0) * 0.5
        w.store(t + w.max(t, axis=0) * w.min(t, axis=0), y[M * me, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("m, n, columns", [(64, 32, 32), (64, 8, 8), (128, 24, 21)])
def test_columns_are_reduced(m, n, columns):
    x = np.random.default_rng(0).standard_normal((2 * m, columns)).astype(np.float32)
    y, sums = np.zeros_like(x), np.full((2, columns), np.nan, np.float32)
    for seed in (None, 1):
        report = reduced.emulate(x, y, sums, M=m, N=n, seed=seed)
        assert not report.findings, report.findings[0]
        t = x.reshape(2, m, columns).astype(float)
        assert np.allclose(sums, t.sum(1), atol=1e-4)
        for _ in range(2):
            t = t - t.sum(1, keepdims=True) * 0.5
        t = t + t.max(1, keepdims=True) * t.min(1, keepdims=True)
        assert np.allclose(y.reshape(t.shape), t, rtol=1e-4, atol=1e-3)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("dtype, numpy", [(w.f64, np.float64), (w.i64, np.int64), (w.f16, np.float16)])
def test_values_of_other_widths_are_reduced(dtype, numpy):
    @w.kernel()
    def sums(x: w.In["m n", dtype], rows: w.Out["m", dtype], columns: w.Out["n", dtype], *, M=128):
        with w.role():
            t = w.load(x[0, 0], (M, 16))
            w.store_column(w.sum(t, axis=1), rows[0])
            w.store_row(w.max(t, axis=0), columns[0])

    x = (np.random.default_rng(0).integers(-50, 50, (128, 16)) / 4).astype(numpy)
    rows, columns = np.zeros(128, numpy), np.zeros(16, numpy)
    assert not sums.emulate(x, rows, columns).findings
    assert np.array_equal(rows, x.sum(1)) and np.array_equal(columns, x.max(0))


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("columns, registers", [(256, None), (224, 184)])
def test_values_of_all_warps_neednt_fit_in_registers_at_once(columns, registers):
    @w.kernel(arch="sm_90a")
    def largest(x: w.In["m n", w.f32], y: w.Out["n", w.f32]):
        with w.role(registers=registers):
            w.store_row(w.max(w.load(x[0, 0], (64, columns)), axis=0), y[0])

    x, y = np.random.default_rng(0).random((64, columns), np.float32), np.zeros(columns, np.float32)
    assert not largest.emulate(x, y).findings
    assert np.array_equal(y, x.max(0)) and largest.compile().resources.spill_stores == 0
