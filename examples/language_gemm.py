"""gelu(A @ B.T + bias) in `weft.language`: one warpgroup copies tiles by TMA, the others multiply them."""

import argparse

import numpy as np

import weft.language as w


@w.kernel(grid=lambda a, b, *, BM, BN: (w.ceil_div(a.rows, BM), w.ceil_div(b.rows, BN)))
def gemm_gelu(
    a: w.In[w.Array[w.bf16], "m k"],
    b: w.In[w.Array[w.bf16], "n k"],
    bias: w.In[w.Array[w.f32], "n"],
    d: w.Out[w.Array[w.bf16], "m n"],
    *,
    BM=128,
    BN=256,
    BK=64,
    stages=3,
):
    """d = gelu(a @ b.T + bias), a tile of BM x BN for each CTA."""
    ring = w.ring(stages, a=(BM, BK, a.dtype), b=(BN, BK, b.dtype), takers=BM // 64)
    staging = w.shared(BM, BN, d.dtype)
    row, column = w.cta(0) * BM, w.cta(1) * BN

    with w.role(warpgroups=BM // 64, registers=240) as me:
        slot = ring.take()  # the first block, outside of the loop: its products start the sums
        sums = w.gemm(slot.a.rows(64 * me, 64), slot.b.T)
        for _ in w.range(1, w.ceil_div(a.columns, BK)):
            late, slot = slot, ring.take()
            sums = w.gemm(slot.a.rows(64 * me, 64), slot.b.T, sums)
            sums = w.wait(sums, pending=1)  # the block before is multiplied: its stage is free
            late.release()
        sums = w.wait(sums)
        x = w.gelu(sums + w.load_row(bias[column], like=sums))
        w.store(x.to(d.dtype), d[row + 64 * me, column], via=staging.rows(64 * me, 64))

    with w.role(registers=24), w.one_thread():
        for k in w.range(0, a.columns, BK):
            ring.fill(a=a[row, k], b=b[column, k])


def main():
    """Multiplies random matrices, on the GPU or in the emulator, and prints the largest error."""
    import math

    import ml_dtypes

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 136)).astype(ml_dtypes.bfloat16) for rows in (200, 264))
    bias = rng.standard_normal(264).astype(np.float32)
    d = np.zeros((200, 264), ml_dtypes.bfloat16)
    gemm_gelu(a, b, bias, d)
    x = a.astype(np.float64) @ b.astype(np.float64).T + bias
    expected = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    print(f"largest error: {np.abs(d.astype(np.float64) - expected).max():.3f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
