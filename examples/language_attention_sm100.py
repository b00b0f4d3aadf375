"""Attention, forward, for sm_100a in `weft.language`, with a role for each step, as in FlashAttention-4.

One thread copies tiles by TMA, and another starts all products. Their sums are in tensor memory: scores and
outputs of two tiles of queries. Each of two warpgroups computes the softmax of one tile, a row in each
thread, and stores it in place of the scores, from where the product with values reads it. Another warpgroup
rescales outputs when the largest score of a row grows, and stores them at the end.
"""

import argparse
import math

import numpy as np

import weft.language as w
from weft.reference.attention import attention as exact

M = 128  # queries of a tile, which are the lanes of tensor memory
TILES = 2  # of queries, for each CTA
PART = 64  # columns of scores and outputs that a thread loads at once
SLACK = 8.0  # exponents to base 2 by which shares may exceed 1, so that few blocks rescale outputs


@w.kernel(grid=lambda q: (w.ceil_div(q.rows, TILES * M), q.matrices), arch="sm_100a")
def attention(
    q: w.In[w.Array, "heads m D"],
    k: w.In[w.Array, "heads n D"],
    v: w.In[w.Array, "heads n D"],
    o: w.Out[w.Array, "heads m D"],
    scale: w.f32,
    *,
    D,
    N=128,
    causal=False,
    stages=2,
    polynomial_every=4,
):
    """o = softmax(scale * q @ k.T) @ v. With `causal`, query i sees keys up to i + n - m.

    The products of `N` keys take as many cycles as their exponentials, of which a polynomial computes one in
    `polynomial_every`: see `w.exp2`.
    """
    queries = w.ring(1, q=(TILES * M, D, q.dtype))
    keys, values = w.ring(stages, k=(N, D, k.dtype)), w.ring(stages, v=(N, D, v.dtype))
    scores = w.ring(TILES, memory="tensor", s=(M, N, w.f32))
    shares = w.ring(TILES, memory="tensor", over=scores, p=(M, N, v.dtype))
    outputs = w.ring(TILES, memory="tensor", o=(M, D, w.f32))
    factors = w.ring(TILES, x=(1, M, w.f32))
    staging = w.shared(M, D, o.dtype)

    # This runs in each role: what is computed before the roles needs registers in all of them.
    def extent():
        """The head, the first query, and the blocks of keys that any query sees, and that all see whole."""
        first, head = (w.last(0) - w.cta(0)) * TILES * M, w.cta(1)  # the longest first
        blocks, whole = w.ceil_div(k.rows, N), k.rows // N
        if causal:  # of Python: two variants of the kernel
            before = first + k.rows - q.rows
            blocks = w.maximum(w.minimum(blocks, w.ceil_div(before + TILES * M, N)), 1)
            whole = w.maximum(w.minimum(whole, (before + 1) // N), 0)
        return head, first, blocks, w.minimum(whole, blocks)

    with w.role(warpgroups=TILES, registers=168) as me:
        head, first, blocks, whole = extent()
        row, unit = first + M * me + k.rows - q.rows, scale * math.log2(math.e)
        peak, total = w.full(M, -w.inf), w.zeros(M)
        for masks, begin, end in ((True, whole, blocks), (False, 0, whole)):  # of Python: two loops
            for i in w.range(begin, end):
                block = scores.take(own=True)
                parts = [w.load(block.s.columns(column, PART)) for column in range(0, N, PART)]
                if masks:
                    for number, s in enumerate(parts):
                        column = w.column(s) + ((begin + end - 1 - i) * N + number * PART)
                        seen = column < k.rows
                        if causal:
                            seen = seen & (column <= w.row(s) + row)
                        parts[number] = w.where(seen, s, -w.inf)
                old = peak
                for s in parts:
                    peak = w.maximum(peak, w.max(s, axis=1))
                peak = w.where((peak - old) * unit > SLACK, peak, old)
                base = w.where(peak == -w.inf, 0.0, peak) * unit
                factor = w.exp2(old * unit - base)
                with factors.write(own=True) as sent:
                    w.store_column(factor, sent.x)
                total = total * factor
                with shares.write(block, own=True) as share:
                    for number, s in enumerate(parts):
                        e = w.exp2(s * unit - base, polynomial_every=0 if masks else polynomial_every)
                        w.store(e.to(v.dtype), share.p.columns(number * PART, PART))
                        total = total + w.sum(e, axis=1)
        with factors.write(own=True) as sent:
            w.store_column(w.where(total == 0.0, 0.0, w.rcp(total)), sent.x)

    with w.role(registers=80):
        head, first, blocks, _ = extent()
        for _ in range(TILES):  # there are no outputs yet that the first block could rescale
            factors.take().release()
        for _ in w.range(1, blocks):
            for _ in range(TILES):
                stage, out = factors.take(), outputs.take()
                factor = w.load_column(stage.x, like=w.zeros(M))
                stage.release()
                if w.warp_any(factor != 1.0):
                    for column in range(0, D, PART):
                        part = out.o.columns(column, PART)
                        w.store(w.load(part) * factor, part)
                out.release()
        for tile in range(TILES):
            stage, out = factors.take(), outputs.take()
            factor = w.load_column(stage.x, like=w.zeros(M))
            stage.release()
            for column in range(0, D, PART):
                x = (w.load(out.o.columns(column, PART)) * factor).to(o.dtype)
                w.store(x, o[head, first + tile * M, column], via=staging.columns(column, PART))
            out.release()

    with w.role(registers=96):
        head, first, blocks, _ = extent()
        with w.one_thread():
            queries.fill(q=q[head, first])
            for i in w.range(blocks):
                keys.fill(k=k[head, (blocks - 1 - i) * N])
                values.fill(v=v[head, (blocks - 1 - i) * N])
        with w.one_thread(warp=1), queries.take() as query:

            def score(tile, key):
                with scores.write() as stage:
                    w.gemm(query.q.rows(tile * M, M), key.k.T, stage.s, accumulate=False)

            def weigh(value, accumulate):
                with shares.take() as stage, outputs.write() as out:
                    w.gemm(stage.p, value.v, out.o, accumulate=accumulate)

            with keys.take() as key:
                for tile in range(TILES):
                    score(tile, key)
            for i in w.range(1, blocks):
                with values.take() as value, keys.take() as key:
                    for tile in range(TILES):
                        weigh(value, i > 1)
                        score(tile, key)
            with values.take() as value:
                for _ in range(TILES):
                    weigh(value, blocks > 1)


def main():
    """Compares small attention with float64, on the GPU or in the emulator."""
    import ml_dtypes

    rng = np.random.default_rng(0)
    for causal in (False, True):
        q, k, v = (rng.standard_normal((1, rows, 128)).astype(ml_dtypes.bfloat16) for rows in (200, 300, 300))
        o = np.zeros_like(q)
        attention(q, k, v, o, 128**-0.5, causal=causal)
        wanted = exact(q, k, v, scale=128**-0.5, causal=causal).out
        error = np.abs(o.astype(float) - wanted).max()
        print(f"{'causal' if causal else 'all keys'}: largest error {error:.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
