"""Attention in float64: what the kernels are compared with."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Attended:
    """The output of attention and the logarithms of its sums of exponentials, with what gradients need."""

    out: Array
    lse: Array
    shares: Array
    slopes: Array  # of the capped scores


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    sinks: Array = None,
) -> Attended:
    """Attention of [..., heads, tokens, size], as `weft.attention` defines it."""
    q, k, v = (np.asarray(each).astype(np.float64) for each in (q, k, v))
    k, v = (_for_queries(each, q) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    slopes = np.ones_like(scores)
    if softcap:
        slopes = 1 - np.tanh(scores / softcap) ** 2
        scores = softcap * np.tanh(scores / softcap)
    scores = np.where(visible(q.shape[-2], k.shape[-2], causal, window), scores, -np.inf)
    if sinks is not None:
        column = np.asarray(sinks, np.float64)[:, None, None]
        scores = np.concatenate([scores, np.broadcast_to(column, (*scores.shape[:-1], 1))], -1)
    if scores.shape[-1] == 0:
        scores = np.full((*scores.shape[:-1], 1), -np.inf)
    peak = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isfinite(peak), peak, 0))
    total = shares.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(total > 0, shares / total, 0)[..., : k.shape[-2]]
        lse = (peak + np.log(total))[..., 0]
    return Attended(shares @ v, lse, shares, slopes)


def visible(
    queries: int, keys: int, causal: bool, window: tuple[int | None, int | None] | None
) -> np.ndarray[Any, Any]:
    """Which keys each query sees. The last query is at the position of the last key."""
    left, right = window or (None, None)
    right = 0 if causal and right is None else min(right, 0) if causal and right is not None else right
    position = np.arange(queries)[:, None] + keys - queries
    column, seen = np.arange(keys), np.ones((queries, keys), bool)
    if left is not None:
        seen &= column >= position - left
    if right is not None:
        seen &= column <= position + right
    return seen


def gradients(
    d_out: Array, q: Array, k: Array, v: Array, *, scale: float | None = None, **options: Any
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v, for the gradient of the output."""
    attended = attention(q, k, v, scale=scale, **options)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    d_out, q, k, v = (np.asarray(each).astype(np.float64) for each in (d_out, q, k, v))
    heads = k.shape[-3]
    k, v = (_for_queries(each, q) for each in (k, v))
    of_shares = d_out @ v.swapaxes(-1, -2)
    mean = (d_out * attended.out).sum(-1, keepdims=True)
    of_scores = attended.shares * (of_shares - mean) * attended.slopes * scale
    of_k, of_v = of_scores.swapaxes(-1, -2) @ q, attended.shares.swapaxes(-1, -2) @ d_out
    return of_scores @ k, _for_keys(of_k, heads), _for_keys(of_v, heads)


def _for_queries(array: Array, q: Array) -> Array:
    """Keys or values, with a head for each head of queries."""
    return np.repeat(array, q.shape[-3] // max(array.shape[-3], 1), -3)


def _for_keys(array: Array, heads: int) -> Array:
    """The sums over the heads of queries that share a head of keys."""
    group = array.shape[-3] // max(heads, 1)
    return array.reshape(*array.shape[:-3], heads, group, *array.shape[-2:]).sum(-3)
