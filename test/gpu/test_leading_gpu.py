"""Vectors, empty arrays and leading dimensions on a GPU, and arrays that other streams still compute."""

import itertools

import numpy as np
import pytest
from gpu_marks import GPU

torch = pytest.importorskip("torch", reason="needs PyTorch, for its tensors and streams")

import weft  # noqa: E402
from weft.launch import runtime  # noqa: E402

pytestmark = GPU
SHAPES = [
    ((64,), (64, 72)),
    ((72, 64), (64,)),
    ((64,), (64,)),
    ((64,), (2, 3, 64, 72)),
    ((2, 3, 40, 64), (64,)),
    ((2, 3, 40, 64), (64, 72)),
    ((2, 3, 40, 64), (2, 3, 64, 72)),
    ((2, 3, 40, 64), (3, 64, 72)),
    ((2, 3, 40, 64), (2, 1, 64, 72)),
    ((5, 1, 40, 64), (1, 3, 64, 72)),
    ((40, 64), (2, 2, 3, 64, 72)),
    ((2, 3, 33, 65), (3, 65, 71)),
    ((2, 3, 40, 0), (3, 0, 72)),
    ((2, 0, 64), (64, 72)),
    ((0, 64), (64, 72)),
]


def small(*shape, dtype=torch.bfloat16):
    """Integers whose sums are exact."""
    return torch.randint(-2, 3, shape, device="cuda").to(dtype)


def exact(a, b):
    product = np.matmul(a.detach().cpu().double().numpy(), b.detach().cpu().double().numpy())
    return torch.from_numpy(np.asarray(product)).cuda()


def check(a, b, want=None, **options):
    want = exact(a, b) if want is None else want
    for _ in range(2):  # without a plan, and with one
        found = weft.matmul(a, b, **options)
        assert found.shape == want.shape and bool((found.double() == want).all())


@pytest.mark.parametrize(("of_a", "of_b"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_shapes_are_those_of_numpy(of_a, of_b, dtype):
    check(small(*of_a, dtype=dtype), small(*of_b, dtype=dtype), out_dtype="f32")


@pytest.mark.parametrize("layout", list(itertools.product((False, True), repeat=2)), ids=str)
def test_f32_in_every_layout(layout):
    a = small(512, 256, dtype=torch.float32) if not layout[0] else small(256, 512, dtype=torch.float32).mT
    b = small(256, 384, dtype=torch.float32) if not layout[1] else small(384, 256, dtype=torch.float32).mT
    check(a, b)


def test_heads_between_rows():
    q, k = small(2, 40, 3, 64).transpose(1, 2), small(2, 40, 3, 64).transpose(1, 2)
    check(q, k.mT, out_dtype=torch.float32)
    out = torch.zeros(2, 40, 3, 40, device="cuda").transpose(1, 2)
    weft.matmul(q, k.mT, out=out)
    assert torch.equal(out.double(), exact(q, k.mT))


def test_what_is_added_broadcasts():
    a, b, c = small(2, 3, 40, 64), small(64, 72), small(3, 40, 72)
    epilogue = weft.Epilogue(small(72), "relu", small(2, 1, 40, 72))
    z = exact(a, b) + 2 * c.double() + epilogue.bias.double()
    want = z.clamp(min=0) + epilogue.residual.double()
    check(a, b, want, c=c, beta=2.0, epilogue=epilogue, out_dtype="f32")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.float64], ids=str)
def test_an_empty_k_leaves_what_is_added(dtype):
    a, b = (torch.empty(shape, device="cuda").to(dtype) for shape in ((4, 33, 0), (0, 71)))
    c = torch.randint(-2, 3, (4, 33, 71), device="cuda").to(
        {torch.float64: dtype, torch.int8: torch.int32}.get(dtype, torch.float32)
    )
    check(a, b, torch.zeros(4, 33, 71, device="cuda").double())
    check(a, b, c.double(), c=c, beta=1, out_dtype=c.dtype)
    out = c.clone()
    weft.matmul(a, b, out=out, beta=1)
    assert torch.equal(out, c)


def test_graphs_capture_launches_in_turn_and_of_zeros():
    a, b, out = small(5, 1, 40, 64), small(1, 3, 64, 72), torch.zeros(5, 3, 40, 72, device="cuda")
    zeros = torch.ones(40, 72, device="cuda")
    x, y = torch.empty(40, 0, device="cuda"), torch.empty(0, 72, device="cuda")
    weft.matmul(a, b, out=out)
    weft.matmul(x, y, out=zeros, beta=2.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weft.matmul(a, b, out=out)
        weft.matmul(x, y, out=zeros, beta=2.0)
    a.copy_(small(5, 1, 40, 64))
    zeros.fill_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out.double(), exact(a, b)) and bool((zeros == 2).all())


class OnStream:
    """A tensor as `__cuda_array_interface__` 3 describes it, with the stream on which it is computed."""

    def __init__(self, tensor, stream):
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__ | {"version": 3, "stream": stream}


def test_launches_wait_for_the_stream_of_the_interface():
    side, launched = torch.cuda.Stream(), torch.cuda.Stream()
    value, b = small(512, 512, dtype=torch.float16), small(512, 512, dtype=torch.float16)
    out = torch.zeros(512, 512, device="cuda")
    want = exact(value, b)
    for _ in range(3):
        a = torch.zeros_like(value)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            a.copy_(value)
        of_a = OnStream(a, side.cuda_stream)
        weft.matmul(of_a, OnStream(b, None), out=OnStream(out, None), stream=launched)
        torch.cuda.synchronize()
        assert torch.equal(out.double(), want)


def test_device_arrays_and_tensors_multiply_by_the_operator():
    a, b = np.ones((48, 64), np.float16), small(64, 40, dtype=torch.float16)
    ours = runtime.DeviceArray.from_numpy(a)
    want = exact(torch.from_numpy(a), b)
    assert torch.equal(torch.from_dlpack(ours @ b).double(), want)
    found = b.mT.contiguous() @ runtime.DeviceArray.from_numpy(a.T.copy())
    assert isinstance(found, torch.Tensor) and torch.equal(found.double(), want.mT)


def test_gradients_of_broadcast_operands():
    a, b = small(2, 3, 40, 64).requires_grad_(), small(3, 64, 72).requires_grad_()
    weights = small(2, 3, 40, 72)
    (weft.matmul(a, b, out_dtype="f32") * weights).sum().backward()
    x, y = (each.detach().double().requires_grad_() for each in (a, b))
    ((x @ y) * weights.double()).sum().backward()
    # Gradients are rounded to bf16.
    for found, want in ((a.grad, x.grad), (b.grad, y.grad)):
        assert (found.double() - want).abs().max() <= 2**-7 * want.abs().max()


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ((64,), (2, 3, 64, 72)),
        ((2, 3, 40, 64), (3, 64, 72)),
        ((2, 3, 40, 0), (0, 72)),
        ((5, 1, 8, 64), (3, 64, 8)),
    ],
    ids=str,
)
def test_arrays_of_jax(of_a, of_b):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    import weft.jax

    a, b = (jax.numpy.asarray(small(*shape, dtype=torch.float16).cpu().numpy()) for shape in (of_a, of_b))
    want = np.matmul(np.asarray(a, np.float64), np.asarray(b, np.float64))
    for function in (weft.matmul, weft.jax.matmul):
        for _ in range(2):
            found = function(a, b, out_dtype="f32")
            assert isinstance(found, jax.Array) and found.shape == want.shape
            assert np.array_equal(np.asarray(found, np.float64), want)
