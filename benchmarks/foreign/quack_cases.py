"""quack's functions against PyTorch: python run.py quack. FOREIGN_CHIP is the chip."""

import os
from collections.abc import Iterator
from functools import partial

import cute_driver
import torch
import torch.nn.functional as F
from compared import both, random
from harness import Case

CHIP = os.environ["FOREIGN_CHIP"]
os.environ["QUACK_CACHE_ENABLED"] = "0"
cute_driver.activate(CHIP)

import quack  # noqa: E402
from quack import gemm_interface, linear, mlp  # noqa: E402
from quack.linear_cross_entropy import chunked_linear_cross_entropy  # noqa: E402
from quack.rmsnorm import layernorm_fwd  # noqa: E402
from quack.rotary import apply_rotary_emb  # noqa: E402
from quack.topk import topk  # noqa: E402

half = partial(random, dtype=torch.bfloat16)


def rms(x, w=None, b=None, residual=None, offset=0.0):
    x = x.float() if residual is None else x.float() + residual.float()
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    y = y if w is None else y * (w.float() + offset)
    return y if b is None else y + b


def sum_and_scale(a, b, c):
    total = a @ b + c
    return total, torch.rsqrt(total.square().mean(-1) + 1e-6)


def rotary(x, cos, sin):
    first, second = x.float().chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


def row_cases() -> Iterator[Case]:
    # Eight rows are whole CTAs; seven aren't.
    for name, rows, columns, kind in (
        ("f32", 8, 256, torch.float32),
        ("bf16", 8, 1000, torch.bfloat16),
        ("rest", 7, 264, torch.bfloat16),
        ("cluster", 2, 40000, torch.bfloat16),
    ):
        x = random(rows, columns, dtype=kind)
        near = 1e-4 if kind == torch.float32 else 2e-2
        yield f"softmax {name}", both(quack.softmax, lambda x: x.float().softmax(-1), x, tolerance=near)
        yield (
            f"rmsnorm {name}",
            both(quack.rmsnorm, rms, x, random(columns), tolerance=near),
        )
        labels = torch.arange(rows) * 31 % columns
        yield (
            f"cross_entropy {name}",
            both(
                partial(quack.cross_entropy, reduction="none"),
                lambda x, t: F.cross_entropy(x.float(), t, reduction="none"),
                *(x, labels),
                tolerance=near,
            ),
        )
    x, w, b = half(8, 512), random(512), random(512, seed=3)
    yield "rmsnorm with bias and residual", both(quack.rmsnorm, rms, x, w, b, -x.roll(1), tolerance=2e-2)
    yield (
        "rmsnorm with offset",
        both(partial(quack.rmsnorm, weight_offset=1.0), partial(rms, offset=1.0), x, w, tolerance=2e-2),
    )
    yield "rmsnorm per head", both(quack.rmsnorm, rms, half(2, 3, 4, 64), random(4, 64), tolerance=2e-2)
    yield (
        "layernorm",
        both(
            layernorm_fwd,
            lambda x, w, b: F.layer_norm(x.float(), w.shape, w, b, 1e-6),
            *(x, w, b),
            tolerance=2e-2,
            backward=False,
        ),
    )
    weights = random(512).square() + 0.5
    labels = torch.tensor([3, -100, 77, 500, -100, 0, 9, 95])
    yield (
        "cross_entropy with weights and ignored labels",
        both(
            partial(quack.cross_entropy, weight=weights),
            lambda x, t: F.cross_entropy(x.float(), t, weights),
            *(x, labels),
            tolerance=2e-2,
        ),
    )
    for k, softmax in ((8, False), (32, True)):
        yield (
            f"topk {k}{' with softmax' if softmax else ''}",
            both(
                lambda x, k=k, softmax=softmax: topk(x, k, softmax)[0],
                lambda x, k=k, softmax=softmax: x.topk(k)[0].softmax(-1) if softmax else x.topk(k)[0],
                # quack replaces the last bits by the index.
                torch.stack([torch.randperm(1024) / 256 for _ in range(8)]),
            ),
        )
    angles = random(40, 32)
    yield (
        "rotary",
        both(
            partial(apply_rotary_emb, cos=angles.cos(), sin=angles.sin()),
            partial(rotary, cos=angles.cos(), sin=angles.sin()),
            half(2, 40, 3, 64),
            tolerance=2e-2,
        ),
    )


def product_cases() -> Iterator[Case]:
    untuned = {"tuned": False}
    a, b = half(136, 128), half(256, 128).mT * 0.1
    c, bias = half(136, 256), half(256)

    def case(name, theirs, expected, *inputs, backward=False, **options):
        return name, both(
            partial(theirs, **untuned, **options),
            lambda *args: expected(
                *(x.float() if x is not None and x.is_floating_point() else x for x in args)
            ),
            *inputs,
            tolerance=2e-2,
            backward=backward,
        )

    g = gemm_interface
    yield case("gemm", g.gemm, torch.mm, a, b)
    yield case("gemm to f32", g.gemm, torch.mm, a, b, out_dtype=torch.float32)
    yield case("gemm f16", g.gemm, torch.mm, a.half(), b.half())
    yield case("gemm of transposed", g.gemm, torch.mm, half(128, 136).mT, half(128, 256))
    yield case("gemm batched", g.gemm, torch.bmm, half(3, 72, 64), half(3, 64, 136))
    yield case(
        "gemm with bias and alpha", g.gemm, lambda a, b: 0.5 * a @ b + bias, a, b, bias=bias, alpha=0.5
    )
    yield case(
        "gemm with dynamic_scheduler", g.gemm, torch.mm, half(512, 64), half(64, 512), dynamic_scheduler=True
    )
    for mode in range(3):
        yield case(
            f"gemm with split_k, mode {mode}",
            g.gemm,
            torch.mm,
            half(128, 512),
            half(512, 128),
            split_k=2,
            split_k_mode=mode,
        )
    yield case("gemm_add", g.gemm_add, lambda a, b, c: a @ b + 2 * c, a, b, c, beta=2.0)
    for name in ("relu", "gelu_tanh_approx", "relu_sq"):
        yield case(
            f"gemm_act {name}",
            g.gemm_act,
            lambda a, b, name=name: (a @ b, g.act_to_pytorch_fn_map[name](a @ b)),
            *(a, b),
            activation=name,
        )
    for name in ("swiglu", "geglu"):
        yield case(
            f"gemm_gated {name}",
            g.gemm_gated,
            lambda a, b, name=name: (
                a @ b,
                g.gated_to_pytorch_fn_map[name]((a @ b)[:, ::2], (a @ b)[:, 1::2]),
            ),
            *(a, b),
            activation=name,
        )
    yield case("gemm_symmetric", lambda a, tuned: g.gemm_symmetric(a, a.mT), lambda a: a @ a.mT, a)
    yield case("gemm_rms", g.gemm_rms, sum_and_scale, a, b, c)
    yield case(
        "gemm_norm_act",
        g.gemm_norm_act,
        lambda a, b, r: (F.relu(a @ b * r[:, None]),),
        *(a, b, random(136).square()),
        activation="relu",
    )
    starts, parts = torch.tensor([0, 40, 40, 136], dtype=torch.int32), ((0, 0, 40), (2, 40, 136))
    experts = half(3, 128, 128)
    yield case(
        "gemm varlen_m",
        g.gemm,
        lambda a, b: torch.cat([a[x:y] @ b[i] for i, x, y in parts]),
        *(a, experts),
        cu_seqlens_m=starts,
    )
    order = torch.randperm(136, generator=torch.Generator().manual_seed(0)).int()
    yield case(
        "gemm varlen_m with gather",
        g.gemm,
        lambda a, b: torch.cat([a[order[x:y]] @ b[i] for i, x, y in parts]),
        *(a, experts),
        cu_seqlens_m=starts,
        A_idx=order,
    )
    ends = torch.tensor([0, 40, 136], dtype=torch.int32)
    yield case(
        "gemm varlen_k",
        g.gemm,
        lambda a, b: torch.stack([a[:, :40] @ b[:40], a[:, 40:] @ b[40:]]),
        *(half(136, 128).mT, half(136, 64)),
        cu_seqlens_k=ends,
    )
    x, up, down = half(72, 128), half(256, 128) * 0.1, half(128, 256) * 0.1
    yield case("linear", linear.linear_func, F.linear, x, up, bias, backward=True)
    yield case(
        "mlp",
        lambda x, up, down, tuned: mlp.mlp_func(x, up, down, "gelu_tanh_approx", tuned=tuned),
        lambda x, up, down: F.linear(F.gelu(F.linear(x, up), approximate="tanh"), down),
        *(x, up, down),
        backward=True,
    )
    labels = torch.arange(72) * 3
    yield case(
        "linear_cross_entropy",
        lambda x, w, t, tuned: chunked_linear_cross_entropy(x, w, t, chunk_size=64, tuned=tuned),
        lambda x, w, t: F.cross_entropy(F.linear(x, w), t),
        *(x, up, labels),
        backward=True,
    )


def cases() -> Iterator[Case]:
    yield from row_cases()
    yield from product_cases()
