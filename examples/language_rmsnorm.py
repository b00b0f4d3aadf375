"""RMSNorm fused into a GEMM's prologue: tiles of x are weighted in registers, which are the product's left
operand, while the warpgroup that copies adds each row's squares; the sums are scaled at the end.
"""

import argparse

import ml_dtypes
import numpy as np

import weft.language as w


@w.kernel(grid=lambda x, b, *, BM, BN: (w.ceil_div(x.rows, BM), w.ceil_div(b.rows, BN)), persistent=1)
def rmsnorm_gemm(
    x: w.In[w.Array[w.bf16], "m k"],
    gain: w.In[w.Array[w.bf16], "one k"],
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
    parts, dtype = BM // 64, x.dtype
    ring = w.ring(stages, x=(BM, BK, dtype), gain=(1, BK, dtype), b=(BN, BK, dtype), takers=parts + 1)
    squares = w.ring(1, of_rows=(1, BM, w.f32), takers=parts)
    staging = w.shared(BM, BN, d.dtype)
    pairs = w.ceil_div(x.columns, 2 * BK)  # of K blocks; those after the end are 0

    with w.role(warpgroups=parts, registers=216) as me:

        def weighted():
            slot = ring.take()
            t = w.load(slot.x.rows(64 * me, 64))
            return slot, t * w.load_row(slot.gain, like=t)

        def multiplied(late, sums):
            slot, left = weighted()  # while the product before runs
            sums = w.wait(sums)
            late.release()
            return slot, w.gemm(left, slot.b.T, sums)

        for i, j in w.tiles():
            slot, left = weighted()
            sums = w.gemm(left, slot.b.T)
            for _ in w.range(1, pairs):
                for _ in range(2):  # so that no registers are written that a running product reads
                    slot, sums = multiplied(slot, sums)
            slot, sums = multiplied(slot, sums)
            sums = w.wait(sums)
            slot.release()
            with squares.take() as total:
                mean = w.load_column(total.of_rows.columns(64 * me, 64), like=sums) / x.columns.to(w.f32)
            sums = sums * w.rsqrt(mean + epsilon)
            w.store(sums.to(d.dtype), d[i * BM + 64 * me, j * BN], via=staging.rows(64 * me, 64))

    with w.role(registers=72):

        def added(totals):
            with ring.take() as slot:
                t = [w.load(slot.x.rows(64 * part, 64)).to(w.f32) for part in range(parts)]
                new = [w.sum(each * each, axis=1, within="lane") for each in t]
            return [total + each for total, each in zip(totals, new, strict=True)]

        for i, j in w.tiles():
            totals = [w.sum(w.zeros((64, BK)), axis=1, within="lane")] * parts
            for k in w.range(2 * pairs):
                ring.fill(x=x[i * BM, k * BK], gain=gain[0, k * BK], b=b[j * BN, k * BK])
                if k > 1:  # two K blocks later, so that these are on their way
                    totals = added(totals)
            totals = added(added(totals))
            with squares.write() as total:
                for part in range(parts):
                    of_rows = w.sum(totals[part], axis=1)
                    w.store_column(of_rows, total.of_rows.columns(64 * part, 64))


def main():
    """Computes a small one, on the GPU or in the emulator, and prints the largest error."""
    rng = np.random.default_rng(0)
    x, b = (rng.standard_normal((rows, 200)).astype(ml_dtypes.bfloat16) for rows in (150, 264))
    gain = rng.uniform(0.5, 1.5, 200).astype(ml_dtypes.bfloat16)
    d = np.zeros((150, 264), ml_dtypes.bfloat16)
    rmsnorm_gemm(x, gain[None], b, d, 1e-6)
    wide = x.astype(float)
    exact = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * gain.astype(float) @ b.astype(float).T
    print(f"largest error: {np.abs(d.astype(float) - exact).max() / np.abs(exact).max():.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
