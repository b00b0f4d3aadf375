"""Kernels of `weft.language` that several tests run."""

import weft.language as w


@w.kernel(grid=lambda x, **_: w.ceil_div(x.rows, 256), threads=256)
def add(x: w.In["n", w.f32], y: w.In["n", w.f32], z: w.Out["n", w.f32]):
    i = w.cta() * 256 + w.thread()
    if i < x.rows:
        z[i] = x[i] + y[i]


@w.kernel(threads=32)
def control(n: w.i32, x: w.In["m", w.f32], z: w.Out["m", w.f32], *, unroll=2):
    """Loops and branches of both kinds."""
    i = w.thread()
    power, counted, k = w.f32(1.0), w.f32(0), w.i32(0)
    for j in w.range(n):
        for _ in range(unroll):
            power = power * x[i]
        if j % 2 == 0 and i > 3:
            counted = counted + 1.0
        elif 2 < i <= 3:
            counted += 10.0
        else:
            pass
    while k < n and not k > 100:
        k += 3
    signed = power if i < 16 or i == 20 else -power
    z[i] = signed + counted + k.to(w.f32)


@w.inline
def triangle(n):
    total = w.i32(0)
    for j in w.range(n + 1):
        total += j
    return total


@w.kernel(threads=32)
def nested(z: w.Out["n", w.i32]):
    """Loops in loops, tuples that are carried, and an inlined function."""
    i, pair = w.thread(), (w.i32(0), w.i32(1))
    for j in w.range(2, i, 2):
        for k in w.range(j):
            pair = (pair[1], pair[0] + k)
    z[i] = pair[0] + triangle(i) * 1000


@w.kernel(grid=lambda x, *, N: w.ceil_div(x.rows, 64))
def softmax(x: w.In["m n", w.bf16], y: w.Out["m n", w.bf16], *, N=128):
    """Of the rows, 64 for each CTA, in blocks of N columns."""
    ring = w.ring(2, x=(64, N, x.dtype))
    row, columns = w.cta() * 64, x.columns
    with w.role() as _:
        peak, total = w.full(64, -w.inf), w.zeros(64)
        for j in w.range(0, columns, N):
            with ring.take() as slot:
                t = w.load(slot.x).to(w.f32)
            t = w.where(w.column(t) + j < columns, t, -w.inf)
            old, peak = peak, w.maximum(peak, w.max(t, axis=1))
            total = total * w.exp(old - peak) + w.sum(w.exp(t - peak), axis=1)
        for j in w.range(0, columns, N):
            with ring.take() as slot:
                t = w.load(slot.x).to(w.f32)
            w.store((w.exp(t - peak) * w.rcp(total)).to(y.dtype), y[row, j])
    with w.role(), w.one_thread():
        for _ in range(2):
            for j in w.range(0, columns, N):
                ring.fill(x=x[row, j])
