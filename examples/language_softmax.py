"""Softmax of rows in `weft.language`: a CTA computes each row in registers."""

import argparse

import ml_dtypes
import numpy as np

import weft.language as w


@w.kernel(grid=lambda x: x.rows, threads=lambda N: min(max(N // 32, 128), 1024))
def softmax(x: w.In[w.Array[w.bf16], "m n"], y: w.Out[w.Array[w.bf16], "m n"], *, N):
    """y = softmax of each row of x, which has at most N columns: a power of two from 512 to 65,536."""
    row = w.cta()
    t = w.load(x[row, 0], N, outside=-w.inf).to(w.f32)  # all threads share the row
    e = w.exp(t - w.max(t))
    w.store((e * w.rcp(w.sum(e))).to(y.dtype), y[row, 0])


def block(columns):
    """The N for so many columns."""
    return max(512, 1 << (columns - 1).bit_length())


def main():
    """Computes a small one, on the GPU or in the emulator, and prints the largest error."""
    x = np.random.default_rng(0).standard_normal((100, 1000)).astype(ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    softmax(x, y, N=block(1000))
    e = np.exp(x.astype(np.float64))
    print(f"largest error: {np.abs(y.astype(np.float64) - e / e.sum(1, keepdims=True)).max():.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
