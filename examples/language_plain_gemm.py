"""A @ B in `weft.language` in ten lines: a loop over tiles and their products, which a pass pipelines."""

import numpy as np

import weft.language as w


@w.kernel(grid=lambda d, M, N: (w.ceil_div(d.rows, M), w.ceil_div(d.columns, N)))
def gemm(
    a: w.In[w.Array[w.bf16], "m k"],
    b: w.In[w.Array[w.bf16], "k n"],
    d: w.Out[w.Array[w.bf16], "m n"],
    *,
    M=128,
    N=256,
    K=64,
    stages=4,
):
    """d = a @ b, a tile of M x N for each CTA."""
    row, column = w.cta(0) * M, w.cta(1) * N
    sums = w.zeros((M, N))
    for k in w.range(0, a.columns, K, stages=stages):
        sums = w.gemm(w.load(a[row, k], (M, K)), w.load(b[k, column], (K, N)), sums)
    w.store(sums.to(w.bf16), d[row, column])


def main():
    """Multiplies random matrices, on the GPU or in the emulator, and prints the largest error."""
    import ml_dtypes

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((200, 136), (136, 264)))
    d = np.zeros((200, 264), ml_dtypes.bfloat16)
    gemm(a, b, d)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    print(f"largest error: {np.abs(d.astype(np.float64) - wanted).max():.3f}")


if __name__ == "__main__":
    main()
