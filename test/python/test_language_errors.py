"""Mistakes in kernels of `weft.language` end at the user's line, with what would be right."""

import gc
import inspect
import linecache
import math

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

CASES = []


def mistake(message, **options):
    """A kernel, or a function that makes one, with a mistake in the line that ends with `# here`."""

    def add(function):
        CASES.append(pytest.param(function, message, options, id=function.__name__))
        return function

    return add


def positive(x):
    return 1 if x > 0 else 2  # not captured


@mistake("only the GPU knows this condition.*w.inline")
def a_branch_of_python(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    y[0] = [1.0, 2.0][bool(x[0] > 0)]  # here


@mistake("only the GPU knows this number.*w.exp in place of math.exp")
def a_function_of_python(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    y[0] = math.exp(x[0])  # here


@mistake("only the GPU knows this number")
def an_index_of_python(x: w.In["n", w.i32], y: w.Out["n", w.f32]):
    y[0] = (1.0, 2.0)[x[0]]  # here


@mistake("'z' is assigned in one side only")
def a_name_of_one_side_as_a_value(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    if x[0] > 0:
        z = x[0]
    y[0] = z  # here


@mistake("'z' is assigned in one side only")
def a_name_of_one_side_as_an_argument(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    if x[0] > 0:
        z = x[0]
    y[0] = w.exp(z)  # here


@w.kernel(threads=32)
def another(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    y[0] = x[0]


@mistake("a kernel can't call kernel another: .*@w.inline")
def a_kernel_in_a_kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    another(x, y)  # here


@mistake("only the GPU knows this number.*w.range")
def pythons_range(n: w.i32, y: w.Out["n", w.f32]):
    for i in range(n):  # here
        y[i] = 1.0


@mistake(r"can't loop over a value of w\.i32: write 'for i in w\.range\(n\)'")
def a_loop_over_a_number(n: w.i32, y: w.Out["n", w.f32]):
    for i in n:  # here
        y[i] = 1.0


@mistake(r"can't unpack a value of w\.i32: it is one number, as are tiles of w\.tiles")
def an_unpacked_number(n: w.i32, y: w.Out["n", w.f32]):
    for i, _ in w.tiles():  # here
        y[i] = 1.0


@mistake("'total' was a value of w.f32 and becomes a value of w.i32, in a loop of the GPU")
def a_carried_name_that_changes_type(n: w.i32, y: w.Out["n", w.f32]):
    total = w.f32(0)
    for i in w.range(n):  # here
        total = i * 2
    y[0] = total


@mistake(r"'count' was the Python int 0 and becomes a value of w.i32.*begin with w.i32\(0\)")
def a_carried_number_of_python(n: w.i32, y: w.Out["n", w.i32]):
    count = 0
    for i in w.range(n):  # here
        count = count + i
    y[0] = count


@mistake("'x' was a value of w.f32 and becomes a value of w.i32, on the other side of a branch of the GPU")
def a_branch_with_two_types(n: w.i32, y: w.Out["n", w.f32]):
    if n > 0:  # here
        x = w.f32(1)
    else:
        x = w.i32(2)
        y[1] = 0.0
    y[0] = x


@mistake("'x' is assigned in one side only of a branch of the GPU")
def a_name_of_one_side(n: w.i32, y: w.Out["n", w.f32]):
    if n > 0:
        x = w.f32(1)
    y[0] = x + 1.0  # here


@mistake("'last' is assigned only in a loop of the GPU, which may not run")
def a_name_of_a_loop(n: w.i32, y: w.Out["n", w.i32]):
    for i in w.range(n):
        last = i + 1
    y[0] = last + 1  # here


@mistake("'i' is the number of a loop of the GPU, and has no value after it")
def the_number_of_a_loop(n: w.i32, y: w.Out["n", w.i32]):
    for i in w.range(n):
        y[i] = 1
    y[0] = i + 1  # here


@mistake("'break' can't leave a loop or branch of the GPU")
def a_break(n: w.i32, y: w.Out["n", w.i32]):
    for i in w.range(n):
        if i > 3:
            break  # here
        y[i] = i


@mistake("'return' can't leave a loop or branch of the GPU")
def a_return(n: w.i32, y: w.Out["n", w.i32]):
    while n > 0:
        if y[n] == 3:
            return  # here
        n -= 1


@mistake("a loop of the GPU can't have an 'else'")
def a_loop_with_else(n: w.i32, y: w.Out["n", w.i32]):
    for i in w.range(n):  # here
        y[i] = i
    else:
        y[0] = n


@mistake("assert can't check a value of the GPU.*w.check")
def an_assertion(n: w.i32, y: w.Out["n", w.i32]):
    assert n > 0  # here
    y[0] = n


@mistake(r"operands must have one type, got w.i32 and w.f32: convert one with .to\(w.f32\)")
def operands_of_two_types(n: w.i32, x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    y[0] = n + x[0]  # here


@mistake("'/' can't be applied to integers: use // or .to")
def integers_that_are_divided(n: w.i32, y: w.Out["n", w.f32]):
    y[0] = (n / 2).to(w.f32)  # here


@mistake("'x' must be a w.Out argument to be written, got w.In")
def an_input_that_is_written(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    x[0] = 1.0  # here


@mistake("'x' has 2 dimensions, got 3 indices")
def too_many_indices(x: w.In["m n", w.f32], y: w.Out["n", w.f32]):
    y[0] = x[0, 1, 2]  # here


@mistake("neither a kernel nor a function with @w.inline can contain 'yield'")
def a_generator(y: w.Out["n", w.f32]):
    yield 1  # here


@mistake("can't assign with ':='")
def an_assignment_that_may_not_run(n: w.i32, y: w.Out["n", w.i32]):
    y[0] = n if n > 0 else (m := n + 1)  # here  # noqa: F841


@mistake("this product is still being computed.*x = w.wait")
def a_pending_product_that_is_read(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(1, a=(64, 64, w.f16))
    with w.role():
        slot = ring.take()
        sums = w.gemm(slot.a, slot.a.T)
        w.store(sums * 2.0, d[0, 0])  # here


@mistake("a stage of ring 'a' is taken in a loop and never released")
def a_stage_that_is_never_released(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        sums = w.zeros((64, 64))
        for _ in w.range(4):
            slot = ring.take()  # here
            sums = w.wait(w.gemm(slot.a, slot.a.T, sums))
        w.store(sums, d[0, 0])


@mistake("a stage of ring 'a' is taken in a loop and never released")
def a_stage_that_an_inner_loop_leaves(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        for _ in w.range(2):
            slot = ring.take()  # here
            for _ in w.range(4):
                slot.release()
                slot = ring.take()
            w.store(w.load(slot.a).to(w.f32), d[0, 0])


@mistake("this stage was released.*may hold other data")
def a_stage_that_was_released(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        slot = ring.take()
        slot.release()
        w.gemm(slot.a, slot.a.T)  # here


@mistake("a has 64 columns and b has 32 rows, which must be equal: did you mean b.T")
def a_product_whose_sizes_differ(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16), b=(32, 64, w.f16))
    with w.role():
        slot = ring.take()
        w.gemm(slot.a, slot.b)  # here


@mistake(r"a fragment as a of w.gemm must have 8 or 16 bits.*\.to\(w\.bf16\)")
def an_operand_of_32_bits(a: w.In["m k", w.f32], d: w.Out["m n", w.f32]):
    buffer = w.shared(64, 64, w.f32)
    with w.role():
        w.gemm(w.zeros((64, 64)), buffer)  # here


@mistake("a and b must have one type, got w.f16 and w.bf16")
def operands_of_two_kinds(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    one, other = w.shared(64, 64, w.f16), w.shared(64, 64, w.bf16)
    with w.role():
        w.gemm(one, other)  # here


@mistake("expects a vector, as w.sum.*, got a fragment of 64 x 64 w.f32")
def vectors_of_rows_and_of_columns(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    with w.role():
        t = w.load(a[0, 0], (64, 64))
        v = w.sum(t, axis=1) + w.load_row(d[0], like=t)
        w.store_column(v, d[0])  # here


@mistake("rows is for stores to an array: a tile is stored whole to a buffer")
def some_rows_to_a_buffer(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    buffer = w.shared(64, 64, w.f32)
    with w.role():
        w.store(w.zeros((64, 64)), buffer, rows=3)  # here


@mistake("this stage wasn't taken: ready.. only waits for it, and take.. takes it")
def a_stage_that_is_only_ready(a: w.In["m k", w.f16], d: w.Out["m", w.f32]):
    ring = w.ring(1, a=(64, 64, w.f16))
    with w.role():
        ring.ready().release()  # here


@mistake("w.clear_rows expects a buffer in shared memory that isn't transposed")
def rows_of_a_transposed_buffer(a: w.In["m k", w.f16], d: w.Out["m", w.f32]):
    buffer = w.shared(64, 64, w.f16)
    with w.role():
        w.clear_rows(buffer.T, 3)  # here


@mistake("w.load_row expects an element of an array, with all its indices")
def a_row_without_its_first_element(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    with w.role():
        t = w.load(a[0, 0], (64, 64))
        t + w.load_row(a[0], like=t)  # here


@mistake("a vector beside a tile of .64, 128. must have 64 or 128 elements, got .* 32")
def a_vector_of_another_size(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    with w.role():
        t, small = w.load(a[0, 0], (64, 128)), w.load(a[0, 0], (64, 32))
        t + w.load_row(d[0], like=small)  # here


@mistake("a reduction along axis 0 must be in a role, executed by whole warpgroups")
def a_reduction_of_columns_by_one_thread(a: w.In["m k", w.f32], d: w.Out["m", w.f32]):
    with w.role():
        t = w.load(a[0, 0], (64, 64))
        with w.one_thread():
            w.sum(t, axis=0)  # here


@mistake(r"'d' has elements of w.bf16, got w.f32: convert with .to\(w.bf16\)")
def a_store_of_another_type(a: w.In["m k", w.f32], d: w.Out["m n", w.bf16]):
    with w.role():
        w.store(w.load(a[0, 0], (64, 64)), d[0, 0])  # here


@mistake("a CTA has 504 registers .*, got 520 .2 x 240, 1 x 40.: give a role fewer")
def too_many_registers(d: w.Out["m", w.f32]):
    with w.role(warpgroups=2, registers=240):
        pass
    with w.role(registers=40):  # here
        pass


@mistake("a ring must be made before the first role")
def a_ring_in_a_role(d: w.Out["m", w.f32]):
    with w.role():
        w.ring(2, a=(64, 64, w.f16))  # here


@mistake("a ring must be taken in a role")
def a_stage_outside_of_roles(d: w.Out["m", w.f32]):
    ring = w.ring(2, a=(64, 64, w.f16))
    ring.take()  # here


@mistake("a stage of this ring has a, b, got no 'b': None leaves it as it is")
def a_stage_that_is_filled_in_part(a: w.In["m k", w.f16], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16), b=(64, 64, w.f16))
    with w.role():
        ring.fill(a=a[0, 0])  # here


@mistake("at least one buffer of a stage must be filled: ring.lend()")
def a_stage_that_is_filled_with_nothing(d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16), b=(64, 64, w.f16))
    with w.role():
        ring.fill(a=None, b=None)  # here


@mistake("'a' has elements of w.f16, got .* of w.f32")
def a_stage_of_another_type(a: w.In["m k", w.f32], d: w.Out["m n", w.f16]):
    ring = w.ring(2, a=(64, 64, w.f16))
    with w.role():
        ring.fill(a=a[0, 0])  # here


@mistake("a value that is made in a role, .* or in w.one_thread, can't be used outside of it")
def a_value_that_leaves_a_role(d: w.Out["m", w.i32]):
    with w.role():
        i = w.thread() + 1
    with w.role():
        d[0] = i + 1  # here


@mistake("must not return a value: write it to a w.Out argument")
def a_result(d: w.Out["m", w.i32]):
    return w.thread()


@mistake("grid has a parameter 'b', which must be one of d", grid=lambda b: b.rows)
def a_grid_of_an_unknown_array(d: w.Out["m", w.i32]):
    d[0] = 1


@mistake("persistent has a parameter 'd', which must be .* meta-parameters", persistent=lambda d: d.rows)
def an_array_that_decides_the_number_of_ctas(d: w.Out["m", w.i32]):
    d[0] = 1


@mistake("in a grid, sizes can be divided by numbers that Python knows", grid=lambda d: d.rows // d.rows)
def a_grid_that_divides_by_a_size(d: w.Out["m", w.i32]):
    d[0] = 1


@mistake("'x' must be annotated")
def a_parameter_without_annotation(x, d: w.Out["m", w.i32]):  # here?
    d[0] = 1


@pytest.mark.each_value(25)
@pytest.mark.parametrize("function, message, options", CASES)
def test_a_mistake_ends_at_the_users_line(function, message, options):
    with pytest.raises(weft.WeftError, match=message) as caught:
        w.kernel(function, **options).module()
    lines, first = inspect.getsourcelines(function)
    marked = [n for n, line in enumerate(lines, first) if "# here" in line and "# here?" not in line]
    where = caught.value.diagnostics[0].location
    if marked:
        assert where is not None
        assert (where.file, where.line) == (__file__, marked[0])


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
        (2, {"num_stages": 4}, r"has no parameter 'num_stages': use w\.ring\(stages, …\)"),
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
