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
