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


@w.kernel(grid=lambda a, b, *, R, BN: (w.ceil_div(a.rows, 2 * R), w.ceil_div(b.rows, BN)))
def with_bias(
    a: w.In["m k"],
    b: w.In["n k"],
    bias: w.In["n", w.f32],
    d: w.Out["m n", w.bf16],
    *,
    R=64,
    BN=64,
    BK=64,
    stages=2,
):
    ring = w.ring(stages, a=(2 * R, BK, a.dtype), b=(BN, BK, b.dtype), takers=2)
    staging = w.shared(2 * R, BN, d.dtype)
    row, column = w.cta(0) * 2 * R, w.cta(1) * BN
    with w.role(warpgroups=2, registers=232) as me:
        slot = ring.take()
        sums = w.gemm(slot.a.rows(R * me, R), slot.b.T)
        for _ in w.range(1, w.ceil_div(a.columns, BK)):
            late, slot = slot, ring.take()
            sums = w.gemm(slot.a.rows(R * me, R), slot.b.T, sums)
            sums = w.wait(sums, pending=1)
            late.release()
        x = w.wait(sums)
        x = x + w.load_row(bias[column], like=x)
        w.store(x.to(d.dtype), d[row + R * me, column], via=staging.rows(R * me, R))
    with w.role(registers=32), w.one_thread():
        for k in w.range(0, a.columns, BK):
            ring.fill(a=a[row, k], b=b[column, k])


def _grid(a, b, *, BM, BN, cluster):
    x, y = cluster
    return w.ceil_div(a.rows, BM * x) * x, w.ceil_div(b.rows, BN * y) * y


@w.kernel(grid=_grid, cluster=lambda cluster: cluster)
def shared_copies(
    a: w.In["m k", w.bf16],
    b: w.In["n k", w.bf16],
    d: w.Out["m n", w.bf16],
    *,
    BM=64,
    BN=64,
    BK=64,
    cluster=(2, 1),
):
    """A tile of a for all CTAs along axis 1, one of b for those along axis 0."""
    ring = w.ring(3, a=(BM, BK, a.dtype), b=(BN, BK, b.dtype), takers=BM // 64, shared={"b": 0, "a": 1})
    row, column = w.cta(0) * BM, w.cta(1) * BN
    with w.role(warpgroups=BM // 64) as me:
        slot = ring.take()
        sums = w.gemm(slot.a.rows(64 * me, 64), slot.b.T)
        for _ in w.range(1, w.ceil_div(a.columns, BK)):
            late, slot = slot, ring.take()
            sums = w.gemm(slot.a.rows(64 * me, 64), slot.b.T, sums)
            sums = w.wait(sums, pending=1)
            late.release()
        sums = w.wait(sums)
        slot.release()
        w.store(sums.to(d.dtype), d[row + 64 * me, column])
    with w.role(), w.one_thread():
        for k in w.range(0, a.columns, BK):
            ring.fill(a=a[row, k], b=b[column, k])


@w.kernel()
def operands(
    a: w.In["k m", w.f16], b: w.In["k n", w.f16], d: w.Out["m n", w.f32], e: w.Out["m n", w.f32], times: w.i32
):
    """d = a.T @ b; e = d + times * f16(d) @ b.T: fragments as left operands and as sums."""
    ring = w.ring(1, a=(64, 64, w.f16), b=(64, 64, w.f16))
    with w.role():
        slot = ring.take()
        d_ = w.wait(w.gemm(slot.a.T, slot.b))
        w.store(d_, d[0, 0])
        left = d_.to(w.f16)
        sums = w.gemm(left, slot.b.T, d_)
        for _ in w.range(1, times):
            sums = w.gemm(left, slot.b.T, sums)
        w.store(w.wait(sums), e[0, 0])
    with w.role():
        ring.fill(a=a[0, 0], b=b[0, 0])


@w.kernel(grid=lambda x, *, N: (w.ceil_div(x.rows, 64), w.ceil_div(x.columns, N)), persistent=1)
def doubled(
    x: w.In["m n", w.f32],
    y: w.Out["m n", w.f32],
    times: w.Out["tiles", w.i32],
    count: w.Out["one", w.i32],
    *,
    N=32,
    one_thread=False,
):
    """y = 2 x, by a role that copies and one that computes; `times` counts how often each tile comes."""
    queue, ring = w.tile_queue(count[0]), w.ring(2, x=(64, N, x.dtype))
    if one_thread:
        with w.role(), w.one_thread():
            for i, j in queue:
                ring.fill(x=x[i * 64, j * N])
    else:
        with w.role():
            for i, j in queue:
                ring.fill(x=x[i * 64, j * N])
    with w.role():
        done = w.i32(0)
        for i, j in queue:
            with ring.take() as stage:
                t = w.load(stage.x)
            w.store(t + t, y[i * 64, j * N])
            done = done + 1
            if w.thread() == 0:
                w.atomic_add(times[j * w.ceil_div(x.rows, 64) + i], 1)
        if w.thread() == 0:
            w.atomic_add(times[times.rows - 1], done)
