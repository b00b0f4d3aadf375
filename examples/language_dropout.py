"""A linear layer with GELU and dropout in `weft.language`. Its mask follows from a seed, and isn't stored."""

import argparse
import math

import ml_dtypes
import numpy as np

import weft.language as w


@w.inline
def kept(seed, p, tile, row, column, columns):
    """Which elements of a tile, whose first element is at (row, column), dropout keeps."""
    offset = (w.row(tile) + row) * columns + w.column(tile) + column
    return w.rand(seed, offset) >= p


@w.kernel(grid=lambda x, weight, M, N: (w.ceil_div(x.rows, M), w.ceil_div(weight.rows, N)))
def linear_dropout(
    x: w.In[w.Array[w.bf16], "m k"],
    weight: w.In[w.Array[w.bf16], "n k"],
    bias: w.In[w.Array[w.f32], "n"],
    y: w.Out[w.Array[w.bf16], "m n"],
    seed: w.i32,
    p: w.f32,
    *,
    M=128,
    N=128,
    K=64,
    stages=4,
):
    """y = dropout(gelu(x @ weight.T + bias)): elements are 0 with probability p, others divided by 1 - p."""
    ring = w.ring(stages, takers=M // 64, x=(M, K, x.dtype), weight=(N, K, weight.dtype))
    row, column = w.cta(0) * M, w.cta(1) * N
    with w.role(registers=24), w.one_thread():
        for k in w.range(0, x.columns, K):
            ring.fill(x=x[row, k], weight=weight[column, k])
    with w.role(warpgroups=M // 64, registers=240) as me:
        mine, sums = 64 * me, w.zeros((64, N))
        for _ in w.range(0, x.columns, K):
            with ring.take() as stage:
                sums = w.wait(w.gemm(stage.x.rows(mine, 64), stage.weight.T, sums))
        t = w.gelu(sums + w.load_row(bias[column], like=sums))
        t = w.where(kept(seed, p, t, row + mine, column, y.columns), t * (1.0 / (1.0 - p)), 0.0)
        w.store(t.to(y.dtype), y[row + mine, column])


@w.kernel(grid=lambda mask: (w.ceil_div(mask.rows, 64), w.ceil_div(mask.columns, 64)))
def dropout_mask(mask: w.Out[w.Array[w.i8], "m n"], seed: w.i32, p: w.f32):
    """The mask of the same seed, as a backward pass computes it again."""
    row, column = w.cta(0) * 64, w.cta(1) * 64
    with w.role():
        w.store(kept(seed, p, w.zeros((64, 64)), row, column, mask.columns).to(w.i8), mask[row, column])


def main():
    """Computes a small one, on the GPU or in the emulator, and prints the largest error."""
    rng = np.random.default_rng(0)
    x, weight = ((rng.standard_normal((n, 192)) / 4).astype(ml_dtypes.bfloat16) for n in (200, 136))
    bias, y = rng.standard_normal(136).astype(np.float32), np.zeros((200, 136), x.dtype)
    linear_dropout(x, weight, bias, y, 1234, 0.25)
    mask = np.zeros(y.shape, np.int8)
    dropout_mask(mask, 1234, 0.25)
    t = x.astype(float) @ weight.astype(float).T + bias
    exact = t * (1 + np.vectorize(math.erf)(t / math.sqrt(2))) / 2 * mask / 0.75
    print(f"kept: {mask.mean():.3f}, largest error: {np.abs(y.astype(float) - exact).max():.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
