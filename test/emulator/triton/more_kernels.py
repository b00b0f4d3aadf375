"""More Triton kernels: types, scans, descriptors and dots that the first file leaves out."""

import triton
import triton.language as tl


@triton.jit
def exact_matmul(a, b, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + rm[:, None] * BK + rk[None, :])
    y = tl.load(b + rk[:, None] * BN + rn[None, :])
    d = tl.dot(x, y, input_precision=PRECISION)
    tl.store(c + rm[:, None] * BN + rn[None, :], d)


@triton.jit
def transposed_matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + rk[None, :] * BM + rm[:, None])
        y = tl.load(b + rn[None, :] * K + rk[:, None])
        acc += tl.dot(x, y)
    tl.store(c + rm[:, None] * BN + rn[None, :], tl.maximum(acc, 0.0))


@triton.jit
def mixed_scaled(a, sa, b, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk, rp = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK), tl.arange(0, BK // 2)
    x = tl.load(a + rm[:, None] * (BK // 2) + rp[None, :])
    s = tl.load(sa + rm[:, None] * (BK // 32) + tl.arange(0, BK // 32)[None, :])
    y = tl.load(b + rk[:, None] * BN + rn[None, :])
    tl.store(c + rm[:, None] * BN + rn[None, :], tl.dot_scaled(x, s, "e2m1", y, None, "bf16"))


@triton.jit
def descriptor_extras(x, y, z, at, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    dx = tl.make_tensor_descriptor(x, [ROWS, COLUMNS], [COLUMNS, 1], [1, 32])
    dy = tl.make_tensor_descriptor(y, [ROWS, COLUMNS], [COLUMNS, 1], [1, 32])
    dz = tl.make_tensor_descriptor(z, [ROWS, COLUMNS], [COLUMNS, 1], [16, 32])
    rows = tl.load(at + tl.arange(0, 16))
    v = dx.gather(rows, 32)
    dy.scatter(v + 1, rows, 0)
    dz.atomic_add([0, 32], v)


@triton.jit
def reduce_descriptor(x, y, BLOCK: tl.constexpr):
    d = tl.make_tensor_descriptor(y, [BLOCK, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    at = tl.arange(0, BLOCK)
    d.atomic_add([0, 0], tl.load(x + at[:, None] * BLOCK + at[None, :]))


@triton.jit
def pick(a, ia, b, ib):
    larger = (a > b) | ((a == b) & (ia < ib))
    return tl.where(larger, a, b), tl.where(larger, ia, ib)


@triton.jit
def custom(x, best, where, y, z, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    v = tl.load(x + r[:, None] * COLUMNS + c[None, :])
    index = tl.broadcast_to(c[None, :], (ROWS, COLUMNS))
    value, at = tl.reduce((v, index), 1, pick)
    tl.store(best + r, value)
    tl.store(where + r, at)
    running, _ = tl.associative_scan((v, index), 1, pick)
    tl.store(y + r[:, None] * COLUMNS + c[None, :], running)
    tl.store(z + r[:, None] * COLUMNS + c[None, :], tl.flip(v, 1) + tl.sum(v, 0)[None, :])


@triton.jit
def shapes(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(x + BLOCK + at)
    joined = tl.join(a, b).reshape(2, BLOCK)
    p, q = tl.split(joined.reshape(BLOCK, 2))
    tl.store(y + tl.arange(0, 2 * BLOCK), tl.interleave(p * 2, q * 3))


@triton.jit
def wide(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=1)
    tl.store(
        y + at, (v * v) // 7 + v % 11 + tl.umulhi(v.to(tl.uint64), v.to(tl.uint64)).to(tl.int64), mask=at < n
    )
    f = v.to(tl.float64)
    tl.store(z + at, tl.sqrt(tl.abs(f)) * tl.exp(f * 1e-19) / (f * f + 1.0), mask=at < n)


@triton.jit
def bytes_and_halves(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(y + at, ((v << 1) ^ (v >> 2)).to(tl.uint8))
    h = v.to(tl.float16) * 0.5
    tl.store(z + at, tl.where(v > 3, h, -h).to(tl.bfloat16))


@triton.jit
def loops(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    v = tl.load(x + at)
    count = 0
    while v != 1:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        count += 1
    tl.store(y + at, count)


@triton.jit
def said(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.device_print("v", v)
    tl.device_assert(v < 1000, "too large")


@triton.jit
def assembly(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    r = tl.inline_asm_elementwise(
        "{ .reg .b32 t; shf.l.wrap.b32 t, $1, $1, 5; lop3.b32 $0, t, $1, 0xFF00FF00, 0x6a; }",
        "=r,r",
        [v],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    tl.store(y + at, r)


@triton.jit
def typed_atomics(x, i, f, d, b, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(i + v % 4, v.to(tl.int64), mask=at < n, sem="acq_rel", scope="sys")
    tl.atomic_min(f + v % 4, v.to(tl.float32), mask=at < n)
    tl.atomic_add(d + v % 4, v.to(tl.float64), mask=at < n, sem="release")
    tl.atomic_or(b + v % 4, v, mask=at < n)
    old = tl.atomic_add(b + 8, 1, sem="acquire")
    tl.atomic_xor(b + 9, old)


@triton.jit
def attention_ws(q, k, v, o, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m = tl.program_id(0) * BM
    xq = q.load([m, 0])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in tl.range(0, N, BN, warp_specialize=True):
        s = tl.dot(xq, k.load([n, 0]).T) * scale
        new = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        fix = tl.exp2(most - new)
        total = total * fix + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v.load([n, 0]), acc * fix[:, None])
        most = new
    o.store([m, 0], (acc / total[:, None]).to(tl.float16))


@triton.jit
def tiled_scales(
    a,
    sa,
    b,
    sb,
    c,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    KIND: tl.constexpr,
):
    PACK: tl.constexpr = 2 if KIND == "e2m1" else 1
    BLOCKS: tl.constexpr = BK // GROUP // 4
    m, n = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K // BK, num_stages=2):
        x = a.load([m * BM, k * BK // PACK])
        y = b.load([n * BN, k * BK // PACK])
        s = sa.load([0, m * (BM // 128), k * BLOCKS, 0, 0])
        t = sb.load([0, n * (BN // 128), k * BLOCKS, 0, 0])
        s = s.reshape(BM // 128, BLOCKS, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BM, BK // GROUP)
        t = t.reshape(BN // 128, BLOCKS, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BN, BK // GROUP)
        acc = tl.dot_scaled(x, s, KIND, y.T, t, KIND, acc)
    rm, rn = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    tl.store(c + rm[:, None] * (BN * tl.num_programs(1)) + rn[None, :], acc)


@triton.jit
def batched(a, b, c, B: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rb, rm, rn, rk = tl.arange(0, B), tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + rb[:, None, None] * BM * BK + rm[None, :, None] * BK + rk[None, None, :])
    y = tl.load(b + rb[:, None, None] * BK * BN + rk[None, :, None] * BN + rn[None, None, :])
    tl.store(c + rb[:, None, None] * BM * BN + rm[None, :, None] * BN + rn[None, None, :], tl.dot(x, y))


@triton.jit
def half_sums(a, b, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + rm[:, None] * BK + rk[None, :])
    y = tl.load(b + rk[:, None] * BN + rn[None, :])
    tl.store(c + rm[:, None] * BN + rn[None, :], tl.dot(x, y, out_dtype=tl.float16))


@triton.jit
def split_epilogue(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr
):
    across = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * across
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True, warp_specialize=True):
        m, n = tile // across * BM, tile % across * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
        parts = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
        left, right = tl.split(parts)
        c.store([m, n], left.to(tl.float16))
        c.store([m, n + BN // 2], right.to(tl.float16))
