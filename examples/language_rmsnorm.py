"""RMSNorm fused into a GEMM's prologue: tiles of x are weighted in registers, which are the product's left
operand, while each row's squares are added; the sums are scaled at the end.
"""

import ml_dtypes
import numpy as np

import weft.language as w


@w.kernel(grid=lambda x, b, *, BM, BN: (w.ceil_div(x.rows, BM), w.ceil_div(b.rows, BN)))
def rmsnorm_gemm(
    x: w.In[w.Array[w.bf16], "m k"],
    gain: w.In[w.Array[w.f32], "k"],
    b: w.In[w.Array[w.bf16], "n k"],
    d: w.Out[w.Array[w.bf16], "m n"],
    epsilon: w.f32,
    *,
    BM=128,
    BN=256,
    BK=64,
    stages=3,
):
    """d = (x / sqrt(mean(x**2) + epsilon) * gain) @ b.T, a tile of BM x BN for each CTA."""
    ring = w.ring(stages, x=(BM, BK, x.dtype), b=(BN, BK, b.dtype), takers=BM // 64)
    staging = w.shared(BM, BN, d.dtype)
    row, column = w.cta(0) * BM, w.cta(1) * BN

    with w.role(warpgroups=BM // 64, registers=240) as me:
        sums, squares = w.zeros((64, BN)), w.zeros(64)
        for k in w.range(0, x.columns, BK):
            with ring.take() as slot:
                t = w.load(slot.x.rows(64 * me, 64)).to(w.f32)
                weighted = (t * w.load_row(gain[k], like=t)).to(x.dtype)
                squares = squares + w.sum(t * t, axis=1)
                sums = w.wait(w.gemm(weighted, slot.b.T, sums))
        scale = w.rsqrt(squares / x.columns.to(w.f32) + epsilon)
        w.store((sums * scale).to(d.dtype), d[row + 64 * me, column], via=staging.rows(64 * me, 64))

    with w.role(registers=24), w.one_thread():
        for k in w.range(0, x.columns, BK):
            ring.fill(x=x[row, k], b=b[column, k])


def main():
    """Computes a small one, on the GPU or in the emulator, and prints the largest error."""
    rng = np.random.default_rng(0)
    x, b = (rng.standard_normal((rows, 200)).astype(ml_dtypes.bfloat16) for rows in (150, 264))
    gain = rng.uniform(0.5, 1.5, 200).astype(np.float32)
    d = np.zeros((150, 264), ml_dtypes.bfloat16)
    rmsnorm_gemm(x, gain, b, d, 1e-6)
    exact = x.astype(np.float64)
    exact = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-6) * gain @ b.astype(np.float64).T
    print(f"largest error: {np.abs(d.astype(np.float64) - exact).max() / np.abs(exact).max():.1e}")


if __name__ == "__main__":
    main()
