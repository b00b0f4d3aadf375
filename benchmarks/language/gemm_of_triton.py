"""A product in Triton as its tutorial teaches it: pointers, masks along K, blocks in groups, autotuned."""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"M": m, "N": n, "K": k, "GROUP": 8}, num_stages=stages, num_warps=warps)
    for m, n, k, stages, warps in (
        (128, 256, 64, 3, 8),
        (256, 128, 64, 3, 8),
        (128, 256, 64, 4, 8),
        (128, 128, 64, 4, 4),
        (128, 128, 64, 4, 8),
        (128, 128, 32, 5, 4),
        (64, 256, 32, 4, 4),
        (128, 64, 32, 4, 4),
        (64, 128, 64, 4, 4),
    )
]


@triton.autotune(configs=CONFIGS, key=["m", "n", "k"])
@triton.jit
def t_gemm(
    a,
    b,
    d,
    m,
    n,
    k,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    GROUP: tl.constexpr,
):
    number, down, across = tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N)
    first = number // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    within = number % (GROUP * across)
    row, column = first + within % height, within // height
    rows, columns, inner = row * M + tl.arange(0, M), column * N + tl.arange(0, N), tl.arange(0, K)
    left = a + (rows % m)[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + (columns % n)[None, :]
    sums = tl.zeros((M, N), tl.float32)
    for at in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=inner[None, :] < k - at * K, other=0.0)
        y = tl.load(right, mask=inner[:, None] < k - at * K, other=0.0)
        sums = tl.dot(x, y, sums)
        left += K
        right += K * n
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(d + rows[:, None] * n + columns[None, :], sums.to(tl.bfloat16), mask=inside)


def call(a, b, d):
    """Multiplies, with the best configuration once it is known."""
    (m, k), n = a.shape, b.shape[1]
    t_gemm[lambda meta: (triton.cdiv(m, meta["M"]) * triton.cdiv(n, meta["N"]),)](a, b, d, m, n, k)
