"""A @ B.T in `weft.language`, in which several CTAs add up parts of each tile in order, by signals."""

import argparse

import numpy as np

import weft.language as w


@w.kernel(grid=lambda d, splits, M, N: (splits, w.ceil_div(d.rows, M), w.ceil_div(d.columns, N)))
def split_gemm(
    a: w.In[w.Array[w.bf16], "m k"],
    b: w.In[w.Array[w.bf16], "n k"],
    d: w.Out[w.Array[w.f32], "m n"],
    done: w.Out[w.Array[w.i32], "tiles"],
    *,
    splits=4,
    M=64,
    N=128,
    K=64,
):
    """d = a @ b.T for matrices with few tiles and a large K: each of `splits` CTAs multiplies a part of K.

    The sums of d are always added in the same order. `done` has a number for each tile, which must be 0.
    """
    part, x, y = w.cta(0), w.cta(1), w.cta(2)
    tile, row, column = x + y * w.ctas(1), x * M, y * N
    ring = w.ring(4, a=(M, K, a.dtype), b=(N, K, b.dtype))
    with w.role():
        sums = w.zeros((M, N))
        for _ in w.range(part * K, a.columns, splits * K):
            with ring.take() as stage:
                sums = w.wait(w.gemm(stage.a, stage.b.T, sums))
        if part > 0:
            w.await_signals(done[tile], part)  # all parts before this one are in d
            sums += w.load(d[row, column], (M, N))
        w.store(sums, d[row, column])
        if part < splits - 1:
            w.signal(done[tile])
        else:  # no CTA waits for this number any more: it is ready for the next launch
            with w.one_thread():
                done[tile] = 0
    with w.role(), w.one_thread():
        for k in w.range(part * K, a.columns, splits * K):
            ring.fill(a=a[row, k], b=b[column, k])


def main():
    """Multiplies random matrices twice, on the GPU or in the emulator, and prints the largest error."""
    import ml_dtypes

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 1000)).astype(ml_dtypes.bfloat16) for rows in (100, 200))
    d, done = np.zeros((100, 200), np.float32), np.zeros(4, np.int32)
    for _ in range(2):
        split_gemm(a, b, d, done)
    print(f"largest error: {np.abs(d - a.astype(np.float64) @ b.astype(np.float64).T).max():.6f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
