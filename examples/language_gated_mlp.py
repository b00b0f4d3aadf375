"""A gated layer in `weft.language`: silu(x @ gate.T) * (x @ up.T), two products that share copies of x."""

import argparse

import ml_dtypes
import numpy as np

import weft.language as w


@w.kernel(grid=lambda x, gate, *, BM, BN: (w.ceil_div(x.rows, BM), w.ceil_div(gate.rows, BN)), persistent=1)
def gated(
    x: w.In[w.Array[w.bf16], "m k"],
    gate: w.In[w.Array[w.bf16], "n k"],
    up: w.In[w.Array[w.bf16], "n k"],
    y: w.Out[w.Array[w.bf16], "m n"],
    *,
    BM=128,
    BN=128,
    BK=64,
    stages=4,
):
    """y = silu(x @ gate.T) * (x @ up.T), tile after tile of BM x BN for each CTA."""
    ring = w.ring(stages, x=(BM, BK, x.dtype), gate=(BN, BK, x.dtype), up=(BN, BK, x.dtype), takers=BM // 64)
    staging = w.shared(BM, BN, y.dtype)

    with w.role(warpgroups=BM // 64, registers=240) as me:
        mine = staging.rows(64 * me, 64)
        for i, j in w.tiles():
            block = ring.take()
            a, b = (w.gemm(block.x.rows(64 * me, 64), right.T) for right in (block.gate, block.up))
            for _ in w.range(1, w.ceil_div(x.columns, BK)):
                late, block = block, ring.take()
                rows = block.x.rows(64 * me, 64)
                a = w.gemm(rows, block.gate.T, a)
                b = w.gemm(rows, block.up.T, b)
                w.wait(pending=2)  # the products of the block before are finished
                late.release()
            a, b = w.wait(a, b)
            block.release()
            w.store((w.silu(a) * b).to(y.dtype), y[i * BM + 64 * me, j * BN], via=mine)

    with w.role(registers=24), w.one_thread():
        for i, j in w.tiles():
            for k in w.range(0, x.columns, BK):
                ring.fill(x=x[i * BM, k], gate=gate[j * BN, k], up=up[j * BN, k])


def main():
    """Computes a small layer, on the GPU or in the emulator, and prints the largest error."""
    rng = np.random.default_rng(0)
    x, gate, up = ((rng.standard_normal((n, 136)) / 4).astype(ml_dtypes.bfloat16) for n in (200, 264, 264))
    y = np.zeros((200, 264), ml_dtypes.bfloat16)
    gated(x, gate, up, y)
    a, b = (x.astype(np.float64) @ each.astype(np.float64).T for each in (gate, up))
    print(f"largest error: {np.abs(y.astype(np.float64) - a / (1 + np.exp(-a)) * b).max():.3f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
