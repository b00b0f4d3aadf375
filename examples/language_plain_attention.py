"""Attention in `weft.language` with a plain loop over blocks of keys, which a pass pipelines."""

import math

import numpy as np

import weft.language as w


@w.kernel(grid=lambda q, M: (w.ceil_div(q.rows, M), q.matrices))
def attention(
    q: w.In[w.Array[w.bf16], "heads m D"],
    k: w.In[w.Array[w.bf16], "heads n D"],
    v: w.In[w.Array[w.bf16], "heads n D"],
    o: w.Out[w.Array[w.bf16], "heads m D"],
    scale: w.f32,
    *,
    D,
    M=128,
    N=128,
    stages=2,
    causal=False,
):
    """o = softmax(scale * q @ k.T) @ v, for scale > 0. With `causal`, query i sees keys up to i + n - m."""
    head, row = w.cta(1), (w.ctas(0) - 1 - w.cta(0)) * M  # those with most keys first, if causal
    queries, factor = w.load(q[head, row, 0], (M, D)), scale * math.log2(math.e)
    sums, peak, total = w.zeros((M, D)), w.full(M, -1e30), w.zeros(M)
    own = row + k.rows - q.rows if causal else k.rows  # the key of the first query
    end = w.minimum(k.rows, own + M)
    for first in w.range(0, end, N, stages=stages):
        s = w.gemm(queries, w.load(k[head, first, 0], (N, D)).T)
        if first + N > w.minimum(k.rows, own):  # otherwise, all queries see these keys
            seen = w.column(s) < k.rows - first
            if causal:
                seen = seen & (w.column(s) + first <= w.row(s) + own)
            s = w.where(seen, s, -w.inf)
        higher = w.maximum(peak, w.max(s, axis=1))
        p, less = w.exp2(s * factor - higher * factor), w.exp2((peak - higher) * factor)
        total = total * less + w.sum(p, axis=1)
        sums = w.gemm(p.to(w.bf16), w.load(v[head, first, 0], (N, D)), sums * less)
        peak = higher
    w.store((sums * w.rcp(total)).to(w.bf16), o[head, row, 0])


def main():
    """Computes attention of random arrays, on the GPU or in the emulator, and prints the largest error."""
    import ml_dtypes

    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, rows, 64)).astype(ml_dtypes.bfloat16) for rows in (150, 200, 200))
    o = np.zeros_like(q)
    attention(q, k, v, o, 0.125, D=64, N=64)
    s = 0.125 * q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1)
    p = np.exp(s - s.max(2, keepdims=True))
    wanted = p / p.sum(2, keepdims=True) @ v.astype(np.float64)
    print(f"largest error: {np.abs(o.astype(np.float64) - wanted).max():.3f}")


if __name__ == "__main__":
    main()
