"""A product by pairs of CTAs in `weft.language` (sm_100a): one MMA computes 128 rows of each of the two."""

import argparse

import numpy as np

import weft.language as w


@w.kernel(
    grid=lambda a, b, *, BN: (2 * w.ceil_div(a.rows, 256), w.ceil_div(b.rows, BN)),
    cluster=2,
    pairs=True,
    persistent=1,
    arch="sm_100a",
)
def gemm_pairs(
    a: w.In[w.Array[w.bf16], "m k"],
    b: w.In[w.Array[w.bf16], "n k"],
    d: w.Out[w.Array[w.bf16], "m n"],
    *,
    BN=256,
    BK=64,
    stages=6,
    part=64,
):
    """d = a @ b.T, 256 x BN for each pair. A CTA has 128 rows of a, and half of the BN rows of b."""
    ring = w.ring(stages, a=(128, BK, a.dtype), b=(BN // 2, BK, b.dtype))
    tiles = w.ring(2, memory="tensor", sums=(128, BN, w.f32))
    staging = w.shared(128, part, d.dtype)
    half = w.cluster_rank() * (BN // 2)

    with w.role():  # stores a tile while the next one is multiplied
        for x, y in w.tiles():
            with tiles.take() as tile:
                for n in range(0, BN, part):
                    sums = w.load(tile.sums.columns(n, part))
                    w.store(sums.to(d.dtype), d[x * 128, y * BN + n], via=staging)

    with w.role():
        with w.one_thread():
            for x, y in w.tiles():
                for k in w.range(0, a.columns, BK):
                    ring.fill(a=a[x * 128, k], b=b[y * BN + half, k])
        with w.one_thread(warp=1, pair=True):  # of the CTA of even rank
            for _ in w.tiles():
                with tiles.write() as tile:
                    for k in w.range(0, a.columns, BK):
                        with ring.take() as stage:
                            w.gemm(stage.a, stage.b.T, tile.sums, accumulate=k > 0)


def main():
    """Multiplies random matrices, on the GPU or in the emulator, and prints the largest error."""
    import ml_dtypes

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 136)).astype(ml_dtypes.bfloat16) for rows in (300, 264))
    d = np.zeros((300, 264), ml_dtypes.bfloat16)
    gemm_pairs(a, b, d)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    print(f"largest error: {np.abs(d.astype(np.float64) - expected).max():.3f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
