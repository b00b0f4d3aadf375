"""The kernels of `row_kernels.py` in Triton."""

import triton
import triton.language as tl


@triton.jit
def t_softmax(x, y, n, B: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64) * n, tl.arange(0, B)
    t = tl.load(x + row + i, mask=i < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(t - tl.max(t, 0))
    tl.store(y + row + i, (e / tl.sum(e, 0)).to(tl.bfloat16), mask=i < n)


@triton.jit
def t_rms_norm(x, gain, y, n, eps, B: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64) * n, tl.arange(0, B)
    t = tl.load(x + row + i, mask=i < n, other=0.0).to(tl.float32)
    t = t * tl.rsqrt(tl.sum(t * t, 0) / n + eps)
    g = tl.load(gain + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y + row + i, (t * g).to(tl.bfloat16), mask=i < n)


@triton.jit
def t_layer_norm(x, gain, bias, y, n, eps, B: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64) * n, tl.arange(0, B)
    t = tl.load(x + row + i, mask=i < n, other=0.0).to(tl.float32)
    t = tl.where(i < n, t - tl.sum(t, 0) / n, 0.0)
    t = t * tl.rsqrt(tl.sum(t * t, 0) / n + eps)
    g = tl.load(gain + i, mask=i < n, other=0.0).to(tl.float32)
    b = tl.load(bias + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y + row + i, (t * g + b).to(tl.bfloat16), mask=i < n)


@triton.jit
def t_rms_backward(x, gain, dy, dx, parts, m, n, eps, B: tl.constexpr):
    i = tl.arange(0, B)
    g = tl.load(gain + i, mask=i < n, other=0.0).to(tl.float32)
    total = tl.zeros((B,), tl.float32)
    for row in range(tl.program_id(0), m, tl.num_programs(0)):
        at = row.to(tl.int64) * n + i
        t = tl.load(x + at, mask=i < n, other=0.0).to(tl.float32)
        d = tl.load(dy + at, mask=i < n, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(t * t, 0) / n + eps)
        t = t * scale
        total += d * t
        d = d * g
        tl.store(dx + at, ((d - t * (tl.sum(d * t, 0) / n)) * scale).to(tl.bfloat16), mask=i < n)
    tl.store(parts + tl.program_id(0) * n + i, total, mask=i < n)


@triton.jit
def t_layer_backward(x, mean, scale, gain, dy, dx, parts, m, n, B: tl.constexpr):
    i = tl.arange(0, B)
    g = tl.load(gain + i, mask=i < n, other=0.0).to(tl.float32)
    of_gain, of_bias = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    for row in range(tl.program_id(0), m, tl.num_programs(0)):
        at = row.to(tl.int64) * n + i
        t = tl.load(x + at, mask=i < n, other=0.0).to(tl.float32)
        d = tl.load(dy + at, mask=i < n, other=0.0).to(tl.float32)
        factor = tl.load(scale + row)
        t = (t - tl.load(mean + row)) * factor
        of_gain += d * t
        of_bias += d
        d = d * g
        value = (d - tl.sum(d, 0) / n - t * (tl.sum(d * t, 0) / n)) * factor
        tl.store(dx + at, value.to(tl.bfloat16), mask=i < n)
    part = tl.program_id(0) * n + i
    tl.store(parts + part, of_gain, mask=i < n)
    tl.store(parts + tl.num_programs(0) * n + part, of_bias, mask=i < n)


@triton.jit
def t_add(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def t_swiglu(a, b, y, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    t = tl.load(a + i, mask=i < n).to(tl.float32)
    value = t * tl.sigmoid(t) * tl.load(b + i, mask=i < n).to(tl.float32)
    tl.store(y + i, value.to(tl.bfloat16), mask=i < n)


@triton.jit
def t_swiglu_backward(a, b, dy, da, db, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    t, d = tl.load(a + i, mask=i < n).to(tl.float32), tl.load(dy + i, mask=i < n).to(tl.float32)
    u = tl.load(b + i, mask=i < n).to(tl.float32)
    s = tl.sigmoid(t)
    tl.store(db + i, (d * t * s).to(tl.bfloat16), mask=i < n)
    value = d * u * s * (1.0 + t * (1.0 - s))
    tl.store(da + i, value.to(tl.bfloat16), mask=i < n)


@triton.jit
def t_fp8_cast(x, y, scale, n, B: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64) * n, tl.arange(0, B)
    t = tl.load(x + row + i, mask=i < n, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(t), 0), 1e-12)
    tl.store(y + row + i, (t * (448.0 / largest)).to(tl.float8e4nv), mask=i < n)
    tl.store(scale + tl.program_id(0), largest / 448.0)


@triton.jit
def t_dropout(x, y, seed, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    numbers = tl.rand4x(seed, i)
    i += tl.program_id(0) * B * 3
    for part in tl.static_range(4):
        t = tl.load(x + i + part * B, mask=i + part * B < n).to(tl.float32)
        t = tl.where(numbers[part] >= 0.25, t * (1 / 0.75), 0.0).to(tl.bfloat16)
        tl.store(y + i + part * B, t, mask=i + part * B < n)


@triton.jit
def t_cross_entropy(x, target, loss, m, n, B: tl.constexpr):
    row = tl.program_id(0)
    x += row.to(tl.int64) * n
    wanted = tl.load(target + row)
    logit, peak, total = tl.load(x + wanted).to(tl.float32), -float("inf"), 0.0
    for j in range(0, n, B):
        i = j + tl.arange(0, B)
        t = tl.load(x + i, mask=i < n, other=-float("inf")).to(tl.float32)
        old, peak = peak, tl.maximum(peak, tl.max(t, 0))
        total = total * tl.exp(old - peak) + tl.sum(tl.exp(t - peak), 0)
    for j in range(0, n, B):
        i = j + tl.arange(0, B)
        t = tl.load(x + i, mask=i < n, other=-float("inf")).to(tl.float32)
        d = tl.exp(t - peak) / total - tl.where(i == wanted, 1.0, 0.0)
        tl.store(x + i, (d / m).to(tl.bfloat16), mask=i < n)
    tl.store(loss + row, tl.log(total) + peak - logit)


@triton.jit
def t_rotary(q, cos, sin, y, heads, D: tl.constexpr, B: tl.constexpr):
    parts = tl.cdiv(heads, B)
    token, i = tl.program_id(0) // parts, tl.arange(0, D // 2)
    head = tl.program_id(0) % parts * B + tl.arange(0, B)[:, None]
    at = (token.to(tl.int64) * heads + head) * D + i[None, :]
    a = tl.load(q + at, mask=head < heads, other=0.0).to(tl.float32)
    b = tl.load(q + at + D // 2, mask=head < heads, other=0.0).to(tl.float32)
    c = tl.load(cos + token * (D // 2) + i).to(tl.float32)[None, :]
    s = tl.load(sin + token * (D // 2) + i).to(tl.float32)[None, :]
    tl.store(y + at, (a * c - b * s).to(tl.bfloat16), mask=head < heads)
    tl.store(y + at + D // 2, (b * c + a * s).to(tl.bfloat16), mask=head < heads)


@triton.jit
def t_transposed_cast(x, y, scale, m, n, B: tl.constexpr):
    across = tl.cdiv(n, B)
    down, right = tl.program_id(0) // across, tl.program_id(0) % across
    row, column = (down * B + tl.arange(0, B)).to(tl.int64), (right * B + tl.arange(0, B)).to(tl.int64)
    inside = (row[:, None] < m) & (column[None, :] < n)
    t = tl.load(x + row[:, None] * n + column[None, :], mask=inside, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(t)), 1e-12)
    t = tl.trans((t * (448.0 / largest)).to(tl.float8e4nv))
    tl.store(y + column[:, None] * m + row[None, :], t, mask=tl.trans(inside))
    tl.store(scale + tl.program_id(0), largest / 448.0)


@triton.jit
def t_top_k(x, values, indices, m, n, K: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    row, i = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, N)[None, :]
    at = x + row.to(tl.int64)[:, None] * n + i
    t = tl.load(at, mask=(row[:, None] < m) & (i < n), other=-float("inf"))
    for k in tl.static_range(K):
        largest, index = tl.max(t, 1, return_indices=True)
        t = tl.where(i == index[:, None], -float("inf"), t)
        tl.store(values + row * K + k, largest, mask=row < m)
        tl.store(indices + row * K + k, index, mask=row < m)


@triton.jit
def t_top_k_by_sorting(x, values, indices, m, n, K: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    """Of 64-bit keys: the number, as an unsigned one of the same order, and what is left of the row."""
    row, i = tl.program_id(0) * B + tl.arange(0, B)[:, None], tl.arange(0, N)[None, :]
    t = tl.load(x + row.to(tl.int64) * n + i, mask=(row < m) & (i < n), other=-float("inf"))
    bits = t.to(tl.uint32, bitcast=True)
    bits ^= tl.where((bits >> 31) != 0, 0xFFFFFFFF, 0x80000000)
    key = tl.topk((bits.to(tl.uint64) << 32) | (N - i).to(tl.uint64), K, dim=1)
    bits = (key >> 32).to(tl.uint32)
    bits ^= tl.where((bits >> 31) == 0, 0xFFFFFFFF, 0x80000000)
    at = row * K + tl.arange(0, K)[None, :]
    tl.store(values + at, bits.to(tl.float32, bitcast=True), mask=row < m)
    tl.store(indices + at, N - key.to(tl.uint32).to(tl.int32), mask=row < m)
