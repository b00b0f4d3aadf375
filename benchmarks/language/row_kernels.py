"""Kernels of `weft.language` that read and write memory, which `rows.py` times."""

import weft.language as w

EPSILON = 1e-5
BF16 = w.Array[w.bf16]


@w.kernel(grid=lambda x: x.rows, threads=lambda T: T)
def softmax(x: w.In[BF16, "m n"], y: w.Out[BF16, "m n"], *, N, T):
    row = w.cta()
    t = w.load(x[row, 0], N, outside=-w.inf).to(w.f32)
    e = w.exp(t - w.max(t))
    w.store((e * w.rcp(w.sum(e))).to(w.bf16), y[row, 0])


@w.kernel(grid=lambda x: x.rows, threads=lambda T: T)
def rms_norm(x: w.In[BF16, "m n"], gain: w.In[BF16, "n"], y: w.Out[BF16, "m n"], *, N, T):
    row = w.cta()
    t = w.load(x[row, 0], N).to(w.f32)
    scale = w.rsqrt(w.sum(t * t) / x.columns.to(w.f32) + EPSILON)
    w.store((t * scale * w.load(gain[0], N).to(w.f32)).to(w.bf16), y[row, 0])


@w.kernel(grid=lambda x: x.rows, threads=lambda T: T)
def layer_norm(
    x: w.In[BF16, "m n"], gain: w.In[BF16, "n"], bias: w.In[BF16, "n"], y: w.Out[BF16, "m n"], *, N, T
):
    row, columns = w.cta(), x.columns.to(w.f32)
    t = w.load(x[row, 0], N).to(w.f32)
    t = w.where(w.row(t) < x.columns, t - w.sum(t) / columns, 0.0)
    scale = w.rsqrt(w.sum(t * t) / columns + EPSILON)
    t = t * scale * w.load(gain[0], N).to(w.f32) + w.load(bias[0], N).to(w.f32)
    w.store(t.to(w.bf16), y[row, 0])


@w.kernel(grid=lambda parts: parts.rows, threads=lambda T: T)
def rms_backward(
    x: w.In[BF16, "m n"],
    gain: w.In[BF16, "n"],
    dy: w.In[BF16, "m n"],
    dx: w.Out[BF16, "m n"],
    parts: w.Out[w.Array[w.f32], "ctas n"],
    *,
    N,
    T,
):
    columns = x.columns.to(w.f32)
    weight = w.load(gain[0], N).to(w.f32)
    total = w.zeros(N, like=weight)
    for row in w.range(w.cta(), x.rows, parts.rows):
        t, d = w.load(x[row, 0], N).to(w.f32), w.load(dy[row, 0], N).to(w.f32)
        scale = w.rsqrt(w.sum(t * t) / columns + EPSILON)
        t = t * scale
        total += d * t
        d = d * weight
        w.store(((d - t * (w.sum(d * t) / columns)) * scale).to(w.bf16), dx[row, 0])
    w.store(total, parts[w.cta(), 0])


@w.kernel(grid=lambda x, N: w.ceil_div(x.rows, N), threads=lambda T: T)
def add(x: w.In["n"], y: w.In["n"], z: w.Out["n"], *, N, T):
    first = w.cta() * N
    w.store(w.load(x[first], N) + w.load(y[first], N), z[first])


@w.kernel(grid=lambda a, N: w.ceil_div(a.rows, N), threads=lambda T: T)
def swiglu(a: w.In[BF16, "n"], b: w.In[BF16, "n"], y: w.Out[BF16, "n"], *, N, T):
    first = w.cta() * N
    value = w.silu(w.load(a[first], N).to(w.f32)) * w.load(b[first], N).to(w.f32)
    w.store(value.to(w.bf16), y[first])


@w.kernel(grid=lambda a, N: w.ceil_div(a.rows, N), threads=lambda T: T)
def swiglu_backward(
    a: w.In[BF16, "n"],
    b: w.In[BF16, "n"],
    dy: w.In[BF16, "n"],
    da: w.Out[BF16, "n"],
    db: w.Out[BF16, "n"],
    *,
    N,
    T,
):
    first = w.cta() * N
    t, u, d = (w.load(each[first], N).to(w.f32) for each in (a, b, dy))
    s = w.sigmoid(t)
    w.store((d * t * s).to(w.bf16), db[first])
    w.store((d * u * s * (1.0 + t * (1.0 - s))).to(w.bf16), da[first])


@w.kernel(grid=lambda x: x.rows, threads=lambda T: T)
def fp8_cast(
    x: w.In[BF16, "m n"], y: w.Out[w.Array[w.e4m3], "m n"], scale: w.Out[w.Array[w.f32], "m"], *, N, T
):
    row = w.cta()
    t = w.load(x[row, 0], N).to(w.f32)
    largest = w.maximum(w.max(w.abs(t)), 1e-12)
    w.store((t * (448.0 / largest)).to(w.e4m3), y[row, 0])
    if w.thread() == 0:
        scale[row] = largest / 448.0


@w.kernel(grid=lambda x, N: w.ceil_div(x.rows, N), threads=lambda T: T)
def dropout(x: w.In[BF16, "n"], y: w.Out[BF16, "n"], seed: w.i32, *, N, T):
    first = w.cta() * N
    t = w.load(x[first], N)
    w.store(w.where(w.rand(seed, w.row(t) + first) >= 0.25, t.to(w.f32) / 0.75, 0.0).to(w.bf16), y[first])


@w.kernel(grid=lambda x: x.rows, threads=lambda T: T)
def cross_entropy(
    x: w.Out[BF16, "m n"], target: w.In[w.Array[w.i32], "m"], loss: w.Out[w.Array[w.f32], "m"], *, N, T
):
    """The loss of each row, and its gradient in the place of the logits."""
    row, wanted = w.cta(), target[w.cta()]
    peak, total, logit = w.f32(-w.inf), w.f32(0), x[row, wanted].to(w.f32)
    for j in w.range(0, x.columns, N):
        t = w.load(x[row, j], N, outside=-w.inf).to(w.f32)
        old, peak = peak, w.maximum(peak, w.max(t))
        total = total * w.exp(old - peak) + w.sum(w.exp(t - peak))
    scale, each = w.rcp(total), w.rcp(x.rows.to(w.f32))
    for j in w.range(0, x.columns, N):
        t = w.load(x[row, j], N, outside=-w.inf).to(w.f32)
        d = w.exp(t - peak) * scale - w.where(w.row(t) + j == wanted, 1.0, 0.0)
        w.store((d * each).to(w.bf16), x[row, j])
    if w.thread() == 0:
        loss[row] = w.log(total) + peak - logit
