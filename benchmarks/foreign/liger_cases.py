"""Liger's functions against PyTorch's."""

from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
import triton_driver
from compared import both, random
from harness import Case

triton_driver.activate(90)

from liger_kernel.transformers import functional as liger  # noqa: E402

BF16 = torch.bfloat16


def rms_norm(x, w, offset=0.0):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (w + offset)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat((-second, first), -1) * sin[:, None]


def rope(q, k, cos, sin):
    return rotate(q, cos, sin), rotate(k, cos, sin)


def mrope(q, k, cos, sin):
    parts = [part.split((4, 4, 8) * 2, -1) for part in (cos, sin)]
    chosen = [torch.cat([piece[i % 3] for i, piece in enumerate(part)], -1) for part in parts]
    return rope(q, k, *chosen)


def jsd(log_q, log_p, beta=0.5):
    log_m = ((1 - beta) * log_q.exp() + beta * log_p.exp()).log()
    kl = partial(F.kl_div, reduction="sum", log_target=True)
    return (beta * kl(log_m, log_p) + (1 - beta) * kl(log_m, log_q)) / len(log_q)


def sparsemax(x):
    values = x.sort(-1, descending=True).values
    sums, at = values.cumsum(-1), torch.arange(1, x.shape[-1] + 1)
    count = (1 + at * values > sums).sum(-1, keepdim=True)
    return (x - (sums.gather(-1, count - 1) - 1) / count).clamp(min=0)


def poly_norm(x, w, b):
    return sum(w[i] * rms_norm(x ** (3 - i), torch.ones(())) for i in range(3)) + b


def attention_of_blocks(v, query, weight):
    scores = torch.einsum("d,nbtd->nbt", query, rms_norm(v, weight))
    return torch.einsum("nbt,nbtd->btd", scores.softmax(0), v)


def neighborhood(q, k, v):
    n = torch.arange(q.shape[2])
    near = (n[:, None] - n).abs() <= 3
    return F.scaled_dot_product_attention(q, k, v, attn_mask=near)


def multi_token(scores, weight, bias):
    n = scores.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    p = scores.masked_fill(later, -torch.inf).softmax(-1)
    return F.conv2d(p, weight, bias, padding=1).masked_fill(later, 0)


def cases() -> Iterator[Case]:
    x, w, b = random(6, 200), random(200), random(1, 200)[0]
    labels = torch.tensor([3, 77, -100, 150, 9, 199])
    for dtype, tolerance in ((torch.float32, 1e-4), (BF16, 4e-2)):
        kind = str(dtype).removeprefix("torch.")
        y, u = x.to(dtype), w.to(dtype)
        rms = partial(liger.liger_rms_norm, eps=1e-6)
        yield f"rms_norm {kind}", both(rms, rms_norm, y, u, tolerance=tolerance)
        yield (
            f"layer_norm {kind}",
            both(
                partial(liger.liger_layer_norm, eps=1e-5),
                lambda x, w, b: F.layer_norm(x, w.shape, w, b),
                *(y, u, b.to(dtype)),
                tolerance=tolerance,
            ),
        )
        yield (
            f"cross_entropy {kind}",
            both(liger.liger_cross_entropy, F.cross_entropy, y, labels, tolerance=tolerance),
        )
        yield (
            f"swiglu {kind}",
            both(liger.liger_swiglu, lambda a, b: F.silu(a) * b, y, -y, tolerance=tolerance),
        )
        yield (
            f"geglu {kind}",
            both(
                liger.liger_geglu, lambda a, b: F.gelu(a, approximate="tanh") * b, y, -y, tolerance=tolerance
            ),
        )
        yield (
            f"softmax {kind}",
            both(liger.liger_softmax, partial(torch.softmax, dim=-1), y, tolerance=tolerance),
        )
    yield (
        "rms_norm gemma",
        both(
            partial(liger.liger_rms_norm, eps=1e-6, offset=1.0, casting_mode="gemma", in_place=False),
            partial(rms_norm, offset=1.0),
            *(x, w),
        ),
    )
    yield (
        "rms_norm wide",
        both(partial(liger.liger_rms_norm, eps=1e-6), rms_norm, random(3, 5000), random(5000)),
    )
    yield (
        "fused_add_rms_norm",
        both(
            partial(liger.liger_fused_add_rms_norm, eps=1e-6),
            lambda x, r, w: (rms_norm(x + r, w), x + r),
            x,
            2 * x,
            w,
        ),
    )
    yield (
        "modulated_rms_norm",
        both(
            liger.liger_modulated_rms_norm,
            lambda x, w, s, t: rms_norm(x, w) * (1 + s[:, None]) + t[:, None],
            *(random(2, 3, 200), w, random(2, 200), random(2, 200) * 0.5),
        ),
    )
    yield (
        "group_norm",
        both(
            lambda x, w, b: liger.liger_group_norm(x, w, b, 6, 3, 1e-5),
            lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5),
            *(random(2, 6, 40), random(6), random(6) * 0.5),
        ),
    )
    yield "poly_norm", both(liger.liger_poly_norm, poly_norm, x, random(3), random(1)[0])
    yield (
        "dyt",
        both(liger.liger_dyt, lambda x, a, g, b: g * torch.tanh(a * x) + b, x, random(1), w, b),
    )
    yield "relu_squared", both(liger.liger_relu_squared, lambda x: F.relu(x).square(), x)
    yield "sparsemax", both(liger.liger_sparsemax, sparsemax, x)
    yield (
        "attn_res",
        both(liger.liger_attn_res, attention_of_blocks, random(4, 2, 3, 64), random(64), 1 + random(64)),
    )
    q, k = random(2, 4, 10, 32), random(2, 2, 10, 32)
    angles = torch.cat([random(2, 10, 16)] * 2, -1)
    rotary = (
        lambda q, k: liger.liger_rope(q, k, angles.cos(), angles.sin()),
        lambda q, k: rope(q, k, angles.cos(), angles.sin()),
    )
    yield "rope", both(*rotary, q, k)
    three = torch.cat([random(3, 2, 10, 16)] * 2, -1)
    yield (
        "qwen2vl_mrope",
        both(
            lambda q, k: liger.liger_qwen2vl_mrope(q, k, three.cos(), three.sin(), [4, 4, 8]),
            lambda q, k: mrope(q, k, three.cos(), three.sin()),
            *(q, k),
        ),
    )
    for name, options in {
        "smoothed": {"label_smoothing": 0.1},
        "sum": {"reduction": "sum"},
        "none": {"reduction": "none"},
    }.items():
        yield (
            f"cross_entropy {name}",
            both(
                partial(liger.liger_cross_entropy, **options),
                partial(F.cross_entropy, **options),
                x,
                labels,
                backward=name != "none",
            ),
        )
    yield (
        "cross_entropy softcap",
        both(
            partial(liger.liger_cross_entropy, softcap=30.0, lse_square_scale=1e-3),
            lambda x, t: (
                F.cross_entropy(30 * torch.tanh(x / 30), t)
                + 1e-3 * (torch.logsumexp(30 * torch.tanh(x / 30), -1)[t >= 0] ** 2).mean()
            ),
            *(x, labels),
        ),
    )
    log_q, log_p = x.log_softmax(-1), (x * 0.5 + 1).roll(3, -1).log_softmax(-1)
    for beta in (0.5, 0.1):
        yield (
            f"jsd {beta}",
            both(
                partial(liger.liger_jsd, beta=beta),
                partial(jsd, beta=beta),
                log_q,
                log_p.clone(),
                backward=False,
            ),
        )
    yield (
        "kl_div",
        both(
            partial(liger.liger_kl_div, reduction="batchmean"),
            lambda q, p: F.kl_div(q, p, reduction="batchmean"),
            *(log_q, log_p.exp()),
            backward=False,
        ),
    )
    yield (
        "tvd",
        both(
            partial(liger.liger_tvd, reduction="batchmean"),
            lambda q, p: (q - p).abs().sum() / 2 / len(q),
            *(log_q.exp(), log_p.exp()),
            backward=False,
        ),
    )
    h, m = random(6, 64), random(200, 64) * 0.3
    yield (
        "fused_linear_cross_entropy",
        both(
            liger.liger_fused_linear_cross_entropy, lambda h, m, t: F.cross_entropy(h @ m.T, t), h, m, labels
        ),
    )
    yield (
        "fused_linear_jsd",
        both(
            lambda h, m, g, n: liger.liger_fused_linear_jsd(h, m, g, n),
            lambda h, m, g, n: jsd((h @ m.T).log_softmax(-1), (g @ n.T).log_softmax(-1)),
            *(h, m, 2 * h, m.roll(1, 0)),
            backward=False,
        ),
    )
    n = [random(1, 2, 24, 32) * s for s in (1.0, 0.9, 0.8)]
    yield (
        "fused_neighborhood_attention",
        both(liger.liger_fused_neighborhood_attention, neighborhood, *n, tolerance=5e-3),
    )
    yield (
        "multi_token_attention",
        both(
            partial(liger.liger_multi_token_attention, padding=1),
            multi_token,
            *(random(1, 2, 20, 20), random(2, 2, 3, 3), random(2)),
        ),
    )
