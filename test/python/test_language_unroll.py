"""Loops of the GPU whose body is there several times, and branches whose sides change a name."""

import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(threads=32)
def counted(x: w.In["n", w.f32], y: w.Out["n", w.f32], begin: w.i32, end: w.i32, step: w.i32, *, unroll=3):
    i = w.thread()
    total, even = w.f32(0.0), w.i32(0)
    for j in w.range(begin, end, step, unroll=unroll):
        total = total * 1.5 + x[i] * j.to(w.f32)
        if j % 2 == 0:
            even += 1
    for j in w.range(0, 6, unroll=2):
        total = total + j.to(w.f32)
    y[i] = total + even.to(w.f32)


@pytest.mark.each_value
@pytest.mark.parametrize("numbers", [(0, 10, 1), (0, 0, 1), (3, 20, 4), (5, 2, 1), (0, 2, 1), (-7, 8, 2)])
@pytest.mark.parametrize("unroll", [2, 3])
def test_numbers_that_are_left_have_a_loop_of_their_own(numbers, unroll):
    x = np.linspace(0, 1, 32, dtype=np.float32)
    y = np.zeros_like(x)
    assert not counted.emulate(x, y, *numbers, unroll=unroll).findings
    total = np.zeros(32)
    for j in range(*numbers):
        total = total * 1.5 + x * j
    assert np.allclose(y, total + 15 + sum(j % 2 == 0 for j in range(*numbers)), rtol=1e-5)


def test_known_numbers_that_divide_need_one_loop():
    @w.kernel(threads=32)
    def summed(y: w.Out["n", w.i32], *, n):
        total = w.i32(0)
        for j in w.range(n, unroll=4):
            total += j
        y[w.thread()] = total

    loops = [str(summed.module(n=n)).count("scf.for") for n in (8, 9)]
    assert loops == [1, 2]


@w.kernel()
def gemm(a: w.In["m k", w.f16], b: w.In["n k", w.f16], d: w.Out["m n", w.f32], *, unroll=2):
    """Stages go over from one iteration to the next, which may be one of the same body."""
    ring = w.ring(3, a=(64, 64, w.f16), b=(64, 64, w.f16))
    with w.role():
        slot = ring.take()
        sums = w.gemm(slot.a, slot.b.T)
        for _ in w.range(1, w.ceil_div(a.columns, 64), unroll=unroll):
            late, slot = slot, ring.take()
            sums = w.gemm(slot.a, slot.b.T, sums)
            sums = w.wait(sums, pending=1)
            late.release()
        sums = w.wait(sums)
        slot.release()
        w.store(sums, d[0, 0])
    with w.role(), w.one_thread():
        for k in w.range(0, a.columns, 64, unroll=unroll):
            ring.fill(a=a[0, k], b=b[0, k])


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "k, arch",
    [
        (264, "sm_90a"),
        (320, "sm_100a"),
        *[pytest.param(72, each, marks=pytest.mark.slow) for each in ("sm_80", "sm_100a")],
    ],
)
def test_rings_and_pending_products(k, arch):
    a, b = np.random.default_rng(0).standard_normal((2, 64, k)).astype(np.float16)
    d = np.zeros((64, 64), np.float32)
    report = gemm.emulate(a, b, d, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert np.allclose(d, a.astype(float) @ b.astype(float).T, atol=1e-2)


def test_mistakes():
    for unroll in (0, True, 1.5):
        with pytest.raises(weft.WeftError, match=r"unroll of w.range must be a positive number"):
            counted.compile(None, None, None, None, None, unroll=unroll)


def test_a_side_of_a_branch_reads_what_the_other_side_changes():
    @w.kernel(threads=32)
    def chosen(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        i = w.thread()
        a = x[i] + 0.0
        if i < 16:
            a = a * 2.0  # `a` isn't read after the branch
            b = a + 1.0
        else:
            b = a - 1.0
        y[i] = b

    x = np.arange(32, dtype=np.float32)
    y = np.zeros_like(x)
    assert not chosen.emulate(x, y).findings
    assert np.array_equal(y, np.where(x < 16, 2 * x + 1, x - 1))


@pytest.mark.parametrize("step", [0, -1])
@pytest.mark.parametrize("unroll", [1, 2])
def test_a_step_that_is_not_positive_stops_the_kernel(step, unroll):
    x = np.zeros(32, np.float32)
    with pytest.raises(
        weft.WeftError, match=r"'step of w\.range must be positive' failed at .*unroll\.py:14"
    ):
        counted.emulate(x, x.copy(), 9, 0, step, unroll=unroll)


def test_steps_of_sizes_and_of_numbers_of_ctas_need_no_check():
    @w.kernel(grid=lambda x: 2, threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32], *, step):
        for i in w.range(w.thread(), x.rows, step(x)):
            y[i] = x[i]

    for step in (lambda x: 32 * w.ctas(), lambda x: w.ceil_div(x.rows, 64) + w.thread()):
        assert "cf.assert" not in str(kernel.module(step=step))
    for step in (lambda x: x.rows - 1, lambda x: x[0].to(w.i32), lambda x: w.ctas() * -1):
        assert "cf.assert" in str(kernel.module(step=step))


@pytest.mark.parametrize("times", [0, 3])
def test_a_loop_gives_numbers_of_python_the_type_that_they_had_before_it(times):
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], n: w.i32, y: w.Out["n", w.f32]):
        a, found, pair, m = x[0], n > 100, [x[1], x[2]], n + 7
        for i in w.range(n):
            y[i] = a + pair[0]
            a, found, pair[0] = 2, True, 3.5
        while m > 3:
            m = 2
        y[28], y[29], y[30], y[31] = a, found.to(w.f32), pair[0], m.to(w.f32)

    x, y = np.arange(1, 33, dtype=np.float32), np.zeros(32, np.float32)
    assert not kernel.emulate(x, times, y).findings
    assert y[:3].tolist() == ([3, 5.5, 5.5] if times else [0, 0, 0])
    assert y[28:].tolist() == ([2, 1, 3.5, 2] if times else [1, 0, 2, 2])


@pytest.mark.parametrize("number, message", [(1.5, "begin with a value of w.f32"), (2**40, "doesn't fit")])
def test_a_loop_refuses_numbers_of_python_that_have_no_place_in_the_type(number, message):
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32], n: w.i32):
        for _ in w.range(n):
            n = number
        y[0] = n

    with pytest.raises(weft.WeftError, match=message):
        kernel.compile()
