"""Attention, products with 4-bit weights and casts under `torch.vmap` and `torch.func`."""

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.nn import Int4Linear  # noqa: E402

F16, BF16 = torch.float16, torch.bfloat16


def attended(q, k, v):
    return weft.attention(q, k, v, causal=True)


def scores(q, k, v):
    return attended(q, k, v).float().square().sum()


def cast(x):
    made = weft.quantize(x)
    return made.values, made.scales


def tensors(device, members=2, tokens=16):
    torch.manual_seed(0)
    return [torch.randn(members, 1, 1, tokens, 64).to(device, F16) for _ in "qkv"]


@pytest.mark.filterwarnings("error")
def test_rules_exist_for_every_operator():
    """Without one, PyTorch warns that its fallback is slow, or has none."""
    q, k, v = tensors("meta")
    assert torch.vmap(attended)(q, k, v).shape == q.shape
    assert torch.vmap(attended, (1, 0, None), 1)(q.movedim(0, 1), k, v[0]).shape == (1, 2, 1, 16, 64)
    assert torch.vmap(torch.func.grad(scores))(q, k, v).shape == q.shape
    layer = Int4Linear.of(torch.nn.Linear(96, 40, dtype=BF16), group=32).to("meta")
    x = torch.empty(2, 3, 96, dtype=BF16, device="meta")
    assert torch.vmap(layer)(x).shape == (2, 3, 40)
    assert torch.vmap(torch.func.grad(lambda x: layer(x).float().sum()))(x).shape == x.shape
    assert [each.shape for each in torch.vmap(cast)(x)] == [(2, 3, 96), (2, 1)]


def test_casts_of_each_member_have_scales_of_their_own():
    x = torch.stack([torch.ones(16, 32), torch.full((16, 32), 4.0)])
    _, scales = torch.vmap(cast)(x)
    assert torch.allclose(scales.flatten(), torch.tensor([1 / 448, 4 / 448]))


@pytest.mark.slow
def test_members_are_computed_as_alone():
    q, k, v = tensors("cpu")
    assert torch.equal(torch.vmap(attended)(q, k, v), torch.stack([*map(attended, q, k, v)]))
    found = torch.vmap(torch.func.grad(scores, (0, 1, 2)))(q, k, v)
    for number in range(2):
        inputs = [each[number].clone().requires_grad_() for each in (q, k, v)]
        for one, other in zip(found, torch.autograd.grad(scores(*inputs), inputs), strict=True):
            assert torch.allclose(one[number], other, atol=2e-3)
    layer = Int4Linear.of(torch.nn.Linear(96, 40, dtype=BF16), group=32)
    x = torch.randn(2, 3, 96).to(BF16)
    assert torch.equal(torch.vmap(layer)(x), torch.stack([*map(layer, x)]))
    y = x.clone().requires_grad_()
    wanted = torch.autograd.grad(layer(y).float().square().sum(), y)[0]
    assert torch.equal(torch.func.grad(lambda x: layer(x).float().square().sum())(x), wanted)
