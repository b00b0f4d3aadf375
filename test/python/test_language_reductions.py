"""Reductions to one number, along columns, and conditions of whole warpgroups."""

import language_mistakes
import numpy as np
import pytest

import weft
import weft.language as w
from weft.language.values.dtypes import DTYPES

_RNG = np.random.default_rng(0)
_TYPES = [each for each in DTYPES.values() if each.bits > 8]


def numbers(*shape, dtype=w.f32):
    """Small integers, of which sums are numbers of the type."""
    return _RNG.integers(0 if dtype.is_unsigned else -2, 3, shape).astype(np.float32)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_all_elements_of_a_fragment_make_one_number(arch, dtype):
    @w.kernel(arch=arch)
    def kernel(x: w.In["m n", w.f32], y: w.Out["warpgroups results", w.f64]):
        with w.role(warpgroups=2) as me:
            t = w.load(x[64 * me, 0], (64, 32)).to(dtype)
            rows, columns = w.max(t, axis=1), w.max(t, axis=0)
            results = (w.sum(t), w.max(t), w.min(t), w.sum(rows), w.sum(rows, axis=0), w.sum(columns))
            if w.thread() % 128 == 77:
                for number, each in enumerate(results):
                    y[me, number] = each.to(w.f64)

    x, y = numbers(128, 32, dtype=dtype), np.zeros((2, 6))
    assert not kernel.emulate(x, y).findings
    for tile, found in zip(np.split(x, 2), y, strict=True):
        rows = tile.max(1).sum()
        assert list(found) == [tile.sum(), tile.max(), tile.min(), rows, rows, tile.max(0).sum()]


@pytest.mark.each_value(2)
@pytest.mark.parametrize("threads", [32, 64, 96, 128, 256, 672, 1024])
def test_numbers_of_the_threads_of_a_cta_make_one(threads):
    @w.kernel(grid=lambda x: x.rows, threads=threads)
    def normalized(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], peak: w.Out["m", w.f32]):
        row, squares, largest = w.cta(), w.f32(0), w.f32(-w.inf)
        for column in w.range(w.thread(), x.columns, threads):
            squares += x[row, column] * x[row, column]
            largest = w.maximum(largest, x[row, column])
        scale = w.rsqrt(w.sum(squares))
        for column in w.range(w.thread(), x.columns, threads):
            y[row, column] = x[row, column] * scale
        largest = w.max(largest)
        if w.thread() == threads - 1:
            peak[row] = largest

    x = numbers(3, 1500)
    y, peak = np.zeros_like(x), np.zeros(3, np.float32)
    assert not normalized.emulate(x, y, peak).findings
    assert np.allclose(y, x / np.linalg.norm(x, axis=1, keepdims=True), rtol=1e-5)
    assert np.array_equal(peak, x.max(1))


@pytest.mark.each_value(2)
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_numbers_of_all_types_are_reduced_and_added_up(dtype):
    least = 0 if dtype.is_unsigned else 1

    @w.kernel(threads=64)
    def kernel(y: w.Out["3 64", w.f32]):
        i = w.thread()
        each = (i % 3 - least).to(dtype)
        y[0, i], y[1, i], y[2, i] = (f(each).to(w.f32) for f in (w.sum, w.max, w.cumsum))

    x, y = np.arange(64) % 3 - least, np.zeros((3, 64), np.float32)
    assert not kernel.emulate(y).findings
    assert np.array_equal(y, [np.full(64, x.sum()), np.full(64, x.max()), x.cumsum()])


@pytest.mark.each_value(3)
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_numbers_of_a_warp_make_one(dtype):
    @w.kernel(grid=lambda x: w.ceil_div(x.rows, 4), threads=128)
    def of_rows(x: w.In["m 32", w.f32], y: w.Out["m 2", w.f64]):
        row, lane = w.cta() * 4 + w.thread() // 32, w.thread() % 32
        if row < x.rows:
            each = x[row, lane].to(dtype)
            total, least = w.sum(each, within="warp"), w.min(each, within="warp")
            if lane == 5:
                y[row, 0], y[row, 1] = total.to(w.f64), least.to(w.f64)

    x, y = numbers(7, 32, dtype=dtype), np.zeros((7, 2))
    assert not of_rows.emulate(x, y).findings
    assert np.array_equal(y, np.stack([x.sum(1), x.min(1)], 1))


def test_reductions_of_a_role_and_of_its_warpgroups_follow_each_other():
    @w.kernel
    def kernel(x: w.In["m n", w.i32], y: w.Out["k", w.i32]):
        with w.role(warpgroups=2) as me:
            t = w.load(x[64 * me, 0], (64, 8))
            for _ in w.range(3):
                of_role, of_warpgroup = w.sum(w.thread()), w.sum(t)
                y[me] = of_role + of_warpgroup
        with w.role():
            y[2] = w.sum(w.thread() - w.thread() + 1)

    x, y = _RNG.integers(0, 9, (128, 8)).astype(np.int32), np.zeros(3, np.int32)
    assert {each.rule for each in kernel.emulate(x, y).findings} <= {"global-race"}
    assert y.tolist() == [255 * 128 + x[:64].sum(), 255 * 128 + x[64:].sum(), 128]


MISTAKES = r"""
# expects a fragment to reduce, or a number of each thread, got the array 'x'
w.sum(x)

# got an element of the array 'x', along axis 1
w.sum(x[0, 0], axis=1)

# within must be None or 'warp', for a number of each thread, got 'lane'
w.sum(x[0, 0], within="lane")

# within must be None for all elements of a fragment of 64 x 8 w\.f32, got 'warp'
w.max(w.load(x[0, 0], (64, 8)), within="warp")

# conditions have no arithmetic: convert them with \.to\(w\.i32\), or use &, \| and \^
w.sum(x[0, 0] > 0.0)

# conditions have no arithmetic
w.max(w.load(x[0, 0], (64, 8)) > 0.0, axis=1)

# must be executed by all threads, so it can't be in w\.one_thread\(\)
with w.role(), w.one_thread():
    w.sum(x[0, 0])

# must be in a role, in a kernel that has roles
with w.role():
    pass
w.sum(x[0, 0])

# with a reduction of all threads outside of roles, has no roles
w.sum(x[0, 0])
with w.role():  # here
    pass
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES))
def test_mistakes_are_in_their_line(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())


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


@pytest.mark.each_value(1)
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


def kernel(vote):
    @w.kernel()
    def again(x: w.In["m k"], b: w.In["n k"], d: w.Out["m n", w.f32], limit: w.f32):
        """Twice x @ b.T in each 64 rows with a product above the limit, otherwise once."""
        ring = w.ring(1, x=(128, 64, x.dtype), b=(32, 64, b.dtype), takers=2)
        with w.role(warpgroups=2) as me:
            with ring.take() as stage:
                mine = stage.x.rows(64 * me, 64)
                sums = w.wait(w.gemm(mine, stage.b.T))
                if vote(sums > limit):
                    sums = w.wait(w.gemm(mine, stage.b.T, sums))
            w.store(sums, d[64 * me, 0])
        with w.role(), w.one_thread():
            ring.fill(x=x[0, 0], b=b[0, 0])

    return again


def test_a_warpgroup_multiplies_in_a_branch():
    rng = np.random.default_rng(0)
    x, b = (rng.integers(-2, 3, (rows, 64)).astype(np.float16) for rows in (128, 32))
    once = x.astype(np.float32) @ b.astype(np.float32).T
    limit = (once[:64].max() + once[64:].max()) / 2  # one of the warpgroups exceeds it, in few elements
    assert 0 < (once > limit).sum() < 20
    d = np.zeros_like(once)
    assert not kernel(w.warpgroup_any).emulate(x, b, d, float(limit)).findings
    twice = np.repeat([once[:64].max() > limit, once[64:].max() > limit], 64)[:, None]
    assert np.array_equal(d, np.where(twice, 2 * once, once))


def test_a_branch_of_a_warp_has_no_product():
    x, b, d = np.zeros((128, 64), np.float16), np.zeros((32, 64), np.float16), np.zeros((128, 32), np.float32)
    with pytest.raises(weft.WeftError, match="needs all 128 threads of the warpgroup to reach it together"):
        kernel(w.warp_any).compile(x, b, d, 1.0, arch="sm_90a")


@pytest.mark.parametrize(
    "vote, message",
    [
        (lambda t: w.warpgroup_any(t), "w.warpgroup_any expects a condition, such as x < y, got"),
        (lambda t: w.warpgroup_any(True), "w.warpgroup_any expects a condition of the GPU, got True"),
    ],
    ids=["number", "python"],
)
def test_mistakes(vote, message):
    @w.kernel()
    def wrong(y: w.Out["m n", w.f32]):
        with w.role():
            t = w.zeros((64, 8))
            if vote(t):
                t = t + 1.0
            w.store(t, y[0, 0])

    with pytest.raises(weft.WeftError, match=message):
        wrong.compile(np.zeros((64, 8), np.float32))


def test_a_vote_is_in_a_role():
    @w.kernel(threads=128)
    def outside(y: w.Out["n", w.f32]):
        if w.warpgroup_any(w.thread() > 3):
            y[w.thread()] = 1.0

    with pytest.raises(weft.WeftError, match=r"w\.warpgroup_any must be in a role, executed by whole"):
        outside.compile(np.zeros(128, np.float32))
