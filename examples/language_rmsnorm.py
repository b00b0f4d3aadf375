"""RMSNorm fused into a GEMM's prologue: tiles of x are weighted in registers, which are the product's left
operand, while each row's squares are added; the sums are scaled at the end.
"""

import argparse

import ml_dtypes
import numpy as np

import weft.language as w


@w.kernel(grid=lambda x, b, *, BM, BN: (w.ceil_div(x.rows, BM), w.ceil_div(b.rows, BN)), persistent=1)
def rmsnorm_gemm(
    x: w.In[w.Array[w.bf16], "m k"],
    gain: w.In[w.Array[w.f32], "one k"],
    b: w.In[w.Array[w.bf16], "n k"],
    d: w.Out[w.Array[w.bf16], "m n"],
    epsilon: w.f32,
    *,
    BM=128,
    BN=256,
    BK=64,
    stages=3,
):
    """d = (x / sqrt(mean(x**2) + epsilon) * gain) @ b.T, tile after tile of BM x BN for each CTA."""
    ring = w.ring(stages, x=(BM, BK, x.dtype), gain=(1, BK, gain.dtype), b=(BN, BK, b.dtype), takers=BM // 64)
    staging = w.shared(BM, BN, d.dtype)
    pairs = w.ceil_div(x.columns, 2 * BK)  # of K blocks; those after the end are 0

    with w.role(warpgroups=BM // 64, registers=240) as me:

        def weighted(squares):
            slot = ring.take()
            t = w.load(slot.x.rows(64 * me, 64)).to(w.f32)
            left = (t * w.load_row(slot.gain, like=t)).to(x.dtype)
            return slot, left, squares + w.sum(t * t, axis=1, within="lane")

        def multiplied(late, sums, squares):
            slot, left, squares = weighted(squares)  # while the product before runs
            sums = w.wait(sums)
            late.release()
            return slot, w.gemm(left, slot.b.T, sums), squares

        for i, j in w.tiles():
            slot, left, squares = weighted(w.zeros(64))
            sums = w.gemm(left, slot.b.T)
            for _ in w.range(1, pairs):
                for _ in range(2):  # so that no registers are written that a running product reads
                    slot, sums, squares = multiplied(slot, sums, squares)
            slot, sums, squares = multiplied(slot, sums, squares)
            sums = w.wait(sums)
            slot.release()
            scale = w.rsqrt(w.sum(squares, axis=1) / x.columns.to(w.f32) + epsilon)
            mine = staging.rows(64 * me, 64)
            w.store((sums * scale).to(d.dtype), d[i * BM + 64 * me, j * BN], via=mine)

    with w.role(registers=24), w.one_thread():
        for i, j in w.tiles():
            for k in w.range(0, 2 * pairs * BK, BK):
                ring.fill(x=x[i * BM, k], gain=gain[0, k], b=b[j * BN, k])


def main():
    """Computes a small one, on the GPU or in the emulator, and prints the largest error."""
    rng = np.random.default_rng(0)
    x, b = (rng.standard_normal((rows, 200)).astype(ml_dtypes.bfloat16) for rows in (150, 264))
    gain = rng.uniform(0.5, 1.5, 200).astype(np.float32)
    d = np.zeros((150, 264), ml_dtypes.bfloat16)
    rmsnorm_gemm(x, gain[None], b, d, 1e-6)
    wide = x.astype(float)
    exact = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * gain @ b.astype(float).T
    print(f"largest error: {np.abs(d.astype(float) - exact).max() / np.abs(exact).max():.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
