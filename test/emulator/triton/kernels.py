"""Triton kernels for the emulator's tests; compile.py makes their PTX."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :]
    pb = b + rk[:, None] * sbk + rn[None, :]
    acc = tl.zeros((BM, BN), tl.int32 if tl.int32 == OUT else tl.float32)
    for k in range(0, K, BK):
        x = tl.load(pa, mask=(rm[:, None] < M) & (k + rk[None, :] < K), other=0.0)
        y = tl.load(pb, mask=(k + rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=acc.dtype)
        pa += BK
        pb += BK * sbk
    pc = c + rm[:, None] * scm + rn[None, :]
    tl.store(pc, acc.to(OUT), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def descriptor_matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=WS):
        x = a.load([m, k])
        y = b.load([n, k])
        acc = tl.dot(x, y.T, acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def persistent_matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PROGRAMS: tl.constexpr,
    WS: tl.constexpr,
):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(M, BM) * across, PROGRAMS, flatten=True, warp_specialize=WS
    ):
        m, n = tile // across * BM, tile % across * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(da.load([m, k]), db.load([n, k]).T, acc)
        dc.store([m, n], acc.to(tl.float16))


@triton.jit
def scaled_matmul(
    a,
    sa,
    b,
    sb,
    c,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
):
    PACK: tl.constexpr = 2 if KIND == "e2m1" else 1
    rm, rn = tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk, rs = k // PACK + tl.arange(0, BK // PACK), k // GROUP + tl.arange(0, BK // GROUP)
        x = tl.load(a + rm[:, None] * (K // PACK) + rk[None, :])
        y = tl.load(b + rn[None, :] * (K // PACK) + rk[:, None])
        s = tl.load(sa + rm[:, None] * (K // GROUP) + rs[None, :])
        t = tl.load(sb + rn[:, None] * (K // GROUP) + rs[None, :])
        acc = tl.dot_scaled(x, s, KIND, y, t, KIND, acc)
    tl.store(c + rm[:, None] * BN + rn[None, :], acc)


@triton.jit
def softmax(x, y, columns, stride, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * stride + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def layer_norm(x, w, y, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / columns
    d = tl.where(at < columns, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, 0) / columns + 1e-5)
    g = tl.load(w + at, mask=at < columns)
    tl.store(y + row * columns + at, (d * scale * g).to(y.dtype.element_ty), mask=at < columns)


@triton.jit
def attention(q, k, v, o, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rm, rn, rd = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    xq = tl.load(q + rm[:, None] * D + rd[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, N, BN):
        xk = tl.load(k + (n + rn)[None, :] * D + rd[:, None])
        s = tl.dot(xq, xk) * scale
        m = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - m[:, None])
        fix = tl.exp2(most - m)
        total = total * fix + tl.sum(p, 1)
        xv = tl.load(v + (n + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), xv, acc * fix[:, None])
        most = m
    tl.store(o + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def atomics(x, out, bins, lock, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(out, tl.sum(v.to(tl.float32), 0))
    tl.atomic_max(out + 1, tl.max(v.to(tl.float32), 0))
    tl.atomic_add(bins + (v & 15), 1, mask=at < n)
    tl.atomic_xchg(lock, 1)
    tl.atomic_cas(lock + 1, 0, 5)


@triton.jit
def half_atomics(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + at % 64, tl.load(x + at), sem="relaxed")


@triton.jit
def scans(x, y, z, w, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(y + at, tl.cumsum(v, 0))
    tl.store(z + at, tl.sort(v))
    tl.store(w + at, tl.cumprod((v & 3).to(tl.float32) * 0.25 + 0.75, 0, reverse=True))


@triton.jit
def statistics(x, h, best, index, BLOCK: tl.constexpr, BINS: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(h + tl.arange(0, BINS), tl.histogram(v & (BINS - 1), BINS))
    value, where = tl.max(v, 0, return_indices=True)
    tl.store(best, value)
    tl.store(index, where)


@triton.jit
def gathers(x, at, y, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    r, c = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    v = tl.load(x + r[:, None] * WIDTH + c[None, :])
    i = tl.load(at + r[:, None] * WIDTH + c[None, :])
    tl.store(y + r[:, None] * WIDTH + c[None, :], tl.gather(v, i, 0))


@triton.jit
def casts(x, half, brain, e4m3, e5m2, back, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(half + at, v.to(tl.float16))
    tl.store(brain + at, v.to(tl.bfloat16))
    tl.store(e4m3 + at, v.to(tl.float8e4nv))
    tl.store(e5m2 + at, v.to(tl.float8e5))
    tl.store(back + at, v.to(tl.float8e5).to(tl.float32) + v.to(tl.float8e4nv).to(tl.float32))


@triton.jit
def functions(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    r = (
        tl.sin(v)
        + tl.exp(v) * tl.log(tl.abs(v) + 1)
        + tl.sqrt(tl.abs(v)) / (1 + tl.sigmoid(v))
        + tl.erf(v)
        + tl.floor(v)
    )
    tl.store(y + at, r)


@triton.jit
def seeded(seed, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.rand(seed, at))
    tl.store(z + at, tl.randint(seed, at))


@triton.jit
def transpose(x, y, N, BLOCK: tl.constexpr):
    rm, rn = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + rm[:, None] * N + rn[None, :])
    tl.store(y + rn[:, None] * N + rm[None, :], tl.trans(v))
