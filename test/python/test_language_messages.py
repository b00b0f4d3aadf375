"""Operators, functions and calls that Python or other libraries refuse: errors name what to write."""

from pathlib import Path

import numpy as np
import pytest

import weft
import weft.language as w
from weft.language.capture import carried
from weft.language.messages.python_errors import refusal


def line_of(function):
    code = function.__code__
    lines = Path(code.co_filename).read_text().splitlines()
    first = code.co_firstlineno
    return next(n for n in range(first, len(lines)) if lines[n - 1].rstrip().endswith("# here"))


def refused(body, message):
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        ring = w.ring(1, x=(64, 64, w.f32))
        with w.role():
            body(w.load(x[0, 0], (64, 64)), x, ring)

    with pytest.raises(weft.WeftError, match=message) as caught:
        kernel.module()
    where = caught.value.diagnostics[0].location
    assert (where.file, where.line) == (body.__code__.co_filename, line_of(body))


def a_ufunc(t, x, r):
    np.exp(x[0, 0])  # here


def a_ufunc_of_an_array(t, x, r):
    np.exp(x)  # here


def a_reduction(t, x, r):
    np.sum(t)  # here


def a_function_with_another_name(t, x, r):
    np.matmul(t, t)  # here


def an_unknown_function(t, x, r):
    np.sinh(t)  # here


def an_array_of_numbers(t, x, r):
    np.array([1.0, 2.0]) * t  # here


def an_array_of_a_value(t, x, r):
    np.asarray(t)  # here


def a_shape_for_a_row(t, x, r):
    w.load_row(x[0, 0], 64)  # here


def no_axis(t, x, r):
    w.argmax(t)  # here


def another_keyword(t, x, r):
    w.max(t, dim=1)  # here


def a_method(t, x, r):
    r.take(2)  # here


@pytest.mark.parametrize(
    "body, message",
    [
        (a_ufunc, r"np\.exp can't be applied to a value of the GPU: use w\.exp$"),
        (a_ufunc_of_an_array, r"np\.exp can't .*: use w\.exp$"),
        (a_reduction, r"np\.sum can't .*: use w\.sum$"),
        (a_function_with_another_name, r"np\.matmul can't .*: use w\.gemm, and w\.wait"),
        (an_unknown_function, r"np\.sinh can't .*: use functions of w; did you mean 'sin'\?$"),
        (an_array_of_numbers, r"np\.multiply can't be applied"),
        (an_array_of_a_value, "NumPy can't make an array of it"),
        (a_shape_for_a_row, r"w\.load_row takes 1 .* but 2 .*: write w\.load_row\(source, \*, like, o"),
        (no_axis, r"w\.argmax missing .* 'axis': write w\.argmax\(x, axis\)"),
        (another_keyword, r"w\.max got an unexpected keyword argument 'dim': write w\.max\(x, axis=None, "),
        (a_method, r"Ring\.take takes 1 .* but 2 were given: write Ring\.take\(\*, waits=True\)"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_mistake_names_what_to_write(body, message):
    refused(body, message)


def test_functions_of_pytorch_are_refused():
    torch = pytest.importorskip("torch")

    def softmax(t, x, r):
        torch.nn.functional.softmax(t, 1)  # here

    def exp(t, x, r):
        torch.exp(t)  # here

    refused(softmax, r"torch\.softmax can't be applied to a value of the GPU")
    refused(exp, r"torch\.exp can't .*: use w\.exp$")


def test_functions_of_jax_are_refused():
    jnp = pytest.importorskip("jax.numpy")

    def exp(t, x, r):
        jnp.exp(t)  # here

    refused(exp, r"a function of JAX can't be applied to a value of the GPU: use one of w")


def test_other_type_errors_stay():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32]):
        len(3)

    with pytest.raises(TypeError, match="has no len"):
        kernel.module()


def test_numbers_of_numpy_work_in_operators():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 64))
            t = np.float32(2) * t - np.float32(1)
            w.store(w.where(np.float32(3) < t, t, t * np.float32(0.5)) * (np.float32(2) * x[0, 1]), y[0, 0])

    x, y = np.random.default_rng(0).random((64, 64)).astype(np.float32) * 4, np.zeros((64, 64), np.float32)
    assert not kernel.emulate(x, y).findings
    t = 2 * x - 1
    assert np.allclose(y, np.where(t > 3, t, t / 2) * 2 * x[0, 1], rtol=1e-6)


def test_rounding_and_angles():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["k m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 64))
            for number, f in enumerate((w.floor, w.ceil, w.round, w.sin, w.cos)):
                w.store(f(t) + f(0.0), y[number, 0, 0])

    x = np.random.default_rng(0).uniform(-3, 3, (64, 64)).astype(np.float32)
    x[0, :4] = -2.5, -0.5, 0.5, 1.5
    y = np.zeros((5, 64, 64), np.float32)
    assert not kernel.emulate(x, y).findings
    exact = [np.floor(x), np.ceil(x), np.round(x)]
    assert np.array_equal(y[:3], exact)
    assert np.allclose(y[3:], [np.sin(x), np.cos(x) + 1], atol=1e-5)


@w.kernel(threads=32)
def shifted(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    y[w.thread()] = x[w.thread() + 1]


def test_findings_name_parameters():
    x, y = np.zeros((2, 32), np.float32)
    x = x.copy()
    with pytest.raises(Exception, match="0 bytes past the end of argument 'x' of 128 bytes"):
        shifted.emulate(x, y)
    with pytest.raises(weft.WeftError, match=r"kernel shifted, argument 'y': .* the array is read-only"):
        y.flags.writeable = False
        shifted.emulate(x, y)


def test_torch_compile_runs_kernels_outside_of_graphs():
    torch = pytest.importorskip("torch")

    @w.kernel(threads=32)
    def double(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        y[w.thread()] = x[w.thread()] * 2.0

    def layer(x):
        y = torch.empty_like(x)
        double(x, y, on="emulator")
        return y + 1

    x = torch.arange(32.0)
    assert torch.equal(torch.compile(layer, backend="eager")(x), 2 * x + 1)
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"make this one an operator with w\.torch_op"):
        torch.compile(layer, backend="eager", fullgraph=True)(x)


def scaled_wrongly(x):
    return w.exp(x)


@w.kernel
def with_a_mistake(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    with w.role():
        for _ in w.range(x.rows):
            w.store(scaled_wrongly(w.load(x[0, 0], (64, 64))), y[0, 0])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: with_a_mistake(x, x),
        lambda x: with_a_mistake.emulate(x, x),
        lambda x: with_a_mistake.compile(x, x),
        lambda x: with_a_mistake.prepare(x, x),
    ],
)
def test_tracebacks_have_lines_of_the_user_only(call, monkeypatch):
    def frames():
        with pytest.raises(weft.WeftError, match=r"w\.exp expects values of w\.f32") as raised:
            call(np.zeros((64, 64), np.float16))
        return [(each.path.name, each.name) for each in raised.traceback]

    own = [each[1] for each in frames()]
    assert own == ["frames", "<lambda>", "with_a_mistake", "scaled_wrongly"]
    monkeypatch.setenv("WEFT_FULL_TRACEBACKS", "1")
    assert ("maths.py", "exp") in frames()


def a_product(t, x, r):
    t @ t  # here


def a_sum_with_an_array(t, x, r):
    t + x  # here


def a_sum_of_an_array(t, x, r):
    x + 1.0  # here


def a_comparison(t, x, r):
    _ = x < 3.0  # here


def a_sign(t, x, r):
    _ = -x  # here


def a_function_of_a_stage(t, x, r):
    w.exp(r)  # here


def a_length(t, x, r):
    len(x)  # here


def a_length_of_a_tile(t, x, r):
    len(t)  # here


def a_length_of_a_number(t, x, r):
    len(x[0, 0] + 1.0)  # here


def a_rounded_element(t, x, r):
    round(x[0, 0])  # here


def a_format(t, x, r):
    _ = f"{x[0, 0]:.2f}"  # here


def a_comprehension(t, x, r):
    [each * 2 for each in w.range(3)]  # here


def an_assignment(t, x, r):
    t[0] = 1.0  # here


def bits_of_floats(t, x, r):
    x[0, 0] & 3  # here


def a_type_of_numpy(t, x, r):
    t.to(np.float16)  # here


def a_type_of_python(t, x, r):
    x[0, 0].to(float)  # here


def a_name_of_a_type(t, x, r):
    w.zeros((64, 64), "bf17")  # here


def an_index_that_is_no_integer(t, x, r):
    x[x[0, 0], 0]  # here


def a_negative_index(t, x, r):
    x[0, -1] + 1.0  # here


def a_tile_in_each_element(t, x, r):
    w.full((64, 64), t)  # here


def another_name_of_a_buffer(t, x, r):
    r.fill(xx=x[0, 0])  # here


def an_element_of_another_type(t, x, r):
    w.f16(x[0, 0])  # here


def a_power_of_two(t, x, r):
    2.0**t  # here


def a_reversed_range(t, x, r):
    reversed(w.range(8))  # here


def an_integer_of_python(t, x, r):
    int(x[0, 0])  # here


def an_integer_of_a_tile(t, x, r):
    int(t)  # here


def a_range_of_python(t, x, r):
    range(x.rows)  # here


def a_float_of_python(t, x, r):
    float(x.rows)  # here


def a_transposed_array(t, x, r):
    _ = x.T  # here


def a_maximum_of_python(t, x, r):
    max(x.rows, x.columns)  # here


def a_maximum_of_two(t, x, r):
    w.max(t, 0.0)  # here


def a_minimum_of_two_tiles(t, x, r):
    w.min(t, t)  # here


def an_axis_of_another_type(t, x, r):
    w.sum(t, "rows")  # here


def a_text(t, x, r):
    w.print(f"x is {x[0, 0]}")  # here


def a_text_of_a_tile(t, x, r):
    str(t)  # here


def a_print_of_python(t, x, r):
    print("x is", x[0, 0] + 1.0)  # here


def an_element_of_a_buffer(t, x, r):
    format(r.take().x[0, 0])  # here


def a_part_of_a_tile(t, x, r):
    t.columns(0, 32)  # here


def a_load_of_an_element(t, x, r):
    w.load(x[0, 0])  # here


def a_called_shape(t, x, r):
    x.shape()  # here


@pytest.mark.parametrize(
    "body, message",
    [
        (a_product, r"'@' can't be applied to a fragment and a fragment: multiply by w\.gemm\(a, b\), of"),
        (a_sum_with_an_array, r"'\+' can't be applied to a fragment and an array: load an element by x\[i\]"),
        (a_sum_of_an_array, r"'\+' can't be applied to an array and float: load an element by x\[i\], or a"),
        (a_comparison, r"'<' can't be applied to an array and float"),
        (a_sign, r"'-' can't be applied to an array"),
        (a_function_of_a_stage, "expects a number, got Ring$"),
        (a_length, r"len\(\) can't be applied to an array: its sizes are \.rows, \.columns and \.shape$"),
        (a_length_of_a_tile, r"len\(\) can't be applied to a fragment: its sizes are \.shape$"),
        (a_length_of_a_number, r"len\(\) can't be applied to a number of the GPU: it has no sizes$"),
        (a_rounded_element, r"round\(\) can't be applied to an element of an array: use w\.round$"),
        (a_format, r"Python can't format an element of an array: print it by w\.print$"),
        (a_comprehension, r"Python can't loop over w\.range: write a loop, 'for i in w\.range\(n\):'"),
        (an_assignment, r"Python can't assign elements of a fragment: choose elements by w\.where, w\.row"),
        (bits_of_floats, r"'&' can't be applied to floats: convert with \.to\(w\.i32\)$"),
        (a_type_of_numpy, r"expects an element type of w, got float16: write w\.f16$"),
        (a_type_of_python, r"expects an element type of w, got float: write w\.f32$"),
        (a_name_of_a_type, r"expects an element type of w, got 'bf17': there are w\.f64, w\.f32, "),
        (an_index_that_is_no_integer, r"expects a value of w\.i32, got a value of w\.f32: convert it with"),
        (a_negative_index, r"an index of 'x' must be at least 0, got -1: the last one is x\.size\(1\) - 1$"),
        (a_tile_in_each_element, r"expects a number, or a vector of rows or columns, to fill a tile, got a"),
        (another_name_of_a_buffer, r"a stage of this ring has x, got 'xx'; did you mean 'x'\?$"),
        (an_element_of_another_type, r"expects a value of w\.f16, got a value of w\.f32: convert it with"),
        (a_power_of_two, r"'\*\*' can't be applied to float and a fragment: 2\.0 \*\* x is w\.exp2\(x\)"),
        (a_reversed_range, r"reversed\(\) can't be applied to w\.range: count up, and subtract in the loop$"),
        (an_integer_of_python, r"only the GPU knows this number: convert it with \.to\(w\.i32\) in place of"),
        (an_integer_of_a_tile, r"int\(\) can't be applied to a fragment: use \.to\(w\.i32\)$"),
        (a_range_of_python, r"only the GPU knows this number: .*; loop with w\.range"),
        (a_float_of_python, r"only the GPU knows this number: .* \.to\(w\.f32\) in place of float\(\)$"),
        (a_transposed_array, r"the array 'x' has no 'T': use t\.T, of the tile that w\.load loads, or b\.T"),
        (a_maximum_of_python, r"only the GPU knows this condition: .* w\.maximum in place of min\(\) and"),
        (a_maximum_of_two, r"axis must be None, 0 or 1, got 0\.0: w\.maximum\(x, y\) is of two values$"),
        (a_minimum_of_two_tiles, r"axis must be .*, got a fragment of 64 x 64 w\.f32: w\.minimum\(x, y\) is"),
        (a_text, r"when only the GPU knows an element of the array 'x': print it by w\.print\(\"x is\", x\)"),
        (a_text_of_a_tile, r"only the GPU knows a fragment of 64 x 64 w\.f32: print it by w\.print"),
        (a_print_of_python, r"only the GPU knows a value of w\.f32: print it by w\.print"),
        (an_element_of_a_buffer, r"only the GPU knows an element of a buffer of .*: print it by w\.print"),
        (a_part_of_a_tile, r"'columns' of a fragment .* can't be called: load parts .*columns\(first, cou"),
        (a_load_of_an_element, r"got None: one element is x\[i, j\], without w\.load; w\.load_row and"),
        (a_called_shape, r"'shape' of the array 'x' can't be called: write x\.shape$"),
        (an_axis_of_another_type, r"axis must be None, 0 or 1, got 'rows'$"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_python_refuses_is_named_at_its_line(body, message):
    refused(body, message)


def test_representations_are_known_to_python():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            assert repr(t).startswith("<a fragment of 64 x 8 w.f32, ")
            assert f"{[x[0, 0], x[0, 0] + 1.0]}" == "[<an element of the array 'x'>, <a value of w.f32>]"

    kernel.module()


def test_calls_of_other_numbers_stay():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32]):
        number = 3
        number(x[0])

    with pytest.raises(TypeError, match="'int' object is not callable"):
        kernel.module()


@pytest.mark.parametrize("value", [1, None, object()])
def test_errors_about_other_values_stay(value):
    with pytest.raises(TypeError) as caught:
        value @ "text"
    assert refusal(caught.value) is None


@pytest.mark.parametrize(
    "use",
    [
        lambda x: 2 | x,
        lambda x: 2 ^ x,
        lambda x: 2 & x,
        lambda x: 2 << x,
        lambda x: x >> 1,
        lambda x: 7 // x,
        lambda x: 7 % x,
        lambda x: 2**x,
        lambda x: divmod(x, 2),
        lambda x: ~x,
        lambda x: +x,
        abs,
        int,
        round,
        lambda x: 1 in x,
        lambda x: x.__setitem__(0, 1),
        lambda x: setattr(x, "y", 1),
    ],
)
def test_whatever_is_done_with_a_name_without_value_is_refused(use):
    with pytest.raises(weft.WeftError, match="'x' is assigned in one side only"):
        use(carried.Unbound("x", "is assigned in one side only"))
