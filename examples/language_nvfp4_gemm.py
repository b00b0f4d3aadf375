"""An nvfp4 product in `weft.language`: elements of 4 bits, of which 16 along K share a scale (sm_100a)."""

import argparse

import numpy as np

import weft.language as w


@w.kernel(
    grid=lambda a, b, *, BM, BN: (w.ceil_div(a.rows, BM), w.ceil_div(b.rows, BN)),
    persistent=1,
    arch="sm_100a",
)
def gemm_nvfp4(
    a: w.In[w.Array[w.e2m1], "m k"],
    b: w.In[w.Array[w.e2m1], "n k"],
    a_scales: w.In[w.Scales[w.e4m3], "m k"],
    b_scales: w.In[w.Scales[w.e4m3], "n k"],
    d: w.Out[w.Array[w.bf16], "m n"],
    alpha: w.f32,
    *,
    BM=128,
    BN=192,
    BK=256,
    stages=4,
    part=64,
):
    """d = alpha * a @ b.T. Scales have the 128x4 layout (docs/scaled.md)."""
    ring = w.ring(
        stages,
        a=(BM, BK, a.dtype),
        b=(BN, BK, b.dtype),
        a_scales=w.block_scales(BM, BK, a_scales.dtype),
        b_scales=w.block_scales(w.ceil_div(BN, 128) * 128, BK, b_scales.dtype),  # in tiles of 128 columns
    )
    tiles = w.ring(2, memory="tensor", sums=(BM, BN, w.f32))
    staging = w.shared(BM, part, d.dtype)

    with w.role():  # stores a tile while the next one is multiplied
        for x, y in w.tiles():
            with tiles.take() as tile:
                for n in range(0, BN, part):
                    sums = w.load(tile.sums.columns(n, part)) * alpha
                    w.store(sums.to(d.dtype), d[x * BM, y * BN + n], via=staging)

    with w.role():
        with w.one_thread():
            for x, y in w.tiles():
                for k in w.range(0, a.columns, BK):
                    ring.fill(
                        a=a[x * BM, k],
                        b=b[y * BN, k],
                        a_scales=a_scales[x * BM, k],
                        b_scales=b_scales[y * BN, k],
                    )
        with w.one_thread(warp=1):
            for _, y in w.tiles():
                first = y * BN % 128  # the tile's columns in the first tile of scales
                with tiles.write() as tile:
                    for k in w.range(0, a.columns, BK):
                        with ring.take() as stage:
                            of_a, of_b = stage.a_scales, stage.b_scales.rows(first, BN)
                            operands = stage.a, stage.b.T, tile.sums
                            w.gemm(*operands, accumulate=k > 0, a_scales=of_a, b_scales=of_b)


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
