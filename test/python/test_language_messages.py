"""Functions of other libraries, calls with other arguments, findings and tracebacks name the user's code."""

from pathlib import Path

import numpy as np
import pytest

import weft
import weft.language as w


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
