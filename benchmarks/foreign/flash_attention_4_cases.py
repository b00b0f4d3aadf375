"""FlashAttention-4 against attention in PyTorch. FOREIGN_CHIP is the chip."""

import os
from collections.abc import Iterator
from functools import partial

import cute_driver
import torch
from compared import both, random
from harness import Case

CHIP = os.environ["FOREIGN_CHIP"]
cute_driver.activate(CHIP)

from flash_attn.cute import flash_attn_func, flash_attn_varlen_func  # noqa: E402

half = partial(random, dtype=torch.bfloat16)


def attention(q, k, v, causal=False, window_size=(None, None), softcap=0.0, learnable_sink=None):
    """Of `[batch, rows, heads, width]`."""
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if softcap:
        scores = softcap * (scores / softcap).tanh()
    rows, columns = scores.shape[-2:]
    # Queries are aligned with the last keys.
    distance = torch.arange(columns) - torch.arange(rows)[:, None] - (columns - rows)
    left, right = window_size
    right = 0 if causal else right
    if left is not None:
        scores = scores.masked_fill(distance < -left, -torch.inf)
    if right is not None:
        scores = scores.masked_fill(distance > right, -torch.inf)
    if learnable_sink is not None:
        sinks = learnable_sink.float()[:, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, sinks), -1)
    return (scores.softmax(-1)[..., :columns] @ v).transpose(1, 2)


def packed(q, k, v, starts, ends, **options):
    """Attention of sequences one after another."""
    parts = [
        attention(*(x[None] for x in (q[a:b], k[c:d], v[c:d])), **options)[0]
        for a, b, c, d in zip(starts, starts[1:], ends, ends[1:], strict=False)
    ]
    return torch.cat(parts)


def case(name: str, *inputs: torch.Tensor, backward: bool = True, own: dict | None = None, **options) -> Case:
    """`own`: the options of FlashAttention-4 that don't change the result."""
    return name, both(
        lambda *args: flash_attn_func(*args, **options, **(own or {}))[0],
        lambda *args: attention(*args, **options),
        *inputs,
        tolerance=2e-2,
        backward=backward,
    )


def cases() -> Iterator[Case]:
    def heads(rows, keys, width=64, count=2, shared=2, batch=1):
        sizes = (batch, rows, count, width), *[(batch, keys, shared, width)] * 2
        return [half(*size, seed=at) for at, size in enumerate(sizes)]

    square = heads(136, 136)
    yield case("plain", *square)
    yield case("causal", *square, causal=True)
    yield case("f16, width 128", *(x.half() for x in heads(144, 144, 128, 1, 1)), causal=True)
    yield case("width 96", *heads(72, 136, 96), backward=False)
    yield case("shared heads", *heads(72, 200, count=4, shared=1, batch=2), causal=True)
    yield case(
        "shared heads, packed", *heads(8, 200, count=4, shared=1), backward=False, own={"pack_gqa": True}
    )
    yield case("window", *heads(256, 256, count=1, shared=1), window_size=(64, 16))
    yield case("softcap", *heads(72, 136, count=1, shared=1), softcap=15.0)
    if CHIP == "sm_100a":
        yield case("splits", *heads(8, 512), backward=False, own={"num_splits": 3})
    if CHIP != "sm_120a":
        yield case("sinks", *square, learnable_sink=half(2), backward=False)
        yield case("deterministic", *square, causal=True, own={"deterministic": True})
    q, k, v = (x[0] for x in heads(200, 200))
    for causal in (False, True):
        starts = [0, 40, 40, 200] if causal else [0, 130, 200]
        lengths = torch.tensor(starts, dtype=torch.int32)
        yield (
            f"sequences{', causal' if causal else ''}",
            both(
                lambda *args, lengths=lengths, causal=causal: flash_attn_varlen_func(
                    *args,
                    cu_seqlens_q=lengths,
                    cu_seqlens_k=lengths,
                    max_seqlen_q=160,
                    max_seqlen_k=160,
                    causal=causal,
                )[0],
                lambda *args, starts=starts, causal=causal: packed(*args, starts, starts, causal=causal),
                *(q, k, v),
                tolerance=2e-2,
            ),
        )
    if CHIP == "sm_120a":  # which has no pages
        return
    q, k, v = heads(8, 256, batch=2)
    used = torch.tensor([200, 77], dtype=torch.int32)
    pages = torch.tensor([[1, 0], [3, 2]], dtype=torch.int32)

    def paged(q, k, v):
        cache = (x.reshape(4, 128, 2, 64) for x in (k, v))
        order = pages.flatten().argsort()
        return flash_attn_varlen_func(
            q, *(x[order].contiguous() for x in cache), seqused_k=used, page_table=pages, causal=True
        )[0]

    def of_used(q, k, v):
        parts = [attention(q[[i]], k[[i], :n], v[[i], :n], causal=True) for i, n in enumerate(used.tolist())]
        return torch.cat(parts)

    yield "pages", both(paged, of_used, q, k, v, tolerance=2e-2, backward=False)
