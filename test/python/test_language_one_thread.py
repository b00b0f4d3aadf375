"""`w.one_thread` in several blocks of a role: positions in rings go on, and no block waits for other CTAs."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

BF16 = ml_dtypes.bfloat16
slow = pytest.mark.slow


@w.inline
def two_blocks(a, b, row, first, second):
    with w.one_thread():
        first.fill(x=a[row, 0])
    with w.one_thread():
        second.fill(x=b[row, 0])
    for k in w.range(64, a.columns, 64):
        with w.one_thread():
            first.fill(x=a[row, k])
            second.fill(x=b[row, k])


@w.inline
def two_warps(a, b, row, first, second):
    with w.one_thread(warp=3):
        for k in w.range(0, a.columns, 64):
            first.fill(x=a[row, k])
    with w.one_thread(warp=1):
        for k in w.range(0, a.columns, 64):
            second.fill(x=b[row, k])


@w.inline
def all_threads_and_one(a, b, row, first, second):
    first.fill(x=a[row, 0])
    for k in w.range(0, a.columns, 64):
        if k > 0:
            with w.one_thread():
                first.fill(x=a[row, k])
        second.fill(x=b[row, k])


@w.inline
def a_branch_in_a_loop(a, b, row, first, second):
    k = w.i32(0)
    while k < a.columns:
        if k % 128 == 0:
            with w.one_thread(warp=2):
                first.fill(x=a[row, k])
        else:
            with w.one_thread(warp=2):
                first.fill(x=a[row, k])
                second.fill(x=b[row, k - 64])
                second.fill(x=b[row, k])
        k += 64
    if a.columns % 128 > 0:
        with w.one_thread(warp=2):
            second.fill(x=b[row, a.columns - 64])


@w.kernel(grid=lambda a: (w.ceil_div(a.rows, 64) * 2,), cluster=2)
def sums(a: w.In["m k", w.bf16], b: w.In["m k", w.bf16], d: w.Out["m n", w.bf16], *, filled):
    """d = a + b, twice beside each other. Both rings are taken together, by CTAs that share them."""
    first, second = (w.ring(2, x=(64, 64, a.dtype), shared={"x": 0}) for _ in range(2))
    row, half = w.cta(0) // 2 * 64, w.cta(0) % 2
    with w.role():
        for k in w.range(0, a.columns, 64):
            with first.take() as one, second.take() as other:
                w.store(w.load(one.x) + w.load(other.x), d[row, half * a.columns + k])
    with w.role():
        filled(a, b, row, first, second)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "filled, arch",
    [
        (two_blocks, "sm_90a"),
        (two_warps, "sm_90a"),
        (all_threads_and_one, "sm_90a"),
        (a_branch_in_a_loop, "sm_90a"),
        pytest.param(two_blocks, "sm_80", marks=slow),
        pytest.param(a_branch_in_a_loop, "sm_80", marks=slow),
        pytest.param(two_warps, "sm_100a", marks=slow),
        pytest.param(all_threads_and_one, "sm_120a", marks=slow),
    ],
)
def test_positions_and_waits_of_blocks(filled, arch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 320)).astype(BF16) for _ in range(2))
    d = np.zeros((128, 640), BF16)
    report = sums.emulate(a, b, d, filled=filled, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert (d == np.concatenate([a + b] * 2, axis=1)).all()


def test_each_ring_has_one_thread():
    @w.inline
    def different_warps(a, b, row, first, second):
        first.fill(x=a[row, 0])
        with w.one_thread(warp=1):
            first.fill(x=a[row, 0])

    @w.inline
    def all_threads_after_one(a, b, row, first, second):
        with w.one_thread(warp=2):
            first.fill(x=a[row, 0])
        first.lend()

    for filled, where in ((different_warps, ""), (all_threads_after_one, "warp=2")):
        message = rf"ring 'x' is filled by another thread .* fill it in w.one_thread\({where}\)"
        with pytest.raises(weft.WeftError, match=message) as caught:
            sums.compile(filled=filled)
        assert caught.value.diagnostics[0].location.file == __file__


@w.kernel
def moved(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, warps=(1, 1)):
    """y = x, stored by one thread in two blocks."""
    ring = w.ring(2, x=(64, 32, w.f32))
    with w.role():
        for i in w.range(0, x.rows, 64):
            with ring.write() as stage:
                w.store(w.load(x[i, 0], (64, 32)), stage.x)
    with w.role():
        with w.one_thread(warp=warps[0]), ring.take() as stage:
            w.store(stage.x, y[0, 0])
        for i in w.range(64, x.rows, 64):
            with w.one_thread(warp=warps[1]), ring.take() as stage:
                w.store(stage.x, y[i, 0])


def test_one_thread_takes_stages_in_several_blocks():
    x = np.random.default_rng(0).standard_normal((320, 32)).astype(np.float32)
    y = np.zeros_like(x)
    assert not moved.emulate(x, y, arch="sm_90a").findings
    assert (y == x).all()
    message = r"'x' are taken by another thread of the role .* take them in w.one_thread\(warp=2\)"
    with pytest.raises(weft.WeftError, match=message):
        moved.compile(x, y, warps=(2, 1))
