"""`weft.attention` on the GPU: output, lse and gradients beside float64 and PyTorch in the same precision."""

import math

import pytest
from gpu_marks import SM_90A, with_marks
from test_attention_large_gradients import MIXED, apart, check, near
from test_attention_large_gradients import exact as gradients_of

import weft
from weft.attend import plans

LENGTHS = [(1, 1), (64, 128), (113, 203), (108, 256), (799, 3), (1023, 1024), (1024, 1023), (2048, 2048)]
SIZES = [(64, 64), (72, 40), (96, 96), (128, 128), (192, 128), (256, 256)]
OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (100, 7)},
    "left window": {"window": (37, None)},
    "softcap": {"causal": True, "softcap": 15.0},
    "sinks": {"causal": True, "sinks": True},
}


def exact(q, k, v, *, causal=False, window=None, softcap=None, sinks=None):
    """Attention by PyTorch's operations, in the precision of its arguments."""
    import torch

    group, (m, n) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (each.repeat_interleave(group, 1) for each in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    left, right = window or (None, None)
    right = 0 if causal else right
    position = torch.arange(m, device=q.device)[:, None] + n - m
    column = torch.arange(n, device=q.device)
    hidden = torch.zeros(m, n, dtype=torch.bool, device=q.device)
    hidden |= False if right is None else column > position + right
    hidden |= False if left is None else column < position - left
    scores = scores.masked_fill(hidden, -math.inf)
    if sinks is not None:
        more = sinks.to(scores.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, more], 3)
    shares = torch.softmax(scores, 3).nan_to_num(0.0)[..., :n]
    return shares @ v, torch.logsumexp(scores, 3)


def tensors(batch, heads, m, n, d, e, dtype="bfloat16", seed=0):
    import torch

    torch.manual_seed(seed)
    shapes = ((heads[0], m, d), (heads[1], n, d), (heads[1], n, e))
    kind = getattr(torch, dtype)
    return [torch.randn(batch, *shape, device="cuda", dtype=kind).requires_grad_() for shape in shapes]


def no_worse(got, wanted, plain, factor=2):
    """FlashAttention's rule: at most twice the error of PyTorch in the same precision, and a little more."""
    slack = 2 * ((wanted + 0.3 - 0.3) - wanted).abs().max() + 1e-4
    bound = factor * (plain.double() - wanted).abs().max() + slack
    assert (got.double() - wanted).abs().max() <= bound


@with_marks(SM_90A)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("d, e", SIZES)
@pytest.mark.parametrize("m, n", LENGTHS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_forward_and_backward(m, n, d, e, name, deterministic):
    torch = pytest.importorskip("torch")
    options = dict(OPTIONS[name])
    if "sinks" in options:
        options["sinks"] = torch.linspace(-1, 2, 4, device="cuda")
    q, k, v = tensors(2, (4, 2), m, n, d, e)
    out, lse = weft.attention(q, k, v, return_lse=True, deterministic=deterministic, **options)
    g = torch.randn_like(out)
    doubles = [each.detach().double().requires_grad_() for each in (q, k, v)]
    wanted, sums = exact(*doubles, **options)
    plain, _ = exact(q, k, v, **options)
    factor = 3 if "softcap" in options else 2
    no_worse(out, wanted, plain, factor)
    finite = sums.isfinite()
    assert torch.equal(lse.isfinite(), finite)
    assert torch.allclose(lse[finite].double(), sums[finite], atol=2e-2 if "softcap" in options else 1e-3)
    of_wanted = torch.autograd.grad(wanted, doubles, g.double())
    of_plain = torch.autograd.grad(plain, (q, k, v), g)
    for _ in range(2):  # the second time by a plan
        got = torch.autograd.grad(out, (q, k, v), g, retain_graph=True)
        for one, other, third in zip(got, of_wanted, of_plain, strict=True):
            no_worse(one, other.nan_to_num(0.0), third.nan_to_num(0.0), factor + 1)


@with_marks(SM_90A)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (300, 20)}], ids=str)
@pytest.mark.parametrize("tokens", [1000, 4096])
def test_gradients_of_many_heads(tokens, options):
    """CTAs prepare rows of later heads, and with 4096 tokens convert the sums of earlier ones."""
    torch = pytest.importorskip("torch")
    q, k, v = tensors(8, (32, 16), tokens, tokens, 128, 128)
    outs = [weft.attention(q, k, v, deterministic=each, **options) for each in (False, True)]
    g = torch.randn_like(outs[0])
    wanted = torch.autograd.grad(outs[1], (q, k, v), g)
    for _ in range(3):
        got = torch.autograd.grad(outs[0], (q, k, v), g, retain_graph=True)
        for one, other in zip(got, wanted, strict=True):
            assert (one - other).abs().max() <= 0.01 * other.abs().max()


@with_marks(SM_90A)
@pytest.mark.parametrize("by_option", [True, False])
def test_deterministic_gradients_have_the_same_bits_in_each_run(by_option):
    torch = pytest.importorskip("torch")
    q, k, v = tensors(2, (8, 2), 1000, 1000, 128, 128)
    out = weft.attention(q, k, v, causal=True, deterministic=by_option)
    g = torch.randn_like(out)
    torch.use_deterministic_algorithms(not by_option)
    try:
        first = torch.autograd.grad(out, (q, k, v), g, retain_graph=True)
        for _ in range(5):
            again = torch.autograd.grad(out, (q, k, v), g, retain_graph=True)
            assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    finally:
        torch.use_deterministic_algorithms(False)


@with_marks(SM_90A)
@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("splits", [None, 1, 5, 64])
@pytest.mark.parametrize("m", [1, 3])
def test_decoding(m, splits, layout):
    torch = pytest.importorskip("torch")
    q, k, v = tensors(3, (16, 2), m, 5000, 128, 128)
    lengths = torch.tensor([5000, 77, 1], device="cuda", dtype=torch.int32)
    turned = [each.transpose(1, 2).contiguous() if layout == "bthd" else each for each in (q, k, v)]
    with torch.no_grad():
        out = weft.attention(*turned, lengths=lengths, causal=True, splits=splits, layout=layout)
    out = out.transpose(1, 2) if layout == "bthd" else out
    for number, length in enumerate(lengths.tolist()):
        parts = [q[number : number + 1], *(x[number : number + 1, :, :length] for x in (k, v))]
        wanted = exact(*(each.double() for each in parts), causal=True)[0]
        no_worse(out[number : number + 1], wanted, exact(*parts, causal=True)[0])


@with_marks(SM_90A)
@pytest.mark.parametrize("heads, d", [((20, 1), 64), ((80, 1), 256), ((3, 3), 96)])
def test_decoding_by_heads_that_share_keys(heads, d):
    torch, options = pytest.importorskip("torch"), {"window": (2000, 0), "softcap": 20.0}
    with torch.no_grad():
        arrays = tensors(2, heads, 1, 3000, d, d)
        out = weft.attention(*arrays, **options)
        wanted = exact(*(each.double() for each in arrays), **options)[0]
        no_worse(out, wanted, exact(*arrays, **options)[0])


@with_marks(SM_90A)
@pytest.mark.parametrize("page", [16, 64, 128, 256])
def test_pages(page):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    pages = torch.randn(2, 200, 2, page, 128, device="cuda", dtype=torch.bfloat16)
    table = torch.randperm(200, device="cuda", dtype=torch.int32)[: 4 * 40].view(4, 40)
    lengths = torch.tensor([40 * page, 1, 3 * page, 333], device="cuda", dtype=torch.int32)
    q = torch.randn(4, 8, 1, 128, device="cuda", dtype=torch.bfloat16)
    out = weft.attention(q, *pages, page_table=table, lengths=lengths, causal=True)
    for number, length in enumerate(lengths.tolist()):
        k, v = (
            torch.cat([*each[table[number].long()]], 1)[None, :, :length] for each in (pages[0], pages[1])
        )
        parts = q[number : number + 1], k, v
        wanted = exact(*(each.double() for each in parts), causal=True)[0]
        no_worse(out[number : number + 1], wanted, exact(*parts, causal=True)[0])


@with_marks(SM_90A)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences(causal):
    torch = pytest.importorskip("torch")
    lengths = [100, 0, 777, 1, 128, 2048]
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(sum(lengths), heads, 128, device="cuda", dtype=torch.bfloat16).requires_grad_()
        for heads in (4, 2, 2)
    )
    out = weft.attention(q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, causal=causal)
    g = torch.randn_like(out)
    got = torch.autograd.grad(out, (q, k, v), g)
    for first, end in zip(starts.tolist(), starts.tolist()[1:], strict=False):
        if first == end:
            continue
        parts = [each.detach()[first:end].transpose(0, 1)[None] for each in (q, k, v)]
        doubles = [each.double().requires_grad_() for each in parts]
        plains = [each.clone().requires_grad_() for each in parts]
        of_out = g[first:end].transpose(0, 1)[None]
        (wanted, _), (plain, _) = (exact(*each, causal=causal) for each in (doubles, plains))
        no_worse(out[first:end].transpose(0, 1)[None], wanted, plain)
        of_wanted = torch.autograd.grad(wanted, doubles, of_out.double())
        of_plain = torch.autograd.grad(plain, plains, of_out)
        for one, other, third in zip(got, of_wanted, of_plain, strict=True):
            no_worse(one[first:end].transpose(0, 1)[None], other, third, 3)


@with_marks(SM_90A)
def test_the_emulator_agrees_with_the_gpu():
    torch = pytest.importorskip("torch")
    results = []
    for device in ("cuda", "cpu"):
        q, k, v = (each.detach().to(device).requires_grad_() for each in tensors(1, (2, 1), 200, 200, 64, 64))
        out = weft.attention(q, k, v, causal=True)
        results.append([out, *torch.autograd.grad(out.float().square().sum(), (q, k, v))])
    for one, other in zip(*results, strict=True):
        assert (one.cpu().double() - other.double()).abs().max() <= 2**-6 * other.abs().max()


@with_marks(SM_90A)
def test_programs_of_jax():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    tensors_ = tensors(1, (4, 2), 300, 300, 128, 128)
    q, k, v = (jax.dlpack.from_dlpack(each.detach()) for each in tensors_)
    out = weft.attention(*tensors_, causal=True, deterministic=True)
    wanted = torch.autograd.grad(out.float().sum(), tensors_)

    def loss(q, k, v):
        return weft.attention(q, k, v, causal=True).astype("float32").sum()

    for _ in range(3):
        got = jax.jit(jax.grad(loss, (0, 1, 2)))(q, k, v)
        for one, other in zip(got, wanted, strict=True):
            assert torch.equal(torch.from_dlpack(one), other)


@with_marks(SM_90A)
def test_compiled_and_captured():
    torch = pytest.importorskip("torch")
    q, k, v = tensors(2, (4, 4), 512, 512, 128, 128)

    def loss(q, k, v):
        return weft.attention(q, k, v, causal=True).float().square().sum()

    compiled = torch.compile(loss, fullgraph=True)
    got = torch.autograd.grad(compiled(q, k, v), (q, k, v))
    wanted = torch.autograd.grad(loss(q, k, v), (q, k, v))
    assert all(
        torch.allclose(one, other, atol=2e-2, rtol=2e-2) for one, other in zip(got, wanted, strict=True)
    )
    with torch.no_grad():
        expected = weft.attention(q, k, v, causal=True)
        graph, out = torch.cuda.CUDAGraph(), torch.zeros_like(expected)
        with torch.cuda.graph(graph):
            weft.attention(q, k, v, causal=True, out=out)
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


@with_marks(SM_90A)
@pytest.mark.parametrize("m, n", [(300, 300), (1, 8192)], ids=["forward", "decode"])
def test_calls_with_a_plan_have_the_results_of_first_calls(m, n, monkeypatch):
    torch = pytest.importorskip("torch")
    options = {"causal": True, "sinks": torch.linspace(-1, 2, 8, device="cuda", dtype=torch.bfloat16)}
    sets = [[each.detach() for each in tensors(2, (8, 2), m, n, 128, 128, seed=seed)] for seed in range(3)]
    wanted = []
    for each in sets:
        monkeypatch.setattr(plans, "_plans", plans.Plans(8))
        wanted.append(weft.attention(*each, return_lse=True, **options))
    known = plans._plans
    stream, out = torch.cuda.Stream(), torch.empty_like(wanted[0][0])
    for _ in range(2):
        for each, (result, lse) in zip(sets, wanted, strict=True):
            got = weft.attention(*each, return_lse=True, **options)
            assert torch.equal(got[0], result) and torch.equal(got[1], lse)
            assert torch.equal(weft.attention(*each, out=out, **options), result)
            with torch.cuda.stream(stream):
                stream.wait_stream(torch.cuda.default_stream())
                on_stream = weft.attention(*each, **options)
            stream.synchronize()
            assert torch.equal(on_stream, result)
    assert len(known) == 2  # with out and without
    graph, (inputs, *_) = torch.cuda.CUDAGraph(), sets
    inputs = [each.clone() for each in inputs]
    with torch.cuda.graph(graph):
        captured = weft.attention(*inputs, **options)
    for each, (result, _) in zip(sets, wanted, strict=True):
        for place, given in zip(inputs, each, strict=True):
            place.copy_(given)
        graph.replay()
        assert torch.equal(captured, result)


@with_marks(SM_90A)
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("value", [1200.0, 133120.0, 2.0**60])
@pytest.mark.parametrize("m", [1, 20, 300])
@pytest.mark.parametrize("d", [64, 128])
def test_equal_scores_of_any_size_have_equal_shares(d, m, value, splits):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    q, k = (torch.full((2, 4, rows, d), value, device="cuda", dtype=torch.bfloat16) for rows in (m, 500))
    v = torch.randn(2, 4, 500, d, device="cuda", dtype=torch.bfloat16)
    out, lse = weft.attention(q, k, v, splits=splits, return_lse=True)
    assert (out.double() - v.double().mean(2, keepdim=True)).abs().max() < 2e-3
    wanted = q[..., :1, :1].double().square() * d / math.sqrt(d) + math.log(500)
    assert (lse.double() / wanted[..., 0] - 1).abs().max() < 1e-6


@with_marks(SM_90A)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("options", [{}, {"causal": True}], ids=str)
@pytest.mark.parametrize("d", [64, 128, 256])
def test_gradients_of_large_scores(d, options, deterministic):
    """Products of queries and keys have the same bits with either of them first."""
    torch = pytest.importorskip("torch")
    for made in (near(330, 300, MIXED, d=d, heads=(4, 2)), apart(330, 300, d=d, heads=(4, 2))):
        q, k, v, g = (torch.tensor(each.astype("float32"), device="cuda").bfloat16() for each in made)
        inputs = [each.requires_grad_() for each in (q, k, v)]
        out = weft.attention(*inputs, scale=1.0, deterministic=deterministic, **options)
        got = [each.float().cpu().numpy() for each in torch.autograd.grad(out, inputs, g)]
        check(got, gradients_of(*made, **options), made[0].dtype.type)
