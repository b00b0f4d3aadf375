"""flash-linear-attention's functions against recurrences in PyTorch."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
import triton_driver
from compared import both, random
from harness import Case

triton_driver.activate(90)

from fla import modules, ops  # noqa: E402
from fla.modules import activations  # noqa: E402
from fla.modules.causal_conv1d import causal_conv1d  # noqa: E402
from fla.modules.norm.l2norm import l2norm  # noqa: E402
from fla.ops import utils  # noqa: E402

# Batch, time (of one and a part of the second chunk), heads, and the width of keys and values.
B, T, H, K = 1, 80, 2, 32


def recurrence(q, k, v, decay=None, beta=None, bonus=None, remove=None, scale=K**-0.5):
    """Linear attention: o = q S of S = exp(decay) S + k (beta (v - remove S))."""
    state = q.new_zeros(*q.shape[:1], *q.shape[2:], v.shape[-1])
    made = []
    for t in range(q.shape[1]):
        key, value = k[:, t], v[:, t]
        if bonus is not None:  # RWKV-6: the state before it decays, and the bonus of the current value
            new = torch.einsum("bhk,bhv->bhkv", key, value)
            made.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * scale, state + bonus[..., None] * new))
            state = state * decay[:, t].exp()[..., None] + new
            continue
        if decay is not None:
            state = state * decay[:, t].exp().reshape(*decay.shape[:1], H, -1, 1)
        if remove is not None:
            value = (value - torch.einsum("bhk,bhkv->bhv", remove[:, t], state)) * beta[:, t, :, None]
        state = state + torch.einsum("bhk,bhv->bhkv", key, value)
        made.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * scale, state))
    return torch.stack(made, 1)


def delta(q, k, v, beta, decay=None):
    return recurrence(q, k, v, decay, beta, remove=k)


def first(function: Callable[..., object], **options: object) -> Callable[..., object]:
    """The function's first result."""

    def run(*args):
        made = function(*args, **options)
        return made[0] if isinstance(made, tuple) else made

    return run


def attention(q, k, v, g=None):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = q @ k.mT * K**-0.5
    if g is not None:
        sums = g.transpose(1, 2).cumsum(-1)
        scores = scores + sums[..., :, None] - sums[..., None, :]
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    return (scores.masked_fill(later, -torch.inf).softmax(-1) @ v).transpose(1, 2)


def hgrn(x, g):
    state, made = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = g[:, t].exp() * state + x[:, t]
        made.append(state)
    return torch.stack(made, 1)


def based(q, k, v):
    scores = torch.einsum("bthk,bshk->bhts", q, k) * q.shape[-1] ** -0.5
    scores = (1 + scores + scores.square() / 2).tril()
    out = torch.einsum("bhts,bshv->bthv", scores, v)
    return out / (scores.sum(-1).transpose(1, 2)[..., None] + 1e-6)


def slots(q, k, v, s, g):
    """Gated slot attention: two recurrences with a softmax between them."""
    scores = recurrence(q, k, s, None, scale=K**-0.5) if g is None else _slots(q, k, s, g, K**-0.5)
    return _slots(scores.softmax(-1), s, v, g, 1.0, by_key=True)


def _slots(q, k, v, g, scale, by_key=False):
    state, made = q.new_zeros(*q.shape[:1], H, k.shape[-1], v.shape[-1]), []
    for t in range(q.shape[1]):
        kept = g[:, t].exp()
        state = state * (kept[..., None] if by_key else kept[..., None, :])
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], v[:, t])
        made.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * scale, state))
    return torch.stack(made, 1)


def conv(x, w, b):
    padded = F.pad(x.transpose(1, 2), (w.shape[-1] - 1, 0))
    return F.silu(F.conv1d(padded, w[:, None], b, groups=len(w))).transpose(1, 2)


def gated_rms(x, g, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w * F.silu(g)


def recurrent_cases() -> Iterator[Case]:
    q, k, v = (random(B, T, H, K + i) * 0.5 for i in range(3))
    q, k, v = (x[..., :K].contiguous() for x in (q, k, v))
    unit = F.normalize(k, dim=-1)
    gate = F.logsigmoid(random(B, T, H, K))
    head_gate, beta = F.logsigmoid(random(B, T, H)), random(B, T, H).sigmoid()
    gammas = (1 - 2.0 ** (-5 - torch.arange(H))).log().expand(B, T, H)
    for name, args, expected, functions in (
        (
            "linear_attn",
            (q, k, v),
            recurrence,
            {
                "chunk": partial(ops.chunk_linear_attn, normalize=False),
                "fused_chunk": partial(ops.fused_chunk_linear_attn, normalize=False),
                "fused_recurrent": partial(ops.fused_recurrent_linear_attn, normalize=False),
            },
        ),
        (
            "gla",
            (q, k, v, gate),
            recurrence,
            {n: getattr(ops, f"{n}_gla") for n in ("chunk", "fused_recurrent")},
        ),
        (
            "simple_gla",
            (q, k, v, head_gate),
            recurrence,
            {n: getattr(ops, f"{n}_simple_gla") for n in ("chunk", "fused_recurrent", "parallel")},
        ),
        (
            "retention",
            (q, k, v),
            lambda q, k, v: recurrence(q, k, v, gammas),
            {n: getattr(ops, f"{n}_retention") for n in ("chunk", "fused_recurrent", "parallel")},
        ),
        ("delta_rule", (q, unit, v, beta), delta, {"fused_recurrent": ops.fused_recurrent_delta_rule}),
        (
            "gated_delta_rule",
            (q, unit, v, head_gate, beta),
            lambda q, k, v, g, b: delta(q, k, v, b, g),
            {
                "chunk": ops.chunk_gated_delta_rule,
                "fused_recurrent": lambda q, k, v, g, b: ops.fused_recurrent_gated_delta_rule(
                    q, k, v, g, beta=b
                ),
            },
        ),
        (
            "kda",
            (q, unit, v, gate, beta),
            lambda q, k, v, g, b: delta(q, k, v, b, g),
            {n: getattr(ops, f"{n}_kda") for n in ("chunk", "fused_recurrent")},
        ),
        (
            "rwkv6",
            (q, k, v, gate, random(H, K)),
            lambda r, k, v, w, u: recurrence(r, k, v, w, bonus=u),
            {n: getattr(ops, f"{n}_rwkv6") for n in ("chunk", "fused_recurrent")},
        ),
        (
            "gsa",
            (q, k, v, random(B, T, H, 16).contiguous(), F.logsigmoid(random(B, T, H, 16))),
            slots,
            {n: getattr(ops, f"{n}_gsa") for n in ("chunk", "fused_recurrent")},
        ),
        (
            "hgrn",
            (random(B, T, 40), F.logsigmoid(random(B, T, 40))),
            hgrn,
            {"fused_recurrent": ops.fused_recurrent_hgrn},
        ),
        (
            "based",
            (q[..., :16].contiguous(), k[..., :16].contiguous(), v),
            based,
            {n: getattr(ops, f"{n}_based") for n in ("parallel", "fused_chunk")},
        ),
        ("attn", (q, k, v), attention, {"parallel": ops.parallel_attn}),
        ("forgetting_attn", (q, k, v, head_gate), attention, {"parallel": ops.parallel_forgetting_attn}),
    ):
        for how, function in functions.items():
            # Only chunks compute all gradients.
            forward = how == "fused_recurrent" and name in ("gated_delta_rule", "kda")
            yield (
                f"{how}_{name}",
                both(first(function), expected, *args, backward=not forward, tolerance=2e-2),
            )
    half = [x.bfloat16() for x in (q, k, v)]
    yield (
        "chunk_simple_gla bf16",
        both(
            first(ops.chunk_simple_gla),
            lambda *args: recurrence(*(x.float() for x in args)),
            *half,
            head_gate,
            tolerance=6e-2,
        ),
    )
    yield (
        "chunk_delta_rule bf16",
        both(
            first(ops.chunk_delta_rule),
            lambda *args: delta(*(x.float() for x in args)),
            *(x.bfloat16() for x in (q, unit, v, beta)),
            tolerance=6e-2,
        ),
    )
    yield "parallel_attn bf16", both(ops.parallel_attn, attention, *half, tolerance=6e-2)


def module_cases() -> Iterator[Case]:
    x, w = random(7, 96), random(96)
    yield (
        "rms_norm_gated",
        both(
            lambda x, g, w: modules.norm.fused_norm_gate.rms_norm_gated(x, g, w, None, "swish"),
            gated_rms,
            x,
            -x,
            w,
        ),
    )
    yield "l2norm", both(l2norm, lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6), x)
    yield (
        "layer_norm",
        both(
            lambda x, w, b: modules.norm.layernorm.layer_norm(x, w, b),
            lambda x, w, b: F.layer_norm(x, w.shape, w, b),
            x,
            w,
            w + 1,
        ),
    )
    yield (
        "causal_conv1d",
        both(
            lambda x, w, b: first(causal_conv1d, activation="silu")(x, w, b),
            conv,
            random(B, T, 40),
            random(40, 4),
            random(40),
        ),
    )
    yield "swish", both(activations.swish, F.silu, x)
    yield "logsigmoid", both(activations.logsigmoid, F.logsigmoid, x)
    yield "swiglu", both(activations.swiglu, lambda x, y: F.silu(x) * y, x, -x)
    yield "sqrelu", both(activations.sqrelu, lambda x: F.relu(x).square(), x)
    yield (
        "rotary",
        both(
            modules.rotary.rotary_embedding,
            lambda x, c, s: torch.cat(
                (
                    x[..., :16] * c[:, None] - x[..., 16:] * s[:, None],
                    x[..., :16] * s[:, None] + x[..., 16:] * c[:, None],
                ),
                -1,
            ),
            *(random(B, T, H, 32), random(T, 16).cos(), random(T, 16).sin()),
            backward=False,
        ),
    )
    labels = torch.tensor([3, 77, -100, 50, 9, 95, 0])
    yield (
        "cross_entropy",
        both(lambda x, t: modules.FusedCrossEntropyLoss()(x, t), F.cross_entropy, x, labels),
    )
    yield (
        "kl_div",
        both(
            lambda h, g, w, u: modules.FusedKLDivLoss("batchmean")(h, g, w, u),
            lambda h, g, w, u: F.kl_div(
                (h @ w.T).log_softmax(-1), (g @ u.T).softmax(-1), reduction="batchmean"
            ),
            *(x, 2 * x, random(50, 96) * 0.2, random(50, 96).roll(1, 0) * 0.1),
            backward=False,
        ),
    )
    yield (
        "token_shift",
        both(modules.token_shift.token_shift, lambda x: F.pad(x, (0, 0, 1, -1)) - x, random(2, T, 40)),
    )
    scalars, vectors = random(B, T, H), random(B, T, H, K)
    yield (
        "global_cumsum",
        both(utils.chunk_global_cumsum, partial(torch.cumsum, dim=1), vectors, backward=False),
    )
    yield (
        "global_cumsum of scalars",
        both(utils.chunk_global_cumsum, partial(torch.cumsum, dim=1), scalars, backward=False),
    )
    yield (
        "local_cumsum",
        both(
            partial(utils.chunk_local_cumsum, chunk_size=16),
            lambda x: x.unflatten(1, (-1, 16)).cumsum(2).flatten(1, 2),
            *(vectors,),
            backward=False,
        ),
    )
    yield (
        "mean_pooling",
        both(partial(utils.mean_pooling, chunk_size=16), lambda x: x.unflatten(1, (-1, 16)).mean(2), vectors),
    )
    yield "softmax", both(utils.softmax_fwd, partial(torch.softmax, dim=-1), x, backward=False)
    yield "logsumexp", both(utils.logsumexp_fwd, partial(torch.logsumexp, dim=-1), x, backward=False)
    lower = (random(B, T, H, 64) * 0.1).view(B, T, H, 64)
    strict = torch.arange(64) < (torch.arange(T) % 64)[:, None]
    lower = lower * strict[None, :, None]
    yield "solve_tril", both(utils.solve_tril, inverses, lower, backward=False, tolerance=1e-3)
    a, b = random(70, 48), random(48, 40)
    yield "matmul", both(utils.matmul, torch.matmul, a, b, tolerance=2e-3, backward=False)
    yield "addmm", both(utils.addmm, torch.addmm, random(70, 40), a, b, tolerance=2e-3, backward=False)


def inverses(lower):
    """(1 + L)^-1 of each chunk's strictly lower triangle."""
    made = torch.zeros_like(lower)
    for begin in range(0, T, 64):
        rows = lower[:, begin : begin + 64]
        n = rows.shape[1]
        square = rows.transpose(1, 2)[..., :n] + torch.eye(n)
        made[:, begin : begin + n, :, :n] = square.inverse().transpose(1, 2)
    return made


def cases() -> Iterator[Case]:
    yield from module_cases()
    yield from recurrent_cases()
