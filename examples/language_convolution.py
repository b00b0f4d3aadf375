"""A 3 x 3 convolution in `weft.language`: nine products, each of a shifted tile of the image."""

import argparse

import ml_dtypes
import numpy as np

import weft.language as w


@w.kernel(grid=lambda x, y, N: (w.ceil_div(x.rows, 64), w.ceil_div(y.columns, N), x.matrices))
def convolution(
    x: w.In[w.Array[w.bf16], "images height width c"],
    weight: w.In[w.Array[w.bf16], "taps k c"],
    y: w.Out[w.Array[w.bf16], "images height width k"],
    *,
    N=128,
    C=64,
    stages=4,
):
    """The convolution with `weight` of nine taps, padded with zeros: 64 pixels of a line for each CTA."""
    column, k = w.cta(0) * 64, w.cta(1) * N
    image, line = w.cta(2) // x.size("height"), w.cta(2) % x.size("height")
    ring = w.ring(stages, x=(64, C, x.dtype), weight=(N, C, weight.dtype))
    with w.role():
        sums = w.zeros((64, N))
        for _ in w.range(9 * w.ceil_div(x.columns, C)):
            with ring.take() as stage:
                sums = w.wait(w.gemm(stage.x, stage.weight.T, sums))
        w.store(sums.to(y.dtype), y[image, line, column, k])
    with w.role(), w.one_thread():
        for tap in w.range(9):
            down, across = tap // 3 - 1, tap % 3 - 1
            for c in w.range(0, x.columns, C):  # pixels beyond the image are 0
                ring.fill(x=x[image, line + down, column + across, c], weight=weight[tap, k, c])


def expected(x, weight):
    """The same in NumPy, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1:3]
    return sum(
        padded[:, tap // 3 :, tap % 3 :][:, :height, :width] @ weight[tap].astype(np.float64).T
        for tap in range(9)
    )


def main():
    """Computes a small one, on the GPU or in the emulator, and prints the largest error."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 70, 96)).astype(ml_dtypes.bfloat16)
    weight = (rng.standard_normal((9, 72, 96)) / 16).astype(ml_dtypes.bfloat16)
    y = np.zeros((2, 5, 70, 72), ml_dtypes.bfloat16)
    convolution(x, weight, y)
    print(f"largest error: {np.abs(y.astype(np.float64) - expected(x, weight)).max():.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
