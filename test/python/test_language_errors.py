"""Mistakes in kernels, also misuse of roles, rings, buffers and functions, end at the user's line."""

import gc
import inspect
import linecache
import math  # noqa: F401 (ERRORS uses it)
import re

import language_mistakes
import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w


def positive(x):
    return 1 if x > 0 else 2  # not captured


@w.kernel(threads=32)
def another(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    y[0] = x[0]


ERRORS = r"""
# only the GPU knows this condition.*w.inline
y[0] = [1.0, 2.0][bool(x[0] > 0)]

# only the GPU knows this number.*w.exp in place of math.exp
y[0] = math.exp(x[0])

# only the GPU knows this number
def kernel(x: w.In["n", w.i32], y: w.Out["n", w.f32]):
    y[0] = (1.0, 2.0)[x[0]]

# 'z' is assigned in one side only
if x[0] > 0:
    z = x[0]
y[0] = z

# 'z' is assigned in one side only
if x[0] > 0:
    z = x[0]
y[0] = w.exp(z)

# a kernel can't call kernel another: .*@w.inline
another(x, y)

# only the GPU knows this number.*w.range
for i in range(n):  # here
    y[i] = 1.0

# can't loop over a value of w\.i32: write 'for i in w\.range\(n\)'
for i in n:  # here
    y[i] = 1.0

# can't unpack a value of w\.i32: it is one number, as are tiles of w\.tiles
for i, _ in w.tiles():  # here
    y[i] = 1.0

# 'total' was a value of w.f32 and becomes a value of w.i32, in a loop of the GPU
total = w.f32(0)
for i in w.range(n):  # here
    total = i * 2
y[0] = total

# 'count' was the Python int 0 and becomes a value of w.i32.*begin with w.i32\(0\)
def kernel(n: w.i32, y: w.Out["n", w.i32]):
    count = 0
    for i in w.range(n):  # here
        count = count + i
    y[0] = count

# 'x' was a value of w.f32 and becomes a value of w.i32, on the other side of a branch of the GPU
if n > 0:  # here
    x = w.f32(1)
else:
    x = w.i32(2)
    y[1] = 0.0
y[0] = x

# 'x' is assigned in one side only of a branch of the GPU
def kernel(n: w.i32, y: w.Out["n", w.f32]):
    if n > 0:
        x = w.f32(1)
    y[0] = x + 1.0

# 'last' is assigned only in a loop of the GPU, which may not run
def kernel(n: w.i32, y: w.Out["n", w.i32]):
    for i in w.range(n):
        last = i + 1
    y[0] = last + 1

# 'i' is the number of a loop of the GPU, and has no value after it
def kernel(n: w.i32, y: w.Out["n", w.i32]):
    for i in w.range(n):
        y[i] = 1
    y[0] = i + 1

# 'break' can't leave a loop or branch of the GPU
def kernel(n: w.i32, y: w.Out["n", w.i32]):
    with w.role():
        for i in w.range(n):
            with w.one_thread():
                if i > 3:
                    break  # here

# 'return' can't leave a loop or branch of the GPU
def kernel(n: w.i32, y: w.Out["n", w.i32]):
    while n > 0:
        if y[n] == 3:
            return  # here
        n -= 1

# a loop of the GPU can't have an 'else'
def kernel(n: w.i32, y: w.Out["n", w.i32]):
    for i in w.range(n):  # here
        y[i] = i
    else:
        y[0] = n

# assert can't check a value of the GPU.*w.check
def kernel(n: w.i32, y: w.Out["n", w.i32]):
    assert n > 0  # here
    y[0] = n

# operands must have one type, got w.i32 and w.f32: convert one with .to\(w.f32\)
y[0] = n + x[0]

# '/' can't be applied to integers: use // or .to
y[0] = (n / 2).to(w.f32)

# 'x' must be a w.Out argument to be written, got w.In
x[0] = 1.0

# 'x' has 2 dimensions, got 3 indices
def kernel(x: w.In["m n", w.f32], y: w.Out["n", w.f32]):
    y[0] = x[0, 1, 2]

# neither a kernel nor a function with @w.inline can contain 'yield'
yield 1

# can't assign with ':='
def kernel(n: w.i32, y: w.Out["n", w.i32]):
    y[0] = n if n > 0 else (m := n + 1)

# this product is still being computed.*x = w.wait
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(1, a=(64, 64, w.f16))
    with w.role():
        slot = ring.take()
        sums = w.gemm(slot.a, slot.a.T)
        w.store(sums * 2.0, d[0, 0])

# a stage of ring 'a' is taken in a loop and never released
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        sums = w.zeros((64, 64))
        for _ in w.range(4):
            slot = ring.take()  # here
            sums = w.wait(w.gemm(slot.a, slot.a.T, sums))
        w.store(sums, d[0, 0])

# a stage of ring 'a' is taken in a loop and never released
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        for _ in w.range(2):
            slot = ring.take()  # here
            for _ in w.range(4):
                slot.release()
                slot = ring.take()
            w.store(w.load(slot.a).to(w.f32), d[0, 0])

# this stage was released.*may hold other data
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        slot = ring.take()
        slot.release()
        w.gemm(slot.a, slot.a.T)

# a has 64 columns and b has 32 rows, which must be equal: did you mean b.T
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16), b=(32, 64, w.f16))
    with w.role():
        slot = ring.take()
        w.gemm(slot.a, slot.b)

# a fragment as a of w.gemm must have 8 or 16 bits.*\.to\(w\.bf16\)
def kernel(a: w.In["m k", w.f32], d: w.Out["m n", w.f32]):
    buffer = w.shared(64, 64, w.f32)
    with w.role():
        w.gemm(w.zeros((64, 64)), buffer)

# a and b must have one type, got w.f16 and w.bf16
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    one, other = w.shared(64, 64, w.f16), w.shared(64, 64, w.bf16)
    with w.role():
        w.gemm(one, other)

# expects a vector, as w.sum.*, got a fragment of 64 x 64 w.f32
def kernel(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    with w.role():
        t = w.load(a[0, 0], (64, 64))
        v = w.sum(t, axis=1) + w.load_row(d[0], like=t)
        w.store_column(v, d[0])

# rows is for stores to an array: a tile is stored whole to a buffer
def kernel(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    buffer = w.shared(64, 64, w.f32)
    with w.role():
        w.store(w.zeros((64, 64)), buffer, rows=3)

# this stage wasn't taken: ready.. only waits for it, and take.. takes it
def kernel(a: w.In["m k", w.f16], d: w.Out["m", w.f32]):
    ring = w.ring(1, a=(64, 64, w.f16))
    with w.role():
        ring.ready().release()

# w.clear_rows expects a buffer in shared memory that isn't transposed
def kernel(a: w.In["m k", w.f16], d: w.Out["m", w.f32]):
    buffer = w.shared(64, 64, w.f16)
    with w.role():
        w.clear_rows(buffer.T, 3)

# w.load_row expects an element of an array, with all its indices
def kernel(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    with w.role():
        t = w.load(a[0, 0], (64, 64))
        t + w.load_row(a[0], like=t)

# a vector beside a tile of .64, 128. must have 64 or 128 elements, got .* 32
def kernel(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    with w.role():
        t, small = w.load(a[0, 0], (64, 128)), w.load(a[0, 0], (64, 32))
        t + w.load_row(d[0], like=small)

# a reduction along axis 0 must be executed by all threads, so it can't be in w.one_thread()
def kernel(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    with w.role():
        t = w.load(a[0, 0], (64, 64))
        with w.one_thread():
            w.sum(t, axis=0)

# 'd' has elements of w.bf16, got w.f32: convert with .to\(w.bf16\)
def kernel(a: w.In["m k", w.f32], d: w.Out["m n", w.bf16]):
    with w.role():
        w.store(w.load(a[0, 0], (64, 64)), d[0, 0])

# a CTA has 504 registers .*, got 520 .2 x 240, 1 x 40.: give a role fewer
def kernel(d: w.Out["m", w.f32]):
    with w.role(warpgroups=2, registers=240):
        pass
    with w.role(registers=40):  # here
        pass

# a ring must be made before the first role
def kernel(d: w.Out["m", w.f32]):
    with w.role():
        w.ring(2, a=(64, 64, w.f16))

# a ring must be taken in a role
def kernel(d: w.Out["m", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16))
    ring.take()

# a stage of this ring has a, b, got no 'b': None leaves it as it is
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16), b=(64, 64, w.f16))
    with w.role():
        ring.fill(a=a[0, 0])

# at least one buffer of a stage must be filled: ring.lend()
def kernel(d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16), b=(64, 64, w.f16))
    with w.role():
        ring.fill(a=None, b=None)

# buffer 'a' has elements of w.f16, got .* of w.f32: make the buffer of w.f32, and convert
def kernel(a: w.In["m k", w.f32], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        ring.fill(a=a[0, 0])

# a value that is made in a role, .* or in w.one_thread, can't be used outside of it
def kernel(d: w.Out["m", w.i32]):
    with w.role():
        i = w.thread() + 1
    with w.role():
        d[0] = i + 1
"""
PARAMETERS = 'n: w.i32, x: w.In["n", w.f32], y: w.Out["n", w.f32]'


@pytest.mark.each_value(23)
@pytest.mark.parametrize("code, message", language_mistakes.cases(ERRORS, PARAMETERS))
def test_a_mistake_ends_at_the_users_line(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())


def a_result(d: w.Out["m", w.i32]):
    return w.thread()


def an_element(d: w.Out["m", w.i32]):
    d[0] = 1


def a_parameter_without_annotation(x, d: w.Out["m", w.i32]):
    d[0] = 1


@pytest.mark.parametrize(
    "function, options, message",
    [
        (a_result, {}, "must not return a value: write it to a w.Out argument"),
        (a_parameter_without_annotation, {}, "'x' must be annotated"),
        (an_element, {"grid": lambda b: b.rows}, "grid has a parameter 'b', which must be one of d"),
        (
            an_element,
            {"grid": lambda d: d.rows // d.rows},
            "sizes can be divided by numbers that Python",
        ),
        (an_element, {"persistent": lambda d: d.rows}, "a parameter 'd', which must be .* meta-parameters"),
    ],
)
def test_definitions_that_dont_fit(function, options, message):
    with pytest.raises(weft.WeftError, match=message):
        w.kernel(function, **options).module()


def test_a_helper_that_isnt_captured():
    @w.kernel()
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        y[0] = positive(x[0])

    with pytest.raises(weft.WeftError, match="only the GPU knows this condition") as caught:
        kernel.module()
    assert "not captured" in linecache.getline(__file__, caught.value.diagnostics[0].location.line)


def test_arrays_that_tma_cant_copy():
    @w.kernel()
    def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
        ring = w.ring(2, a=(64, 64, w.f16))
        with w.role():
            ring.fill(a=a[0, 0])

    a = np.zeros((64, 67), np.float16)
    with pytest.raises(weft.WeftError, match="rows of 'a' must begin at multiples of 16 bytes for TMA"):
        kernel.emulate(a, a)


@pytest.mark.parametrize(
    "args, named, message",
    [
        (1, {}, "takes 2 arguments, got no 'y'"),
        (3, {}, "takes 2 arguments, got 3"),
        (2, {"blok": 3}, "has no parameter 'blok'.*block"),
        (2, {"x": 3}, "got two values for 'x'"),
        (2, {"block": []}, "meta-parameter 'block' must be hashable"),
        (2, {"num_warps": 4}, r"has no parameter 'num_warps': use w\.role\(warpgroups=…\) in the kernel"),
        (2, {"num_stages": 4}, r"has no parameter 'num_stages': use .* or w\.ring\(stages, …\)"),
    ],
)
def test_calls_that_dont_fit(args, named, message):
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32], *, block=1):
        y[0] = x[0] * block

    with pytest.raises(weft.WeftError, match=message):
        kernel.emulate(*[np.zeros(4, np.float32)] * args, **named)


def test_arrays_that_dont_fit():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n"]):
        y[0] = x[0].to(y.dtype)

    x = np.zeros(4, np.float32)
    with pytest.raises(weft.WeftError, match=r"'x' must have elements of w\.f32, got w\.bf16"):
        kernel.emulate(x.astype(ml_dtypes.bfloat16), x)
    with pytest.raises(weft.WeftError, match="'x' must have the sizes n, got shape"):
        kernel.emulate(x[None], x)
    with pytest.raises(weft.WeftError, match="'y' must be an array, or the element type to compile it for"):
        kernel.compile()


def test_a_kernel_without_source():
    scope = {"w": w}
    with pytest.raises(weft.WeftError, match="source of kernel isn't known"):
        exec('@w.kernel()\ndef kernel(x: w.Out["n", w.f32]): pass', scope)


@pytest.mark.parametrize("sizes", [3, "", "m-n", "a b c d e"])
def test_annotations_that_dont_fit(sizes):
    with pytest.raises(weft.WeftError, match=r"w\.In"):
        w.In[sizes, w.f32]


@w.inline
def endless(x):
    return endless(x) * x if x > 0 else x


def test_calls_without_end():
    @w.kernel(threads=32)
    def kernel(x: w.Out["n", w.f32]):
        x[0] = endless(x[0])

    gc.disable()  # finalizers of what earlier tests left would fail at the end of the stack
    try:
        with pytest.raises(weft.WeftError, match="kernel kernel: functions call each other without end"):
            kernel.compile()
    finally:
        gc.enable()


def test_a_grid_divided_by_a_slash():
    @w.kernel(grid=lambda x: x.rows / 2, threads=32)
    def kernel(x: w.Out["n", w.f32]):
        x[0] = 1.0

    with pytest.raises(weft.WeftError, match="divide sizes by // or"):
        kernel.compile()


MISTAKES = r"""
# a role can't be in a loop or branch of the GPU: put the loop or branch into the role
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    for _ in w.range(2):
        with w.role():  # here
            ring.fill(a=a[0, 0])

# a ring must be filled by one thread, and each of the 2 warpgroups of this role has one
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role(warpgroups=2) as me:
        if me == 1:
            ring.fill(a=a[0, 0])
        ring.fill(a=a[0, 0])

# ring 'a' is taken and never filled: call its fill
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role(), ring.take() as stage:  # here
        w.store(w.load(stage.a), d[0, 0])

# waits must be True or False, got 'no'
def kernel(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        ring.fill(a=a[0, 0])
    with w.role():
        ring.take(waits="no")

# warpgroups of all roles must be at most 8, got 4 after 5
with w.role(warpgroups=5):
    pass
with w.role(warpgroups=4):  # here
    pass

# warp must be in 0..3, got 1.0
with w.role(), w.one_thread(warp=1.0):  # here
    pass

# like must be a fragment, got 3
with w.role():
    w.store(w.load(x[0, 0], like=3), y[0, 0])

# a part of all 64 rows must begin at 0, got 64
buffer = w.shared(64, 32, w.f32)
with w.role():
    w.store(w.zeros((64, 32)), buffer.rows(64, 64))

# a part of a buffer of 64 x 64 w\.f16 must have a multiple of 64 columns, .* swizzled, got 32
def kernel(x: w.In["m n", w.f16]):
    w.shared(64, 64, w.f16).columns(32, 32)

# a part of a buffer of 64 x 64 w\.f16 must have a multiple of 8 columns, .* swizzled, got 4
def kernel(x: w.In["m n", w.f16]):
    w.shared(64, 64, w.f16).T.columns(4, 4)

# a vector of rows beside a tile of \[128, 64\] must have 128 elements, got 64
with w.role():
    v = w.sum(w.load(x[0, 0], (64, 64)), axis=1)
    w.load(x[0, 0], (128, 64)) * v

# a part must divide the 64 rows of the tile, got 65
buffer = w.shared(32, 64, w.f16)
with w.role():
    buffer.T.rows(0, 65)

# 10+ \.\.\. doesn't fit into w.f32
with w.role():
    w.store(w.full((64, 32), 10**400), y[0, 0])

# 70000\.0 doesn't fit into w\.f16, whose largest number is 65504
def kernel(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    with w.role():
        w.store(w.load(x[0, 0], (64, 64)) + 70000.0, y[0, 0])

# inf doesn't fit into w\.e4m3, whose largest number is 448
def kernel(y: w.Out["m n", w.e4m3]):
    y[0, 0] = -w.inf

# a size of 'y' must be one of m, n, or a number in 0..1, got 2
y.size(2)

# Ring.ready takes 1 positional argument but 2 were given: write Ring.ready()
w.ring(2, a=(64, 64, w.f16)).ready(1)

# an exponent must be 1, 2, 3 or 4, got .* array .*: use w.exp2\(w.log2\(x\) \* exponent\)
y[0, 0] ** y[0, 1]
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES))
def test_misuse_is_refused_at_its_line(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())


def an_empty_one(y: w.Out["m n", w.f32]):
    with w.role():
        pass


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("log", (-1.0,), "w.log has no result for -1.0 that a float can be"),
        ("exp", (1e4,), "w.exp has no result for 10000.0"),
        ("rcp", (0,), "w.rcp has no result for 0"),
        ("sigmoid", ("x",), "expects a number, got 'x'"),
        ("abs", ([1],), r"expects a number, got \[1\]"),
        ("ceil_div", (3, 0), "w.ceil_div expects a positive integer to divide by, got 0"),
        ("ceil_div", ((1,), 2), r"w.ceil_div expects integers, got \(1,\) and 2"),
        ("where", ("x", 1, 2), "w.where expects a condition, such as x < y, got 'x'"),
        ("from_lanes", ("x", (64, 64)), "w.from_lanes expects what w.by_lanes makes, got 'x'"),
        ("last", (1.5,), "axis must be 0, 1 or 2, got 1.5"),
        ("warp_any", (np.zeros(2),), "w.warp_any expects a condition of the GPU, got ndarray"),
        ("f32", (), r"w.f32 missing 1 required positional argument: 'value': write w.f32\(value\)"),
        ("zeros", ((64, 64), np.zeros((2, 2))), "expects an element type of w, got ndarray: there are w.f64"),
        ("Scalar", (3,), r"w.Scalar is a type for annotations, .*: w.i32\(value\) makes a number"),
        ("Buffer", (64,), "w.Buffer is a type for annotations, which can't be called: w.shared"),
        ("Buffer", (64, 64, w.f16), "w.Buffer is a type for annotations, which can't be called: w.shared"),
        ("Fragment", (1, (64, 64), w.f32), "w.Fragment is a type for annotations, .*: w.zeros, w.full"),
        ("Ring", (2,), "w.Ring is a type for annotations, which can't be called: w.ring"),
        ("Slot", (), "w.Slot is a type for annotations, which can't be called$"),
    ],
)
def test_values_that_functions_dont_take(name, arguments, message):
    @w.kernel
    def kernel(y: w.Out["m", w.i32]):
        with w.role():
            getattr(w, name)(*arguments)

    with pytest.raises(weft.WeftError, match=message) as raised:
        kernel.compile()
    assert raised.value.diagnostics[0].location.file == __file__


@pytest.mark.parametrize(
    "options, message",
    [
        ({"persistent": "x"}, "persistent must be a positive number of CTAs .*, or None, got 'x'"),
        ({"persistent": lambda: 0}, "persistent must be a positive number of CTAs .*, or None, got 0"),
        ({"grid": (1, 2, 3, 4)}, "a grid must have one to three numbers, got 4"),
        ({"grid": None}, "a grid must be computed from sizes and integers, got None"),
    ],
)
def test_wrong_options_have_the_line_of_the_kernel(options, message):
    with pytest.raises(weft.WeftError, match=message) as raised:
        w.kernel(**options)(an_empty_one).compile()
    where, lines = raised.value.diagnostics[0].location, inspect.getsourcelines(an_empty_one)
    assert (where.file, where.line) == (__file__, lines[1])


@pytest.mark.parametrize("given", ["x", 2, None, ["early"]])
def test_dependent_has_three_values(given):
    message = re.escape(f"dependent must be True, False or 'early', got {given!r}")
    with pytest.raises(weft.WeftError, match=message):
        w.kernel(dependent=given)(an_empty_one)


@pytest.mark.parametrize("use", [lambda: w.f32(1), lambda: w.sum(1.0), w.thread])
def test_values_of_the_gpu_are_made_in_kernels_only(use):
    """Not as the default of an argument, for example."""
    with pytest.raises(weft.WeftError, match="this can be called in a kernel only, while it is traced"):
        use()


def test_meta_parameters_that_are_sizes_fit():
    @w.kernel()
    def kernel(x: w.In["m N", w.f32], y: w.Out["m n", w.f32], *, N=64):
        with w.role():
            w.store(w.load(x[0, 0], (64, N)), y[0, 0])

    x = np.zeros((64, 8), np.float32)
    assert not kernel.emulate(x, x.copy(), N=8).findings
    message = "'N' is a size of 'x', 8, got N=16: leave it out, or give the size another name"
    with pytest.raises(weft.WeftError, match=message):
        kernel.emulate(x, x.copy(), N=16)


def test_conditions_of_tiles_are_checked():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            w.check((t < 9.0) & (w.sum(t, axis=1) < 9.0), "too large")

    x = np.zeros((64, 8), np.float32)
    assert not kernel.emulate(x).findings
    x[40, 3] = 9
    with pytest.raises(weft.WeftError, match="'too large' failed"):
        kernel.emulate(x)


@w.kernel
def copied(a: w.In["m k", w.f16], d: w.Out["m k", w.f16], *, by_threads=False):
    ring = w.ring(2, a=(64, 80, w.f16))
    with w.role(), ring.take() as stage:
        w.store(w.load(stage.a), d[0, 0])
    with w.role():
        if by_threads:
            with ring.write() as stage:
                w.store(w.load(a[0, 0], (64, 80)), stage.a)
        else:
            with w.one_thread():
                ring.fill(a=a[0, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch, by", [("sm_90a", "TMA"), ("sm_80", "cp.async")])
def test_rows_that_rings_cant_copy_need_a_wider_array_or_threads(arch, by):
    whole, d = np.arange(64 * 72).reshape(64, 72).astype(np.float16), np.zeros((64, 67), np.float16)
    a = whole[:, :67].copy()
    message = (
        rf"multiples of 16 bytes for {by}: make the array wider, to a multiple of 8 elements of w\.f16, and"
    )
    with pytest.raises(weft.WeftError, match=message):
        copied.emulate(a, d, arch=arch)
    for source, by_threads in ((whole[:, :67], False), (a, True)):
        d[:] = 0
        assert not copied.emulate(source, d, by_threads=by_threads, arch=arch).findings
        assert np.array_equal(d, a)


def test_rows_that_tma_cant_store_need_a_wider_array_or_a_store_without_via():
    @w.kernel()
    def through(d: w.Out["m n", w.f16]):
        buffer = w.shared(64, 64, d.dtype)
        with w.role():
            w.store(w.zeros((64, 64), d.dtype), d[0, 0], via=buffer)

    with pytest.raises(weft.WeftError, match=r"its columns; or store or add a fragment, without via=$"):
        through.emulate(np.zeros((64, 67), np.float16))


def test_tiles_and_vectors_are_printed_by_element():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            w.print("t", t, "of", w.cta())
            w.print("rows", w.max(t, axis=1))
            w.print("columns", w.argmax(t, axis=0))

    x = np.random.default_rng(0).integers(0, 99, (64, 8)).astype(np.float32)
    printed = kernel.emulate(x).printed.splitlines()
    assert sorted(printed) == sorted(
        [f"t [{i}, {j}] {x[i, j]:g} of 0" for i in range(64) for j in range(8)]
        + [f"rows [{i}] {x[i].max():g}" for i in range(64)]
        + [f"columns [{j}] {x[:, j].argmax()}" for j in range(8)]
    )


@pytest.mark.parametrize("by, arch", [("TMA", "sm_90a"), ("cp.async", "sm_80")])
def test_tiles_that_rings_copy_begin_at_multiples_of_16_bytes(by, arch):
    @w.kernel()
    def kernel(x: w.In["m n", w.f16], *, column=3):
        ring = w.ring(1, x=(64, 64, w.f16))
        with w.role(), ring.take():
            pass
        with w.role(), w.one_thread():
            ring.fill(x=x[0, column])

    message = rf"{by} copies tiles whose first column .* 8 elements of w\.f16, got column 3: copy by w\.load"
    with pytest.raises(weft.WeftError, match=message):
        kernel.compile(arch=arch)
    kernel.compile(arch=arch, column=8)


def test_tiles_that_tma_stores_begin_at_multiples_of_16_bytes():
    @w.kernel()
    def kernel(y: w.Out["m n", w.f32]):
        via = w.shared(64, 32, w.f32)
        with w.role():
            w.store(w.zeros((64, 32)), y[0, 6], via=via)

    with pytest.raises(weft.WeftError, match=r"TMA copies .* 4 elements of w\.f32, got column 6"):
        kernel.compile(arch="sm_90a")
    kernel.compile(arch="sm_80")
