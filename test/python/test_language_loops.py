"""Loops of the GPU: bodies that are there several times, and statements that can't leave them."""

import contextlib  # noqa: F401 (MISTAKES uses it)
import itertools

import language_mistakes
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
    with pytest.raises(weft.WeftError, match=r"'step of w\.range must be positive' failed at .*loops\.py:18"):
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


COUNT = 0

MISTAKES = r"""
# 'return' can't leave .*: assign the result to a name, write 'break', and return after the loop
with w.role():
    for i in w.range(x.rows):
        if x[i, 0] > 1.0:
            return  # here
        y[i, 0] = 1.0

# 'return' can't leave .*: assign the result to a name, write 'break', and return after the loop
for i in range(3):
    if x[i, 0] > 1.0:
        return  # here
    y[i, 0] = 1.0

# 'break' can't leave .*: in a 'with' block, assign the condition to a name, and write 'break' after the block
with w.role():
    for i in w.range(3):
        with w.one_thread():
            if x[i, 0] > 1.0:
                break  # here

# 'continue' can't leave .*: in a 'with' block, assign the condition to a name, and write 'continue' after
with w.role():
    for i in w.range(3):
        with w.one_thread():
            if x[i, 0] > 1.0:
                continue  # here

# a loop that 'break' leaves can have neither unroll nor stages: leave them out
for i in w.range(3, unroll=3):  # here
    if x[i, 0] > 1.0:
        break

# a loop of the GPU can't have an 'else': put that after the loop
for i in w.range(3):  # here
    if x[i, 0] > 1.0:
        break
else:
    y[0, 0] = 1.0

# an error of Python can't depend on a condition of the GPU, .*: use w.check\(condition, message\)
if x[0, 0] > 1.0:
    pass
else:
    raise ValueError("bad")

# an error of Python can't depend on a condition of the GPU
for _ in w.range(x.rows):
    for _ in range(2):
        raise ValueError("bad")

# an error of Python can't depend on a condition of the GPU
if x[0, 0] > 1.0:
    assert 0, "bad"

# assert can't check a value of the GPU: use w.check
assert x[0, 0] in (1.0, 2.0)

# a loop, branch or block of the GPU that begins here doesn't end in its place: an exception that the
with contextlib.suppress(LookupError):
    if x[0, 0] > 1.0:  # here
        y[0, 0] = [1.0][2]
y[0, 0] = 2.0

# a comprehension can't choose by a condition of the GPU, .*: choose values by w.where
y[0, 0] = sum(x[i, 0] for i in range(3) if x[i, 0] > 1.0)

# 'in' must be followed by numbers in a tuple, list, set or range of Python, got the array 'x'
if y[0, 0] in x:  # here
    y[0, 0] = 1.0

# 'in' must be followed by numbers in a tuple, list, set or range of Python, got 'abc'
y[0, 0] = 1.0 if w.thread() in "abc" else 2.0

# 'in' compares numbers, got a fragment of 128 w.i32: combine conditions of its elements by |
with w.role():
    w.where(w.row(w.zeros(128)) in (1, 2), 1.0, 2.0)

# 'a' was a buffer of 1 x 32 w.f32 and becomes another one, .*, in a loop of the GPU: make one buffer of
a, b = w.shared(1, 32, w.f32), w.shared(1, 32, w.f32)
for i in w.range(3):  # here
    b[0, i] = a[0, i] + 1.0
    a, b = b, a

# the value was a buffer .*: make one buffer of both, and choose rows of it where they are used, as in
a, b = w.shared(1, 32, w.f32), w.shared(1, 32, w.f32)
c = a if x[0, 0] > 5.0 else b  # here
y[0, 0] = c[0]

# 'part' was a buffer of 64 x 32 w.f32 and becomes another one
both = w.shared(128, 32, w.f32)
with w.role():
    part = both.rows(0, 64)
    if x[0, 0] > 5.0:  # here
        part = both.rows(64, 64)
    w.store(w.load(part), y[0, 0])

# the value was the array 'x' and becomes the array 'y', .*: use each of them in a branch of its own, or
chosen = x if x[0, 0] > 5.0 else y  # here
y[0, 0] = chosen[0, 1]

# 'a' was ring 't' and becomes ring 'u', in a loop of the GPU: use each of them in a branch of its own
a, b = w.ring(2, t=(64, 32, w.f32)), w.ring(2, u=(64, 32, w.f32))
with w.role():
    for _ in w.range(2):  # here
        with a.take() as stage:
            w.store(w.load(stage.t), y[0, 0])
        a, b = b, a

# Python can't unpack an element of an array
_, _ = x[0, 0]

# Python can't unpack an element of an array
max(*x[0, 0])

# a loop or branch of the GPU can't change 'COUNT', which isn't made in the kernel
global COUNT
for _ in w.range(3):  # here
    COUNT = COUNT + 1

# neither a kernel nor a function with @w.inline can contain 'yield': use a list, a generator of Pyth
def first():
    yield x[0, 0]  # here
for each in first():
    y[0, 0] = each

# only the GPU knows a value of w.i32: NumPy can't .*; an array that is an argument of the kernel
for i in w.range(3):
    y[i, 0] = np.array([1.0, 2.0, 3.0])[i]

# Python can't loop over w.range: write a loop, .*, in the kernel or a function with @w.inline
def each(count):
    return (2 * number for number in w.range(count))  # here
for i in each(3):
    y[i, 0] = 1.0
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES))
def test_mistakes_are_in_their_line(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())


def test_a_global_variable_keeps_its_value_after_a_mistake():
    @w.kernel(threads=32)
    def kernel(x: w.In["m n", w.f32]):
        global COUNT
        for _ in w.range(3):
            COUNT = COUNT + 1

    with pytest.raises(weft.WeftError):
        kernel.compile()
    assert isinstance(COUNT, int)


def test_a_return_in_an_unrolled_loop_is_written_as_its_message_says():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        done = False
        for i in range(4):
            if x[i] > 1.0:
                done = True
                break
            y[i] = 2.0
        if not done:
            y[4] = 3.0

    y = np.zeros(5, np.float32)
    kernel.emulate(np.float32([0, 0, 5, 0, 0]), y)
    assert y.tolist() == [2, 2, 0, 0, 0]


def test_buffers_are_swapped_as_the_message_says():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        both, i = w.shared(2, 32, w.f32), w.thread()
        both[0, i] = x[i]
        for n in w.range(3):
            both[1 - n % 2, i] = both[n % 2, i] + 1.0
        y[i] = both[1, i]

    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    assert not kernel.emulate(x, y).findings and np.array_equal(y, x + 3)


def test_an_error_may_depend_on_a_condition_of_python():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], *, wide):
        if x[0] > 1.0:
            if wide > 2:
                raise ValueError("too wide")
            assert wide, "nothing"

    kernel.compile(wide=2)
    with pytest.raises(ValueError, match="too wide"):
        kernel.compile(wide=3)
    with pytest.raises(AssertionError, match="nothing"):
        kernel.compile(wide=0)


@pytest.mark.parametrize("decorator", [w.inline, w.kernel])
def test_a_lambda_is_refused(decorator):
    with pytest.raises(
        weft.WeftError, match=r"a lambda can't be a kernel or have @w.inline: write a function"
    ):
        decorator(lambda x: x if x > 1 else 2)


def test_a_definition_that_has_changed_is_refused(tmp_path):
    path, scope = tmp_path / "changed.py", {}
    text = "def {}(x):\n    return x if x > 1 else 2\n"
    path.write_text(text.format("other"))
    exec(compile(text.format("first"), str(path), "exec"), scope)
    with pytest.raises(weft.WeftError, match="the source of first has changed since Python read it"):
        w.inline(scope["first"])
    path.write_text("def first(:")
    with pytest.raises(weft.WeftError, match="the source of first has changed since Python read it"):
        w.inline(scope["first"])


def searched(row):
    """What `left` computes of a row."""
    total, found = np.float32(0), -1
    for i, number in enumerate(row):
        if number > 0.5:
            continue
        if number < 0.1:
            found = i
            break
        if number < 0.2:
            total += 1
        else:
            if number > 0.45:
                found = -2
                break
        total += number
    return found, total


@w.kernel(threads=64)
def left(x: w.In["m n", w.f32], found: w.Out["m", w.i32], total: w.Out["m", w.f32], *, by_while):
    t, n, s = w.thread(), w.i32(-1), w.f32(0)
    if by_while:
        i = w.i32(0)
        while i < x.columns:
            v = x[t, i]
            i += 1
            if v > 0.5:
                continue
            if v < 0.1:
                n = i - 1
                break
            if v < 0.2:
                s += 1.0
            else:
                if v > 0.45:
                    n = w.i32(-2)
                    break
            s += v
    else:
        for i in w.range(x.columns):
            v = x[t, i]
            if v > 0.5:
                continue
            if v < 0.1:
                n = i
                break
            if v < 0.2:
                s += 1.0
            else:
                if v > 0.45:
                    n = w.i32(-2)
                    break
            s += v
    found[t], total[t] = n, s


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("by_while", [False, True])
def test_loops_are_left_and_continued(by_while, arch):
    x = np.random.default_rng(0).random((64, 20)).astype(np.float32)
    x[5] = 0.9  # no number ends the search in this row
    found, total = np.zeros(64, np.int32), np.zeros(64, np.float32)
    assert not left.emulate(x, found, total, by_while=by_while, arch=arch).findings
    wanted = [searched(row) for row in x]
    assert [*found] == [n for n, _ in wanted] and np.allclose(total, [s for _, s in wanted])
    assert {*found} >= {-1, -2}


def test_loops_inside_others_and_those_of_python_are_left():
    @w.kernel(threads=64)
    def kernel(x: w.In["m n", w.f32], y: w.Out["m", w.f32], z: w.Out["m", w.i32]):
        t, i, s, n = w.thread(), w.i32(0), w.f32(0), w.i32(0)
        while True:
            if i >= x.columns:
                break
            for j in w.range(i, x.columns):
                if x[t, j] > 0.8:
                    break
                for k in range(3):  # Python's
                    if k == 1:
                        continue
                    if x[t, j] > 0.7 and k == 2:
                        break
                    s += x[t, j]
            i += 7
        for j in itertools.count():  # Python's, which would not end
            if j == 20:
                break
            s += x[t, j] - x[t, j]
        for j in range(20):
            if x[t, j] > 0.8:
                break
            n += 1
        y[t], z[t] = s, n

    def wanted(row):
        total = 0.0
        for i in range(0, len(row), 7):
            for number in itertools.takewhile(lambda number: number <= 0.8, row[i:]):
                total += number * (1 if number > 0.7 else 2)
        return total, next((i for i, number in enumerate(row) if number > 0.8), 20)

    x = np.random.default_rng(0).random((64, 20)).astype(np.float32)
    y, z = np.zeros(64, np.float32), np.zeros(64, np.int32)
    assert not kernel.emulate(x, y, z).findings
    assert np.allclose(y, [wanted(row)[0] for row in x]) and [*z] == [wanted(row)[1] for row in x]


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_roles_leave_loops_over_rings(arch):
    @w.kernel
    def kernel(x: w.In["m n", w.f32], y: w.Out["rows columns", w.f32], most: w.i32):
        ring = w.ring(2, x=(64, 32, w.f32))
        with w.role():
            s = w.zeros((64, 32))
            for j in w.range(0, x.columns, 32):
                if j >= most:
                    break
                with ring.take() as stage:
                    s += w.load(stage.x)
            w.store(s, y[0, 0])
        with w.role(), w.one_thread():
            for j in w.range(0, x.columns, 32):
                if j >= most:
                    break
                ring.fill(x=x[0, j])

    x, y = np.random.default_rng(0).random((64, 160)).astype(np.float32), np.zeros((64, 32), np.float32)
    for most in (96, 1000):
        assert not kernel.emulate(x, y, most, arch=arch).findings
        assert np.allclose(y, x[:, :most].reshape(64, -1, 32).sum(1))
