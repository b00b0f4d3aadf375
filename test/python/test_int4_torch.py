"""Products with 4-bit weights of PyTorch's tensors."""

from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.int4 import launches  # noqa: E402
from weft.launch import libraries  # noqa: E402
from weft.nn import Int4Linear  # noqa: E402


def layer(n=40, k=96, *, group=32, symmetric=False):
    torch.manual_seed(0)
    linear = torch.nn.Linear(k, n, dtype=torch.bfloat16)
    return linear, Int4Linear.of(linear, group=group, symmetric=symmetric)


def expected(x, made):
    exact = made.weights.dequantize().double()
    return x.detach().double() @ exact.t() + made.bias.double()


def assert_close(y, exact):
    assert y.dtype == torch.bfloat16
    assert ((y.double() - exact).abs() <= 2**-8 * exact.abs() + 1e-4).all()


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_linear_layer(symmetric):
    linear, made = layer(symmetric=symmetric)
    x = torch.randn(2, 3, 96, dtype=torch.bfloat16)
    y = made(x)
    assert_close(y, expected(x, made))
    assert (y - linear(x)).abs().max() < 0.2
    assert f"group=32, symmetric={symmetric}, bias=True" in repr(made)


def test_the_activation_of_a_layer_is_kept():
    plain = weft.nn.Linear(96, 40, dtype=torch.bfloat16, activation="relu")
    made = Int4Linear.of(plain, group=32)
    x = torch.randn(3, 96, dtype=torch.bfloat16)
    assert_close(made(x), expected(x, made).relu())
    assert made(x).min() == 0
    assert "activation=relu" in repr(made)
    with pytest.raises(weft.WeftError, match=r"Int4Linear: activation must be one of relu, .*; did you"):
        Int4Linear(made.weights, activation="rely")


def test_rows_are_padded_on_the_stream_of_a_call(monkeypatch):
    """On another one, the kernel wouldn't wait for the copy."""
    weights, streams, copied = weft.quantize_int4(torch.randn(40, 96).bfloat16(), group=32), [None], []

    @contextmanager
    def on(stream, device):
        streams.append(stream)
        yield
        streams.pop()

    readable = launches._readable
    monkeypatch.setattr(libraries, "torch_stream", on)
    monkeypatch.setattr(launches, "_readable", lambda *args: copied.append(streams[-1]) or readable(*args))
    x = torch.randn(3, 100, dtype=torch.bfloat16)[:, 1:97]
    weft.matmul_int4(x, weights, stream=5)
    assert copied == [5] and streams == [None]


def test_gradients_of_x():
    _, made = layer()
    x = torch.randn(5, 96, dtype=torch.bfloat16, requires_grad=True)
    y = made(x)
    assert_close(y, expected(x, made))
    y.sum().backward()
    exact = made.weights.dequantize().double().sum(0).expand(5, -1)
    assert (x.grad.double() - exact).abs().max() <= 2**-7 * exact.abs().max()


def test_the_operator():
    _, made = layer()
    x = torch.randn(5, 96, dtype=torch.bfloat16)
    operands = x, made.packed, made.scales, made.zeros, made.bias, 40, 32
    tests = "test_schema", "test_autograd_registration", "test_faketensor"
    torch.library.opcheck(torch.ops.weft.matmul_int4.default, operands, test_utils=tests)


def test_the_state_and_autocast():
    _, made = layer()
    other = layer()[1]
    for each in other.buffers():
        each.zero_()
    other.load_state_dict(made.state_dict())
    x = torch.randn(5, 96)
    with torch.autocast("cpu", torch.bfloat16):
        y = other(x)
    assert torch.equal(y, made(x.bfloat16()))


def test_meta_tensors():
    _, made = layer()
    y = made.to("meta")(torch.empty(2, 3, 96, dtype=torch.bfloat16, device="meta"))
    assert y.shape == (2, 3, 40) and y.device.type == "meta"


@pytest.mark.slow
def test_compiled_programs():
    _, made = layer()
    x = torch.randn(5, 96, dtype=torch.bfloat16)
    compiled = torch.compile(lambda x: made(x * 2), fullgraph=True)
    assert torch.equal(compiled(x), made(x * 2))


def test_other_layers_are_refused():
    with pytest.raises(weft.WeftError, match=r"expects a torch.nn.Linear, got"):
        Int4Linear.of(torch.nn.ReLU())
    with pytest.raises(weft.WeftError, match=r"weights must be Int4Weights of tensors"):
        Int4Linear(weft.quantize_int4(torch.zeros(2, 64).numpy()))


def test_tensors_that_need_copies_or_checks():
    _, made = layer()
    x = torch.randn(9, 200, dtype=torch.bfloat16)[:, 8:104]
    for each in (
        x,
        x[:, :].t().contiguous().t(),
        torch.randn(97 * 4, dtype=torch.bfloat16)[4:].view(4, 96)[:0],
    ):
        y = made(each)
        assert y.shape == (each.shape[0], 40)
        assert_close(y, expected(each, made))
    with pytest.raises(weft.WeftError, match="x must have elements of bf16"):
        made(torch.zeros(2, 96))
    with pytest.raises(weft.WeftError, match="bias: expected an array"):
        weft.matmul_int4(x, made.weights, bias="bias")
    with pytest.raises(
        weft.WeftError, match="weights must be a matrix of NumPy or PyTorch, got a nested tensor"
    ):
        weft.quantize_int4(torch.nested.nested_tensor([x, x]))
    with pytest.raises(weft.WeftError, match=r"bias must have 40 elements of bf16, got \(3,\)"):
        weft.matmul_int4(x, made.weights, bias=made.bias[:3])


def test_a_layer_follows_its_buffers():
    _, made = layer()
    x = torch.randn(2, 96, dtype=torch.bfloat16)
    before = made(x)
    made.scales = made.scales * 2
    made.bias = None
    exact = x.double() @ made.weights.dequantize().double().t()
    assert not torch.equal(made(x), before)
    assert_close(made(x), exact)


def test_rows_of_another_length_are_refused_by_the_operator():
    """The packed weights of 95 columns have the shape of those of 96."""
    _, made = layer()
    x = torch.randn(5, 95, dtype=torch.bfloat16, requires_grad=True)
    with pytest.raises(weft.WeftError, match=r"rows of x must have the weights' 96 elements, got .*95"):
        made(x)


def test_weights_of_a_type_without_kernels_are_refused():
    _, made = layer()
    with pytest.raises(weft.WeftError, match=r"scales must have elements of bf16 or f16, got f32"):
        made.float()(torch.randn(5, 96))
