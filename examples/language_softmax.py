"""Softmax of rows in `weft.language`: one role copies blocks of columns, the other reads them twice."""

import argparse

import ml_dtypes
import numpy as np

import weft.language as w


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
def softmax(x: w.In[w.Array[w.bf16], "m n"], y: w.Out[w.Array[w.bf16], "m n"], *, N=128):
    """y = softmax of each row of x, 64 rows for each CTA, N columns at a time."""
    ring = w.ring(2, x=(64, N, x.dtype))
    row, columns = w.cta() * 64, x.columns
    with w.role():
        peak, total = w.full(64, -w.inf), w.zeros(64)  # vectors of 64 rows
        for j in w.range(0, columns, N):
            with ring.take() as stage:
                t = w.load(stage.x).to(w.f32)
            t = w.where(w.column(t) + j < columns, t, -w.inf)
            old, peak = peak, w.maximum(peak, w.max(t, axis=1))
            total = total * w.exp(old - peak) + w.sum(w.exp(t - peak), axis=1)
        for j in w.range(0, columns, N):
            with ring.take() as stage:
                t = w.load(stage.x).to(w.f32)
            w.store((w.exp(t - peak) * w.rcp(total)).to(y.dtype), y[row, j])
    with w.role(), w.one_thread():
        for _ in range(2):
            for j in w.range(0, columns, N):
                ring.fill(x=x[row, j])


def main():
    """Computes a small one, on the GPU or in the emulator, and prints the largest error."""
    x = np.random.default_rng(0).standard_normal((100, 200)).astype(ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    softmax(x, y)
    e = np.exp(x.astype(np.float64))
    print(f"largest error: {np.abs(y.astype(np.float64) - e / e.sum(1, keepdims=True)).max():.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
