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
