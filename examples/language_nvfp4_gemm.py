"""An nvfp4 product in `weft.language`: elements of 4 bits, of which 16 along K share a scale (sm_100a)."""

import argparse

import numpy as np

import weft.language as w


@w.kernel(grid=lambda a, b, *, BM, BN: (w.ceil_div(a.rows, BM), w.ceil_div(b.rows, BN)), arch="sm_100a")
def gemm_nvfp4(
    a: w.In[w.Array[w.e2m1], "m k"],
    b: w.In[w.Array[w.e2m1], "n k"],
    a_scales: w.In[w.Array[w.e4m3], "m_tiles k_bytes"],
    b_scales: w.In[w.Array[w.e4m3], "n_tiles k_bytes"],
    d: w.Out[w.Array[w.bf16], "m n"],
    alpha: w.f32,
    *,
    BM=128,
    BN=128,
    BK=256,
    stages=4,
):
    """d = alpha * a @ b.T, a tile of BM x BN for each CTA. Scales have the 128x4 layout (docs/scaled.md)."""
    ring = w.ring(
        stages,
        a=(BM, BK, a.dtype),
        b=(BN, BK, b.dtype),
        a_scales=w.block_scales(BM, BK, a_scales.dtype),
        b_scales=w.block_scales(BN, BK, b_scales.dtype),
    )
    staging = w.shared(BM, BN, d.dtype)
    row, column = w.cta(0) * BM, w.cta(1) * BN

    with w.role():
        slot = ring.take()
        sums = w.gemm(slot.a, slot.b.T, a_scales=slot.a_scales, b_scales=slot.b_scales)
        for _ in w.range(BK, a.columns, BK):
            late, slot = slot, ring.take()
            sums = w.gemm(slot.a, slot.b.T, sums, a_scales=slot.a_scales, b_scales=slot.b_scales)
            sums = w.wait(sums, pending=1)
            late.release()
        w.store((w.wait(sums) * alpha).to(d.dtype), d[row, column], via=staging)

    with w.role(), w.one_thread():
        for k in w.range(0, a.columns, BK):
            ring.fill(a=a[row, k], b=b[column, k], a_scales=a_scales[row, k], b_scales=b_scales[column, k])


def main():
    """Multiplies random matrices, on the GPU or in the emulator, and prints the largest error."""
    import ml_dtypes

    from weft import reference

    rng = np.random.default_rng(0)
    a, b = (reference.quantize(rng.standard_normal((rows, 544)), "nvfp4") for rows in (200, 264))
    d = np.zeros((200, 264), ml_dtypes.bfloat16)
    gemm_nvfp4(a.packed, b.packed, a.tiled_scales, b.tiled_scales, d, a.factor * b.factor)
    expected = a.values @ b.values.T
    print(f"largest error: {np.abs(d.astype(np.float64) - expected).max() / np.abs(expected).max():.5f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
