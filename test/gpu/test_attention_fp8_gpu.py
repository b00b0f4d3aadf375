"""`weft.attention` of e4m3 on the GPU: beside float64, PyTorch with shares of e4m3, and the emulator."""

import math

import pytest
from gpu_marks import SM_90A, with_marks

import weft

LENGTHS = [(1, 1), (64, 128), (113, 203), (799, 3), (1023, 1024), (2048, 2048)]
SIZES = [(64, 64), (96, 96), (128, 128), (192, 128), (256, 256)]
OPTIONS = {"plain": {}, "causal": {"causal": True}, "window": {"window": (100, 7)}}


def exact(given, *, rounded=False, causal=False, window=None):
    """Attention in float64, with shares of e4m3 if `rounded`."""
    import torch

    q, k, v = (given[name].double() * given[f"{name}_scale"][..., None, None] for name in "qkv")
    group, (m, n) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (each.repeat_interleave(group, 1) for each in (k, v))
    place, column = torch.arange(m, device=q.device)[:, None] + n - m, torch.arange(n, device=q.device)
    left, right = (m + n, 0) if causal else window or (m + n, m + n)
    seen = (column <= place + right) & (column >= place - left)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf)
    peak = scores.amax(-1, keepdim=True)
    shares = (scores - torch.where(peak.isinf(), 0, peak)).exp()
    total = shares.sum(-1, keepdim=True)
    if rounded:
        shares = (shares * 256).to(torch.float8_e4m3fn).double() / 256
    return torch.where(total > 0, shares @ v / total, 0)


def tensors(batch, heads, m, n, d, e, seed=0):
    import torch

    torch.manual_seed(seed)
    shapes = {"q": (batch, heads[0], m, d), "k": (batch, heads[1], n, d), "v": (batch, heads[1], n, e)}
    given = {
        name: torch.randn(shape, device="cuda").to(torch.float8_e4m3fn) for name, shape in shapes.items()
    }
    for name in "qkv":
        given[f"{name}_scale"] = torch.rand(shapes[name][:2], device="cuda") * 1.5 + 0.5
    return given


def error(got, wanted):
    return float((got.double() - wanted).square().mean().sqrt())


@with_marks(SM_90A)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("d, e", SIZES)
def test_errors_are_those_of_shares_of_8_bits(d, e, name):
    for m, n in LENGTHS:
        given = tensors(2, (4, 2), m, n, d, e)
        wanted = exact(given, **OPTIONS[name])
        out = weft.attention(**given, **OPTIONS[name])
        allowed = 2 * error(exact(given, rounded=True, **OPTIONS[name]), wanted)
        assert error(out, wanted) <= allowed + 0.01 * float(wanted.square().mean().sqrt()), (m, n)


@with_marks(SM_90A)
def test_the_emulator_agrees_with_the_gpu():
    given = tensors(1, (2, 1), 200, 400, 128, 128)
    on_gpu = weft.attention(**given, causal=True).cpu()
    emulated = weft.attention(**{name: each.cpu() for name, each in given.items()}, causal=True)
    assert (on_gpu.double() - emulated.double()).abs().max() <= 2**-5 * emulated.double().abs().max()


@with_marks(SM_90A)
def test_later_calls_are_planned():
    torch = pytest.importorskip("torch")
    sets = [tensors(2, (8, 2), 300, 300, 128, 128, seed=seed) for seed in range(3)]
    first = [weft.attention(**each, causal=True) for each in sets]
    graph, given = torch.cuda.CUDAGraph(), {name: each.clone() for name, each in sets[0].items()}
    with torch.cuda.graph(graph):
        captured = weft.attention(**given, causal=True)
    for each, wanted in zip(sets, first, strict=True):
        assert torch.equal(weft.attention(**each, causal=True), wanted)
        for name, place in given.items():
            place.copy_(each[name])
        graph.replay()
        assert torch.equal(captured, wanted)


@with_marks(SM_90A)
def test_programs_of_jax():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    given = tensors(1, (4, 2), 300, 300, 128, 128)
    wanted = weft.attention(**given, causal=True)
    of_jax = {name: jax.dlpack.from_dlpack(each) for name, each in given.items() if "scale" in name}
    for name in "qkv":
        bits = jax.dlpack.from_dlpack(given[name].view(torch.uint8))
        of_jax[name] = jax.lax.bitcast_convert_type(bits, jax.numpy.float8_e4m3fn)
    out = jax.jit(lambda given: weft.attention(**given, causal=True))(of_jax)
    assert torch.equal(torch.from_dlpack(out), wanted)


@with_marks(SM_90A)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_scores_that_grow_from_block_to_block(d, causal):
    """Earlier keys, which come last, have far larger scores."""
    import torch

    given = tensors(1, (4, 2), 1024, 1024, d, d)
    for size in (2, 30):
        ramp = torch.linspace(size, 0.1, 1024, device="cuda")[:, None]
        changed = given | {"k": (given["k"].float() * ramp).to(torch.float8_e4m3fn)}
        wanted = exact(changed, causal=causal)
        out = weft.attention(**changed, causal=causal)
        # Of one key that has nearly all, the share may be rounded by up to 1/16.
        assert error(out, wanted) <= 0.04 * float(wanted.square().mean().sqrt())
