"""Kernels of `weft.language` that read and write memory, which `rows.py` times."""

from typing import Any

import weft.language as w

EPSILON = 1e-5
AHEAD = 16
"""Of so many elements of a thread, weights are loaded before reductions; more need too many registers."""
BF16 = w.Array[w.bf16]


@w.kernel(grid=lambda x, R: w.ceil_div(x.rows, R))
def softmax_of_tiles(x: w.In[BF16, "m n"], y: w.Out[BF16, "m n"], *, N, R):
    first = w.cta() * R
    t = w.load(x[first, 0], (R, N), outside=-w.inf).to(w.f32)
    e = w.exp(t - w.max(t, axis=1))
    w.store((e * w.rcp(w.sum(e, axis=1))).to(w.bf16), y[first, 0])


def of_rows(grid: Any) -> Any:
    """A kernel in which a cluster of `C` CTAs, each of `T` threads, has a row, and each CTA `N` columns."""
    return w.kernel(grid=grid, threads=lambda T: T, cluster=lambda C: C if C > 1 else None)


def meeting(C):
    """What the CTAs of a cluster exchange numbers in, twice before all of them must have read the first ones:
    a buffer of shared memory. Without clusters, None.
    """
    buffer = w.shared(1, 8 * C, w.f32) if C > 1 else None
    if C > 1:
        w.cluster_arrive(publishes=False)
    return buffer


@w.inline
def exchanged(buffer, C, turn, *numbers):
    """Up to four numbers of each CTA of the cluster, in each of them."""
    first = turn % 2 * 4 * C
    if w.thread() < C:
        peer = buffer.peer(w.thread())
        for n, each in enumerate(numbers):
            peer[first + n * C + w.cluster_rank()] = each
    w.cluster_barrier()
    return [[buffer[first + n * C + c] for c in range(C)] for n in range(len(numbers))]


@of_rows(lambda x, C: x.rows * C)
def softmax(x: w.In[BF16, "m n"], y: w.Out[BF16, "m n"], *, N, T, C=1):
    buffer = meeting(C)
    row, first = w.cta() // C, w.cta() % C * N
    t = w.load(x[row, first], N, outside=-w.inf).to(w.f32)
    peak = w.maximum(w.max(t), -1e38)  # of a CTA that may have no elements
    e = w.exp(t - peak)
    total, factor = w.sum(e), 1.0
    if C > 1:
        w.cluster_wait()
        peaks, totals = exchanged(buffer, C, 0, peak, total)
        highest = peaks[0]
        for each in peaks[1:]:
            highest = w.maximum(highest, each)
        total = sum(each * w.exp(at - highest) for at, each in zip(peaks, totals, strict=True))
        factor = w.exp(peak - highest)
    w.store((e * (w.rcp(total) * factor)).to(w.bf16), y[row, first])


@of_rows(lambda x, C: x.rows * C)
def rms_norm(x: w.In[BF16, "m n"], gain: w.In[BF16, "n"], y: w.Out[BF16, "m n"], *, N, T, C=1):
    buffer = meeting(C)
    row, first = w.cta() // C, w.cta() % C * N
    t = w.load(x[row, first], N)
    g = w.load(gain[first], N) if N <= AHEAD * T else None
    t = t.to(w.f32)
    total = w.sum(t * t)
    if C > 1:
        w.cluster_wait()
        total = sum(exchanged(buffer, C, 0, total)[0])
    scale = w.rsqrt(total * w.rcp(x.columns.to(w.f32)) + EPSILON)
    g = w.load(gain[first], N) if g is None else g
    w.store((t * scale * g.to(w.f32)).to(w.bf16), y[row, first])


@w.kernel(grid=lambda x, R: w.ceil_div(x.rows, R))
def rms_norm_of_tiles(x: w.In[BF16, "m n"], gain: w.In[BF16, "n"], y: w.Out[BF16, "m n"], *, N, R):
    first = w.cta() * R
    t = w.load(x[first, 0], (R, N)).to(w.f32)
    g = w.load_row(gain[0], like=t)
    scale = w.rsqrt(w.sum(t * t, axis=1) * w.rcp(x.columns.to(w.f32)) + EPSILON)
    w.store((t * scale * g.to(w.f32)).to(w.bf16), y[first, 0])


@w.inline
def centered(parts, columns, starts, buffer, C, turn):
    """Elements of a row minus its mean, and the sum of their squares, by the CTAs of a cluster. Each CTA has
    vectors that begin at `starts`.
    """
    share, count = w.rcp(columns.to(w.f32)), sum(each.shape[0] for each in parts)
    own = w.minimum(w.maximum(columns - starts[0], 0), count).to(w.f32)
    mean = w.sum(sum(parts)) * (w.rcp(w.maximum(own, 1.0)) if C > 1 else share)
    parts = [
        w.where(w.row(t) < columns - start, t - mean, 0.0) for t, start in zip(parts, starts, strict=True)
    ]
    squares = w.sum(sum(t * t for t in parts))
    if C > 1:  # now of distances to the mean of the row, not of the CTA's part
        others = list(zip(*exchanged(buffer, C, turn, mean, squares, own), strict=True))
        whole = sum(each * count for each, _, count in others) * share
        parts = [t + (mean - whole) for t in parts]
        squares = sum(part + (each - whole) * (each - whole) * count for each, part, count in others)
    return parts, squares


@of_rows(lambda x, C: x.rows * C)
def layer_norm(
    x: w.In[BF16, "m n"],
    gain: w.In[BF16, "n"],
    bias: w.In[BF16, "n"],
    y: w.Out[BF16, "m n"],
    *,
    N,
    T,
    C=1,
    P=1,
):
    """In `P` parts: the weights of a part are loaded after the part before is stored, for fewer registers."""
    buffer, row, part = meeting(C), w.cta() // C, N // P
    starts = [w.cta() % C * N + n * part for n in range(P)]
    t = [w.load(x[row, start], part) for start in starts]
    ahead = [w.load(each[starts[0]], N) for each in (gain, bias) if P == 1 and N <= AHEAD * T]
    if C > 1:
        w.cluster_wait()
    t, squares = centered([each.to(w.f32) for each in t], x.columns, starts, buffer, C, 0)
    scale = w.rsqrt(squares * w.rcp(x.columns.to(w.f32)) + EPSILON)
    for each, start in zip(t, starts, strict=True):
        g = ahead[0] if ahead else w.load(gain[start], part)
        normalized = each * scale * g.to(w.f32)
        b = ahead[1] if ahead else w.load(bias[start], part)
        w.store((normalized + b.to(w.f32)).to(w.bf16), y[row, start])


@of_rows(lambda G, C: G * C)
def layer_norm_in_loops(
    x: w.In[BF16, "m n"], gain: w.In[BF16, "n"], bias: w.In[BF16, "n"], y: w.Out[BF16, "m n"], *, N, T, G, C=1
):
    """In `G` clusters, each with many rows: weights stay in the L1 cache, and the next row is on its way."""
    buffer, turn = meeting(C), w.i32(0)
    part, first, share = w.cta() // C, w.cta() % C * N, w.rcp(x.columns.to(w.f32))
    after = w.load(x[w.minimum(part, x.rows - 1), first], N)
    if C > 1:
        w.cluster_wait()
    for row in w.range(part, x.rows, G):
        t = after.to(w.f32)
        after = w.load(x[w.minimum(row + G, x.rows - 1), first], N)
        (t,), squares = centered([t], x.columns, [first], buffer, C, turn)
        turn = 1 - turn
        t = t * w.rsqrt(squares * share + EPSILON) * w.load(gain[first], N).to(w.f32)
        w.store((t + w.load(bias[first], N).to(w.f32)).to(w.bf16), y[row, first])


@w.kernel(grid=lambda x, R: w.ceil_div(x.rows, R))
def layer_norm_of_tiles(
    x: w.In[BF16, "m n"], gain: w.In[BF16, "n"], bias: w.In[BF16, "n"], y: w.Out[BF16, "m n"], *, N, R
):
    first, share = w.cta() * R, w.rcp(x.columns.to(w.f32))
    t = w.load(x[first, 0], (R, N)).to(w.f32)
    g, b = (w.load_row(each[0], like=t) for each in (gain, bias))
    t = w.where(w.column(t) < x.columns, t - w.sum(t, axis=1) * share, 0.0)
    scale = w.rsqrt(w.sum(t * t, axis=1) * share + EPSILON)
    w.store((t * scale * g.to(w.f32) + b.to(w.f32)).to(w.bf16), y[first, 0])


@of_rows(lambda parts, C: parts.rows * C)
def rms_backward(
    x: w.In[BF16, "m n"],
    gain: w.In[BF16, "n"],
    dy: w.In[BF16, "m n"],
    dx: w.Out[BF16, "m n"],
    parts: w.Out[w.Array[w.f32], "ctas n"],
    *,
    N,
    T,
    C=1,
):
    buffer, turn = meeting(C), w.i32(0)
    part, first, share = w.cta() // C, w.cta() % C * N, w.rcp(x.columns.to(w.f32))
    weight = w.load(gain[first], N)
    total, row = w.zeros(N, like=weight), w.minimum(part, x.rows - 1)
    next_x, next_dy = w.load(x[row, first], N), w.load(dy[row, first], N)
    if C > 1:
        w.cluster_wait()
    for row in w.range(part, x.rows, parts.rows):
        t, d = next_x.to(w.f32), next_dy.to(w.f32)
        after = w.minimum(row + parts.rows, x.rows - 1)
        next_x, next_dy = w.load(x[after, first], N), w.load(dy[after, first], N)
        squares, product = w.sum(t * t), w.sum(d * weight.to(w.f32) * t)
        if C > 1:
            squares, product = map(sum, exchanged(buffer, C, turn, squares, product))
            turn = 1 - turn
        scale = w.rsqrt(squares * share + EPSILON)
        t = t * scale
        total += d * t
        w.store(((d * weight.to(w.f32) - t * (product * scale * share)) * scale).to(w.bf16), dx[row, first])
    w.store(total, parts[part, first])


@of_rows(lambda parts, C: parts.rows * C)
def layer_backward(
    x: w.In[BF16, "m n"],
    mean: w.In[w.Array[w.f32], "m"],
    scale: w.In[w.Array[w.f32], "m"],
    gain: w.In[BF16, "n"],
    dy: w.In[BF16, "m n"],
    dx: w.Out[BF16, "m n"],
    parts: w.Out[w.Array[w.f32], "2 ctas n"],
    *,
    N,
    T,
    C=1,
):
    """`scale` is 1 / sqrt(variance + epsilon), which the forward pass has computed, as `mean`."""
    buffer, turn = meeting(C), w.i32(0)
    part, first, share = w.cta() // C, w.cta() % C * N, w.rcp(x.columns.to(w.f32))
    weight = w.load(gain[first], N)
    of_gain, of_bias = w.zeros(N, like=weight), w.zeros(N, like=weight)
    row = w.minimum(part, x.rows - 1)
    next_x, next_dy = w.load(x[row, first], N), w.load(dy[row, first], N)
    next_mean, next_scale = mean[row], scale[row]
    if C > 1:
        w.cluster_wait()
    for row in w.range(part, x.rows, parts.rows):
        factor = next_scale
        t, d = (next_x.to(w.f32) - next_mean) * factor, next_dy.to(w.f32)
        after = w.minimum(row + parts.rows, x.rows - 1)
        next_x, next_dy = w.load(x[after, first], N), w.load(dy[after, first], N)
        next_mean, next_scale = mean[after], scale[after]
        of_gain += d * t
        of_bias += d
        d *= weight.to(w.f32)
        total, product = w.sum(d), w.sum(d * t)
        if C > 1:
            total, product = map(sum, exchanged(buffer, C, turn, total, product))
            turn = 1 - turn
        w.store(((d - total * share - t * (product * share)) * factor).to(w.bf16), dx[row, first])
    w.store(of_gain, parts[0, part, first])
    w.store(of_bias, parts[1, part, first])


@w.kernel(grid=lambda parts, R: w.ceil_div(parts.rows, R))
def layer_backward_of_tiles(
    x: w.In[BF16, "m n"],
    mean: w.In[w.Array[w.f32], "m"],
    scale: w.In[w.Array[w.f32], "m"],
    gain: w.In[BF16, "n"],
    dy: w.In[BF16, "m n"],
    dx: w.Out[BF16, "m n"],
    parts: w.Out[w.Array[w.f32], "2 rows n"],
    *,
    N,
    R,
):
    """Each CTA makes `R` parts: warps have rows of their own, and never wait for each other."""
    first, share = w.cta() * R, w.rcp(x.columns.to(w.f32))
    next_x, next_dy = w.load(x[first, 0], (R, N)), w.load(dy[first, 0], (R, N))
    next_mean, next_scale = (w.load_column(each[first], like=next_x) for each in (mean, scale))
    weight = w.load_row(gain[0], like=next_x)
    of_gain, of_bias = w.zeros((R, N)), w.zeros((R, N))
    for row in w.range(first, x.rows, parts.rows):
        factor = next_scale
        t, d = (next_x.to(w.f32) - next_mean) * factor, next_dy.to(w.f32)
        after = row + parts.rows
        next_x, next_dy = w.load(x[after, 0], (R, N)), w.load(dy[after, 0], (R, N))
        next_mean, next_scale = (w.load_column(each[after], like=next_x) for each in (mean, scale))
        of_gain += d * t
        of_bias += d
        d *= weight.to(w.f32)
        total, product = w.sum(d, axis=1), w.sum(d * t, axis=1)
        w.store(((d - total * share - t * (product * share)) * factor).to(w.bf16), dx[row, 0])
    w.store(of_gain, parts[0, first, 0])
    w.store(of_bias, parts[1, first, 0])


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


@of_rows(lambda x, C: x.rows * C)
def fp8_cast(
    x: w.In[BF16, "m n"], y: w.Out[w.Array[w.e4m3], "m n"], scale: w.Out[w.Array[w.f32], "m"], *, N, T, C=1
):
    buffer = meeting(C)
    row, first = w.cta() // C, w.cta() % C * N
    t = w.load(x[row, first], N).to(w.f32)
    largest = w.max(w.abs(t))
    if C > 1:
        w.cluster_wait()
        for each in exchanged(buffer, C, 0, largest)[0]:
            largest = w.maximum(largest, each)
    largest = w.maximum(largest, 1e-12)
    w.store((t * (448.0 * w.rcp(largest))).to(w.e4m3), y[row, first])
    if w.thread() == 0:
        scale[row] = largest / 448.0


@w.kernel(grid=lambda x, N: w.ceil_div(x.rows, 4 * N), threads=lambda T: T)
def dropout(x: w.In[BF16, "n"], y: w.Out[BF16, "n"], seed: w.i32, *, N, T):
    first = [(w.cta() * 4 + part) * N for part in range(4)]
    t = [w.load(x[each], N) for each in first]
    kept = [each >= 0.25 for each in w.rand4x(seed, w.row(t[0]) + w.cta() * N)]
    for part in range(4):
        value = w.where(kept[part], t[part].to(w.f32) * (1 / 0.75), 0.0)
        w.store(value.to(w.bf16), y[first[part]])


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


@w.kernel(grid=lambda q, H: (q.matrices, w.ceil_div(q.rows, H)))
def rotary(
    q: w.In[BF16, "tokens heads D"],
    cos: w.In[BF16, "tokens half"],
    sin: w.In[BF16, "tokens half"],
    y: w.Out[BF16, "tokens heads D"],
    *,
    D,
    H,
):
    token, head = w.cta(0), w.cta(1) * H
    a, b = (w.load(q[token, head, at], (H, D // 2)) for at in (0, D // 2))
    c, s = (w.load_row(each[token, 0], like=a) for each in (cos, sin))
    a, b, c, s = (each.to(w.f32) for each in (a, b, c, s))  # when all loads are under way
    w.store((a * c - b * s).to(w.bf16), y[token, head, 0])
    w.store((b * c + a * s).to(w.bf16), y[token, head, D // 2])


@w.kernel(grid=lambda x: (w.ceil_div(x.columns, 128), w.ceil_div(x.rows, 128)))
def transposed_cast(
    x: w.In[BF16, "m n"], y: w.Out[w.Array[w.e4m3], "n m"], scale: w.Out[w.Array[w.f32], "rows columns"]
):
    """With a scale for each 128 x 128."""
    row, column = w.cta(1) * 128, w.cta(0) * 128
    ring, output = w.ring(1, x=(128, 128, x.dtype)), w.shared(128, 128, y.dtype)
    with w.role():
        t = w.load(ring.take().x.T)
        largest = w.maximum(w.max(w.abs(t)).to(w.f32), 1e-12)
        w.store((t.to(w.f32) * (448.0 * w.rcp(largest))).to(y.dtype), y[column, row], via=output)
        if w.thread() == 0:
            scale[w.cta(1), w.cta(0)] = largest / 448.0
    with w.role(), w.one_thread():
        ring.fill(x=x[row, column])


@w.kernel(grid=lambda x, R: w.ceil_div(x.rows, R))
def top_k(
    x: w.In[w.Array[w.f32], "m n"],
    values: w.Out[w.Array[w.f32], "m K"],
    indices: w.Out[w.Array[w.i32], "m K"],
    *,
    K,
    N,
    R,
    S=8,
):
    """In descending order; the first one of equal elements.

    The `S` tiles of a row are first sorted by elements, so that each step reduces only the largest ones.
    """
    first, M = w.cta() * R, N // S
    t = [w.load(x[first, M * s], (R, M), outside=-w.inf) for s in range(S)]
    at = [w.column(each) + M * s for s, each in enumerate(t)]
    for turn in range(S):
        for s in range(turn % 2, S - 1, 2):
            a, b, less = t[s], t[s + 1], t[s] < t[s + 1]
            t[s], t[s + 1] = w.maximum(a, b), w.minimum(a, b)
            at[s], at[s + 1] = w.where(less, at[s + 1], at[s]), w.where(less, at[s], at[s + 1])
    best, columns = w.zeros((R, K)), w.zeros((R, K), w.i32)
    for k in range(K):
        largest = w.max(t[0], axis=1)
        index = w.min(w.where(t[0] == largest, at[0], N), axis=1)
        best = w.where(w.column(best) == k, largest, best)
        columns = w.where(w.column(columns) == k, index, columns)
        taken = at[0] == index
        for s in range(min(S, K - k) - 1):
            t[s], at[s] = w.where(taken, t[s + 1], t[s]), w.where(taken, at[s + 1], at[s])
        t[-1] = w.where(taken, -w.inf, t[-1])
    w.store(best, values[first, 0])
    w.store(columns, indices[first, 0])
