"""Returns in branches of the GPU, in `weft.language`."""

import ast

import numpy as np
import pytest

import weft
import weft.language as w
from weft.language.capture.returns import moved


@w.kernel(threads=64)
def guarded(x: w.In["n", w.f32], y: w.Out["m n", w.f32], *, only=False):
    i = w.thread()
    if i >= x.rows:
        return
    if only:  # Python's
        y[0, i] = -1.0
        return
    y[0, i] = x[i]
    if i % 2 == 0:
        y[1, i] = 1.0
        return
    if i % 3 == 0:
        return
    y[1, i] = 2.0
    y[2, i] = 3.0


def test_kernels_return_early():
    x, y, i = np.arange(1, 51, dtype=np.float32), np.zeros((3, 50), np.float32), np.arange(50)
    assert not guarded.emulate(x, y).findings
    assert np.array_equal(y[0], x)
    assert np.array_equal(y[1], np.where(i % 2 == 0, 1, np.where(i % 3 == 0, 0, 2)))
    assert np.array_equal(y[2], np.where((i % 2 == 1) & (i % 3 != 0), 3, 0))
    y[:] = 0
    assert not guarded.emulate(x, y, only=True).findings
    assert (y[0] == -1).all() and not y[1:].any()


@w.kernel(threads=64)
def inner(x: w.In["n", w.f32], y: w.Out["n", w.f32], *, only=True):
    i = w.thread()
    if i < x.rows:
        y[i] = 1.0
        if x[i] < 10.0:
            if x[i] < 5.0:
                y[i] = 2.0
            else:
                return
        elif only and x[i] > 40.0:
            return
        y[i] += 2.0
        if i == 20:
            y[i] = -1.0
            return
    else:
        return
    y[i] += x[i]


def test_inner_branches_return_where_both_sides_need_what_follows():
    x, y = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    for only in (True, False):
        assert not inner.emulate(x, y, only=only).findings
        kept = np.where(x < 5, 4 + x, np.where(x == 20, -1, 3 + x))
        assert np.array_equal(y, np.where(((x >= 5) & (x < 10)) | (only & (x > 40)), 1, kept))


@w.inline
def limited(t, peak):
    if peak > 2.0:
        if peak > 4.0:
            return t * 0.25, peak.to(w.i32)
        peak = peak + 1.0
    return w.maximum(t, peak), 7


def test_inner_branches_return_tiles_and_numbers():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], number: w.Out["1", w.i32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            made, count = limited(t, w.max(t))
            w.store(made, y[0, 0])
            number[0] = count

    for scale in (1.0, 3.0, 5.0):
        x = np.linspace(0, scale, 512, dtype=np.float32).reshape(64, 8)
        y, number = np.zeros_like(x), np.zeros(1, np.int32)
        assert not kernel.emulate(x, y, number).findings
        exact = x * 0.25 if scale > 4 else np.maximum(x, scale + (scale > 2))
        assert np.allclose(y, exact) and number[0] == (scale if scale > 4 else 7)


def test_results_of_inner_branches_have_one_type():
    @w.inline
    def some(v):
        if v > 0.5:
            v = v * 2.0
            if v > 1.5:
                return v
        return None

    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32]):
        some(x[0])

    with pytest.raises(
        weft.WeftError, match=r"the result was the Python .*: all returns must have values of"
    ):
        kernel.compile()


@w.inline
def level(v):
    if v > 0.5:
        return 1
    if v > 0.25:
        return 2
    return 3.5


@w.inline
def ordered(a, b):
    if a > b:
        return a, b
    return b, a


def test_functions_return_numbers_tiles_and_tuples():
    @w.kernel
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], z: w.Out["k m", w.f32]):
        def halved(t):
            if w.max(t) > 0.9:
                return t * 0.5
            return t

        with w.role():
            w.store(halved(w.load(x[0, 0], (64, 8))), y[0, 0])
            i = w.thread()
            if i < 64:
                z[0, i] = level(x[i, 0])
                large, small = ordered(x[i, 0], x[i, 1])
                z[1, i] = large - small

    for scale in (1.0, 0.5):
        x = (np.random.default_rng(0).random((64, 8)) * scale).astype(np.float32)
        y, z = np.zeros_like(x), np.zeros((2, 64), np.float32)
        assert not kernel.emulate(x, y, z).findings
        assert np.array_equal(y, x * 0.5 if x.max() > 0.9 else x)
        assert np.array_equal(z[0], np.where(x[:, 0] > 0.5, 1, np.where(x[:, 0] > 0.25, 2, 3.5)))
        assert np.allclose(z[1], np.abs(x[:, 0] - x[:, 1]))


def test_results_have_one_type():
    def some(v):
        if v > 0.5:
            return v
        return None

    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        w.inline(some)(x[0])
        y[0] = w.inline(some)(x[0])

    with pytest.raises(weft.WeftError, match=r"the result was a value of w\.f32 .*: all returns must have"):
        kernel.compile()


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64) + 3)
def leaving(
    x: w.In["m n", w.f16],
    rows: w.In["1", w.i32],
    y: w.Out["m n", w.f16],
    left: w.Out["ctas", w.i32],
    *,
    only=False,
):
    row, mark = w.cta() * 64, w.i32(1)
    if only:  # Python's
        mark = w.i32(9)
        return
    if row >= rows[0]:
        mark += 1
        if w.thread() == 0:
            left[w.cta()] = mark
        return
    ring = w.ring(2, x=(64, 64, x.dtype))
    with w.role():
        for j in w.range(0, x.columns, 64):
            with ring.take() as stage:
                w.store(w.load(stage.x), y[row, j])
        if w.thread() == 0:
            left[w.cta()] = mark
    with w.role(), w.one_thread():
        for j in w.range(0, x.columns, 64):
            ring.fill(x=x[row, j])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_ctas_return_before_roles(chip):
    x = np.random.default_rng(0).standard_normal((130, 104)).astype(np.float16)
    y, left = np.zeros_like(x), np.zeros(6, np.int32)
    rows = np.array([128], np.int32)
    assert not leaving.emulate(x, rows, y, left, arch=chip).findings
    assert np.array_equal(y[:128], x[:128]) and not y[128:].any()
    assert left.tolist() == [1, 1, 2, 2, 2, 2]
    y[:] = left[:] = 0
    assert not leaving.emulate(x, rows, y, left, only=True, arch=chip).findings
    assert not y.any() and not left.any()


def test_clusters_return_before_roles():
    @w.kernel(grid=4, cluster=2)
    def kernel(y: w.Out["n", w.i32], last: w.i32):
        buffer = w.shared(1, 8, w.i32)
        if w.cta() >= last:
            return
        with w.role():
            buffer[w.cluster_rank()] = w.cta()
            w.cluster_barrier()
            if w.thread() == 0:
                y[w.cta()] = 1

    for last in (2, 3):
        y = np.zeros(4, np.int32)
        assert not kernel.emulate(y, last).findings
        assert y.tolist() == [1] * last + [0] * (4 - last)


@pytest.mark.parametrize("first", [True, False])
def test_other_sides_of_returns_before_roles(first):
    if first:

        @w.kernel(grid=4)
        def kernel(y: w.Out["n", w.i32], last: w.i32):
            if w.cta() >= last:
                return
            else:  # noqa: RET505
                place = w.cta() + 1
            with w.role():
                if w.thread() == 0:
                    y[place] = 1

    else:

        @w.kernel(grid=4)
        def kernel(y: w.Out["n", w.i32], last: w.i32):
            place = 0
            if w.cta() < last:
                place = w.cta() + 1
            else:
                return
            with w.role():
                if w.thread() == 0:
                    y[place] = 1

    y = np.zeros(5, np.int32)
    assert not kernel.emulate(y, 2).findings
    assert y.tolist() == [0, 1, 1, 0, 0]


def test_returns_before_roles_are_those_of_ctas():
    @w.kernel
    def of_threads(x: w.Out["n", w.i32]):
        if w.thread() > 3:
            return
        with w.role():
            x[0] = 1

    @w.kernel
    def between(x: w.Out["n", w.i32]):
        with w.role():
            x[0] = 1
        if x.rows > 3:
            return
        with w.role():
            x[1] = 1

    with pytest.raises(weft.WeftError, match=r"its condition can't depend on w\.thread\(\): put the branch"):
        of_threads.compile()
    with pytest.raises(weft.WeftError, match="a return must be before the first role of a kernel, or in a"):
        between.compile()


@w.kernel(grid=lambda x: x.rows)
def nested(x: w.In["m", w.i32], y: w.Out["m", w.i32], *, returns=True):
    number = x[w.cta()]
    mark = 1
    if number > 10:
        mark = 2
        if number > 20:
            if number == 30:
                mark = 3
            return
        if number % 2 == 0:
            mark = 4
        elif returns:  # Python's
            return
        else:
            mark = 5
    elif number < 0:
        return
    else:
        mark += number
    with w.role():
        if w.thread() == 0:
            y[w.cta()] = mark


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_nested_branches_return_before_roles(chip):
    x = np.array([-3, 0, 5, 10, 11, 12, 20, 21, 30], np.int32)
    y = np.zeros_like(x)
    assert not nested.emulate(x, y, arch=chip).findings
    assert y.tolist() == [0, 1, 6, 11, 0, 4, 4, 0, 0]
    assert not nested.emulate(x, y, returns=False, arch=chip).findings
    assert y.tolist() == [0, 1, 6, 11, 5, 4, 4, 0, 0]


@w.kernel(grid=lambda x: x.rows)
def both(x: w.In["m", w.i32], y: w.Out["m", w.i32], *, returns=True):
    number, a = x[w.cta()], w.i32(1)
    if number > 3:
        if number > 6:
            if returns:  # Python's, in a branch of the GPU
                if number == 8:
                    a = number * 2
                    return
                return
            a = number
        elif number == 5:
            if returns:
                return
            else:  # noqa: RET505
                return
    with w.role():
        if w.thread() == 0:
            y[w.cta()] = a


def test_both_sides_of_nested_branches_return_before_roles():
    x = np.arange(10, dtype=np.int32)
    for returns in (True, False):
        y = np.zeros_like(x)
        assert not both.emulate(x, y, returns=returns).findings
        after = [0, 0, 0] if returns else [7, 8, 9]
        assert y.tolist() == [1, 1, 1, 1, 1, 0, 1, *after]


def test_nested_returns_are_those_of_ctas():
    @w.kernel
    def outer(x: w.Out["n", w.i32]):
        if w.thread() > 3:
            x[1] = 3
            if x.rows > 3:
                return
        with w.role():
            x[0] = 1

    @w.kernel
    def known(x: w.Out["n", w.i32], *, returns=True):
        if w.thread() > 3:
            x[1] = 3
            if returns:
                return
        with w.role():
            x[0] = 1

    for kernel in (outer, known):
        with pytest.raises(weft.WeftError, match=r"its condition can't depend on w\.thread\(\): put the"):
            kernel.compile()


@pytest.mark.parametrize(
    "body, result",
    [
        ("if a:\n    return 1\nreturn 2", "if a:\n    R = 1\nelse:\n    R = 2\nreturn R"),
        ("if a:\n    return\nb()", "if a:\n    pass\nelse:\n    b()"),
        ("if a:\n    b()\nelse:\n    return\nc()", "if a:\n    b()\n    c()"),
        ("if a:\n    return 1", "if a:\n    R = 1\nelse:\n    R = None\nreturn R"),
        (
            "if a:\n    if b:\n        return 1\nreturn 2",
            "E = False\nif a:\n    if b:\n        R = 1\n        E = True\nif not E:\n    R = 2\nreturn R",
        ),
        (
            "if a:\n    if b:\n        return\n    c()\nd()",
            "E = False\nif a:\n    if b:\n        E = True\n    else:\n        c()\nif not E:\n    d()",
        ),
        (
            "if a:\n    if b:\n        return\n    c()\nreturn",
            "if a:\n    if b:\n        pass\n    else:\n        c()",
        ),
        ("for i in a:\n    if i:\n        return 1\nreturn 2", None),
        ("if a:\n    with b:\n        return 1\nreturn 2", None),
        ("def f():\n    if a:\n        return 1\nreturn f()", None),
        ("return 1", None),
    ],
)
def test_what_follows_moves_to_the_other_side(body, result):
    tree = ast.parse(body.replace("R", "_weft_result"))
    made = ast.Module(moved(tree.body), [])
    wanted = body if result is None else result
    wanted = wanted.replace("R", "_weft_result").replace("E", "_weft_returned")
    assert ast.unparse(ast.fix_missing_locations(made)) == ast.unparse(ast.parse(wanted))
