"""Numbers, vectors and tiles that many CTAs add to arrays."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(grid=lambda a, b, *, splits: (w.ceil_div(a.rows, 64), w.ceil_div(b.rows, 64), splits))
def split_k(
    a: w.In["m k", w.bf16],
    b: w.In["n k", w.bf16],
    d: w.Out["m n", w.f32],
    rows: w.Out["m", w.f32],
    columns: w.Out["one n", w.f32],
    *,
    splits=2,
):
    """d += a @ b.T, each CTA with its K blocks; and sums of d's rows and columns."""
    ring = w.ring(2, a=(64, 64, w.bf16), b=(64, 64, w.bf16))
    row, column, first, step = w.cta(0) * 64, w.cta(1) * 64, w.cta(2) * 64, 64 * splits
    with w.role():
        sums = w.zeros((64, 64))
        for _ in w.range(first, a.columns, step):
            with ring.take() as slot:
                sums = w.wait(w.gemm(slot.a, slot.b.T, sums))
        w.atomic_add(d[row, column], sums)
        w.atomic_add(rows[row], w.sum(sums, axis=1))
        w.atomic_add(columns[0, column], w.sum(sums, axis=0))
    with w.role(), w.one_thread():
        for k in w.range(first, a.columns, step):
            ring.fill(a=a[row, k], b=b[column, k])


@pytest.mark.parametrize(
    "m, n, k, splits, arch",
    [
        (70, 40, 264, 2, "sm_90a"),
        pytest.param(200, 136, 520, 3, "sm_90a", marks=pytest.mark.slow),
        pytest.param(100, 72, 264, 2, "sm_100a", marks=pytest.mark.slow),
        pytest.param(100, 72, 264, 2, "sm_80", marks=pytest.mark.slow),
    ],
)
def test_ctas_that_share_k(m, n, k, splits, arch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((each, k)).astype(ml_dtypes.bfloat16) for each in (m, n))
    d, rows, columns = (np.zeros(shape, np.float32) for shape in ((m, n), (m,), (1, n)))
    report = split_k.emulate(a, b, d, rows, columns, splits=splits, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    exact = a.astype(float) @ b.astype(float).T
    assert np.allclose(d, exact, atol=1e-3)
    assert np.allclose(rows, exact.sum(1), atol=1e-2)
    assert np.allclose(columns[0], exact.sum(0), atol=1e-2)


@pytest.mark.parametrize(
    "body, message",
    [
        (lambda x, y, t: w.atomic_add(x[0, 0], t), "'x' must be a w.Out argument to be written"),
        (lambda x, y, t: w.atomic_add(y[0, 0], t.to(w.f16)), "'y' has elements of w.f32, got w.f16"),
        (lambda x, y, t: w.atomic_add(y[0], w.sum(t, axis=1)), "of a vector expects an element of an array"),
        (lambda x, y, t: w.atomic_add(y[0], 1.0), "expects an element of an array, with all its indices"),
        (lambda x, y, t: w.atomic_add(3, t), "expects an element of an array"),
    ],
)
def test_mistakes(body, message):
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            body(x, y, w.load(x[0, 0], (64, 64)))

    with pytest.raises(weft.WeftError, match=message) as caught:
        kernel.compile()
    assert caught.value.diagnostics[0].location.file == __file__
