"""Attention, forward, in `weft.language`: softmax(scale * q @ k.T) @ v for each head.

Two warpgroups multiply 64 rows of queries each, and a third copies blocks of keys and values by TMA. The
products of one block overlap with the exponentials of the one before. The warpgroups take turns to start
products, so that the tensor cores work on one's products during the other's exponentials.

`weft.attention` is this kernel with masks, packed sequences, pages and gradients.
"""

import argparse

import numpy as np

import weft.language as w
from weft.attend.kernels.exponents import correction, relative, rescaling, scaling_of
from weft.attend.tiles import best  # the meta-parameters that were fastest on an H100
from weft.reference.attention import attention as exact

ROWS = 64  # of queries, for each warpgroup
SLACK = 7.0  # exponents, to base 2


def _grid(q, *, groups, causal):
    """Tiles of queries, for each head. With `causal` in pairs, the longest with the shortest, and so on."""
    tiles = w.ceil_div(q.rows, ROWS * groups)
    return w.ceil_div(tiles, 2) if causal else tiles, q.matrices


@w.kernel(grid=_grid, persistent=1)
def attention(
    q: w.In[w.Array, "heads m D"],
    k: w.In[w.Array, "heads n D"],
    v: w.In[w.Array, "heads n D"],
    o: w.Out[w.Array, "heads m D"],
    lse: w.Out[w.Array[w.f32], "heads m"],
    scale: w.f32,
    *,
    D,
    N=128,
    groups=2,
    causal=False,
    alternate=True,
    lazy=True,
    polynomial_every=0,
    stages=2,
    ahead=True,
):
    """o = softmax(scale * q @ k.T) @ v, and lse, the logarithm of the sum of exponentials of each row.

    With `causal`, query i sees keys up to i + n - m. A block has `N` keys, and `stages` are in memory.
    `groups` warpgroups multiply; with `alternate` they take turns. With `lazy`, exponents may exceed 0 by up
    to `SLACK`, so that few blocks rescale the sums of those before. `polynomial_every`: see `w.exp2`. With
    `ahead`, the queries of the next tile are copied during this one, and the output has memory of its own.
    """
    M = ROWS * groups
    queries = w.ring(2 if ahead else 1, q=(M, D, q.dtype), takers=groups)
    keys = w.ring(stages, k=(N, D, k.dtype), takers=groups)
    values = w.ring(stages, v=(N, D, v.dtype), takers=groups)
    output = w.shared(M, D, o.dtype) if ahead else None
    turns = w.turns(groups)

    # These run in each role: what is computed before the roles needs registers in all of them.
    def halves(x):
        """The numbers of the tiles of a pair; without `causal`, each tile is alone."""
        last = w.ceil_div(q.rows, M) - 1
        return w.range(w.where(last - x == x, 1, 2)) if causal else (0,)

    def rows_and_blocks(x, half):
        """The first query of a tile, and the blocks of keys that it sees."""
        blocks = w.ceil_div(k.rows, N)
        if not causal:  # of Python, like all branches on meta-parameters: two variants of the kernel
            return x * M, blocks
        first = w.where(half == 0, w.ceil_div(q.rows, M) - 1 - x, x) * M
        seen = w.maximum(first + M + k.rows - q.rows, 0)
        return first, w.maximum(w.minimum(blocks, w.ceil_div(seen, N)), 1)

    with w.role(warpgroups=groups, registers=240 if groups == 2 else 160) as me:
        scaling = scaling_of(scale, v.dtype)

        def visible(s, row, j):
            column = w.column(s) + j * N
            seen = column < k.rows
            if causal:
                seen = seen & (column <= w.row(s) + (row + k.rows - q.rows))
            return w.where(seen, s, -w.inf)

        def finite(peak):
            return w.where(peak == -w.inf, 0.0, peak)  # of rows that see nothing yet

        for x, head in w.tiles():
            for half in halves(x):
                first, blocks = rows_and_blocks(x, half)
                row = first + ROWS * me
                query = queries.take()
                mine = query.q.rows(ROWS * me, ROWS)
                with keys.take() as block:  # the last one: the first ones to come have masks
                    s = w.wait(w.gemm(mine, block.k.T))
                s = visible(s, row, blocks - 1)
                peak = w.max(s, axis=1)
                factor, base = relative(finite(peak), scaling)
                e = w.exp2(s * factor - base)
                total = w.sum(e, axis=1, within="lane")
                p, out = e.to(v.dtype), w.zeros((ROWS, D))
                spans = [(False, 1, blocks)]
                if causal:
                    seen = w.maximum(first + 1 + k.rows - q.rows, 0)  # the keys that all rows see
                    masked = w.maximum(blocks - w.minimum(k.rows, seen) // N, 1)
                    spans = [(True, 1, masked), (False, masked, blocks)]
                for masks, begin, end in spans:  # of Python: two loops
                    for i in w.range(begin, end):
                        block = keys.take()
                        if alternate:
                            turns.wait(me)
                        s = w.gemm(mine, block.k.T)
                        before = values.take()
                        out = w.gemm(p, before.v, out)
                        if alternate:
                            turns.give(me)
                        s = w.wait(s, pending=1)
                        block.release()
                        if masks:
                            s = visible(s, row, blocks - 1 - i)
                        old, peak = peak, w.maximum(peak, w.max(s, axis=1))
                        if lazy:
                            peak = w.where((peak - old) * scaling[0] > SLACK, peak, old)
                        factor, base = relative(finite(peak) if masks else peak, scaling)
                        e = w.exp2(s * factor - base, polynomial_every=0 if masks else polynomial_every)
                        added = w.sum(e, axis=1, within="lane")
                        if i + 1 < blocks:
                            keys.ready()  # or ptxas would wait for the product above before the exponentials
                        out = w.wait(out)
                        if not lazy or w.warp_any(old != peak):
                            alpha = rescaling(old, factor, base, scaling)
                            total, out = total * alpha, out * alpha
                        total = total + added
                        before.release()
                        p = e.to(v.dtype)
                if ahead:
                    query.release()
                with values.take() as block:
                    out = w.wait(w.gemm(p, block.v, out))
                total = w.sum(total, axis=1)
                share = w.where(total == 0.0, 0.0, w.rcp(total))
                staging = mine if output is None else output.rows(ROWS * me, ROWS)
                w.store((out * share).to(o.dtype), o[head, row], via=staging)
                if not ahead:
                    query.release()
                total = total * correction(peak, scaling)
                w.store_column(peak * scale + w.log(total), lse[head, row])

    with w.role(registers=24), w.one_thread():
        for x, head in w.tiles():
            for half in halves(x):
                first, blocks = rows_and_blocks(x, half)
                keys.fill(k=k[head, (blocks - 1) * N])
                queries.fill(q=q[head, first])
                for i in w.range(1, blocks):
                    keys.fill(k=k[head, (blocks - 1 - i) * N])
                    values.fill(v=v[head, (blocks - i) * N])
                values.fill(v=v[head, 0])


def reference(q, k, v, scale, causal):
    """The same in float64: the output, and the logarithms of the sums."""
    found = exact(q, k, v, scale=scale, causal=causal)
    return found.out, found.lse


def main():
    """Compares small products with float64, on the GPU or in the emulator."""
    rng = np.random.default_rng(0)
    for d, causal in ((64, False), (128, True)):
        q, k, v = (rng.standard_normal((2, rows, d)).astype(np.float16) for rows in (200, 300, 300))
        o, lse = np.zeros_like(q), np.zeros((2, 200), np.float32)
        attention(q, k, v, o, lse, d**-0.5, causal=causal, **best(d, 200, causal))
        wanted, _ = reference(q, k, v, d**-0.5, causal)
        print(f"d{d}{' causal' if causal else ''}: largest error {np.abs(o - wanted).max():.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
