"""`weft.attention` of PyTorch's tensors: gradients, torch.compile, autocast. On a GPU if there is one, else
in the emulator.
"""

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import weft  # noqa: E402
import weft.torch  # noqa: E402
from weft.launch import runtime  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
TOLERANCE = 4e-3  # of f16, in which shares and the gradients of scores are rounded


def tensors(queries=70, keys=70, heads=(2, 1), dtype=torch.float16, grad=True):
    torch.manual_seed(0)
    shapes = ((1, heads[0], queries, 64), *[(1, heads[1], keys, 64)] * 2)
    return [torch.randn(shape, dtype=dtype).to(DEVICE).requires_grad_(grad) for shape in shapes]


def close(got, wanted):
    assert (got.double() - wanted).abs().max() <= TOLERANCE * max(wanted.abs().max().item(), 1.0)


def exact(q, k, v, g):
    """Output and gradients by PyTorch in f64."""
    inputs = [each.detach().double().requires_grad_() for each in (q, k, v)]
    out = scaled_dot_product_attention(*inputs, is_causal=True, enable_gqa=True)
    return out, torch.autograd.grad(out, inputs, g.double())


def test_gradients_compared_with_pytorch():
    q, k, v = tensors()
    out = weft.attention(q, k, v, causal=True)
    g = torch.randn_like(out)
    wanted, of_inputs = exact(q, k, v, g)
    close(out, wanted)
    # A sum's gradient is one number for all elements, which TMA can't copy.
    for one, other in zip(torch.autograd.grad(out, (q, k, v), g), of_inputs, strict=True):
        close(one, other)
    with torch.no_grad():
        assert torch.equal(weft.attention(q, k, v, causal=True), out)


class Misaligned(torch.autograd.Function):
    """The same values, one element after an aligned address. Its gradient begins at such an address, too."""

    @staticmethod
    def forward(ctx, x):
        return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)

    @staticmethod
    def backward(ctx, gradient):
        return Misaligned.forward(ctx, gradient)


def test_contiguous_tensors_that_begin_at_any_element():
    q, k, v = tensors()
    g, of_lse = torch.randn_like(q), torch.randn(q.shape[:3], device=DEVICE)
    plain = weft.attention(q, k, v, causal=True, return_lse=True)
    moved = weft.attention(*map(Misaligned.apply, (q, k, v)), causal=True, return_lse=True)
    assert all(map(torch.equal, plain, moved))
    wanted = torch.autograd.grad(plain, (q, k, v), (g, of_lse))
    got = torch.autograd.grad([*map(Misaligned.apply, moved)], (q, k, v), (g, of_lse))
    assert all(map(torch.equal, got, wanted))


def test_a_compiled_function_is_one_graph():
    q, k, v = tensors()

    def function(q, k, v):
        out, lse = weft.attention(q * 1.0, k, v, causal=True, return_lse=True)
        return out.sum() + lse.sum()

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(q, k, v), (q, k, v))
    wanted = torch.autograd.grad(function(q, k, v), (q, k, v))
    assert all(torch.equal(one, other) for one, other in zip(got, wanted, strict=True))


@pytest.mark.slow
def test_what_pytorch_checks_of_operators():
    options = {"right": 0, "scale": 0.25}
    torch.library.opcheck(torch.ops.weft.attention.default, tuple(tensors()), options)


def test_autocast():
    q, k, v = tensors(64, 64, (1, 1), torch.float32, False)
    with torch.autocast(DEVICE, torch.bfloat16):
        out = weft.attention(q, k, v)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, weft.attention(*(each.bfloat16() for each in (q, k, v))))


def test_shapes_without_a_kernel():
    q, k, v = (each.to("meta") for each in tensors(grad=False))
    out, lse = weft.attention(q, k, v, return_lse=True)
    assert (out.shape, out.dtype) == (q.shape, q.dtype)
    assert (lse.shape, lse.dtype) == (q.shape[:3], torch.float32)
    packed = [each[0].transpose(0, 1) for each in (q, k, v)]
    starts = torch.zeros(3, dtype=torch.int32, device="meta")
    out, lse = weft.attention(*packed, cu_seqlens_q=starts, cu_seqlens_k=starts, return_lse=True)
    assert out.shape == packed[0].shape and lse.shape == (2, 70)


def test_mistakes():
    q, k, v = tensors()
    with pytest.raises(weft.WeftError, match="out must be None where PyTorch differentiates or traces"):
        weft.attention(q, k, v, out=torch.empty_like(q))
    for given in ({"k": None}, {"q": None}):
        with pytest.raises(weft.WeftError, match=r"[qk] must be an array, got None"):
            weft.attention(**{"q": q, "k": k, "v": v} | given)
    with pytest.raises(weft.WeftError, match=r"weft\.attention: .*k"):
        weft.attention(q, torch.tensor(1.0), v)
    with pytest.raises(weft.WeftError, match="heads of q must be a multiple of those of k"):
        weft.attention(q[:, :1].repeat(1, 3, 1, 1), k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))
