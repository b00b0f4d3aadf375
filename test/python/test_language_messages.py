"""Operators, functions and calls that Python or other libraries refuse: errors name what to write."""

import numpy as np
import pytest

import weft
import weft.language as w
from weft.language.capture import carried
from weft.language.messages.python_errors import refusal


def refused(file, mistake, message, **modules):
    """Compiling a kernel that calls a function with this mistake is refused at the line of the mistake."""
    scope = {"np": np, "w": w} | modules
    file.write_text(f"def body(t, x, r):\n    {mistake}\n")
    exec(compile(file.read_text(), file, "exec"), scope)

    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        ring = w.ring(1, x=(64, 64, w.f32))
        with w.role():
            scope["body"](w.load(x[0, 0], (64, 64)), x, ring)

    with pytest.raises(weft.WeftError, match=message) as caught:
        kernel.module()
    where = caught.value.diagnostics[0].location
    assert (where.file, where.line) == (str(file), 2)


def test_functions_of_pytorch_are_refused(tmp_path):
    torch = pytest.importorskip("torch")
    message = r"torch\.softmax can't be applied to a value of the GPU"
    refused(tmp_path / "softmax.py", "torch.nn.functional.softmax(t, 1)", message, torch=torch)
    refused(tmp_path / "exp.py", "torch.exp(t)", r"torch\.exp can't .*: use w\.exp$", torch=torch)


def test_functions_of_jax_are_refused(tmp_path):
    jnp = pytest.importorskip("jax.numpy")
    message = "a function of JAX can't be applied to a value of the GPU: use one of w"
    refused(tmp_path / "exp.py", "jnp.exp(t)", message, jnp=jnp)


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


@pytest.mark.parametrize(
    "mistake, message",
    [
        ("np.exp(x[0, 0])", r"np\.exp can't be applied to a value of the GPU: use w\.exp$"),
        ("np.exp(x)", r"np\.exp can't .*: use w\.exp$"),
        ("np.sum(t)", r"np\.sum can't .*: use w\.sum$"),
        ("np.matmul(t, t)", r"np\.matmul can't .*: use w\.gemm, and of buffers, w\.wait"),
        ("np.sinh(t)", r"np\.sinh can't .*: use functions of w; did you mean 'sin'\?$"),
        ("np.array([1.0, 2.0]) * t", r"np\.multiply can't be applied"),
        ("np.asarray(t)", "NumPy can't make an array of it"),
        (
            "w.load_row(x[0, 0], 64)",
            r"w\.load_row takes 1 .* but 2 .*: write w\.load_row\(source, \*, like, o",
        ),
        ("w.argmax(t)", r"w\.argmax missing .* 'axis': write w\.argmax\(x, axis\)"),
        ("w.max(t, dim=1)", r"w\.max got an unexpected keyword argument 'dim': write w\.max\(x, axis=None, "),
        (
            "r.take(2)",
            r"Ring\.take takes 1 .* but 2 were given: write Ring\.take\(\*, waits=True, own=False\)",
        ),
        ("t @ t", r"'@' can't be applied to a fragment and a fragment: multiply by w\.gemm\(a, b\), of"),
        ("t + x", r"'\+' can't be applied to a fragment and an array: load an element by x\[i\]"),
        ("x + 1.0", r"'\+' can't be applied to an array and float: load an element by x\[i\], or a"),
        ("x < 3.0", r"'<' can't be applied to an array and float"),
        ("-x", r"'-' can't be applied to an array"),
        ("w.exp(r)", "expects a number, got Ring$"),
        ("len(x)", r"len\(\) can't be applied to an array: its sizes are \.rows, \.columns and \.shape$"),
        ("len(t)", r"len\(\) can't be applied to a fragment: its sizes are \.shape$"),
        ("len(x[0, 0] + 1.0)", r"len\(\) can't be applied to a number of the GPU: it has no sizes$"),
        ("round(x[0, 0])", r"round\(\) can't be applied to an element of an array: use w\.round$"),
        ('f"{x[0, 0]:.2f}"', r"Python can't format an element of an array: print it by w\.print$"),
        (
            "[each * 2 for each in w.range(3)]",
            r"Python can't loop over w\.range: write a loop, 'for i in w\.range\(n\):'",
        ),
        ("t[0] = 1.0", r"Python can't assign elements of a fragment: choose elements by w\.where, w\.row"),
        ("x[0, 0] & 3", r"'&' can't be applied to floats: convert with \.to\(w\.i32\)$"),
        ("t.to(np.float16)", r"expects an element type of w, got float16: write w\.f16$"),
        ("x[0, 0].to(float)", r"expects an element type of w, got float: write w\.f32$"),
        (
            'w.zeros((64, 64), "bf17")',
            r"expects an element type of w, got 'bf17': there are w\.f64, w\.f32, ",
        ),
        ("x[x[0, 0], 0]", r"expects a value of w\.i32, got a value of w\.f32: convert it with"),
        ("x[0, -1] + 1.0", r"an index of 'x' must be at least 0, got -1: the last one is x\.size\(1\) - 1$"),
        ("w.full((64, 64), t)", r"expects a number, or a vector of rows or columns, to fill a tile, got a"),
        ("r.fill(xx=x[0, 0])", r"a stage of this ring has x, got 'xx'; did you mean 'x'\?$"),
        ("w.f16(x[0, 0])", r"expects a value of w\.f16, got a value of w\.f32: convert it with"),
        ("2.0**t", r"'\*\*' can't be applied to float and a fragment: 2\.0 \*\* x is w\.exp2\(x\)"),
        (
            "reversed(w.range(8))",
            r"reversed\(\) can't be applied to w\.range: count up, and subtract in the loop$",
        ),
        ("int(x[0, 0])", r"only the GPU knows this number: convert it with \.to\(w\.i32\) in place of"),
        ("int(t)", r"int\(\) can't be applied to a fragment: use \.to\(w\.i32\)$"),
        ("range(x.rows)", r"only the GPU knows this number: .*; loop with w\.range"),
        ("float(x.rows)", r"only the GPU knows this number: .* \.to\(w\.f32\) in place of float\(\)$"),
        ("x.T", r"the array 'x' has no 'T': use t\.T, of the tile that w\.load loads, or b\.T"),
        (
            "max(x.rows, x.columns)",
            r"only the GPU knows this condition: .* w\.maximum in place of min\(\) and",
        ),
        ("w.max(t, 0.0)", r"axis must be None, 0 or 1, got 0\.0: w\.maximum\(x, y\) is of two values$"),
        ("w.min(t, t)", r"axis must be .*, got a fragment of 64 x 64 w\.f32: w\.minimum\(x, y\) is"),
        (
            'w.print(f"x is {x[0, 0]}")',
            r"when only the GPU knows an element of the array 'x': print it by w\.print\(\"x is\", x\)",
        ),
        ("str(t)", r"only the GPU knows a fragment of 64 x 64 w\.f32: print it by w\.print"),
        ('print("x is", x[0, 0] + 1.0)', r"only the GPU knows a value of w\.f32: print it by w\.print"),
        (
            "format(r.take().x[0, 0])",
            r"only the GPU knows an element of a buffer of .*: print it by w\.print",
        ),
        ("t.columns(0, 32)", r"'columns' of a fragment .* can't be called: load parts .*columns\(first, cou"),
        ("w.load(x[0, 0])", r"got None: one element is x\[i, j\], without w\.load; w\.load_row and"),
        ("x.shape()", r"'shape' of the array 'x' can't be called: write x\.shape$"),
        ('w.sum(t, "rows")', r"axis must be None, 0 or 1, got 'rows'$"),
    ],
)
def test_a_mistake_names_what_to_write(mistake, message, tmp_path):
    refused(tmp_path / "mistake.py", mistake, message)


def test_representations_are_known_to_python():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            assert repr(t).startswith("<a fragment of 64 x 8 w.f32>")
            assert ", S[" in repr(w.by_lanes(t))
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
